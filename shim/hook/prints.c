/* The libraries whose images are not searched yet, in chains by the library's handle. Two threads may search one image
 * at the same time; the library leaves the table after the reason is noted, so neither goes on too early. */
#include "shim/hook/prints.h"

#include "shim/base/nodes.h"
#include "shim/driver/free_sync.h"
#include "shim/hook/image.h"

enum { CHAINS = 256 };

struct unread {
    struct unread *next;
    CUlibrary library;
    const void *image;
};

static struct unread *chains[CHAINS];
static gm_nodes spare;
GM_LOCK(lock);
static bool noted;

static bool searches(void) { return gm_free_sync_observes() && !__atomic_load_n(&noted, __ATOMIC_RELAXED); }

static void note_prints(void) {
    gm_free_sync_note(GM_SYNC_PRINTF);
    __atomic_store_n(&noted, true, __ATOMIC_RELEASE);
}

/* No device is stated when they cannot be read, or are too many. */
static const struct gm_capabilities *read_capabilities(struct gm_capabilities *devices) {
    int count = 0, major = 0, minor = 0;
    bool known =
        gm_drv.device_get_count(&count) == CUDA_SUCCESS && count <= (int)(sizeof devices->of / sizeof *devices->of);
    for (CUdevice device = 0; known && device < count; device++) {
        known =
            gm_drv.device_get_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) == CUDA_SUCCESS &&
            gm_drv.device_get_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) == CUDA_SUCCESS;
        devices->of[device] = (uint16_t)(10 * major + minor);
    }
    devices->count = known ? (unsigned)count : 0;
    return devices;
}

void gm_prints_image(const void *image) {
    struct gm_capabilities devices;
    if (searches() && gm_image_prints(image, read_capabilities(&devices)))
        note_prints();
}

void gm_prints_file(const char *file) {
    struct gm_capabilities devices;
    if (searches() && gm_image_file_prints(file, read_capabilities(&devices)))
        note_prints();
}

bool gm_prints_later(const CUlibraryOption *options, void *const *values, unsigned count) {
    for (unsigned i = 0; options && values && i < count; i++)
        if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED)
            return values[i] == (void *)1;
    return false;
}

/* ---- the table; its lock is held */

static struct unread **place_of_library(CUlibrary library) {
    uintptr_t key = (uintptr_t)library;
    struct unread **place = &chains[((key >> 4) ^ (key >> 12) ^ (key >> 20)) % CHAINS];
    while (*place && (*place)->library != library)
        place = &(*place)->next;
    return place;
}

void gm_prints_library(CUlibrary library, const void *image) {
    if (!image || !searches())
        return;
    gm_spin_lock(&lock);
    struct unread *made = gm_node_take(&spare, sizeof *made, &lock); /* releases the lock, so it comes first */
    struct unread **place = place_of_library(library), *unread = *place;
    if (unread && made)
        gm_node_give(&spare, made);
    else if (made)
        *(*place = unread = made) = (struct unread){.library = library};
    if (unread)
        unread->image = image;
    gm_spin_unlock(&lock);
    if (!unread)
        gm_prints_image(image);
}

void gm_prints_request(CUlibrary library) {
    if (!searches())
        return;
    gm_spin_lock(&lock);
    const struct unread *unread = *place_of_library(library);
    const void *image = unread ? unread->image : NULL;
    gm_spin_unlock(&lock);
    if (!image)
        return;
    gm_prints_image(image);
    gm_prints_forget(library);
}

const void *gm_prints_forget(CUlibrary library) {
    gm_spin_lock(&lock);
    struct unread **place = place_of_library(library), *unread = *place;
    const void *image = unread ? unread->image : NULL;
    if (unread) {
        *place = unread->next;
        gm_node_give(&spare, unread);
    }
    gm_spin_unlock(&lock);
    return image;
}

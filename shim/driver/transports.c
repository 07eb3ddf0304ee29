/* Searches /proc/self/maps for the names of libraries and devices (transports.h). A walk over the loaded objects would
 * not do: it knows neither mapped devices nor the libraries that dlmopen loaded into another namespace. */
#include "shim/driver/transports.h"
#include "shim/base/file.h"
#include "shim/base/libraries.h"
#include "shim/base/observers.h"

#include <fcntl.h>
#include <string.h>

/* True when the text contains the path of the library. */
static bool has_path(const char *text, const struct gm_library *library) {
    for (const char *at = text; (at = strstr(at, library->name)) != NULL; at++)
        if (at > text && at[-1] == '/')
            return true;
    return false;
}

/* The device, or one of several, which are numbered. */
static bool exists(const char *device) {
    enum { NUMBERED = 64 };
    char path[64];
    if (access(device, F_OK) == 0)
        return true;
    for (unsigned i = 0; i < NUMBERED; i++) {
        gm_format(path, sizeof path, "%s%u", device, i);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* A mapping of the device alone is enough. */
static bool mentions_rdma(const char *text) {
    for (unsigned i = 0; i < GM_LIBRARIES; i++)
        if (gm_libraries[i].traits & GM_LIBRARY_RDMA &&
            (strstr(text, gm_libraries[i].device) ||
             (has_path(text, &gm_libraries[i]) && exists(gm_libraries[i].device))))
            return true;
    return false;
}

static bool mentions(const char *text, unsigned trait) {
    for (unsigned i = 0; i < GM_LIBRARIES; i++)
        if (gm_libraries[i].traits & trait && has_path(text, &gm_libraries[i]))
            return true;
    return false;
}

static bool mentions_transport(const char *text) { return mentions(text, GM_LIBRARY_TRANSPORT); }
static bool mentions_buffers(const char *text) { return mentions(text, GM_LIBRARY_BUFFERS); }
static bool mentions_pytorch(const char *text) { return mentions(text, GM_LIBRARY_PYTORCH); }

/* Reads the map in chunks. Each chunk begins with the end of the one before, because a name may cross the border. */
static bool map_mentions(int fd, bool (*mentions)(const char *text)) {
    enum { LONGEST_NAME = 32 };
    char text[1024];
    size_t used = 0;
    ssize_t got;
    while ((got = gm_read(fd, text + used, sizeof text - 1 - used)) > 0) {
        used += (size_t)got;
        text[used] = '\0';
        if (mentions(text))
            return true;
        size_t tail = used < LONGEST_NAME ? used : LONGEST_NAME;
        memmove(text, text + used - tail, tail);
        used = tail;
    }
    return false;
}

static bool process_mentions(bool (*mentions)(const char *text)) {
    int fd = gm_open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool found = map_mentions(fd, mentions);
    gm_close(fd);
    return found;
}

/* What earlier searches of the map found. Any thread may search; threads that do so at once find the same. */
struct answer {
    bool found;
    unsigned long long without; /* number of loaded objects when nothing was found; 0: none is known */
};

static bool search(struct answer *answer, bool (*mentions)(const char *text)) {
    if (__atomic_load_n(&answer->found, __ATOMIC_RELAXED))
        return true;
    unsigned long long adds = gm_libraries_loaded();
    if (adds && adds == __atomic_load_n(&answer->without, __ATOMIC_RELAXED))
        return false;
    bool now = process_mentions(mentions);
    if (now)
        __atomic_store_n(&answer->found, true, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&answer->without, adds, __ATOMIC_RELAXED);
    return now;
}

bool gm_rdma_seen;

bool gm_rdma_in_process(void) {
    static struct answer rdma;
    if (gm_rdma_was_seen())
        return true;
    bool found = search(&rdma, mentions_rdma);
    if (found && !__atomic_exchange_n(&gm_rdma_seen, true, __ATOMIC_RELAXED)) {
        gm_observers_set(GM_OBSERVED_NETWORK, true);
        gm_log(GM_LOG_INFO,
               "memory may be registered with a network card or storage here: freed blocks are not reused");
    }
    return found;
}

bool gm_is_rdma_name(const char *name) {
    static const char *const families[] = {"ibv_", "gdr_", "cuFile", "cxil_", "psm2_"};
    for (unsigned i = 0; i < sizeof families / sizeof *families; i++)
        if (strncmp(name, families[i], strlen(families[i])) == 0)
            return true;
    return false;
}

bool gm_transport_in_process(void) {
    static struct answer transport;
    return search(&transport, mentions_transport);
}

bool gm_buffers_in_process(void) {
    static struct answer buffers;
    return search(&buffers, mentions_buffers);
}

bool gm_pytorch_in_process(void) {
    static struct answer pytorch;
    return search(&pytorch, mentions_pytorch);
}

/* Two hash tables over one set of buffers (mapped_buffers.h). */
#include "shim/cache/mapped_buffers.h"

#include <sched.h>
#include <string.h>

enum { BUCKETS = 4096, SLAB = 64 * 1024 };

gm_spin gm_buffers_lock;
unsigned gm_buffers_count, gm_buffers_partly_held;
static struct gm_buffer *by_address[BUCKETS], *by_handle[BUCKETS], *unused;
static uint64_t serials;

static unsigned bucket_of_key(uint64_t key) { return (unsigned)((key ^ key >> 21) * 0x9e3779b97f4a7c15ull >> 52); }

_Static_assert(BUCKETS == 1 << 12, "bucket_of gives 12 bits");

static bool is_partly_held(const struct gm_buffer *buffer) {
    return !buffer->mapped && (buffer->holds || buffer->address_held);
}

static void wait_for_others(void) {
    gm_spin_unlock(&gm_buffers_lock);
    sched_yield();
    gm_spin_lock(&gm_buffers_lock);
}

static GM_IN_PLACE struct gm_buffer *find_buffer(uint64_t key, bool is_handle) {
    for (;; wait_for_others()) {
        struct gm_buffer *buffer = (is_handle ? by_handle : by_address)[bucket_of_key(key)];
        while (buffer && (is_handle ? buffer->handle : buffer->address) != key)
            buffer = is_handle ? buffer->next_handle : buffer->next_address;
        if (!buffer || !buffer->busy)
            return buffer;
    }
}

struct gm_buffer *gm_buffer_at(CUdeviceptr address) {
    return find_buffer(address, false);
}

struct gm_buffer *gm_buffer_of(CUmemGenericAllocationHandle handle) {
    return find_buffer(handle, true);
}

static bool add_unused(void) {
    struct gm_buffer *slab = gm_pages(SLAB);
    for (size_t i = 0; slab && i < SLAB / sizeof *slab; i++) {
        slab[i].next_address = unused;
        unused = &slab[i];
    }
    return slab != NULL;
}

bool gm_buffer_add(const struct gm_buffer *buffer) {
    if (!unused && !add_unused())
        return false;
    struct gm_buffer *added = unused, **address = &by_address[bucket_of_key(buffer->address)],
                     **handle = &by_handle[bucket_of_key(buffer->handle)];
    unused = added->next_address;
    *added = *buffer;
    added->serial = ++serials;
    added->next_address = *address;
    added->next_handle = *handle;
    *address = *handle = added;
    gm_buffers_count++;
    gm_buffers_partly_held += is_partly_held(added);
    return true;
}

void gm_buffer_remove(struct gm_buffer *buffer) {
    struct gm_buffer **address = &by_address[bucket_of_key(buffer->address)],
                     **handle = &by_handle[bucket_of_key(buffer->handle)];
    while (*address != buffer)
        address = &(*address)->next_address;
    *address = buffer->next_address;
    while (*handle != buffer)
        handle = &(*handle)->next_handle;
    *handle = buffer->next_handle;
    gm_buffers_count--;
    gm_buffers_partly_held -= is_partly_held(buffer);
    *buffer = (struct gm_buffer){.next_address = unused};
    unused = buffer;
}

void gm_buffer_change(struct gm_buffer *buffer, unsigned holds, bool address_held, bool mapped) {
    gm_buffers_partly_held -= is_partly_held(buffer);
    buffer->holds = holds;
    buffer->address_held = address_held;
    buffer->mapped = mapped;
    gm_buffers_partly_held += is_partly_held(buffer);
}

struct gm_buffer *gm_buffer_search(bool (*wanted)(const struct gm_buffer *buffer, const void *argument),
                                   const void *argument) {
    for (unsigned i = 0; i < BUCKETS && gm_buffers_count; i++)
        for (struct gm_buffer *buffer = by_address[i]; buffer; buffer = buffer->next_address)
            if (!buffer->busy && wanted(buffer, argument))
                return buffer;
    return NULL;
}

void gm_buffers_after_fork(void) {
    gm_buffers_lock.held = 0;
    gm_buffers_count = gm_buffers_partly_held = 0;
    memset(by_address, 0, sizeof by_address);
    memset(by_handle, 0, sizeof by_handle);
}

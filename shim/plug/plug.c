/* The allocator of gpumem_plug.h.
 *
 * PyTorch frees a tensor in the order of the stream that allocated it. Where another stream used the tensor, too, the
 * program has said so (Tensor.record_stream). The streams of each such block are kept in a table, and its free makes
 * the block's own stream wait for what they have been given so far. */
#include <stdlib.h>
#include <uthash.h>

#include "shim/gpumem_plug.h"
#include "shim/base/base.h"
#include "shim/base/error.h"
#include "shim/driver/driver.h"

enum { ALIGNMENT = 256 }; /* of cudaMalloc */

static struct gpumem_resource *serving;

/* ---- the resource */

GM_PUBLIC struct gpumem_resource *gpumem_plug_resource(void) { return __atomic_load_n(&serving, __ATOMIC_ACQUIRE); }

GM_PUBLIC enum gpumem_status gpumem_plug_use(const char *text) {
    struct gpumem_resource *resource, *none = NULL;
    struct gpumem_resource_view view;
    GM_NEED(text);
    enum gpumem_status status = gpumem_resource_create(text, &resource);
    if (status)
        return status;
    status = gpumem_resource_view_of(resource, GPUMEM_DEVICE_ACCESSIBLE, &view);
    if (!status && !__atomic_compare_exchange_n(&serving, &none, resource, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        status = (enum gpumem_status)gm_fail(GPUMEM_INVALID_VALUE, "%s: allocations already use %s", text,
                                             gpumem_resource_text(gpumem_plug_resource()));
    if (status)
        gpumem_resource_destroy(resource);
    return status;
}

static struct gpumem_resource *resource_in_use(void) {
    if (GM_UNLIKELY(!gpumem_plug_resource()))
        gpumem_plug_use("async"); /* where that fails, another thread was first or there is no memory */
    return gpumem_plug_resource();
}

static bool stream_ordered(const struct gpumem_resource *resource) {
    return gpumem_resource_properties(resource) & GPUMEM_STREAM_ORDERED;
}

/* ---- context */

enum { MOST_DEVICES = 64 };

/* A primary context ends, with its memory, when nobody retains it. The first use of a device retains it for good. */
static bool retained[MOST_DEVICES];

static void release_primary(CUdevice device) {
    bool first = device < MOST_DEVICES && !__atomic_exchange_n(&retained[device], true, __ATOMIC_RELAXED);
    if (!first && gm_drv.primary_release)
        gm_drv.primary_release(device);
}

struct entered {
    bool pushed;
    CUdevice device;
};

/* Of the primary context, whichever context of the device is current. */
static enum gpumem_status enter_device(int device, struct entered *entered) {
    CUcontext current = NULL, primary;
    *entered = (struct entered){false, device};
    if (!gm_driver_ready(true))
        return (enum gpumem_status)gm_fail(GPUMEM_NOT_INITIALIZED, "libcuda.so.1 cannot be loaded");
    CUresult result = gm_drv.init(0);
    if (!result)
        result = gm_drv.primary_retain(&primary, device);
    if (result)
        return (enum gpumem_status)gm_fail((gm_status)result, "device %d has no context to allocate in", device);
    if (gm_drv.ctx_get_current(&current) == CUDA_SUCCESS && current == primary) {
        release_primary(device);
        return GPUMEM_OK;
    }
    result = gm_drv.ctx_push(primary);
    entered->pushed = result == CUDA_SUCCESS;
    if (!result)
        return GPUMEM_OK;
    release_primary(device);
    return (enum gpumem_status)gm_fail((gm_status)result, "the context of device %d cannot be entered", device);
}

static void leave_device(const struct entered *entered) {
    CUcontext popped;
    if (!entered->pushed)
        return;
    gm_drv.ctx_pop(&popped);
    release_primary(entered->device);
}

/* ---- streams that use a block beside its own */

struct use {
    CUstream stream;
    struct use *next;
};

struct shared_block {
    void *memory;
    struct use *uses;
    UT_hash_handle hh;
};

static struct shared_block *shared_blocks;
static size_t shared_count; /* read without the lock */
GM_LOCK(shared_lock);

static void add_use(void *memory, struct use *use, struct shared_block *fresh) {
    struct shared_block *block;
    gm_spin_lock(&shared_lock);
    HASH_FIND_PTR(shared_blocks, &memory, block);
    if (!block) {
        block = fresh;
        fresh = NULL;
        HASH_ADD_PTR(shared_blocks, memory, block);
        __atomic_store_n(&shared_count, HASH_COUNT(shared_blocks), __ATOMIC_RELEASE);
    }
    const struct use *same = block->uses;
    while (same && same->stream != use->stream)
        same = same->next;
    if (!same) {
        use->next = block->uses;
        block->uses = use;
        use = NULL;
    }
    gm_spin_unlock(&shared_lock);
    free(use);
    free(fresh);
}

GM_PUBLIC void gpumem_plug_record_stream(void *memory, struct CUstream_st *stream) {
    struct use *use = malloc(sizeof *use);
    struct shared_block *block = malloc(sizeof *block);
    if (!memory || !use || !block) {
        free(use);
        free(block);
        if (memory)
            gm_log(GM_LOG_ERROR, "no host memory to note that a stream uses %p: it may be reused too early", memory);
        return;
    }
    *use = (struct use){stream, NULL};
    *block = (struct shared_block){.memory = memory};
    add_use(memory, use, block);
}

static struct use *take_uses(void *memory) {
    struct shared_block *block;
    if (GM_LIKELY(!__atomic_load_n(&shared_count, __ATOMIC_ACQUIRE)))
        return NULL;
    gm_spin_lock(&shared_lock);
    HASH_FIND_PTR(shared_blocks, &memory, block);
    if (block) {
        HASH_DEL(shared_blocks, block);
        __atomic_store_n(&shared_count, HASH_COUNT(shared_blocks), __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&shared_lock);
    struct use *uses = block ? block->uses : NULL;
    free(block);
    return uses;
}

static CUresult wait_for(CUstream waiting, CUstream other) {
    CUevent event;
    CUresult result = gm_drv.event_create(&event, CU_EVENT_DISABLE_TIMING);
    if (result)
        return result;
    result = gm_drv.event_record(event, other);
    if (!result)
        result = gm_drv.stream_wait_event(waiting, event, 0);
    gm_drv.event_destroy(event);
    return result;
}

/* False: some stream cannot be waited for. */
static bool order_behind(struct use *uses, CUstream stream) {
    bool ordered = true;
    for (struct use *next; uses; uses = next) {
        next = uses->next;
        if (uses->stream != stream && wait_for(stream, uses->stream))
            ordered = false;
        free(uses);
    }
    return ordered;
}

/* ---- allocate and free */

static struct gpumem_stream_view view_of(struct CUstream_st *stream) { return (struct gpumem_stream_view){stream}; }

GM_PUBLIC void *gpumem_plug_allocate(ptrdiff_t bytes, int device, struct CUstream_st *stream) {
    struct gpumem_resource *resource = resource_in_use();
    struct entered entered;
    void *memory = NULL;
    enum gpumem_status status = resource ? enter_device(device, &entered) : GPUMEM_OUT_OF_MEMORY;
    if (!status) {
        status = stream_ordered(resource) ? gpumem_resource_allocate_async_aligned(resource, (size_t)bytes, ALIGNMENT,
                                                                                   view_of(stream), &memory)
                                          : gpumem_resource_allocate(resource, (size_t)bytes, ALIGNMENT, &memory);
        leave_device(&entered);
    }
    if (GM_UNLIKELY(status))
        gm_log(GM_LOG_WARN, "%lld bytes for device %d: %s", (long long)bytes, device, gpumem_last_error());
    return status ? NULL : memory;
}

GM_PUBLIC void gpumem_plug_free(void *memory, ptrdiff_t bytes, int device, struct CUstream_st *stream) {
    struct gpumem_resource *resource = gpumem_plug_resource();
    struct entered entered;
    if (!memory || !resource)
        return;
    enum gpumem_status status = enter_device(device, &entered);
    if (GM_UNLIKELY(status)) {
        if (status != (enum gpumem_status)CUDA_ERROR_DEINITIALIZED) /* the program is ending */
            gm_log(GM_LOG_ERROR, "free of %p: %s", memory, gpumem_last_error());
        return;
    }
    /* A plain free waits for the work of all streams. A free that fails is logged by the resource. */
    if (order_behind(take_uses(memory), stream) && stream_ordered(resource))
        (void)gpumem_resource_deallocate_async_aligned(resource, memory, (size_t)bytes, ALIGNMENT, view_of(stream));
    else
        (void)gpumem_resource_deallocate(resource, memory, (size_t)bytes, ALIGNMENT);
    leave_device(&entered);
}

GM_PUBLIC void gpumem_plug_trim(void) {
    if (gpumem_plug_resource())
        gpumem_resource_trim(gpumem_plug_resource(), SIZE_MAX, NULL);
}

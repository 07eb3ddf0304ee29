/* Memory of the device: the free pool, allocation under the budget, and frees behind the work that uses the memory. */
#include "shim/residency/parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- the free pool: sorted by size, the oldest of one size first, because its work is done soonest */

/* The first block that is at least so large. */
static unsigned position_of(const struct gpumem_residency *r, size_t bytes) {
    unsigned low = 0, high = r->pool_count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (r->pool[middle]->bytes < bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void push_copy(struct gpumem_residency *r, struct gm_residency_copy *copy) {
    const unsigned at = position_of(r, copy->bytes + 1);
    memmove(&r->pool[at + 1], &r->pool[at], (r->pool_count - at) * sizeof(*r->pool));
    r->pool[at] = copy;
    r->pool_count++;
}

static struct gm_residency_copy *take_kept_copy(struct gpumem_residency *r, unsigned at) {
    struct gm_residency_copy *copy = r->pool[at];
    r->pool_count--;
    memmove(&r->pool[at], &r->pool[at + 1], (r->pool_count - at) * sizeof(*r->pool));
    return copy;
}

struct gm_residency_copy *gm_residency_reuse(struct gpumem_residency *r, size_t bytes) {
    const unsigned at = position_of(r, bytes);
    if (at == r->pool_count || r->pool[at]->bytes != bytes)
        return NULL;
    struct gm_residency_copy *copy = take_kept_copy(r, at);
    if (copy->evicted)
        r->stats.reused_evicted++;
    else
        r->stats.reused++;
    copy->evicted = false;
    return copy;
}

/* ---- allocation */

/* Room in the pool for one more copy, so that a copy can always end. */
static bool make_pool_room(struct gpumem_residency *r) {
    if (r->copy_count < r->pool_room)
        return true;
    unsigned room = r->pool_room ? 2 * r->pool_room : 64;
    struct gm_residency_copy **pool = realloc(r->pool, room * sizeof *pool);
    if (!pool)
        return false;
    r->pool = pool;
    r->pool_room = room;
    return true;
}

/* Both without `state`. */
static gm_status obtain(struct gpumem_residency *r, size_t bytes, CUdeviceptr *address) {
    if (!r->allocate)
        return r->driver->mem_alloc(address, bytes);
    *address = (CUdeviceptr)(uintptr_t)r->allocate(bytes, r->user);
    return *address ? GM_OK : GM_OUT_OF_MEMORY;
}

static CUresult give(struct gpumem_residency *r, const struct gm_residency_copy *copy) {
    if (!r->release)
        return GM_TWICE(r->driver->mem_free(copy->address));
    r->release((void *)(uintptr_t)copy->address, copy->bytes, r->user);
    return CUDA_SUCCESS;
}

gm_status gm_residency_allocate(struct gpumem_residency *r, size_t bytes, struct gm_residency_copy **made) {
    struct gm_residency_copy *copy = make_pool_room(r) ? calloc(1, sizeof *copy) : NULL;
    if (!copy)
        return gm_fail(GM_OUT_OF_MEMORY, "no host memory for a copy");
    const uint64_t begin = gm_now_ns();
    gm_residency_pause(r);
    gm_status status = obtain(r, bytes, &copy->address);
    gm_residency_resume(r);
    r->stats.allocate_ns += gm_now_ns() - begin;
    if (status) {
        free(copy);
        return gm_fail(status, "a copy of %zu bytes cannot be allocated: %s; %zu of %zu bytes of the budget are used",
                       bytes, gpumem_status_name(status), r->allocated, r->budget);
    }
    copy->bytes = bytes;
    r->copy_count++;
    r->allocated += bytes;
    r->stats.allocations++;
    if (r->stats.peak_bytes < r->allocated)
        r->stats.peak_bytes = r->allocated;
    *made = copy;
    return GM_OK;
}

/* ---- frees */

void gm_residency_free_copy(struct gpumem_residency *r, struct gm_residency_copy *copy) {
    gm_residency_pause(r); /* a free may wait for the device */
    CUresult failed = give(r, copy);
    gm_residency_resume(r);
    if (failed)
        gm_log(GM_LOG_ERROR, "a copy of %zu bytes cannot be freed", copy->bytes);
    gm_residency_forget(r, copy);
    r->allocated -= copy->bytes;
    r->copy_count--;
    free(copy->read);
    free(copy);
}

/* Frees a copy that is nowhere any more, behind its work. On failure it goes to the free pool. The events are waited
 * for here, because a driver that waits inside its free lets no other thread submit work meanwhile. */
static gm_status free_behind(struct gpumem_residency *r, struct gm_residency_copy *copy) {
    const uint64_t begin = gm_now_ns();
    gm_status status = gm_residency_wait(r, copy);
    if (status)
        push_copy(r, copy);
    else
        gm_residency_free_copy(r, copy);
    r->stats.allocate_ns += gm_now_ns() - begin;
    return status;
}

gm_status gm_residency_give_back(struct gpumem_residency *r) {
    struct gm_residency_copy *largest = take_kept_copy(r, r->pool_count - 1);
    const bool evicted = largest->evicted;
    const size_t bytes = largest->bytes;
    gm_status status = free_behind(r, largest);
    if (!status && !evicted) {
        r->stats.given_back++;
        r->stats.given_back_bytes += bytes;
    }
    return status;
}

gm_status gm_residency_retire(struct gpumem_residency *r, struct gm_residency_copy *copy) {
    if (r->flags & GPUMEM_RESIDENCY_NO_LAZY_RELEASE)
        return free_behind(r, copy);
    push_copy(r, copy);
    return GM_OK;
}

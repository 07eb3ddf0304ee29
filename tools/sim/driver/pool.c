/* Stream-ordered memory pools.
 *
 * A pool reserves segments (2 MiB multiples) and cuts pieces from them.  A piece that was freed in a stream
 * may be handed out again: in the same stream at once; elsewhere once the stream waits for the free through
 * events (follow), once the free has run (opportunistic), or by making the stream wait (internal).  Segments
 * without live pieces go back at synchronising calls, as far as the pool holds more than its threshold. */
#include "sim.h"
#include "sim_graph.h"
#include <stdlib.h>
#include <string.h>

#define POOL_MAGIC 0x504f4f31u
struct sim_segment_block {
    struct sim_segment *segment;
    size_t offset, size;
    bool free;
    bool seen;                 /* a synchronisation came after the free */
    struct sim_stream *stream; /* where it was freed */
    uint64_t seq;
    struct sim_segment_block *next;
};
struct sim_segment {
    struct sim_extent *extent;
    struct sim_segment_block *pieces;
    struct sim_segment *next;
};
struct CUmemPoolHandle_st {
    unsigned magic;
    struct sim_device *device;
    CUmemPoolProps props;
    bool is_default;
    int window;
    int follow, opportunistic, internal;
    uint64_t threshold, reserved, reserved_high, used, used_high;
    unsigned access;
    struct sim_segment *segments;
    CUmemoryPool next;
};
static CUmemoryPool pools;

bool sim_pool_valid(CUmemoryPool pool) {
    for (CUmemoryPool p = pools; p; p = p->next) {
        if (p == pool)
            return true;
    }
    return false;
}

bool sim_pool_is_default(CUmemoryPool pool) { return pool->is_default; }

static CUmemoryPool pool_new(struct sim_device *d, const CUmemPoolProps *props) {
    CUmemoryPool p = calloc(1, sizeof *p);
    *p = (struct CUmemPoolHandle_st){.magic = POOL_MAGIC,
                                     .device = d,
                                     .props = *props,
                                     .follow = 1,
                                     .opportunistic = 1,
                                     .internal = 1,
                                     .access = 1u << d->ordinal,
                                     .next = pools};
    p->window = props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
    if (p->window)
        p->access = ~0u;
    return pools = p;
}

static CUmemoryPool default_pool(struct sim_device *d, bool managed) {
    CUmemoryPool *slot = managed ? &d->default_managed_pool : &d->default_pool;
    if (!*slot) {
        CUmemPoolProps props = {.allocType = managed ? CU_MEM_ALLOCATION_TYPE_MANAGED : CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = d->ordinal}};
        *slot = pool_new(d, &props);
        (*slot)->is_default = true;
    }
    return *slot;
}

struct sim_extent *sim_pool_extent(const struct sim_block *b) {
    return b->piece->segment->extent;
}

/* ---- pieces ---- */

static bool freed_has_run(const struct sim_segment_block *x) {
    struct sim_dep d = {.kind = DEP_STREAM, .stream = x->stream, .seq = x->seq};
    return sim_dep_done(&d);
}

static void join_idle(struct sim_segment *seg) {
    for (struct sim_segment_block *x = seg->pieces; x && x->next;) {
        struct sim_segment_block *y = x->next;
        if (x->free && y->free && freed_has_run(x) && freed_has_run(y)) {
            x->size += y->size;
            x->seen &= y->seen;
            x->next = y->next;
            free(y);
        } else {
            x = y;
        }
    }
}

enum fit { NO_FIT, FIT, FIT_AFTER_WAIT };

static enum fit judge(CUmemoryPool p, const struct sim_segment_block *x, size_t size, struct sim_stream *s) {
    if (!x->free || x->size < size)
        return NO_FIT;
    if (x->stream == NULL || x->stream == s)
        return FIT;
    if (p->opportunistic && freed_has_run(x))
        return FIT;
    if (p->follow && !freed_has_run(x) && sim_ordered_after(s, x->stream, x->seq))
        return FIT;
    return p->internal ? FIT_AFTER_WAIT : NO_FIT;
}

static void release_segment(CUmemoryPool p, struct sim_segment **link) {
    struct sim_segment *seg = *link;
    uintptr_t base = sim_extent_va(seg->extent);
    struct sim_block *b;
    while ((b = sim_block_overlap(base, seg->extent->size)) != NULL)
        sim_block_untree(b);
    *link = seg->next;
    p->reserved -= seg->extent->size;
    free(seg->extent->advice);
    seg->extent->advice = NULL;
    sim_extent_give(seg->extent);
    free(seg->pieces);
    free(seg);
}

static void trim(CUmemoryPool p, uint64_t keep, bool only_seen) {
    for (struct sim_segment **link = &p->segments; *link && p->reserved > keep;) {
        join_idle(*link);
        struct sim_segment_block *x = (*link)->pieces;
        if (x->free && !x->next && freed_has_run(x) && (x->seen || !only_seen))
            release_segment(p, link);
        else
            link = &(*link)->next;
    }
}

void sim_sync_point(struct sim_ctx *ctx) {
    for (CUmemoryPool p = pools; p; p = p->next) {
        if (p->device != ctx->device)
            continue;
        for (struct sim_segment *seg = p->segments; seg; seg = seg->next)
            for (struct sim_segment_block *x = seg->pieces; x; x = x->next)
                x->seen |= x->free && freed_has_run(x);
        trim(p, p->threshold, false);
    }
}

void sim_pools_squeeze(struct sim_device *d) {
    for (CUmemoryPool p = pools; p; p = p->next) {
        if (p->device == d)
            trim(p, 0, false);
    }
}

static CUresult add_segment(CUmemoryPool p, size_t size, struct sim_segment_block **out) {
    struct sim_extent *e;
    if (p->props.maxSize && p->reserved + SIM_ROUND(size, SIM_CHUNK) > p->props.maxSize)
        return CUDA_ERROR_OUT_OF_MEMORY;
    SIM_TRY(sim_extent_take(p->device, size, p->window, &e));
    struct sim_segment *seg = calloc(1, sizeof *seg);
    seg->extent = e;
    seg->pieces = calloc(1, sizeof *seg->pieces);
    *seg->pieces = (struct sim_segment_block){.segment = seg, .size = e->size, .free = true};
    seg->next = p->segments;
    p->segments = seg;
    p->reserved += e->size;
    if (p->reserved > p->reserved_high)
        p->reserved_high = p->reserved;
    *out = seg->pieces;
    return CUDA_SUCCESS;
}

static struct sim_segment_block *choose(CUmemoryPool p, size_t size, struct sim_stream *s, enum fit *fit) {
    struct sim_segment_block *later = NULL;
    for (struct sim_segment *seg = p->segments; seg; seg = seg->next) {
        join_idle(seg);
        for (struct sim_segment_block *x = seg->pieces; x; x = x->next) {
            *fit = judge(p, x, size, s);
            if (*fit == FIT)
                return x;
            if (*fit == FIT_AFTER_WAIT && !later)
                later = x;
        }
    }
    *fit = later ? FIT_AFTER_WAIT : NO_FIT;
    return later;
}

static void cut(struct sim_segment_block *x, size_t size) {
    if (x->size > size) {
        struct sim_segment_block *rest = malloc(sizeof *rest);
        *rest = *x;
        rest->offset += size;
        rest->size -= size;
        x->next = rest;
        x->size = size;
    }
    x->free = false;
}

CUresult sim_pool_alloc(CUmemoryPool p, size_t bytes, struct sim_stream *s, struct sim_block **out) {
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > sim_opt.memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    size_t size = SIM_ROUND(bytes, SIM_GRAIN);
    enum fit fit;
    struct sim_segment_block *x = choose(p, size, s, &fit);
    if (fit != FIT) {
        struct sim_segment_block *fresh;
        CUresult r = add_segment(p, size, &fresh);
        if (r == CUDA_SUCCESS)
            x = fresh;
        else if (fit == NO_FIT)
            return r;
        fit = r == CUDA_SUCCESS ? FIT : fit;
    }
    cut(x, size); /* first: a submission may let other threads in */
    if (fit == FIT_AFTER_WAIT) {
        struct sim_op *wait = sim_op_new(OP_WAIT);
        sim_op_dep(wait, (struct sim_dep){.kind = DEP_STREAM, .stream = x->stream, .seq = x->seq});
        CUresult r = sim_submit(s, wait);
        x->free = r != CUDA_SUCCESS;
        SIM_TRY(r);
    }
    struct sim_block *b = sim_block_new(sim_extent_va(x->segment->extent) + x->offset, bytes, KIND_POOL, p->device);
    b->state = STATE_PENDING;
    b->ctx = s->ctx;
    b->pool = p;
    b->piece = x;
    b->reserved = size;
    b->access = p->access;
    b->host_access = p->window != 0;
    p->used += size;
    if (p->used > p->used_high)
        p->used_high = p->used;
    struct sim_op *op = sim_op_new(OP_ALLOC);
    op->u.block = b;
    b->refs++;
    *out = b;
    return sim_submit(s, op);
}

static void give_piece(struct sim_block *b, struct sim_stream *s, uint64_t seq) {
    b->free_submitted = true;
    b->piece->free = true;
    b->piece->seen = false;
    b->piece->stream = s;
    b->piece->seq = seq;
    b->pool->used -= b->reserved;
}

CUresult sim_pool_free_block(struct sim_block *b, struct sim_stream *s) {
    struct sim_op *op = sim_op_new(OP_FREE);
    op->u.block = b;
    b->refs += 2;
    give_piece(b, s, UINT64_MAX);
    CUresult r = sim_submit(s, op); /* gives the piece its number, and may let other threads in */
    sim_block_unref(b);
    return r;
}

void sim_pool_free_now(struct sim_block *b) {
    struct CUmemPoolHandle_st *p = b->pool;
    give_piece(b, NULL, 0);
    sim_block_gone(b);
    trim(p, p->threshold, false);
}

void sim_pool_submitted(const struct sim_op *op) {
    if (op->kind == OP_FREE && op->u.block->kind == KIND_POOL)
        op->u.block->piece->seq = op->seq;
}

void sim_pool_op(struct sim_op *op) {
    struct sim_block *b = op->u.block;
    if (b->kind == KIND_GRAPH) /* lives again at the next launch */
        b->state = op->kind == OP_ALLOC ? STATE_LIVE : STATE_PENDING;
    else if (b->state != STATE_FREED)
        b->state = op->kind == OP_ALLOC ? STATE_LIVE : STATE_FREED;
}

/* ---- calls ---- */

static CUresult alloc_from(CUmemoryPool p, CUdeviceptr *dptr, size_t bytes, struct sim_stream *s) {
    struct sim_block *b;
    SIM_TRY(sim_pool_alloc(p, bytes, s, &b));
    *dptr = b->addr;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    if (!dptr || bytesize == 0 || !sim_pool_valid(pool))
        return CUDA_ERROR_INVALID_VALUE;
    if (s->capture)
        return sim_graph_alloc(dptr, bytesize, s);
    return alloc_from(pool, dptr, bytesize, s);
}

CUresult sim_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    struct sim_device *d = s->ctx->device;
    return sim_cuMemAllocFromPoolAsync(dptr, bytesize, d->pool ? d->pool : default_pool(d, false), hStream);
}

CUresult sim_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    if (dptr == 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_block *b = sim_block_at(dptr);
    if (!b || b->addr != dptr || b->free_submitted || b->state == STATE_FREED)
        return CUDA_ERROR_INVALID_VALUE;
    if (b->kind == KIND_GRAPH || (b->kind == KIND_POOL && s->capture))
        return sim_graph_free(b, s);
    if (b->kind == KIND_POOL)
        return sim_pool_free_block(b, s);
    if (b->kind != KIND_NATIVE && b->kind != KIND_MANAGED)
        return CUDA_ERROR_INVALID_VALUE;
    /* Memory of cuMemAlloc: the driver accepts it and waits. */
    struct sim_dep until = sim_dep_stream(s);
    sim_run_until(&until);
    sim_finish_ctx(b->ctx);
    sim_native_free(b);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
    struct sim_device *d;
    bool managed = props && props->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
    if (!pool || !props || (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED && !managed))
        return CUDA_ERROR_INVALID_VALUE;
    if (managed && sim_opt.version < 13000)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_NOT_SUPPORTED;
    int device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? props->location.id : 0;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE && !managed)
        return CUDA_ERROR_NOT_SUPPORTED;
    SIM_TRY(sim_need_device(device, &d));
    *pool = pool_new(d, props);
    return CUDA_SUCCESS;
}

struct drop {
    CUmemoryPool pool;
};

static void drop_block(struct sim_block *b, void *arg) {
    if (b->pool == ((struct drop *)arg)->pool && b->kind == KIND_POOL && !b->free_submitted)
        sim_pool_free_now(b);
}

CUresult sim_cuMemPoolDestroy(CUmemoryPool p) {
    if (!sim_pool_valid(p) || p->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    for (struct sim_ctx *c = sim_contexts; c; c = c->next) {
        if (c->device == p->device)
            sim_finish_ctx(c);
    }
    struct drop drop = {p};
    p->threshold = UINT64_MAX;
    sim_blocks_each(drop_block, &drop);
    trim(p, 0, false);
    if (p->device->pool == p)
        p->device->pool = NULL;
    for (CUmemoryPool *link = &pools; *link; link = &(*link)->next) {
        if (*link == p) {
            *link = p->next;
            break;
        }
    }
    free(p);
    return CUDA_SUCCESS;
}

/* A managed pool gives back only memory whose free a synchronisation has seen. */
CUresult sim_cuMemPoolTrimTo(CUmemoryPool p, size_t minBytesToKeep) {
    if (!sim_pool_valid(p))
        return CUDA_ERROR_INVALID_VALUE;
    trim(p, minBytesToKeep, p->window);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool p, CUmemPool_attribute attr, void *value) {
    if (!sim_pool_valid(p) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: p->follow = *(int *)value; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: p->opportunistic = *(int *)value; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: p->internal = *(int *)value; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: p->threshold = *(cuuint64_t *)value; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(cuuint64_t *)value != 0)
            return CUDA_ERROR_INVALID_VALUE;
        if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
            p->reserved_high = p->reserved;
        else
            p->used_high = p->used;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool p, CUmemPool_attribute attr, void *value) {
    if (!sim_pool_valid(p) || !value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: *(int *)value = p->follow; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: *(int *)value = p->opportunistic; break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: *(int *)value = p->internal; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)value = p->threshold; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)value = p->reserved; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)value = p->reserved_high; break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)value = p->used; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)value = p->used_high; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

struct regrant {
    CUmemoryPool pool;
};

static void regrant(struct sim_block *b, void *arg) {
    CUmemoryPool p = ((struct regrant *)arg)->pool;
    if (b->pool == p)
        b->access = p->access;
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool p, const CUmemAccessDesc *map, size_t count) {
    struct sim_device *d;
    if (!sim_pool_valid(p) || !map)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        SIM_TRY(sim_need_device(map[i].location.id, &d));
        if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? d == p->device : !p->window && !sim_can_reach(d, p->device))
            return CUDA_ERROR_INVALID_DEVICE;
    }
    for (size_t i = 0; i < count; i++) {
        unsigned bit = 1u << map[i].location.id;
        p->access = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? p->access & ~bit : p->access | bit;
    }
    struct regrant arg = {p};
    sim_blocks_each(regrant, &arg);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool p, CUmemLocation *location) {
    struct sim_device *d;
    if (!sim_pool_valid(p) || !flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_need_device(location->id, &d));
    *flags = p->access >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    if (!pool_out)
        return CUDA_ERROR_INVALID_VALUE;
    *pool_out = default_pool(d, false);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    if (!pool_out)
        return CUDA_ERROR_INVALID_VALUE;
    *pool_out = d->pool ? d->pool : default_pool(d, false);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    if (!sim_pool_valid(pool) || pool->device != d)
        return CUDA_ERROR_INVALID_VALUE;
    d->pool = pool;
    return CUDA_SUCCESS;
}

/* Of devices' own memory only. */
CUresult sim_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
    if (!location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_NOT_SUPPORTED;
    return sim_cuDeviceSetMemPool(location->id, pool);
}

CUresult sim_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
    if (!location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_NOT_SUPPORTED;
    return sim_cuDeviceGetMemPool(pool, location->id);
}

CUresult sim_cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type) {
    struct sim_device *d;
    if (!pool_out || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(sim_need_device(location->id, &d));
    *pool_out = default_pool(d, type == CU_MEM_ALLOCATION_TYPE_MANAGED);
    return CUDA_SUCCESS;
}

/* Pools here support no handle type, as one created without says on a real driver. */
CUresult sim_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr) {
    struct sim_block *b = sim_block_at(ptr);
    (void)shareData_out;
    return b && b->kind == KIND_POOL ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, CUmemAllocationHandleType type,
                                              unsigned long long flags) {
    return sim_pool_valid(pool) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

/* What operations do when their turn comes, and the checks that catch memory reused too early. */
#include "sim.h"
#include <stdio.h>
#include <string.h>

static uint64_t violation_count;
static char violation_text[256];

uint64_t simcuda_violations(void) { return __atomic_load_n(&violation_count, __ATOMIC_ACQUIRE); }
const char *simcuda_last_violation(void) { return violation_text; }

void sim_reset_violations(void) {
    __atomic_store_n(&violation_count, 0, __ATOMIC_RELEASE);
    violation_text[0] = 0;
}

void sim_violation(struct sim_ctx *ctx, const char *what, uintptr_t addr, size_t size) {
    snprintf(violation_text, sizeof violation_text, "%s at 0x%llx, %zu bytes", what, (unsigned long long)addr, size);
    __atomic_add_fetch(&violation_count, 1, __ATOMIC_RELEASE); /* whoever sees it may read the text */
    if (ctx && ctx->sticky == CUDA_SUCCESS)
        ctx->sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
}

static bool may_use(const struct sim_ctx *ctx, const struct sim_block *b, bool by_kernel) {
    unsigned own = 1u << ctx->device->ordinal;
    switch (b->kind) {
    case KIND_VMM:
    case KIND_POOL: return (b->access & own) != 0;
    case KIND_NATIVE: return !by_kernel || b->device == ctx->device || (ctx->peers >> b->device->ordinal & 1);
    default: return true;
    }
}

static bool may_write(const struct sim_ctx *ctx, const struct sim_block *b) {
    return b->kind != KIND_VMM || !(b->fixed >> ctx->device->ordinal & 1);
}

/* The range that a copy or fill begins to write at; kernels say themselves what they write. */
static bool writes(const struct sim_op *op, const struct sim_range *r) {
    if (op->kind == OP_COPY)
        return r->addr == op->u.copy.dst;
    return op->kind == OP_SET && r->addr == op->u.set.dst;
}

/* What a copy onto itself leaves behind is undefined. */
static bool overlaps(const struct sim_op *op) {
    const struct sim_copy *c = &op->u.copy;
    if (op->kind != OP_COPY || c->staged || c->height != 1 || c->depth != 1 || c->dst == c->src)
        return false;
    return c->dst < c->src + c->width && c->src < c->dst + c->width;
}

static bool check_ranges(struct sim_op *op) {
    struct sim_ctx *ctx = op->stream->ctx;
    if (overlaps(op)) {
        sim_violation(ctx, "a copy whose two sides overlap", op->u.copy.dst, op->u.copy.width);
        return false;
    }
    for (unsigned i = 0; i < op->range_count; i++) {
        const struct sim_range *r = &op->ranges[i];
        if (r->block->state != STATE_LIVE) {
            sim_violation(ctx,
                          r->block->state == STATE_FREED ? "memory freed before the work that uses it has run"
                                                         : "stream-ordered memory used before its allocation",
                          r->addr, r->size);
            return false;
        }
        if (!may_use(ctx, r->block, op->kind == OP_KERNEL)) {
            sim_violation(ctx, "memory not accessible from this device", r->addr, r->size);
            return false;
        }
        if (writes(op, r) && !may_write(ctx, r->block)) {
            sim_violation(ctx, "memory that may only be read", r->addr, r->size);
            return false;
        }
    }
    return true;
}

static void run_copy(const struct sim_copy *c) {
    const char *src = c->staged ? c->staged : sim_alias(c->src);
    char *dst = sim_alias(c->dst);
    for (size_t z = 0; z < c->depth; z++) {
        if (c->height == 1 || (c->dpitch == c->width && c->spitch == c->width)) {
            memmove(dst + z * c->dslice, src + z * c->sslice, c->width * c->height);
            continue;
        }
        for (size_t y = 0; y < c->height; y++)
            memmove(dst + z * c->dslice + y * c->dpitch, src + z * c->sslice + y * c->spitch, c->width);
    }
}

static void run_set(const struct sim_set *s) {
    char *row = sim_alias(s->dst);
    for (size_t y = 0; y < s->height; y++, row += s->pitch) {
        if (s->element == 1) {
            memset(row, (int)s->value, s->width);
            continue;
        }
        for (size_t x = 0; x < s->width; x++)
            memcpy(row + x * s->element, &s->value, s->element);
    }
}

static _Thread_local struct sim_op *touching;

/* The block that was there when the kernel was launched: stream-ordered memory may be promised to later work already.
 */
static struct sim_block *block_of(const struct sim_op *op, uintptr_t addr) {
    for (unsigned i = 0; i < op->range_count; i++) {
        struct sim_block *b = op->ranges[i].block;
        if (addr >= b->addr && addr - b->addr < b->size)
            return b;
    }
    return sim_block_at(addr);
}

/* Mappings that lie side by side are one array to a kernel. */
static bool may_touch(const struct sim_op *op, uintptr_t addr, size_t size, bool write) {
    const struct sim_ctx *ctx = op->stream->ctx;
    for (uintptr_t end = addr + size; addr < end;) {
        struct sim_block *b = block_of(op, addr);
        if (!b || b->state != STATE_LIVE || !may_use(ctx, b, true) || (write && !may_write(ctx, b)))
            return false;
        addr = b->addr + b->size;
    }
    return true;
}

static void *touch(const void *ptr, size_t size, int write) {
    void *alias = NULL;
    sim_lock();
    if (may_touch(touching, (uintptr_t)ptr, size, write))
        alias = sim_alias((uintptr_t)ptr);
    else
        sim_violation(touching->stream->ctx, "a kernel used an address that is no live memory", (uintptr_t)ptr, size);
    sim_unlock();
    return alias;
}

static void run_kernel(struct sim_op *op) {
    struct sim_launch *l = &op->u.launch;
    const struct simcuda_twin *twin = sim_twin_find(l->function->name);
    if (!twin)
        return;
    void *args[64];
    for (unsigned i = 0; i < l->count; i++) {
        args[i] = l->args + l->offsets[i];
        uintptr_t *pointer = args[i];
        if (l->pointers[i] == 'p' && sim_opt.strict)
            *pointer = (uintptr_t)sim_alias(*pointer);
    }
    struct simcuda_launch launch = {.grid = {l->grid[0], l->grid[1], l->grid[2]},
                                    .block = {l->block[0], l->block[1], l->block[2]},
                                    .shared = l->shared,
                                    .args = args,
                                    .name = l->function->name,
                                    .touch = touch};
    struct sim_op *outer = touching;
    void (*run)(const struct simcuda_launch *) = twin->run; /* without the lock the twin may be replaced */
    touching = op;
    sim_self.in_callback++;
    int depth = sim_unlock_all();
    run(&launch);
    sim_lock_again(depth);
    sim_self.in_callback--;
    touching = outer;
}

static void run_host(struct sim_op *op) {
    struct sim_host h = op->u.host;
    CUresult status = op->stream->ctx->sticky;
    sim_self.in_callback++;
    int depth = sim_unlock_all();
    if (h.callback)
        h.callback((CUstream)op->stream, status, h.data);
    else
        h.fn(h.data);
    sim_lock_again(depth);
    sim_self.in_callback--;
}

bool sim_value_ready(const struct sim_op *op) {
    const struct sim_value *v = &op->u.value;
    uint64_t have = v->wide ? __atomic_load_n((uint64_t *)sim_alias(v->addr), __ATOMIC_ACQUIRE)
                            : __atomic_load_n((uint32_t *)sim_alias(v->addr), __ATOMIC_ACQUIRE);
    switch (v->flags & 3) {
    case CU_STREAM_WAIT_VALUE_EQ: return have == v->value;
    case CU_STREAM_WAIT_VALUE_AND: return (have & v->value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR: return v->wide ? ~(have | v->value) != 0 : (uint32_t) ~(have | v->value) != 0;
    default: return v->wide ? (int64_t)(have - v->value) >= 0 : (int32_t)((uint32_t)have - (uint32_t)v->value) >= 0;
    }
}

static void run_write(const struct sim_value *v) {
    if (v->wide)
        __atomic_store_n((uint64_t *)sim_alias(v->addr), v->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint32_t *)sim_alias(v->addr), (uint32_t)v->value, __ATOMIC_RELEASE);
}

void sim_execute(struct sim_op *op) {
    bool broken = op->stream->ctx->sticky != CUDA_SUCCESS;
    if (op->kind == OP_EVENT && op->u.event)
        sim_event_ran(op->u.event, op->seq);
    if (op->kind == OP_ALLOC || op->kind == OP_FREE)
        sim_pool_op(op);
    if (op->kind == OP_HOST && (!broken || op->u.host.callback))
        run_host(op);
    if (broken || !check_ranges(op))
        return;
    switch (op->kind) {
    case OP_COPY: run_copy(&op->u.copy); break;
    case OP_SET: run_set(&op->u.set); break;
    case OP_KERNEL: run_kernel(op); break;
    case OP_WRITE: run_write(&op->u.value); break;
    default: break;
    }
}

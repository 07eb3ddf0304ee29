/* Streams as queues of operations, and who may run when.
 *
 * Every operation has a number from one counter; a dependency says "everything up to number n in this stream
 * (or context) has run".  A stream runs in order, so that its head's number says how far it is. */
#include "sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_stream *sim_streams;
uint64_t sim_seq;

struct sim_op *sim_op_new(enum sim_op_kind kind) {
    struct sim_op *op = calloc(1, sizeof *op);
    op->kind = kind;
    return op;
}

static void *copy_of(const void *p, size_t size) {
    void *q = malloc(size ? size : 1);
    memcpy(q, p, size);
    return q;
}

static size_t copy_bytes(const struct sim_copy *c) {
    if (!c->depth || !c->height)
        return 0;
    return (c->depth - 1) * c->sslice + (c->height - 1) * c->spitch + c->width;
}

struct sim_op *sim_op_clone(const struct sim_op *from) {
    struct sim_op *op = copy_of(from, sizeof *op);
    op->next = NULL;
    op->running = false;
    op->dep_count = 0;
    op->ranges = copy_of(from->ranges, from->range_count * sizeof *op->ranges);
    for (unsigned i = 0; i < op->range_count; i++)
        op->ranges[i].block->refs++;
    if (op->kind == OP_KERNEL)
        op->u.launch.args = copy_of(from->u.launch.args, from->u.launch.args_size);
    if (op->kind == OP_COPY && from->u.copy.staged)
        op->u.copy.staged = copy_of(from->u.copy.staged, copy_bytes(&from->u.copy));
    if (op->kind == OP_EVENT && op->u.event)
        op->u.event->refs++;
    if (op->kind == OP_ALLOC || op->kind == OP_FREE)
        op->u.block->refs++;
    return op;
}

void sim_op_free(struct sim_op *op) {
    if (!op)
        return;
    for (unsigned i = 0; i < op->range_count; i++)
        sim_block_unref(op->ranges[i].block);
    if (op->kind == OP_KERNEL)
        free(op->u.launch.args);
    if (op->kind == OP_COPY)
        free(op->u.copy.staged);
    if (op->kind == OP_EVENT && op->u.event)
        sim_event_unref(op->u.event);
    if (op->kind == OP_ALLOC || op->kind == OP_FREE)
        sim_block_unref(op->u.block);
    free(op->ranges);
    free(op);
}

bool sim_op_range(struct sim_op *op, uintptr_t addr, size_t size) {
    while (size > 0) {
        struct sim_block *b = sim_block_at(addr);
        if (!b || b->state == STATE_FREED || b->free_submitted)
            return false;
        size_t n = b->addr + b->size - addr;
        n = n < size ? n : size;
        op->ranges = realloc(op->ranges, (op->range_count + 1) * sizeof *op->ranges);
        op->ranges[op->range_count++] = (struct sim_range){.block = b, .addr = addr, .size = n};
        b->refs++;
        addr += n;
        size -= n;
    }
    return true;
}

void sim_op_dep(struct sim_op *op, struct sim_dep dep) {
    if (!sim_dep_done(&dep) && op->dep_count < sizeof op->deps / sizeof op->deps[0])
        op->deps[op->dep_count++] = dep;
}

static bool in_ctx(const struct sim_stream *s, const struct sim_ctx *ctx) {
    return s->ctx == ctx || s->ctx->parent == ctx;
}

static bool covers(const struct sim_dep *d, const struct sim_stream *s) {
    switch (d->kind) {
    case DEP_STREAM: return s == d->stream;
    case DEP_CTX: return in_ctx(s, d->ctx);
    default: return in_ctx(s, d->ctx) && !s->legacy && !(s->flags & CU_STREAM_NON_BLOCKING);
    }
}

/* A copy from or to plain memory of the context, by a stream of a device without access to it: both contexts do a part
 * of it. So an event of either, and cuCtxSynchronize, cover it; those of its streams do not. */
static bool takes_part(const struct sim_ctx *ctx, const struct sim_op *op) {
    const struct sim_ctx *by = op->stream->ctx;
    if (op->kind != OP_COPY || by->device == ctx->device || by->peers >> ctx->device->ordinal & 1)
        return false;
    for (unsigned i = 0; i < op->range_count; i++)
        if (op->ranges[i].block->kind == KIND_NATIVE && op->ranges[i].block->ctx == ctx)
            return true;
    return false;
}

/* The stream that keeps the dependency from being met, or NULL. */
static struct sim_stream *blocker(const struct sim_dep *d) {
    if (d->kind == DEP_STREAM)
        return d->stream && d->stream->head && d->stream->head->seq <= d->seq ? d->stream : NULL;
    for (struct sim_stream *s = sim_streams; s; s = s->next) {
        for (const struct sim_op *op = s->head; op && op->seq <= d->seq; op = op->next)
            if (covers(d, s) || (d->kind == DEP_CTX && takes_part(d->ctx, op)))
                return s;
    }
    return NULL;
}

bool sim_dep_done(const struct sim_dep *d) { return blocker(d) == NULL; }

struct sim_dep sim_dep_stream(struct sim_stream *s) {
    return (struct sim_dep){.kind = DEP_STREAM, .stream = s, .seq = s->last_seq};
}

struct sim_dep sim_dep_ctx(struct sim_ctx *ctx) {
    return (struct sim_dep){.kind = DEP_CTX, .ctx = ctx, .seq = sim_seq};
}

static void add_legacy_order(struct sim_stream *s, struct sim_op *op) {
    if (s->legacy)
        sim_op_dep(op, (struct sim_dep){.kind = DEP_BLOCKING, .ctx = s->ctx, .seq = sim_seq});
    else if (!(s->flags & CU_STREAM_NON_BLOCKING) && s->ctx->legacy)
        sim_op_dep(op, sim_dep_stream(s->ctx->legacy));
}

CUresult sim_submit(struct sim_stream *s, struct sim_op *op) {
    while (s->ctx->freeing && s->ctx->freeing != &sim_self && op->kind != OP_WRITE)
        sim_wait_change();
    if (s->capture)
        return sim_capture_add(s, op);
    CUresult r = sim_capture_legacy(s);
    if (r != CUDA_SUCCESS) {
        sim_op_free(op);
        return r;
    }
    add_legacy_order(s, op);
    op->seq = ++sim_seq;
    op->stream = s;
    s->last_seq = op->seq;
    sim_pool_submitted(op);
    if (op->kind == OP_EVENT && op->u.event) {
        op->u.event->dep = sim_dep_stream(s);
        op->u.event->recorded = true;
        op->u.event->polls = 0;
    }
    if (s->tail)
        s->tail->next = op;
    else
        s->head = op;
    s->tail = op;
    if (sim_opt.mode == SIM_IMMEDIATE && !sim_self.in_callback)
        sim_pump();
    return CUDA_SUCCESS;
}

CUresult sim_submit_and_wait(struct sim_stream *s, struct sim_op *op) {
    struct sim_ctx *ctx = s->ctx;
    SIM_TRY(sim_submit(s, op));
    struct sim_dep d = sim_dep_stream(s);
    sim_run_until(&d);
    return ctx->sticky;
}

static bool can_begin(const struct sim_stream *s, const struct sim_op *op) {
    if (!op || op->running)
        return false;
    for (unsigned i = 0; i < op->dep_count; i++) {
        if (!sim_dep_done(&op->deps[i]))
            return false;
    }
    return op->kind != OP_WAIT_VALUE || s->ctx->sticky != CUDA_SUCCESS || sim_value_ready(op);
}

static uint64_t next_random(void) {
    uint64_t x = sim_opt.seed;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return sim_opt.seed = x;
}

/* A kernel that has begun, or could, and behind it one with programmatic serialization. */
static bool may_overtake(const struct sim_stream *s) {
    const struct sim_op *first = s->head, *second = first ? first->next : NULL;
    return sim_opt.mode != SIM_IMMEDIATE && second && second->programmatic && first->kind == OP_KERNEL &&
           (first->running || can_begin(s, first)) && can_begin(s, second);
}

static bool runnable(const struct sim_stream *s) { return can_begin(s, s->head) || may_overtake(s); }

static void take_out(struct sim_stream *s, struct sim_op *op) {
    struct sim_op *before = NULL;
    for (struct sim_op *each = s->head; each != op; each = each->next)
        before = each;
    if (before && op->next)
        op->next->programmatic = false; /* the kernel before both has not ended */
    if (before)
        before->next = op->next;
    else
        s->head = op->next;
    if (!op->next)
        s->tail = before;
}

/* The kernel that may overtake does so where a test steps the streams, and now and then in random order. */
static void run_next(struct sim_stream *s) {
    struct sim_op *op = s->head;
    if (may_overtake(s) && (op->running || sim_opt.mode == SIM_MANUAL || next_random() % 2))
        op = op->next;
    op->running = true;
    sim_execute(op);
    take_out(s, op);
    sim_op_free(op);
    sim_notify();
}

/* A step towards the dependency; false when only another thread or the host can bring it about. */
static bool step_towards(const struct sim_dep *d, unsigned depth) {
    struct sim_stream *s = blocker(d);
    if (!s || depth > 256)
        return false;
    if (runnable(s)) {
        run_next(s);
        return true;
    }
    if (s->head->running)
        return false;
    for (unsigned i = 0; i < s->head->dep_count; i++) {
        if (!sim_dep_done(&s->head->deps[i]))
            return step_towards(&s->head->deps[i], depth + 1);
    }
    return false;
}

bool sim_run_towards(const struct sim_dep *d) {
    while (!sim_dep_done(d) && (step_towards(d, 0) || sim_step(NULL)))
        ;
    return sim_dep_done(d);
}

void sim_run_until(const struct sim_dep *d) {
    while (!sim_dep_done(d)) {
        if (step_towards(d, 0))
            continue;
        /* The first blocker is stuck (a value wait, or running elsewhere): others may free it. */
        if (!sim_step(NULL))
            sim_wait_change();
    }
}

void sim_run_waits(struct sim_stream *s) {
    while (s->head && s->head->kind == OP_WAIT && can_begin(s, s->head))
        run_next(s);
}

int sim_step(struct sim_stream *only) {
    struct sim_stream *oldest = NULL;
    for (struct sim_stream *s = only ? only : sim_streams; s; s = only ? NULL : s->next) {
        if (runnable(s) && (!oldest || s->head->seq < oldest->head->seq))
            oldest = s;
    }
    if (oldest)
        run_next(oldest);
    return oldest != NULL;
}

void sim_pump(void) {
    while (sim_step(NULL))
        ;
}

void sim_random_step(void) {
    for (uint64_t n = next_random() % 4; n > 0; n--) {
        unsigned ready = 0;
        for (struct sim_stream *s = sim_streams; s; s = s->next)
            ready += runnable(s);
        if (!ready)
            return;
        uint64_t pick = next_random() % ready;
        for (struct sim_stream *s = sim_streams; s; s = s->next) {
            if (runnable(s) && pick-- == 0) {
                run_next(s);
                break;
            }
        }
    }
}

bool sim_block_queued(const struct sim_block *b) {
    for (const struct sim_stream *s = sim_streams; s; s = s->next)
        for (const struct sim_op *op = s->head; op; op = op->next)
            if ((op->kind == OP_ALLOC || op->kind == OP_FREE) && op->u.block == b)
                return true;
    return false;
}

static bool seq_reached(const struct sim_op *last, uint64_t limit, struct sim_stream *other, uint64_t seq,
                        unsigned depth);

static bool dep_reaches(const struct sim_dep *d, struct sim_stream *other, uint64_t seq, unsigned depth) {
    if (d->seq >= seq && covers(d, other))
        return true;
    if (d->kind == DEP_STREAM && d->stream)
        return seq_reached(d->stream->head, d->seq, other, seq, depth + 1);
    return false;
}

static bool seq_reached(const struct sim_op *op, uint64_t limit, struct sim_stream *other, uint64_t seq,
                        unsigned depth) {
    for (; op && op->seq <= limit && depth < 64; op = op->next) {
        for (unsigned i = 0; i < op->dep_count; i++) {
            if (dep_reaches(&op->deps[i], other, seq, depth))
                return true;
        }
    }
    return false;
}

/* Would work submitted to s now run after operation seq of other? */
bool sim_ordered_after(struct sim_stream *s, struct sim_stream *other, uint64_t seq) {
    struct sim_dep d = {.kind = DEP_STREAM, .stream = other, .seq = seq};
    if (s == other || sim_dep_done(&d))
        return true;
    if (s->legacy && covers(&(struct sim_dep){.kind = DEP_BLOCKING, .ctx = s->ctx}, other))
        return true;
    if (!s->legacy && !(s->flags & CU_STREAM_NON_BLOCKING) && other == s->ctx->legacy)
        return true;
    return seq_reached(s->head, s->last_seq, other, seq, 0);
}

void sim_finish_ctx(struct sim_ctx *ctx) {
    struct sim_dep d = sim_dep_ctx(ctx);
    sim_run_until(&d);
    sim_sync_point(ctx);
}

static struct sim_stream *recycled(void) {
    for (struct sim_stream *s = sim_streams; s; s = s->next) {
        if (s->destroyed && !s->head)
            return s;
    }
    return NULL;
}

struct sim_stream *sim_stream_new(struct sim_ctx *ctx, unsigned flags, int priority) {
    static uint64_t last_id;
    struct sim_stream *s = recycled();
    if (s) {
        uint64_t seq = s->last_seq;
        struct sim_stream *next = s->next;
        *s = (struct sim_stream){.last_seq = seq, .next = next};
    } else {
        s = calloc(1, sizeof *s);
        s->next = sim_streams;
        sim_streams = s;
    }
    s->magic = STREAM_MAGIC;
    s->ctx = ctx;
    s->flags = flags;
    s->priority = priority;
    s->id = ++last_id;
    for (unsigned i = 0; i < ctx->wait_count; i++) {
        if (sim_dep_done(&ctx->waits[i]))
            continue;
        struct sim_op *op = sim_op_new(OP_WAIT);
        sim_op_dep(op, ctx->waits[i]);
        sim_submit(s, op);
    }
    return s;
}

struct sim_stream *sim_stream_of_thread(struct sim_ctx *ctx) {
    for (struct sim_stream *s = sim_streams; s; s = s->next) {
        if (!s->destroyed && s->ctx == ctx && s->owner == sim_self.id)
            return s;
    }
    struct sim_stream *s = sim_stream_new(ctx, CU_STREAM_DEFAULT, 0);
    s->owner = sim_self.id;
    return s;
}

void sim_streams_thread_gone(unsigned thread) {
    for (struct sim_stream *s = sim_streams; s; s = s->next) {
        if (s->destroyed || s->owner != thread)
            continue;
        sim_capture_stream_gone(s);
        s->destroyed = true;
        s->magic = 0;
    }
}

CUresult sim_stream_get(CUstream handle, struct sim_stream **out) {
    struct sim_ctx *ctx;
    if (handle && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD) {
        struct sim_stream *s = (struct sim_stream *)handle;
        if (s->magic != STREAM_MAGIC || s->destroyed)
            return CUDA_ERROR_INVALID_HANDLE;
        *out = s;
        return s->ctx->sticky;
    }
    SIM_TRY(sim_need_ctx(&ctx));
    if (handle == CU_STREAM_PER_THREAD || (!handle && sim_self.per_thread))
        *out = sim_stream_of_thread(ctx);
    else
        *out = ctx->legacy;
    return ctx->sticky;
}

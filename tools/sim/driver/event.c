/* Events of streams and of whole contexts. */
#include "sim.h"
#include <stdlib.h>
#include <string.h>

bool sim_event_valid(CUevent e) { return e && e->magic == EVENT_MAGIC; }

/* On a real driver the event is gone with its context, and to name it is to use freed memory. */
static uint64_t stale_uses;

uint64_t simcuda_stale_events(void) { return __atomic_load_n(&stale_uses, __ATOMIC_ACQUIRE); }

static uint64_t busy_waits;

uint64_t simcuda_busy_waits(void) { return __atomic_load_n(&busy_waits, __ATOMIC_ACQUIRE); }

static CUresult living(CUevent e) {
    if (!sim_event_valid(e))
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_ctx_valid((CUcontext)e->ctx) && e->ctx->id == e->ctx_id && !e->ctx->dying)
        return CUDA_SUCCESS;
    __atomic_add_fetch(&stale_uses, 1, __ATOMIC_RELEASE);
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void sim_event_unref(struct CUevent_st *e) {
    if (--e->refs > 0)
        return;
    e->magic = 0;
    free(e->capture_nodes);
    free(e);
}

void sim_event_ran(struct CUevent_st *e, uint64_t seq) {
    if (e->dep.kind == DEP_STREAM && e->dep.seq == seq)
        e->time = sim_now();
}

CUresult sim_cuEventCreate(CUevent *phEvent, unsigned int Flags) {
    struct sim_ctx *ctx;
    SIM_TRY(sim_need_ctx(&ctx));
    if (!phEvent || (Flags & ~7u) || ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    CUevent e = calloc(1, sizeof *e);
    *e = (struct CUevent_st){.magic = EVENT_MAGIC, .refs = 1, .ctx = ctx, .ctx_id = ctx->id, .flags = Flags};
    *phEvent = e;
    return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy_v2(CUevent e) {
    SIM_TRY(living(e));
    e->magic = 0;
    sim_event_unref(e);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy(CUevent e) { return sim_cuEventDestroy_v2(e); }

CUresult sim_cuEventRecordWithFlags(CUevent e, CUstream hStream, unsigned int flags) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    SIM_TRY(living(e));
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->ctx->device != e->ctx->device)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture && !flags)
        return sim_capture_record(s, e);
    struct sim_op *op = sim_op_new(OP_EVENT);
    op->u.event = e;
    e->visible_from = 0;
    e->refs++;
    e->capture = NULL;
    return sim_submit(s, op);
}

CUresult sim_cuEventRecord(CUevent e, CUstream hStream) { return sim_cuEventRecordWithFlags(e, hStream, 0); }

static CUresult usable(CUevent e) {
    SIM_TRY(living(e));
    if (sim_event_capture(e)) {
        sim_capture_invalidate(e->capture);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    SIM_UNSAFE();
    return CUDA_SUCCESS;
}

/* Who polls lets time pass: the work that the event stands behind runs in the end, also where a test steps the streams.
 * What another thread runs is not waited for: the event is not ready. */
static bool was_polled(CUevent e) {
    if (++e->polls < 1000)
        return false;
    e->polls = 0;
    return sim_run_towards(&e->dep);
}

CUresult sim_cuEventQuery(CUevent e) {
    SIM_TRY(usable(e));
    if (e->recorded && !sim_dep_done(&e->dep) && !was_polled(e))
        return CUDA_ERROR_NOT_READY;
    if (e->recorded && (!sim_dep_done(&e->dep) || (e->visible_from && sim_now() < e->visible_from)))
        return CUDA_ERROR_NOT_READY;
    return e->ctx->sticky;
}

/* Another process asks without a call of this one. */
int simcuda_event_complete(void *event) {
    CUevent e = event;
    sim_lock();
    bool complete = sim_event_valid(e) && (!e->recorded || sim_dep_done(&e->dep));
    sim_unlock();
    return complete;
}

CUresult sim_cuEventSynchronize(CUevent e) {
    SIM_TRY(usable(e));
    if (e->recorded && !sim_run_towards(&e->dep)) {
        __atomic_add_fetch(&busy_waits, !(e->flags & CU_EVENT_BLOCKING_SYNC), __ATOMIC_RELEASE);
        sim_run_until(&e->dep);
    }
    if (!sim_ctx_valid((CUcontext)e->ctx))
        return CUDA_SUCCESS;
    sim_sync_point(e->ctx);
    return e->ctx->sticky;
}

CUresult sim_cuEventElapsedTime_v2(float *pMilliseconds, CUevent a, CUevent b) {
    if (!sim_event_valid(a) || !sim_event_valid(b) || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING) ||
        !a->recorded || !b->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!pMilliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sim_dep_done(&a->dep) || !sim_dep_done(&b->dep))
        return CUDA_ERROR_NOT_READY;
    *pMilliseconds = (float)((double)(int64_t)(b->time - a->time) / 1e6);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventElapsedTime(float *pMilliseconds, CUevent a, CUevent b) {
    return sim_cuEventElapsedTime_v2(pMilliseconds, a, b);
}

CUresult sim_cuStreamWaitEvent(CUstream hStream, CUevent e, unsigned int Flags) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    SIM_TRY(living(e));
    if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_event_capture(e))
        return sim_capture_wait(s, e);
    if (s->capture && !Flags) {
        sim_capture_invalidate(s->capture);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (!e->recorded || (sim_dep_done(&e->dep) && !s->capture))
        return CUDA_SUCCESS;
    struct sim_op *op = sim_op_new(OP_WAIT);
    sim_op_dep(op, e->dep);
    return sim_submit(s, op);
}

/* ---- the whole context ---- */

static CUresult record_ctx(struct sim_ctx *c, CUevent e) {
    SIM_TRY(living(e));
    if (e->ctx->device != c->device)
        return CUDA_ERROR_INVALID_HANDLE;
    SIM_TRY(sim_capture_in_ctx(c));
    e->capture = NULL;
    e->recorded = !sim_opt.blind_fence;
    e->polls = 0;
    e->dep = sim_dep_ctx(c);
    e->time = sim_now();
    e->visible_from = sim_opt.answer_ns ? e->time + sim_opt.answer_ns : 0;
    return CUDA_SUCCESS;
}

static void remember_wait(struct sim_ctx *c, const struct sim_dep *d) {
    unsigned n = 0;
    for (unsigned i = 0; i < c->wait_count; i++) {
        if (!sim_dep_done(&c->waits[i]))
            c->waits[n++] = c->waits[i];
    }
    c->waits = realloc(c->waits, (n + 1) * sizeof *c->waits);
    c->waits[n] = *d;
    c->wait_count = n + 1;
}

static CUresult wait_ctx(struct sim_ctx *c, CUevent e) {
    SIM_TRY(living(e));
    SIM_TRY(sim_capture_in_ctx(c));
    if (sim_event_capture(e)) {
        sim_capture_invalidate(e->capture);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    if (!e->recorded || sim_dep_done(&e->dep))
        return CUDA_SUCCESS;
    remember_wait(c, &e->dep);
    for (struct sim_stream *s = sim_streams; s; s = s->next) {
        if (s->destroyed || (s->ctx != c && s->ctx->parent != c))
            continue;
        struct sim_op *op = sim_op_new(OP_WAIT);
        sim_op_dep(op, e->dep);
        SIM_TRY(sim_submit(s, op));
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxRecordEvent(CUcontext hCtx, CUevent e) {
    struct sim_ctx *c;
    SIM_TRY(sim_ctx_or_current(hCtx, &c));
    return record_ctx(c, e);
}

CUresult sim_cuCtxWaitEvent(CUcontext hCtx, CUevent e) {
    struct sim_ctx *c;
    SIM_TRY(sim_ctx_or_current(hCtx, &c));
    return wait_ctx(c, e);
}

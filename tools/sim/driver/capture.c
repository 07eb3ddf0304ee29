/* Stream capture and its rules. */
#include "sim_graph.h"
#include <stdlib.h>
#include <string.h>

static struct sim_capture *captures;
static uint64_t last_capture_id;

static void set_tail(struct sim_stream *s, CUgraphNode *nodes, unsigned count) {
    CUgraphNode *copy = malloc((count ? count : 1) * sizeof *copy);
    if (count)
        memcpy(copy, nodes, count * sizeof *copy);
    free(s->capture_tail);
    s->capture_tail = copy;
    s->capture_tail_count = count;
}

static void join_tail(struct sim_stream *s, CUgraphNode *nodes, unsigned count) {
    unsigned have = s->capture_tail_count;
    s->capture_tail = realloc(s->capture_tail, (have + count + 1) * sizeof *s->capture_tail);
    for (unsigned i = 0; i < count; i++) {
        unsigned k = 0;
        while (k < have && s->capture_tail[k] != nodes[i])
            k++;
        if (k == have)
            s->capture_tail[s->capture_tail_count++] = nodes[i];
    }
}

static void leave(struct sim_stream *s) {
    s->capture = NULL;
    s->capture_origin = false;
    free(s->capture_tail);
    s->capture_tail = NULL;
    s->capture_tail_count = 0;
}

void sim_capture_invalidate(struct sim_capture *c) { c->invalid = true; }

static void forget(struct sim_capture *c) {
    for (struct sim_stream *each = sim_streams; each; each = each->next) {
        if (each->capture == c)
            leave(each);
    }
    for (struct sim_capture **link = &captures; *link; link = &(*link)->next) {
        if (*link == c) {
            *link = c->next;
            break;
        }
    }
    free(c);
}

void sim_capture_stream_gone(struct sim_stream *s) {
    struct sim_capture *c = s->capture;
    if (!c)
        return;
    sim_capture_invalidate(c);
    if (!s->capture_origin) {
        leave(s);
        return;
    }
    if (c->own_graph)
        sim_graph_delete(c->graph);
    forget(c);
}

CUresult sim_capture_unsafe(void) {
    CUresult r = CUDA_SUCCESS;
    if (sim_self.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return r;
    for (struct sim_capture *c = captures; c; c = c->next) {
        bool own = c->thread == sim_self.id && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool global =
            sim_self.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (own || global) {
            sim_capture_invalidate(c);
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return r;
}

CUresult sim_capture_in_ctx(struct sim_ctx *ctx) {
    CUresult r = CUDA_SUCCESS;
    for (struct sim_stream *s = captures ? sim_streams : NULL; s; s = s->next) {
        if (!s->destroyed && s->capture && s->ctx == ctx) {
            sim_capture_invalidate(s->capture);
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return r;
}

/* Work in the legacy stream invalidates captures of blocking streams. A query of its state does not. */
static CUresult legacy_stream(const struct sim_stream *legacy, bool is_work) {
    CUresult r = CUDA_SUCCESS;
    for (struct sim_stream *s = captures && legacy->legacy ? sim_streams : NULL; s; s = s->next) {
        if (!s->destroyed && s->capture && s->ctx == legacy->ctx && !(s->flags & CU_STREAM_NON_BLOCKING)) {
            if (is_work)
                sim_capture_invalidate(s->capture);
            r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    return r;
}

CUresult sim_capture_legacy(struct sim_stream *legacy) { return legacy_stream(legacy, true); }

static CUgraphNodeType type_of(const struct sim_op *op) {
    switch (op->kind) {
    case OP_COPY: return CU_GRAPH_NODE_TYPE_MEMCPY;
    case OP_SET: return CU_GRAPH_NODE_TYPE_MEMSET;
    case OP_KERNEL: return CU_GRAPH_NODE_TYPE_KERNEL;
    case OP_HOST: return CU_GRAPH_NODE_TYPE_HOST;
    case OP_EVENT: return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    case OP_ALLOC: return CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    case OP_FREE: return CU_GRAPH_NODE_TYPE_MEM_FREE;
    case OP_WRITE:
    case OP_WAIT_VALUE: return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    default: return CU_GRAPH_NODE_TYPE_EMPTY;
    }
}

CUresult sim_capture_add(struct sim_stream *s, struct sim_op *op) {
    if (s->capture->invalid) {
        sim_op_free(op);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    CUgraphNode n = sim_graph_add(s->capture->graph, op, type_of(op), s->capture_tail, s->capture_tail_count);
    set_tail(s, &n, 1);
    return CUDA_SUCCESS;
}

struct sim_capture *sim_event_capture(struct CUevent_st *e) {
    for (struct sim_capture *c = e->capture ? captures : NULL; c; c = c->next) {
        if (c == e->capture && c->id == e->capture_id)
            return c;
    }
    return NULL;
}

CUresult sim_capture_record(struct sim_stream *s, struct CUevent_st *e) {
    if (s->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    free(e->capture_nodes);
    e->capture = s->capture;
    e->capture_id = s->capture->id;
    e->capture_count = s->capture_tail_count;
    e->capture_nodes = malloc((e->capture_count + 1) * sizeof *e->capture_nodes);
    if (e->capture_count)
        memcpy(e->capture_nodes, s->capture_tail, e->capture_count * sizeof *e->capture_nodes);
    return CUDA_SUCCESS;
}

CUresult sim_capture_wait(struct sim_stream *s, struct CUevent_st *e) {
    struct sim_capture *c = e->capture;
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->legacy) {
        sim_capture_invalidate(c);
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (s->capture && s->capture != c) {
        sim_capture_invalidate(c);
        sim_capture_invalidate(s->capture);
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (!s->capture) {
        s->capture = c;
        set_tail(s, e->capture_nodes, e->capture_count);
    } else {
        join_tail(s, e->capture_nodes, e->capture_count);
    }
    return CUDA_SUCCESS;
}

/* ---- calls ---- */

static CUresult begin(CUstream hStream, CUgraph graph, const CUgraphNode *deps, size_t count,
                      CUstreamCaptureMode mode) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (s->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    struct sim_capture *c = calloc(1, sizeof *c);
    *c = (struct sim_capture){.id = ++last_capture_id,
                              .mode = mode,
                              .thread = sim_self.id,
                              .own_graph = !graph,
                              .graph = graph ? graph : sim_graph_new(),
                              .next = captures};
    captures = c;
    s->capture = c;
    s->capture_origin = true;
    set_tail(s, (CUgraphNode *)deps, (unsigned)count);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode) {
    return begin(hStream, NULL, NULL, 0, mode);
}

CUresult sim_cuStreamBeginCapture(CUstream hStream) {
    return begin(hStream, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult sim_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
                                         const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                         CUstreamCaptureMode mode) {
    (void)dependencyData;
    if (!hGraph || hGraph->magic != GRAPH_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    return begin(hStream, hGraph, dependencies, numDependencies, mode);
}

static bool reaches(CUgraphNode from, CUgraphNode to, unsigned depth) {
    if (from == to)
        return true;
    for (unsigned i = 0; depth < 1000 && i < from->dep_count; i++) {
        if (reaches(from->deps[i], to, depth + 1))
            return true;
    }
    return false;
}

static bool joined(const struct sim_stream *origin, const struct sim_stream *s) {
    for (unsigned i = 0; i < s->capture_tail_count; i++) {
        bool found = false;
        for (unsigned k = 0; k < origin->capture_tail_count && !found; k++)
            found = reaches(origin->capture_tail[k], s->capture_tail[i], 0);
        if (!found)
            return false;
    }
    return true;
}

static CUresult verdict(struct sim_stream *origin) {
    struct sim_capture *c = origin->capture;
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (struct sim_stream *s = sim_streams; s; s = s->next) {
        if (s->capture == c && s != origin && !s->destroyed && !joined(origin, s))
            return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    struct sim_capture *c = s->capture;
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!s->capture_origin) {
        sim_capture_invalidate(c);
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != sim_self.id)
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult r = verdict(s);
    if (r != CUDA_SUCCESS && c->own_graph)
        sim_graph_delete(c->graph);
    if (phGraph)
        *phGraph = r == CUDA_SUCCESS ? c->graph : NULL;
    forget(c);
    return r;
}

CUresult sim_cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *status) {
    struct sim_stream *s;
    SIM_TRY(sim_stream_get(hStream, &s));
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(legacy_stream(s, false));
    *status = !s->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
              : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                       const CUgraphNode **deps, const CUgraphEdgeData **edges, size_t *count) {
    struct sim_stream *s;
    SIM_TRY(sim_cuStreamIsCapturing(hStream, status));
    SIM_TRY(sim_stream_get(hStream, &s));
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    if (id)
        *id = s->capture->id;
    if (graph)
        *graph = s->capture->graph;
    if (deps)
        *deps = s->capture_tail;
    if (edges)
        *edges = NULL;
    if (count)
        *count = s->capture_tail_count;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                                       const CUgraphNode **deps, size_t *count) {
    return sim_cuStreamGetCaptureInfo_v3(hStream, status, id, graph, deps, NULL, count);
}

CUresult sim_cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *status, cuuint64_t *id) {
    return sim_cuStreamGetCaptureInfo_v3(hStream, status, id, NULL, NULL, NULL, NULL);
}

CUresult sim_cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                                  const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                                  unsigned int flags) {
    struct sim_stream *s;
    (void)dependencyData;
    SIM_TRY(sim_stream_get(hStream, &s));
    if (!s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        set_tail(s, dependencies, (unsigned)numDependencies);
    else
        join_tail(s, dependencies, (unsigned)numDependencies);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies, size_t n,
                                               unsigned int flags) {
    return sim_cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, NULL, n, flags);
}

CUresult sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = sim_self.capture_mode;
    sim_self.capture_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

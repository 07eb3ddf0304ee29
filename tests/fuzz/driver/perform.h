/* What carries a plan out. */
#ifndef FUZZ_PERFORM_H
#define FUZZ_PERFORM_H

#include "doors.h"
#include "plan.h"

/* What the numbers of a plan stand for. */
struct world {
    const struct plan *plan;
    const struct place *place;
    CUcontext contexts[1 + CONTEXTS];
    CUstream streams[LANES];
    CUevent events[1 + CONTEXTS * EVENTS];
    CUgraph graphs[GRAPHS];
    CUgraphExec ready[GRAPHS];
    char *address[OBJECTS];
    CUmemGenericAllocationHandle handle[OBJECTS];
    CUmodule modules[1 + CONTEXTS];
    CUfunction mix[1 + CONTEXTS], spin[1 + CONTEXTS], publish; /* publish: of the first context */
    CUmodule variable;
    CUdeviceptr own, gate; /* gate: a word for each */
    unsigned mistakes;
    const struct call *running;
};
extern struct world world;

static inline CUdeviceptr device_address(int object) { return (CUdeviceptr)(uintptr_t)world.address[object]; }
static inline const struct object *object_of(int number) { return &world.plan->objects[number]; }

void set_up_world(const struct plan *plan, const struct place *place);
CUresult add_context_to_world(int context, uint32_t variant);
/* Makes a call in the thread that the plan says. Contents found are left in `seen`. */
CUresult make_call(const struct call *call, uint32_t *seen);
/* Parts of it. */
CUresult make_memory_call(const struct call *call);
CUresult make_work(const struct call *call, uint32_t *seen);
CUresult make_graph_call(const struct call *call);
CUresult make_further_call(const struct call *call, uint32_t *seen);
CUresult map_memory(CUdeviceptr *address, CUmemGenericAllocationHandle *handle, uint32_t variant); /* 2 MiB */
void mix_on_host(void *data); /* a struct host_work, which it does not free */
struct host_work {
    uint32_t *to;
    const uint32_t *from;
    uint32_t value;
};
struct host_work *host_work(int to, int from, uint32_t value);

/* What the calls before a result of their own must return. */
#define TRY(call)                 \
    do {                          \
        CUresult try_ = (call);   \
        if (try_ != CUDA_SUCCESS) \
            return try_;          \
    } while (0)

/* A stream as it is given to one of the two forms of a function. */
struct door_stream {
    bool twin; /* of a program compiled for per-thread default streams */
    CUstream handle;
};
struct door_stream stream_of(const struct call *call);
#define ON(symbol, ...)     (on.twin ? CALL(symbol##_ptsz, __VA_ARGS__) : CALL(symbol, __VA_ARGS__))
#define ON_NOW(symbol, ...) (on.twin ? CALL(symbol##_ptds, __VA_ARGS__) : CALL(symbol, __VA_ARGS__))

/* A call that is made, or is to be. */
struct made {
    const struct call *call;
    CUresult result;
    uint32_t seen[WORDS]; /* contents found, or what a question returned */
};
/* Lets the threads make the calls, each its own, and returns when all are made. */
void make_by_threads(struct made *calls, size_t count);
void begin_thread(int thread);
void end_thread(int thread);

#endif

/* The calls of random programs (ordering_random.c). Each call is made by one of several threads, in turn. The
 * program reaches the driver by look-ups only, as a CUDA runtime does. */
#ifndef PRELOAD_ORDERING_CALLS_H
#define PRELOAD_ORDERING_CALLS_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>

#include "program.h"
#include "simcuda.h"

enum { WORDS = 64, BYTES = WORDS * 4, THREADS = 3, CREATED = 5, CONTEXTS = 2, EVENTS = 5, NOBODY = -1 };
/* Streams of a context: the legacy default stream, one for each thread, and created ones. */
enum {
    LEGACY,
    OF_THREAD,
    FIRST_CREATED = OF_THREAD + THREADS,
    PER_CONTEXT = FIRST_CREATED + CREATED,
    STREAMS = CONTEXTS * PER_CONTEXT
};

/* In this order: device memory, memory that device and host access, host memory. */
#define KINDS(ROW) \
    ROW(NONE) ROW(DEVICE) ROW(PITCHED) ROW(POOLED) ROW(MAPPED) ROW(PINNED) ROW(REGISTERED) ROW(MANAGED) ROW(PLAIN)
#define NUMBER(name) name,
enum kind { KINDS(NUMBER) };

struct object {
    enum kind kind;
    int context;
    char *address;
    CUmemGenericAllocationHandle handle; /* MAPPED */
    uint32_t want[WORDS];                /* the expected contents when all work is done */
    int writer;                          /* the stream that wrote last, or NOBODY */
    unsigned written, read[STREAMS];
};

struct stream {
    bool usable;
    bool blocking;
    CUstream handle;
    unsigned knows[STREAMS]; /* work that is done before its next one; for itself: the work submitted to it */
};

struct event {
    CUevent handle;
    bool recorded;
    unsigned knows[STREAMS];
};

extern struct stream streams[STREAMS];
extern struct event events[EVENTS];
extern CUcontext contexts[CONTEXTS];
extern CUfunction mix; /* to[i] = from[i] * 31 + value + i */
void mix_words(uint32_t *to, const uint32_t *from, uint32_t value);

/* clang-format off */
#define CALLS(ROW)                                                                                          \
    ROW(ALLOC) ROW(ALLOC_ASYNC) ROW(FREE) ROW(FREE_ASYNC) ROW(UNMAP) ROW(COPY) ROW(SET) ROW(KERNEL)         \
    ROW(HOST_FUNCTION) ROW(GRAPH_COPY) ROW(RECORD) ROW(WAIT) ROW(EVENT_SYNCHRONIZE) ROW(STREAM_SYNCHRONIZE) \
    ROW(CONTEXT_SYNCHRONIZE) ROW(EVENT_QUERY) ROW(STREAM_QUERY) ROW(COPY_DOWN) ROW(NEW_STREAM)              \
    ROW(BEGIN_CAPTURE) ROW(END_CAPTURE) ROW(HOST_WRITE)
/* clang-format on */
enum call { CALLS(NUMBER) END };

/* Members that a call does not need are 0, but a missing stream is NOBODY. */
struct job {
    enum call call;
    int thread, context, stream, event;
    struct object *to, *from;
    size_t size;
    uint32_t value; /* odd: by functions for programs with per-thread default streams, on such a stream */
    uint32_t *seen; /* COPY_DOWN */
    CUresult result;
};

static inline bool is_of_thread(int stream) {
    return stream % PER_CONTEXT >= OF_THREAD && stream % PER_CONTEXT < FIRST_CREATED;
}

/* Loads the driver and makes each context current once. The first one stays current. */
void load_driver(void);
void start_threads(void);
/* Runs the job in its thread and returns when it is done. */
void make_by_thread(struct job *job);
void end_threads(void);

extern void *driver;
#define CALL(name, ...)                                                   \
    ({                                                                    \
        static __typeof__(&name) found;                                   \
        if (!found && !(found = (__typeof__(&name))dlsym(driver, #name))) \
            fail(#name, __LINE__, 0);                                     \
        found(__VA_ARGS__);                                               \
    })

#endif

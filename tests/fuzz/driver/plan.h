/* A random program of driver calls, made from a seed before any call is made (plan.c), by a model of what the program
 * may rely on (model.c). It is carried out on a driver (perform.c): a real one or the simulated one.
 *
 * What the program observes is determined natively, however long its work takes. The model tracks for each stream and
 * for the host which earlier work is ordered before theirs (a vector clock). Whenever two uses of memory conflict and
 * the later one is not ordered after the earlier one, the plan first makes a call that orders them natively, mostly a
 * cuMemFree of other memory: natively it waits for all work of its context. So the expected contents are those of all
 * work done at once, in the order of the plan.
 *
 * Words. A step is one random decision: its calls, and those that bring the order it needs. Each step has random
 * numbers of its own, so that a plan without some of its steps is a plan, too, and what remains is mostly the same.
 * A lane is a stream as long as it lives: the legacy default stream of a context, a thread's default stream, or a
 * created one. */
#ifndef FUZZ_PLAN_H
#define FUZZ_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers begin at 1; 0 is nobody. */
enum {
    NOBODY,
    WORDS = 64,
    BYTES = WORDS * 4,
    THREADS = 3,
    CONTEXTS = 3, /* of the first device: the primary one, a created one; the primary one of the second device */
    MAIN = 1,
    SECOND,
    OTHER_DEVICE,
    LANES = 48,
    OBJECTS = 1000,        /* memory in all */
    LIVING = 14,           /* at most about so much at a time */
    MOST_BYTES = 96 << 20, /* of it; some more for a moment */
    EVENTS = 4,            /* of a context; the last one of the first context is for other processes */
    GRAPHS = 24,
    NODES = 5, /* of a graph, at most */
    STEPS = 2000,
    HARMLESS = 15, /* calls of FURTHER, and those that fail */
    REFUSED = 5
};

/* In this order: device memory, memory that device and host access, host memory. VARIABLE: a managed variable of a
 * module. */
#define KINDS(ROW) \
    ROW(NONE)      \
    ROW(DEVICE) ROW(PITCHED) ROW(POOLED) ROW(MAPPED) ROW(PINNED) ROW(REGISTERED) ROW(MANAGED) ROW(VARIABLE) ROW(PLAIN)
#define NUMBER(name) name,
enum kind { KINDS(NUMBER) KIND_COUNT };

/* clang-format off */
#define CALLS(ROW)                                                                                                \
    /* memory */                                                                                                  \
    ROW(ALLOC) ROW(ALLOC_ASYNC) ROW(FREE) ROW(FREE_ASYNC) ROW(CLOSE) ROW(OPEN)                                    \
    /* work */                                                                                                    \
    ROW(SET) ROW(COPY) ROW(KERNEL) ROW(EARLY_KERNEL) ROW(HOST_FUNCTION) ROW(CALLBACK) ROW(GRAPH_LAUNCH) \
    ROW(COPY_UP) ROW(COPY_DOWN) ROW(PUBLISH) ROW(FAULT)                                                                                 \
    /* order */                                                                                                   \
    ROW(RECORD) ROW(WAIT) ROW(EVENT_SYNCHRONIZE) ROW(STREAM_SYNCHRONIZE) ROW(CONTEXT_SYNCHRONIZE) ROW(EVENT_POLL) \
    ROW(GATE_CLOSE) ROW(GATE_OPEN)                                                                                \
    /* looks */                                                                                                   \
    ROW(EVENT_QUERY) ROW(STREAM_QUERY) ROW(ELAPSED) ROW(HOST_READ) ROW(HOST_WRITE) ROW(LOOK_UP) ROW(FURTHER) ROW(HAND_EVENT) ROW(PEEK) \
    /* streams, contexts, captures, graphs */                                                                     \
    ROW(NEW_STREAM) ROW(DESTROY_STREAM) ROW(NEW_CONTEXT) ROW(DESTROY_CONTEXT) ROW(MODE) ROW(BEGIN_CAPTURE)        \
    ROW(END_CAPTURE) ROW(MAKE_GRAPH) ROW(DESTROY_GRAPH)                                                           \
    /* host threads */                                                                                            \
    ROW(NEW_THREAD) ROW(END_THREAD)
/* clang-format on */
enum call_kind { CALLS(NUMBER) CALL_COUNT };

enum {
    UNDETERMINED = -1,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    STREAM_CAPTURE_UNSUPPORTED = 900,
    STREAM_CAPTURE_INVALIDATED
};

/* A call of the plan. What it does not need is 0. */
struct call {
    enum call_kind kind;
    unsigned step;
    unsigned group; /* calls of one group are made at once, each thread's in their order; 0: when all before are made */
    int thread;
    int context; /* current in the thread */
    int lane, event;
    int graph;        /* of work: the one that its lane captures */
    int to, from;     /* memory */
    uint32_t value;   /* of the work */
    uint32_t variant; /* random bits: which function, by which look-up */
    int result;       /* what it must return; UNDETERMINED: compare with the native run only, if that */
    uint32_t *want;   /* contents that the call must find, or writes (HOST_WRITE); NULL: none */
};

struct object {
    enum kind kind; /* NONE: freed */
    enum kind made; /* what it was */
    int context;
    size_t size;
    bool closed; /* MAPPED: nobody has access; VARIABLE: the program has not looked it up */
    int owner;   /* in a group: the thread that may use it */
    int writer;  /* lane of the last write, or NOBODY */
    unsigned written, read[LANES];
    unsigned graphs;      /* living ones that name it */
    uint32_t have[WORDS]; /* when all work is done */
};

enum lane_kind { LEGACY, OF_THREAD, CREATED };

struct lane {
    enum lane_kind kind;
    int context, thread;
    bool lives, blocking;
    int owner;             /* in a group: the thread that may use it */
    int capture;           /* graph that is being captured, or NOBODY */
    unsigned knows[LANES]; /* work ordered before its next; for itself: the work submitted to it */
};

struct event {
    bool recorded;
    unsigned knows[LANES];
};

/* A node of a graph, or what a capturing stream is given. */
struct node {
    enum call_kind kind; /* SET, COPY, KERNEL or HOST_FUNCTION */
    int to, from;
    uint32_t value;
};

struct graph {
    bool lives;
    int context;
    int capture;      /* lane, or NOBODY when it is complete */
    int mode, thread; /* of the capture */
    bool broken;      /* by a call that it forbids */
    bool started;     /* launched or instantiated */
    unsigned count;
    struct node nodes[NODES];
};

struct plan {
    struct call *calls;
    size_t count, room;
    struct object objects[OBJECTS];
    int object_count; /* and 1, as the others */
    struct lane lanes[LANES];
    int lane_count;
    struct graph graphs[GRAPHS];
    int graph_count;
    bool publishes; /* needs a module with a managed variable */
    bool closes_gates;
    bool faults; /* ends with a kernel that fails */
    int devices; /* that it needs */
};

struct choice {
    uint64_t seed;
    unsigned steps;
    bool device_only; /* nothing that needs more than order on the device */
    int devices;
    bool card;            /* only what a card is known to do as well */
    const bool *left_out; /* [STEPS]: steps that are not taken */
    const char *lacks;    /* features that no plan has, by the names of model.h */
};

/* Makes the plan. It is the caller's, and lives as long as the process. */
struct plan *plan_make(const struct choice *choice);
void plan_print(const struct plan *plan);
const char *call_name(enum call_kind kind);
const char *kind_name(enum kind kind);

/* What a kernel or host function does: to[i] = from[i] * 31 + value + i */
static inline void mix_words(uint32_t *to, const uint32_t *from, uint32_t value) {
    for (int i = 0; i < WORDS; i++)
        to[i] = from[i] * 31 + value + (uint32_t)i;
}

/* Carries the plan out and writes a line for each call to stdout. Returns how often it was not as the plan says. */
struct place {
    const char *kernels; /* folder of kernels.cubin and variable.cubin for a card; NULL: the simulated driver */
    unsigned spin_us;    /* how long work before a free takes on a card */
    bool shows;          /* names each call before it is made */
};
unsigned plan_perform(const struct plan *plan, const struct place *place);

#endif

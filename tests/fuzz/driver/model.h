/* What a plan knows while it is made: what lives, and which work is ordered before which. */
#ifndef FUZZ_MODEL_H
#define FUZZ_MODEL_H

#include "plan.h"

enum { GLOBAL_MODE, THREAD_LOCAL_MODE, RELAXED_MODE }; /* of captures and of threads, as CUstreamCaptureMode */

/* What a program may do. */
/* clang-format off */
#define FEATURES(ROW)                                                                             \
    ROW(second_context) ROW(second_device) ROW(pinned) ROW(managed) ROW(plain) ROW(functions)     \
    ROW(pools) ROW(maps) ROW(graphs) ROW(captures) ROW(blocking_captures) ROW(queries) ROW(early) \
    ROW(gates) ROW(ends_threads) ROW(ends_streams) ROW(ends_contexts) ROW(further) ROW(closes)    \
    ROW(variable) ROW(together) ROW(refused) ROW(processes) ROW(breaks) ROW(faults)
/* clang-format on */
#define MEMBER(name) bool name;
struct may {
    int threads;
    bool legacy; /* legacy default streams are used */
    FEATURES(MEMBER)
    unsigned late_kinds;   /* memory that the host sees is used from this step on */
    unsigned more_streams; /* a new one about every so many steps; 0: never */
    unsigned per_thread;   /* threads use their default streams from this step on */
    unsigned contexts_at;  /* the step of further contexts */
    unsigned frees;        /* percent of the places that need order where a free brings it */
};

struct model {
    struct choice choice;
    struct plan *plan;
    struct may may;
    unsigned step;
    unsigned host[LANES]; /* what the host knows to be done */
    bool handed;          /* the event that other processes see */
    struct event events[1 + CONTEXTS * EVENTS];
    struct {
        bool lives;
        int legacy; /* lane; those of the threads follow */
    } contexts[1 + CONTEXTS];
    struct {
        bool lives;
        int mode;
    } threads[1 + THREADS];
    struct {
        int lane, opener; /* NOBODY: no gate is closed */
        unsigned from;    /* work of the lane from here on waits */
        unsigned number;
    } gate;
    struct {
        unsigned number; /* of groups so far */
        int owner;       /* thread whose calls are made; NOBODY: no group */
        int lane_count;
        struct lane lanes[LANES]; /* when the group began */
    } group;
};
extern struct model model;

#define LANE(i)   (&model.plan->lanes[i])
#define OBJECT(i) (&model.plan->objects[i])
#define GRAPH(i)  (&model.plan->graphs[i])

/* Random numbers of this step. */
void step_begins(unsigned step);
unsigned below(unsigned n);
bool chance(unsigned percent);
uint32_t any_value(void);

/* Appends the call, with a thread that may make it, and before it whatever has to end. */
struct call *emit(struct call call);
#define EMIT(...) emit((struct call){__VA_ARGS__})

int add_lane(enum lane_kind kind, int context, int thread, bool blocking);
void add_context(int context);
bool usable(int lane);     /* takes work */
bool is_open(int context); /* lives */
bool captures_in(int context);
void end_capture(int graph);
void open_gate(void);
bool waits_for_gate(const unsigned *knows);
/* A thread whose calls of some kinds are refused and break captures now; NOBODY: none. */
int forbidden_thread(void);
void break_captures(int thread);

/* The work ordered before what is submitted to the lane now; NOBODY: before what the host does. */
void knowledge(int lane, unsigned *knows);
void learn(unsigned *knows, const unsigned *more);
bool host_knows(const unsigned *knows);
/* A lane whose work on the object must be ordered before and is not; NOBODY: none. */
int conflict(const unsigned *knows, int object, bool write);
/* Work of the lane on the objects, behind everything that it is ordered after. */
void submit(int lane, int to, int from);
void context_done(int context);
/* What is certain of a lane's work; in a group and of another thread's lane: what was before. NULL: nothing. */
const unsigned *certain(int lane);
void begin_group(void);
void end_group(void);
/* Brings what such work needs. */
void order(int lane, int to, int from);
/* The same for work that begins before the work ahead of it in its lane has ended. */
void order_early(int to, int from);
void order_graph(int lane, const struct graph *graph);
void free_object(int object);
void record(int lane, int event);
void synchronize(int lane);
int event_of(int context); /* any */

uint32_t *copy_words(const uint32_t *words);
int new_object(enum kind kind, int context, size_t size);
bool on_host(const struct object *object);
bool on_device(const struct object *object);
extern const size_t sizes[3];

#endif

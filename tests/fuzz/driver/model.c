#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct model model;
const size_t sizes[3] = {4096, (size_t)1 << 20, (size_t)24 << 20};

/* ---- random numbers */

static uint64_t random_state;

static uint64_t scrambled(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void step_begins(unsigned step) {
    model.step = step;
    random_state = scrambled(model.choice.seed * 0x9e3779b97f4a7c15u + scrambled(step + 1u));
}

static uint64_t next_random(void) { return scrambled(random_state += 0x9e3779b97f4a7c15u); }
unsigned below(unsigned n) { return (unsigned)(next_random() >> 20) % n; }
bool chance(unsigned percent) { return below(100) < percent; }
uint32_t any_value(void) { return (uint32_t)next_random(); }

/* ---- calls */

/* Refused while a capture forbids it, and then it ends the capture. */
static bool is_unsafe(const struct call *call) {
    if (call->graph && call->kind != GRAPH_LAUNCH && call->kind < COPY_UP && call->kind >= SET)
        return false; /* captured */
    switch (call->kind) {
    case SET:  /* these may be */
    case COPY: /* synchronous */
    case ALLOC:
    case ALLOC_ASYNC: /* its pool may grow */
    case FREE_ASYNC:
    case FREE:
    case CALLBACK:
    case COPY_DOWN:
    case COPY_UP:
    case EVENT_SYNCHRONIZE:
    case EVENT_POLL:
    case EVENT_QUERY:
    case STREAM_SYNCHRONIZE:
    case STREAM_QUERY:
    case CONTEXT_SYNCHRONIZE:
    case NEW_CONTEXT:
    case DESTROY_CONTEXT:
    case NEW_STREAM:
    case DESTROY_STREAM:
    case MAKE_GRAPH:
    case DESTROY_GRAPH:
    case GRAPH_LAUNCH: /* may be the first, which makes it ready */
    case ELAPSED:
    case HAND_EVENT:
    case FURTHER: return true;
    default: return false;
    }
}

/* May be made while a stream waits at a gate: it never waits for that stream, on no driver. */
static bool passes_gate(const struct call *call) {
    switch (call->kind) {
    case SET:
    case KERNEL:
    case RECORD:
    case WAIT:
    case EVENT_QUERY:
    case STREAM_QUERY:
    case HOST_READ:
    case PEEK:
    case GATE_OPEN: return true;
    default: return false;
    }
}

static bool forbids(const struct graph *graph, int thread) {
    int mode = model.threads[thread].mode;
    if (graph->capture == NOBODY || graph->mode == RELAXED_MODE || mode == RELAXED_MODE)
        return false;
    return graph->thread == thread || (mode == GLOBAL_MODE && graph->mode == GLOBAL_MODE);
}

static bool thread_may(int thread) {
    for (int i = 1; i < model.plan->graph_count; i++)
        if (forbids(GRAPH(i), thread))
            return false;
    return true;
}

int forbidden_thread(void) {
    for (int i = 1; i <= THREADS; i++)
        if (model.threads[i].lives && !thread_may(i))
            return i;
    return NOBODY;
}

void break_captures(int thread) {
    for (int i = 1; i < model.plan->graph_count; i++)
        GRAPH(i)->broken |= forbids(GRAPH(i), thread);
}

static int any_thread(bool unsafe) {
    if (model.group.owner)
        return model.group.owner;
    int first = (int)below(THREADS);
    for (int i = 0; i < THREADS; i++) {
        int thread = 1 + (first + i) % THREADS;
        if (model.threads[thread].lives && (!unsafe || thread_may(thread)))
            return thread;
    }
    return NOBODY;
}

static bool end_some_capture(void) {
    for (int i = 1; i < model.plan->graph_count; i++)
        if (GRAPH(i)->capture != NOBODY) {
            end_capture(i);
            return true;
        }
    return false;
}

static void end_captures_in(int context, bool all) {
    for (int i = 1; i < model.plan->graph_count; i++)
        if (GRAPH(i)->capture != NOBODY && GRAPH(i)->context == context && (all || LANE(GRAPH(i)->capture)->blocking))
            end_capture(i);
}

static void make_way(const struct call *call) {
    if (model.gate.lane != NOBODY && !passes_gate(call))
        open_gate();
    if (call->kind == CONTEXT_SYNCHRONIZE || call->kind == DESTROY_CONTEXT)
        end_captures_in(call->context, true);
    if (call->lane != NOBODY && LANE(call->lane)->kind == LEGACY)
        end_captures_in(LANE(call->lane)->context, false);
}

struct call *emit(struct call call) {
    struct plan *plan = model.plan;
    bool refused = call.result == STREAM_CAPTURE_UNSUPPORTED, unsafe = is_unsafe(&call) && !refused;
    if (!refused)
        make_way(&call);
    if (call.lane != NOBODY) {
        if (call.context == NOBODY)
            call.context = LANE(call.lane)->context;
        if (LANE(call.lane)->kind == OF_THREAD)
            call.thread = LANE(call.lane)->thread;
    }
    if (call.context == NOBODY)
        call.context = MAIN;
    if (call.thread != NOBODY)
        while (unsafe && !thread_may(call.thread) && end_some_capture())
            ;
    while (call.thread == NOBODY)
        if ((call.thread = any_thread(unsafe)) == NOBODY && !end_some_capture())
            abort();
    call.step = model.step;
    call.variant = any_value();
    call.group = model.group.owner ? model.group.number : 0;
    if (plan->count == plan->room) {
        plan->room = plan->room ? plan->room * 2 : 256;
        plan->calls = realloc(plan->calls, plan->room * sizeof *plan->calls);
        if (!plan->calls)
            abort();
    }
    plan->calls[plan->count] = call;
    return &plan->calls[plan->count++];
}

uint32_t *copy_words(const uint32_t *words) {
    uint32_t *copy = malloc(BYTES);
    if (!copy)
        abort();
    return memcpy(copy, words, BYTES);
}

/* ---- what lives */

int add_lane(enum lane_kind kind, int context, int thread, bool blocking) {
    if (model.plan->lane_count == LANES)
        return NOBODY;
    struct lane *lane = LANE(model.plan->lane_count);
    *lane = (struct lane){.kind = kind,
                          .owner = model.group.owner,
                          .context = context,
                          .thread = thread,
                          .lives = true,
                          .blocking = blocking,
                          .capture = NOBODY};
    memcpy(lane->knows, model.host, sizeof lane->knows);
    return model.plan->lane_count++;
}

void add_context(int context) {
    model.contexts[context].lives = true;
    model.contexts[context].legacy = add_lane(LEGACY, context, NOBODY, false);
    for (int thread = 1; thread <= THREADS; thread++)
        add_lane(OF_THREAD, context, thread, true);
}

bool is_open(int context) { return model.contexts[context].lives; }

bool usable(int lane) {
    const struct lane *l = LANE(lane);
    if (!l->lives || l->capture != NOBODY || lane == model.gate.opener)
        return false;
    if (l->kind == LEGACY && !model.may.legacy)
        return false;
    if (model.group.owner && (l->owner != model.group.owner || l->kind == LEGACY))
        return false;
    return l->kind != OF_THREAD || (model.threads[l->thread].lives && model.step >= model.may.per_thread);
}

bool captures_in(int context) {
    for (int i = 1; i < model.plan->graph_count; i++)
        if (GRAPH(i)->capture != NOBODY && GRAPH(i)->context == context)
            return true;
    return false;
}

void end_capture(int graph) {
    int lane = GRAPH(graph)->capture, mode = GRAPH(graph)->mode;
    GRAPH(graph)->capture = NOBODY;
    LANE(lane)->capture = NOBODY;
    emit((struct call){.kind = END_CAPTURE,
                       .thread = mode == RELAXED_MODE ? NOBODY : GRAPH(graph)->thread,
                       .lane = lane,
                       .graph = graph,
                       .result = GRAPH(graph)->broken ? STREAM_CAPTURE_INVALIDATED : 0});
    if (GRAPH(graph)->broken)
        GRAPH(graph)->lives = false;
}

int new_object(enum kind kind, int context, size_t size) {
    if (model.plan->object_count == OBJECTS)
        return NOBODY;
    *OBJECT(model.plan->object_count) =
        (struct object){.kind = kind, .made = kind, .context = context, .size = size, .owner = model.group.owner};
    return model.plan->object_count++;
}

bool on_host(const struct object *object) { return object->kind >= PINNED; }
bool on_device(const struct object *object) { return object->kind != NONE && object->kind != PLAIN && !object->closed; }

/* ---- which work is ordered before which */

void learn(unsigned *knows, const unsigned *more) {
    for (int i = 0; i < LANES; i++)
        knows[i] = knows[i] > more[i] ? knows[i] : more[i];
}

bool host_knows(const unsigned *knows) {
    for (int i = 0; i < LANES; i++)
        if (model.host[i] < knows[i])
            return false;
    return true;
}

void knowledge(int lane, unsigned *knows) {
    memcpy(knows, model.host, sizeof model.host);
    if (lane == NOBODY)
        return;
    const struct lane *own = LANE(lane);
    int legacy = model.contexts[own->context].legacy;
    learn(knows, own->knows);
    for (int i = 1; lane == legacy && i < model.plan->lane_count; i++)
        if (LANE(i)->lives && LANE(i)->context == own->context && LANE(i)->blocking)
            learn(knows, LANE(i)->knows);
    if (own->blocking)
        learn(knows, LANE(legacy)->knows);
}

int conflict(const unsigned *knows, int number, bool write) {
    const struct object *object = number == NOBODY ? NULL : OBJECT(number);
    if (object && object->writer != NOBODY && knows[object->writer] < object->written)
        return object->writer;
    for (int i = 0; object && write && i < LANES; i++)
        if (knows[i] < object->read[i])
            return i;
    return NOBODY;
}

void submit(int lane, int to, int from) {
    unsigned knows[LANES];
    knowledge(lane, knows);
    unsigned number = ++knows[lane];
    memcpy(LANE(lane)->knows, knows, sizeof knows);
    if (to != NOBODY) {
        OBJECT(to)->writer = lane;
        OBJECT(to)->written = number;
        memset(OBJECT(to)->read, 0, sizeof OBJECT(to)->read); /* they were ordered before the writer */
    }
    if (from != NOBODY)
        OBJECT(from)->read[lane] = number;
}

const unsigned *certain(int lane) {
    if (!model.group.owner || LANE(lane)->owner == model.group.owner)
        return LANE(lane)->knows;
    return lane < model.group.lane_count ? model.group.lanes[lane].knows : NULL;
}

static void learn_context(unsigned *knows, int context) {
    for (int i = 1; i < model.plan->lane_count; i++)
        if (LANE(i)->context == context && certain(i))
            learn(knows, certain(i));
}

void context_done(int context) { learn_context(model.host, context); }

void begin_group(void) {
    model.group.number++;
    model.group.lane_count = model.plan->lane_count;
    memcpy(model.group.lanes, model.plan->lanes, sizeof model.group.lanes);
}

void end_group(void) {
    model.group.owner = NOBODY;
    for (int i = 1; i < model.plan->lane_count; i++)
        LANE(i)->owner = NOBODY;
    for (int i = 1; i < model.plan->object_count; i++)
        OBJECT(i)->owner = NOBODY;
}

/* ---- gates */

bool waits_for_gate(const unsigned *knows) {
    return model.gate.lane != NOBODY && knows[model.gate.lane] >= model.gate.from;
}

void open_gate(void) {
    int opener = model.gate.opener;
    model.gate.opener = NOBODY;
    submit(opener, NOBODY, NOBODY);
    EMIT(.kind = GATE_OPEN, .lane = opener, .value = model.gate.number);
    model.gate.lane = NOBODY;
}

/* ---- calls that bring order */

void record(int lane, int event) {
    if (lane == NOBODY)
        return;
    submit(lane, NOBODY, NOBODY);
    EMIT(.kind = RECORD, .lane = lane, .event = event);
    model.events[event].recorded = true;
    memcpy(model.events[event].knows, LANE(lane)->knows, sizeof LANE(lane)->knows);
}

void synchronize(int lane) {
    unsigned knows[LANES];
    EMIT(.kind = STREAM_SYNCHRONIZE, .lane = lane);
    knowledge(lane, knows);
    learn(model.host, LANE(lane)->kind == LEGACY ? knows : LANE(lane)->knows);
}

static bool any_lane(int context, int *lane) {
    *lane = 1 + (int)below((unsigned)model.plan->lane_count - 1);
    return usable(*lane) && LANE(*lane)->context == context;
}

static int any_device_memory(int context) {
    int number = 1 + (int)below((unsigned)model.plan->object_count);
    if (number == model.plan->object_count || OBJECT(number)->kind != DEVICE || OBJECT(number)->context != context ||
        OBJECT(number)->owner != model.group.owner)
        return NOBODY;
    return number;
}

/* The free waits for the context of the block, not for others. */
void free_object(int number) {
    struct object *object = OBJECT(number);
    unsigned knows[LANES];
    int other;
    do {
        memcpy(knows, model.host, sizeof knows);
        learn_context(knows, object->context);
        if ((other = conflict(knows, number, true)) != NOBODY)
            order(NOBODY, number, NOBODY);
    } while (other != NOBODY);
    EMIT(.kind = FREE, .to = number, .context = object->context);
    object->kind = NONE;
    context_done(object->context);
}

/* A free of memory that is not needed, used or unused. */
static void free_some(int context) {
    enum kind kind = model.may.managed && model.step >= model.may.late_kinds && chance(5) ? MANAGED
                     : chance(12)                                                         ? PITCHED
                                                                                          : DEVICE;
    int lane, scratch = new_object(kind, context, sizes[below(3)]);
    if (scratch == NOBODY)
        abort();
    EMIT(.kind = ALLOC, .to = scratch, .context = context);
    for (unsigned tries = below(4); tries > 0; tries--)
        if (any_lane(context, &lane)) {
            /* What it leaves there is nobody's. */
            int from = chance(50) ? any_device_memory(context) : NOBODY;
            submit(lane, NOBODY, from);
            EMIT(.kind = from ? KERNEL : SET, .lane = lane, .to = scratch, .from = from, .value = below(1000));
            OBJECT(scratch)->read[lane] = LANE(lane)->knows[lane];
        }
    free_object(scratch);
}

int event_of(int context) {
    return (context - 1) * EVENTS + (model.group.owner ? model.group.owner : 1 + (int)below(EVENTS));
}

/* Orders the work submitted to `other` before later work of the lane (NOBODY: the host). */
static void bring_order(int lane, int other) {
    int context = LANE(other)->context, event = event_of(context);
    unsigned way = below(100);
    if (way < model.may.frees) {
        free_some(context);
    } else if (way % 10 < 5 && usable(other)) {
        record(other, event);
        if (lane != NOBODY) {
            EMIT(.kind = WAIT, .lane = lane, .event = event);
            submit(lane, NOBODY, NOBODY);
            learn(LANE(lane)->knows, model.events[event].knows);
            return;
        }
        EMIT(.kind = model.may.queries && chance(40) ? EVENT_POLL : EVENT_SYNCHRONIZE, .event = event,
             .context = context);
        learn(model.host, model.events[event].knows);
    } else if (way % 10 < 8 && usable(other)) {
        synchronize(other);
    } else {
        EMIT(.kind = CONTEXT_SYNCHRONIZE, .context = context);
        context_done(context);
    }
}

/* Waiting work of other lanes must not be needed while a gate is closed. */
void order(int lane, int to, int from) {
    unsigned knows[LANES];
    for (;;) {
        knowledge(lane, knows);
        int other = conflict(knows, to, true);
        if (other == NOBODY)
            other = conflict(knows, from, false);
        if (other == NOBODY)
            return;
        bring_order(lane, other);
    }
}

void order_early(int to, int from) { order(NOBODY, to, from); }

void order_graph(int lane, const struct graph *graph) {
    for (unsigned i = 0; i < graph->count; i++)
        order(lane, graph->nodes[i].to, graph->nodes[i].from);
}

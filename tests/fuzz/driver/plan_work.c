/* Memory, work on it, and looks at it. */
#include "steps.h"

#include <string.h>

static bool late(void) { return model.step >= model.may.late_kinds; }

/* ---- what to use */

int pick(bool (*suits)(const struct object *), int context) {
    int count = model.plan->object_count;
    for (int i = 0, first = (int)below((unsigned)count); i < count; i++) {
        int number = (first + i) % count;
        const struct object *object = OBJECT(number);
        if (number && object->kind != NONE && object->owner == model.group.owner && suits(object) &&
            (context == NOBODY || object->context == context))
            return number;
    }
    return NOBODY;
}

int pick_lane(int context) {
    int count = model.plan->lane_count;
    for (int i = 0, first = (int)below((unsigned)count); i < count; i++) {
        int lane = (first + i) % count;
        if (lane && usable(lane) && (context == NOBODY || LANE(lane)->context == context))
            return lane;
    }
    return NOBODY;
}

int pick_context(void) {
    int context = 1 + (int)below(CONTEXTS);
    return chance(50) && is_open(context) ? context : MAIN;
}

static bool is_full(void) {
    int count = 0;
    size_t bytes = 0;
    for (int i = 1; i < model.plan->object_count; i++)
        if (OBJECT(i)->kind != NONE) {
            count++;
            bytes += OBJECT(i)->size;
        }
    return count >= LIVING || bytes >= MOST_BYTES;
}

bool of_plain_device_memory(const struct object *object) { return object->kind == DEVICE; }
static bool is_freed_by_free(const struct object *object) {
    return object->kind == DEVICE || object->kind == PITCHED || object->kind == MANAGED;
}
bool is_for_host(const struct object *object) { return on_host(object) && !object->closed; }
static bool is_freed_host_memory(const struct object *object) {
    return object->kind == PINNED || object->kind == REGISTERED || object->kind == PLAIN;
}
bool is_hidden(const struct object *object) { return object->kind == VARIABLE && object->closed; }
static bool is_pooled(const struct object *object) { return object->kind == POOLED; }
static bool is_mapped(const struct object *object) { return object->kind == MAPPED && !object->closed; }
static bool is_closed(const struct object *object) { return object->kind == MAPPED && object->closed; }

/* ---- work */

void host_write(int number) {
    struct object *object = OBJECT(number);
    order(NOBODY, number, NOBODY);
    uint32_t value = any_value();
    for (int i = 0; i < WORDS; i++)
        object->have[i] = value + (uint32_t)i * 2654435761u;
    EMIT(.kind = HOST_WRITE, .to = number, .context = object->context, .want = copy_words(object->have));
}

void host_read(int number) {
    order(NOBODY, NOBODY, number);
    EMIT(.kind = HOST_READ, .from = number, .context = OBJECT(number)->context,
         .want = copy_words(OBJECT(number)->have));
}

/* What the work leaves behind when all work is done. */
void apply(const struct node *node) {
    struct object *to = OBJECT(node->to);
    uint32_t made[WORDS];
    if (node->kind == SET)
        for (int i = 0; i < WORDS; i++)
            made[i] = node->value;
    else if (node->kind == COPY)
        memcpy(made, OBJECT(node->from)->have, BYTES);
    else
        mix_words(made, OBJECT(node->from)->have, node->value);
    memcpy(to->have, made, BYTES);
}

void work(enum call_kind kind, int lane, int to, int from) {
    struct node node = {kind, to, from, any_value()};
    if (kind == EARLY_KERNEL)
        order_early(to, from);
    order(lane, to, from);
    submit(lane, to, from);
    apply(&node);
    EMIT(.kind = kind, .lane = lane, .to = to, .from = from, .value = node.value);
}

void copy_down(int from) {
    int lane = pick_lane(OBJECT(from)->context);
    if (lane == NOBODY)
        return;
    order(lane, NOBODY, from);
    submit(lane, NOBODY, from);
    EMIT(.kind = COPY_DOWN, .lane = lane, .from = from, .want = copy_words(OBJECT(from)->have));
    learn(model.host, LANE(lane)->knows);
}

/* From memory of the host that is overwritten right behind the call. */
static void copy_up(int to) {
    int lane = pick_lane(OBJECT(to)->context);
    uint32_t value = any_value();
    if (lane == NOBODY)
        return;
    order(lane, to, NOBODY);
    submit(lane, to, NOBODY);
    for (int i = 0; i < WORDS; i++)
        OBJECT(to)->have[i] = value * 17 + (uint32_t)i;
    EMIT(.kind = COPY_UP, .lane = lane, .to = to, .want = copy_words(OBJECT(to)->have));
}

int allocate(enum kind kind, int context) {
    int lane = pick_lane(context), number;
    if (lane == NOBODY || (number = new_object(kind, context, kind >= PINNED ? BYTES : sizes[below(3)])) == NOBODY)
        return NOBODY;
    if (kind == POOLED) {
        submit(lane, number, NOBODY);
        EMIT(.kind = ALLOC_ASYNC, .lane = lane, .to = number);
    } else {
        EMIT(.kind = ALLOC, .to = number, .context = context);
    }
    if (kind == PLAIN || (kind >= PINNED && chance(50)))
        host_write(number);
    else
        work(SET, chance(50) ? lane : pick_lane(context), number, NOBODY);
    return number;
}

void allocate_any(void) {
    struct may *may = &model.may;
    int context = pick_context();
    enum kind kind = chance(8) ? PITCHED : DEVICE;
    if (is_full())
        return;
    if (may->pools && chance(30))
        kind = POOLED;
    if (may->maps && chance(25))
        kind = MAPPED;
    if (late() && context == MAIN && chance(40)) {
        unsigned what = below(4);
        if (what == 0 && may->managed)
            kind = MANAGED;
        if (what == 1 && may->plain)
            kind = PLAIN;
        if (what > 1 && may->pinned)
            kind = chance(60) ? PINNED : REGISTERED;
    }
    allocate(kind, kind == MAPPED || kind == MANAGED ? MAIN : context);
}

void destroy_graph(int number) {
    struct graph *graph = GRAPH(number);
    if (graph->capture != NOBODY)
        end_capture(number);
    if (graph->lives)
        EMIT(.kind = DESTROY_GRAPH, .graph = number, .context = graph->context);
    graph->lives = false;
}

static void forget_graphs_of(int number) {
    for (int i = 1; i < model.plan->graph_count; i++) {
        struct graph *graph = GRAPH(i);
        for (unsigned k = 0; graph->lives && k < graph->count; k++)
            if (graph->nodes[k].to == number || graph->nodes[k].from == number) {
                destroy_graph(i);
            }
    }
}

void free_any(void) {
    int number = pick(is_freed_by_free, NOBODY), lane;
    if (model.may.pools && chance(30) && (number = pick(is_pooled, NOBODY)) != NOBODY) {
        if ((lane = pick_lane(OBJECT(number)->context)) == NOBODY)
            return;
        order(lane, number, NOBODY);
        submit(lane, NOBODY, NOBODY);
        EMIT(.kind = FREE_ASYNC, .lane = lane, .to = number);
        OBJECT(number)->kind = NONE;
    } else if (model.may.maps && chance(40) && (number = pick(is_mapped, NOBODY)) != NOBODY) {
        order(NOBODY, number, NOBODY);
        EMIT(.kind = FREE, .to = number, .context = OBJECT(number)->context);
        OBJECT(number)->kind = NONE;
    } else if (chance(10) && (number = pick(is_freed_host_memory, NOBODY)) != NOBODY) {
        forget_graphs_of(number);
        order(NOBODY, number, NOBODY);
        EMIT(.kind = FREE, .to = number, .context = OBJECT(number)->context);
        OBJECT(number)->kind = NONE;
    } else if (number != NOBODY && OBJECT(number)->kind != NONE && is_freed_by_free(OBJECT(number))) {
        forget_graphs_of(number);
        free_object(number);
    }
}

void close_or_open(void) {
    int number = pick(is_closed, NOBODY);
    if (number != NOBODY) {
        EMIT(.kind = OPEN, .to = number, .context = MAIN);
        OBJECT(number)->closed = false;
    } else if ((number = pick(is_mapped, NOBODY)) != NOBODY) {
        order(NOBODY, number, NOBODY);
        EMIT(.kind = CLOSE, .to = number, .context = MAIN);
        OBJECT(number)->closed = true;
    }
}

/* A kernel that knows where the variable is; from[]: words of memory. */
static void publish(int lane, int from) {
    for (int i = 1; i < model.plan->object_count; i++)
        if (OBJECT(i)->kind == VARIABLE && OBJECT(i)->owner == model.group.owner)
            work(PUBLISH, lane, i, from);
}

/* The second one may begin before the first one has ended. */
static void two_kernels(int lane, int to, int from) {
    int third = pick(on_device, OBJECT(to)->context);
    work(model.may.early && chance(30) ? EARLY_KERNEL : KERNEL, lane, to, from);
    if (model.may.early && third && third != to && usable(lane))
        work(EARLY_KERNEL, lane, third, to);
}

void work_any(void) {
    bool for_host = model.may.functions && late() && chance(25);
    int to = pick(for_host ? is_for_host : on_device, NOBODY), from, lane;
    unsigned what = below(100);
    if (to == NOBODY || (lane = pick_lane(OBJECT(to)->context)) == NOBODY)
        return;
    if (model.may.variable && chance(10) && OBJECT(to)->context == MAIN && !for_host) {
        publish(lane, to);
    } else if (for_host) {
        if ((from = pick(is_for_host, OBJECT(to)->context)) != NOBODY)
            work(chance(25) ? CALLBACK : HOST_FUNCTION, lane, to, from);
    } else if (what < 20) {
        work(SET, lane, to, NOBODY);
    } else if (what < 60) {
        if ((from = pick(on_device, OBJECT(to)->context)) != NOBODY && from != to)
            two_kernels(lane, to, from);
    } else if (what < 90) {
        bool far = OBJECT(to)->kind == DEVICE && chance(30);
        from = far ? pick(of_plain_device_memory, NOBODY) : pick(on_device, OBJECT(to)->context);
        if (from == NOBODY || from == to)
            return;
        if (chance(50) && (lane = pick_lane(OBJECT(from)->context)) == NOBODY)
            return;
        work(COPY, lane, to, from);
    } else {
        copy_up(to);
    }
}

/* ---- looks */

static int query_result(const unsigned *knows) {
    return waits_for_gate(knows) ? NOT_READY : host_knows(knows) ? 0 : UNDETERMINED;
}

void query(void) {
    int lane = pick_lane(NOBODY), event = event_of(1 + (int)below(CONTEXTS)), result;
    unsigned knows[LANES];
    if (lane && chance(50)) {
        knowledge(lane, knows);
        result = query_result(knows);
        if (result == NOT_READY && !waits_for_gate(LANE(lane)->knows))
            result = UNDETERMINED; /* the streams that the legacy default stream waits for may not count */
        EMIT(.kind = STREAM_QUERY, .lane = lane, .result = result);
    } else if (is_open((event - 1) / EVENTS + 1) && model.events[event].recorded) {
        EMIT(.kind = EVENT_QUERY, .event = event, .context = (event - 1) / EVENTS + 1,
             .result = query_result(model.events[event].knows));
    }
}

/* What another process sees of an event. */
static void peek(void) {
    const struct event *event = &model.events[EVENTS];
    if (!event->recorded || model.group.owner)
        return;
    int result = query_result(event->knows);
    if (!model.handed && !model.gate.lane && chance(50)) {
        EMIT(.kind = HAND_EVENT, .event = EVENTS, .context = MAIN);
        model.handed = true;
    }
    if (model.handed && result != UNDETERMINED)
        EMIT(.kind = PEEK, .event = EVENTS, .context = MAIN, .result = result);
}

static void elapsed(void) {
    int first = event_of(MAIN), second = event_of(MAIN);
    if (first == EVENTS || second == EVENTS || !model.events[first].recorded || !model.events[second].recorded)
        return;
    for (int i = 0; i < 2; i++) {
        int event = i ? second : first;
        for (int lane = 1; !host_knows(model.events[event].knows) && lane < model.plan->lane_count; lane++) {
            /* Any use of the work that the event stands for brings its order. */
            if (model.host[lane] >= model.events[event].knows[lane])
                continue;
            int probe = new_object(NONE, LANE(lane)->context, BYTES);
            if (probe == NOBODY)
                return;
            OBJECT(probe)->writer = lane;
            OBJECT(probe)->written = model.events[event].knows[lane];
            order(NOBODY, NOBODY, probe);
        }
    }
    /* What brought the order may have recorded an event again. */
    if (host_knows(model.events[first].knows) && host_knows(model.events[second].knows))
        EMIT(.kind = ELAPSED, .event = first, .value = (uint32_t)second, .context = MAIN);
}

/* The program learns where the variable is, and reads it. */
void look_up(int number) {
    order(NOBODY, NOBODY, number);
    EMIT(.kind = LOOK_UP, .to = number, .context = MAIN);
    OBJECT(number)->closed = false;
    host_read(number);
}

void look(void) {
    int number;
    if (model.may.processes && chance(30))
        peek();
    else if (model.may.queries && chance(40))
        query();
    else if (model.may.queries && chance(15))
        elapsed();
    else if (model.may.variable && chance(10) && (number = pick(is_hidden, NOBODY)) != NOBODY)
        look_up(number);
    else if ((number = pick(is_for_host, NOBODY)) != NOBODY && chance(70))
        host_read(number);
    else if ((number = pick(on_device, NOBODY)) != NOBODY)
        copy_down(number);
}

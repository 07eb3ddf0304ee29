/* Streams, threads, contexts, captures and graphs. */
#include "steps.h"

#include <stdlib.h>

/* ---- streams, threads, contexts */

int new_stream(int context, bool blocking) {
    int lane = add_lane(CREATED, context, NOBODY, blocking);
    if (lane != NOBODY)
        EMIT(.kind = NEW_STREAM, .lane = lane, .value = blocking);
    return lane;
}

void destroy_stream(void) {
    int lane = pick_lane(NOBODY);
    if (chance(20)) { /* fails */
        EMIT(.kind = DESTROY_STREAM, .context = MAIN, .result = UNDETERMINED);
    } else if (LANE(lane)->kind == CREATED) {
        EMIT(.kind = DESTROY_STREAM, .lane = lane);
        LANE(lane)->lives = false;
    }
}

void change_threads(void) {
    int thread = 1 + (int)below(THREADS), living_threads = 0;
    for (int i = 1; i <= THREADS; i++)
        living_threads += model.threads[i].lives;
    if (!model.threads[thread].lives) {
        model.threads[thread].lives = true;
        model.threads[thread].mode = GLOBAL_MODE;
        EMIT(.kind = NEW_THREAD, .thread = thread, .context = MAIN);
        return;
    }
    if (living_threads == 1)
        return;
    for (int i = 1; i < model.plan->graph_count; i++)
        if (GRAPH(i)->capture != NOBODY && GRAPH(i)->thread == thread)
            end_capture(i);
    /* On a card a thread with work in its stream did not end now and then, natively too, beside other processes. */
    for (int i = 1; model.choice.card && i < model.plan->lane_count; i++)
        if (LANE(i)->kind == OF_THREAD && LANE(i)->thread == thread && usable(i) && !host_knows(LANE(i)->knows))
            synchronize(i);
    EMIT(.kind = END_THREAD, .thread = thread, .context = MAIN);
    model.threads[thread].lives = false;
    for (int i = 1; i <= CONTEXTS; i++)
        if (is_open(i))
            LANE(model.contexts[i].legacy + thread)->lives = false;
}

void change_mode(void) {
    int thread = 1 + (int)below(THREADS);
    if (!model.threads[thread].lives)
        return;
    model.threads[thread].mode = chance(60) ? RELAXED_MODE : (int)below(3);
    EMIT(.kind = MODE, .thread = thread, .context = MAIN, .value = (uint32_t)model.threads[thread].mode);
}

void change_contexts(void) {
    int context = SECOND + (int)below(CONTEXTS - 1);
    if (!(context == SECOND ? model.may.second_context : model.may.second_device))
        return;
    if (!model.contexts[context].lives) {
        if (model.plan->lane_count + THREADS + 1 > LANES)
            return;
        EMIT(.kind = NEW_CONTEXT, .context = context);
        add_context(context);
        for (unsigned count = below(3) + !model.may.legacy; count > 0; count--)
            new_stream(context, chance(30));
        return;
    }
    if (context != SECOND || !model.may.ends_contexts || !chance(40))
        return;
    for (int i = 1; i < model.plan->graph_count; i++)
        if (GRAPH(i)->lives && GRAPH(i)->context == context) {
            destroy_graph(i);
        }
    /* Its memory goes with it, so nobody may use it any more, and its own work is done. */
    for (int i = 1; i < model.plan->object_count; i++)
        if (OBJECT(i)->kind != NONE && OBJECT(i)->context == context) {
            order(NOBODY, i, NOBODY);
            OBJECT(i)->kind = NONE;
        }
    int last = allocate(DEVICE, context);
    if (last == NOBODY)
        return;
    free_object(last);
    EMIT(.kind = DESTROY_CONTEXT, .context = context);
    model.contexts[context].lives = false;
    for (int i = 1; i < model.plan->lane_count; i++)
        if (LANE(i)->context == context)
            LANE(i)->lives = false;
    for (int i = 0; i < EVENTS; i++)
        model.events[(context - 1) * EVENTS + 1 + i].recorded = false;
}

/* ---- graphs */

static bool takes_part_in_graphs(const struct object *object) {
    return object->kind == DEVICE || object->kind == PINNED || object->kind == PLAIN || object->kind == PITCHED;
}

static bool make_node(int context, struct node *node) {
    int to = pick(takes_part_in_graphs, context), from = pick(takes_part_in_graphs, context);
    if (to == NOBODY || from == NOBODY)
        return false;
    bool hosts = on_host(OBJECT(to)) && on_host(OBJECT(from));
    bool device = OBJECT(to)->kind != PLAIN && OBJECT(from)->kind != PLAIN;
    *node = (struct node){SET, to, NOBODY, any_value()};
    if (hosts && model.may.functions) {
        node->kind = HOST_FUNCTION;
        node->from = from;
    } else if (to != from && device && chance(50)) {
        node->kind = KERNEL;
        node->from = from;
    } else if (to != from && !hosts) {
        node->kind = COPY;
        node->from = from;
    } else if (OBJECT(to)->kind == PLAIN) {
        return false;
    }
    return true;
}

static int new_graph(int context) {
    if (model.plan->graph_count == GRAPHS)
        return NOBODY;
    *GRAPH(model.plan->graph_count) = (struct graph){.lives = true, .context = context, .capture = NOBODY};
    return model.plan->graph_count++;
}

static void begin_capture(void) {
    int lane = pick_lane(NOBODY), graph;
    const struct lane *l = LANE(lane);
    if (l->kind != CREATED || (l->blocking && !model.may.blocking_captures) ||
        (graph = new_graph(l->context)) == NOBODY)
        return;
    struct call *call =
        EMIT(.kind = BEGIN_CAPTURE, .lane = lane, .graph = graph, .value = chance(50) ? RELAXED_MODE : below(3));
    GRAPH(graph)->capture = lane;
    GRAPH(graph)->mode = (int)call->value;
    GRAPH(graph)->thread = call->thread;
    LANE(lane)->capture = graph;
}

/* Gives something to a capture, or ends it. */
static void go_on_capturing(int number) {
    struct graph *graph = GRAPH(number);
    struct node node;
    if (graph->broken || graph->count == NODES || chance(25) || !make_node(graph->context, &node)) {
        end_capture(number);
        return;
    }
    struct call call = {.kind = node.kind,
                        .lane = graph->capture,
                        .graph = number,
                        .to = node.to,
                        .from = node.from,
                        .value = node.value};
    emit(call);
    if (graph->capture == NOBODY) /* it had to end first */
        abort();
    graph->nodes[graph->count++] = node;
}

/* A call that captures forbid: it fails, and breaks them. */
static void break_capture(void) {
    int thread = forbidden_thread(), number = pick(of_plain_device_memory, MAIN);
    if (!thread || !number)
        return;
    if (chance(50)) {
        EMIT(.kind = FREE, .to = number, .thread = thread, .context = MAIN, .result = STREAM_CAPTURE_UNSUPPORTED);
    } else {
        number = new_object(DEVICE, MAIN, sizes[below(3)]);
        OBJECT(number)->kind = NONE;
        EMIT(.kind = ALLOC, .to = number, .thread = thread, .context = MAIN, .result = STREAM_CAPTURE_UNSUPPORTED);
    }
    break_captures(thread);
}

static void launch_graph(int number) {
    struct graph *graph = GRAPH(number);
    int lane = pick_lane(graph->context);
    if (lane == NOBODY)
        return;
    order_graph(lane, graph);
    for (unsigned i = 0; i < graph->count; i++) {
        submit(lane, graph->nodes[i].to, graph->nodes[i].from);
        apply(&graph->nodes[i]);
    }
    EMIT(.kind = GRAPH_LAUNCH, .lane = lane, .graph = number);
}

void graphs_any(void) {
    int number = (int)below((unsigned)model.plan->graph_count);
    bool may_break = model.may.breaks && !model.gate.lane;
    if (number == NOBODY) {
        if (model.may.captures && chance(60)) {
            begin_capture();
        } else if (model.may.graphs && (number = new_graph(pick_context())) != NOBODY) {
            struct graph *graph = GRAPH(number);
            for (unsigned i = 0; i <= below(NODES); i++)
                graph->count += make_node(graph->context, &graph->nodes[graph->count]);
            EMIT(.kind = MAKE_GRAPH, .graph = number, .context = graph->context);
        }
    } else if (GRAPH(number)->capture != NOBODY && may_break && chance(20)) {
        break_capture();
    } else if (GRAPH(number)->capture != NOBODY) {
        go_on_capturing(number);
    } else if (GRAPH(number)->lives && chance(80)) {
        launch_graph(number);
    } else if (GRAPH(number)->lives) {
        destroy_graph(number);
    }
}

/* The random decisions of a plan. */
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME(name) #name,
const char *call_name(enum call_kind kind) {
    static const char *const names[] = {CALLS(NAME)};
    return names[kind];
}

const char *kind_name(enum kind kind) {
    static const char *const names[] = {KINDS(NAME)};
    return names[kind];
}

/* ---- gates: a stream that waits until the host lets it go on, by another stream */

static void close_gate(void) {
    int lane = pick_lane(MAIN);
    if (model.gate.lane != NOBODY || lane == NOBODY || LANE(lane)->kind == LEGACY)
        return;
    int opener = new_stream(MAIN, false);
    if (opener == NOBODY)
        return;
    submit(lane, NOBODY, NOBODY);
    model.plan->closes_gates = true;
    EMIT(.kind = GATE_CLOSE, .lane = lane, .value = ++model.gate.number);
    model.gate.lane = lane;
    model.gate.opener = opener;
    model.gate.from = LANE(lane)->knows[lane];
    for (unsigned i = 0; i < 1 + below(5); i++)
        chance(50) ? query() : work_any();
}

static uint32_t further_number(void) {
    return below(HARMLESS + (model.may.refused && !model.group.owner ? REFUSED : 0));
}

/* ---- threads that go on at once, each with streams and memory of its own */

static void share_out(void) {
    for (int i = 1; i < model.plan->lane_count; i++)
        LANE(i)->owner = LANE(i)->kind == OF_THREAD ? LANE(i)->thread : 1 + (int)below(THREADS);
    for (int i = 1; i < model.plan->object_count; i++)
        OBJECT(i)->owner = 1 + (int)below(THREADS);
}

static void go_on_alone(void) {
    unsigned what = below(100);
    if (what < 10)
        allocate_any();
    else if (what < 35)
        free_any();
    else if (what < 60)
        look();
    else if (what < 65 && model.may.queries && pick_lane(MAIN))
        record(pick_lane(MAIN), event_of(MAIN));
    else if (what < 70 && model.may.further)
        EMIT(.kind = FURTHER, .context = MAIN, .value = further_number());
    else
        work_any();
}

static void together(void) {
    unsigned before[LANES], after[LANES] = {0};
    int count = 0;
    if (model.gate.lane)
        open_gate();
    for (int i = 1; i < model.plan->graph_count; i++)
        if (GRAPH(i)->capture)
            end_capture(i);
    for (int i = 1; i <= THREADS; i++)
        count += model.threads[i].lives;
    if (count < 2 || model.plan->lane_count + THREADS > LANES)
        return;
    memcpy(before, model.host, sizeof before);
    share_out();
    for (int i = 1; i <= THREADS; i++) {
        int lane = new_stream(MAIN, false);
        LANE(lane)->owner = i;
    }
    begin_group();
    for (int i = 1; i <= THREADS; i++) {
        if (!model.threads[i].lives)
            continue;
        memcpy(model.host, before, sizeof before);
        model.group.owner = i;
        for (unsigned steps = 2 + below(6); steps > 0; steps--)
            go_on_alone();
        learn(after, model.host);
    }
    end_group();
    learn(model.host, after);
}

/* ---- programs */

static void one_step(void) {
    unsigned what = below(100), rare = below(100);
    const struct may *may = &model.may;
    if (may->more_streams && below(may->more_streams) == 0)
        new_stream(pick_context(), chance(30));
    if (may->together && chance(8))
        together();
    if (model.step >= may->contexts_at && below(12) == 0)
        change_contexts();
    if (may->ends_streams && rare < 6)
        destroy_stream();
    else if (may->ends_threads && rare < 8)
        change_threads();
    else if (may->captures && rare < 11)
        change_mode();
    else if (may->gates && rare < 14)
        close_gate();
    else if (may->further && rare < 28)
        EMIT(.kind = FURTHER, .context = pick_context(), .value = further_number());
    if (what < 12)
        allocate_any();
    else if (what < 22)
        free_any();
    else if (what < 26 && pick(is_for_host, NOBODY) != NOBODY)
        host_write(pick(is_for_host, NOBODY));
    else if (what < 30 && may->maps && may->closes)
        close_or_open();
    else if (what < 45)
        look();
    else if (what < 50 && (may->queries || may->processes)) {
        int lane = pick_lane(may->processes ? MAIN : NOBODY);
        record(lane, may->processes && chance(40) ? EVENTS : event_of(LANE(lane)->context));
    } else if (what < 65 && (may->graphs || may->captures))
        graphs_any();
    else
        work_any();
}

/* A kernel that ends its context. The next calls that wait for it say so, and all others behind them. */
static void fault(void) {
    int lane = pick_lane(MAIN), number = pick(of_plain_device_memory, MAIN), other = new_object(DEVICE, MAIN, BYTES);
    OBJECT(other)->kind = NONE;
    if (!lane || !number || !other)
        return;
    model.plan->faults = true;
    submit(lane, NOBODY, NOBODY);
    EMIT(.kind = FAULT, .lane = lane);
    EMIT(.kind = FREE, .to = number, .context = MAIN, .result = ILLEGAL_ADDRESS);
    EMIT(.kind = ALLOC, .to = other, .context = MAIN, .result = ILLEGAL_ADDRESS);
    EMIT(.kind = CONTEXT_SYNCHRONIZE, .context = MAIN, .result = ILLEGAL_ADDRESS);
}

static void check_all(void) {
    if (model.gate.lane != NOBODY)
        open_gate();
    for (int i = 1; i < model.plan->graph_count; i++)
        if (GRAPH(i)->capture != NOBODY)
            end_capture(i);
    if (model.may.faults)
        fault();
    if (model.plan->faults)
        return;
    for (int context = 1; context <= CONTEXTS; context++)
        if (is_open(context)) {
            EMIT(.kind = CONTEXT_SYNCHRONIZE, .context = context);
            context_done(context);
        }
    for (int i = 1; i < model.plan->object_count; i++) {
        if (is_hidden(OBJECT(i)))
            look_up(i);
        else if (OBJECT(i)->kind != NONE && on_host(OBJECT(i)))
            host_read(i);
        else if (OBJECT(i)->kind != NONE && !OBJECT(i)->closed)
            copy_down(i);
    }
}

/* ---- what a program may do */

static unsigned some_time(void) { return chance(40) ? 0 : below(model.choice.steps); }

#define LEAVE_OUT(name)                    \
    if (strstr(model.choice.lacks, #name)) \
        may->name = false;

static void choose(void) {
    struct may *may = &model.may;
    bool visible = !model.choice.device_only, quiet = chance(40); /* nothing makes every free wait */
    may->threads = 1 + (int)below(THREADS);
    may->second_context = visible && !quiet && chance(25);
    may->second_device = visible && !quiet && chance(25) && model.choice.devices > 1;
    may->ends_contexts = chance(50);
    may->contexts_at = some_time();
    may->pinned = visible && !quiet && chance(40);
    may->managed = visible && !quiet && chance(25);
    may->plain = visible && chance(30);
    may->functions = visible && !quiet && chance(30);
    may->late_kinds = some_time();
    may->queries = visible && chance(40);
    may->early = visible && chance(25);
    may->gates = visible && chance(15);
    may->maps = visible && chance(25);
    may->closes = chance(60);
    may->variable = visible && !quiet && chance(15);
    may->together = chance(25);
    may->processes = visible && !model.choice.card && chance(15);
    may->refused = chance(50);
    may->breaks = chance(40);
    may->faults = visible && chance(10);
    may->pools = chance(40);
    may->graphs = chance(30);
    may->captures = chance(25);
    may->blocking_captures = !model.choice.card && chance(30);
    may->ends_threads = chance(20);
    may->ends_streams = chance(30);
    may->further = visible && chance(50);
    if (model.choice.lacks) {
        FEATURES(LEAVE_OUT)
    }
    may->legacy = chance(65);
    may->frees = 70 + below(31);
    may->more_streams = chance(70) ? 5 + below(60) : 0;
    may->per_thread = chance(30) ? below(model.choice.steps) : STEPS;
}

struct plan *plan_make(const struct choice *choice) {
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        abort();
    model.choice = *choice;
    model.plan = plan;
    model.gate.lane = model.gate.opener = NOBODY;
    step_begins(0);
    choose();
    for (int i = 1; i <= model.may.threads; i++)
        model.threads[i].lives = true;
    plan->lane_count = plan->object_count = plan->graph_count = 1;
    add_context(MAIN);
    if (!model.may.legacy || chance(60))
        new_stream(MAIN, chance(30));
    for (int i = 0; i < 4; i++)
        allocate(DEVICE, MAIN);
    if (model.may.variable)
        OBJECT(new_object(VARIABLE, MAIN, BYTES))->closed = plan->publishes = true;
    for (unsigned step = 1; step <= choice->steps; step++) {
        step_begins(step);
        if (!choice->left_out || !choice->left_out[step])
            one_step();
    }
    step_begins(choice->steps + 1);
    check_all();
    plan->devices = model.contexts[OTHER_DEVICE].legacy ? 2 : 1;
    return plan;
}

void plan_print(const struct plan *plan) {
    for (size_t i = 0; i < plan->count; i++) {
        const struct call *call = &plan->calls[i];
        printf("%zu: step %u thread %d context %d %s", i, call->step, call->thread, call->context,
               call_name(call->kind));
        if (call->lane != NOBODY)
            printf(" stream %d", call->lane);
        if (call->event != NOBODY)
            printf(" event %d", call->event);
        if (call->graph != NOBODY)
            printf(" graph %d", call->graph);
        if (call->to != NOBODY)
            printf(" to %d", call->to);
        if (call->from != NOBODY)
            printf(" from %d", call->from);
        if (call->kind == MODE || call->kind == BEGIN_CAPTURE || call->kind == FURTHER)
            printf(" value %u", call->value);
        if (call->result > 0)
            printf(" returns %d", call->result);
        printf("%s\n", call->group ? " at once" : "");
    }
}

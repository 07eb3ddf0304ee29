/* Carries a plan out, call by call, and compares. */
#include "perform.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIME_LIMIT_S = 30, SHOWN = 5, GROUP = 512 };

struct world world;

/* ---- streams */

struct door_stream stream_of(const struct call *call) {
    const struct lane *lane = &world.plan->lanes[call->lane];
    bool bit = call->variant & 1;
    if (lane->kind == CREATED)
        return (struct door_stream){bit, world.streams[call->lane]};
    if (lane->kind == OF_THREAD)
        return (struct door_stream){bit, bit && call->variant & 2 ? NULL : CU_STREAM_PER_THREAD};
    if (call->variant & 2)
        return (struct door_stream){bit, CU_STREAM_LEGACY};
    return (struct door_stream){false, NULL};
}

static CUresult make_stream_call(const struct call *call) {
    uint32_t variant = call->variant;
    CUstream *stream = &world.streams[call->lane];
    unsigned flags = call->value ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
    if (call->kind == NEW_STREAM)
        return variant & 4 ? CALL(cuStreamCreate, stream, flags) : CALL(cuStreamCreateWithPriority, stream, flags, -1);
    if (!call->lane)
        return CALL(cuStreamDestroy_v2, NULL);
    return variant & 4 ? CALL(cuStreamDestroy, *stream) : CALL(cuStreamDestroy_v2, *stream);
}

/* ---- order and looks */

static CUresult poll_event(CUevent event, uint32_t variant) {
    CUresult result;
    do
        result = CALL(cuEventQuery, event);
    while (result == CUDA_ERROR_NOT_READY);
    return result;
}

static CUresult elapsed(CUevent first, CUevent second, uint32_t variant) {
    float ms;
    CUresult result = CALL(cuEventElapsedTime, &ms, first, second);
    return result;
}

/* As another process that opened the event's handle. */
static CUresult peek(CUevent event) {
    int (*is_complete)(void *) = (int (*)(void *))(uintptr_t)driver_symbol("simcuda_event_complete");
    return is_complete(event) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult make_order(const struct call *call) {
    uint32_t variant = call->variant;
    struct door_stream on = call->lane ? stream_of(call) : (struct door_stream){0};
    CUevent event = world.events[call->event];
    CUipcEventHandle handle;
    switch (call->kind) {
    case RECORD:
        return variant & 4 ? ON(cuEventRecord, event, on.handle) : ON(cuEventRecordWithFlags, event, on.handle, 0);
    case WAIT: return ON(cuStreamWaitEvent, on.handle, event, 0);
    case EVENT_SYNCHRONIZE: return CALL(cuEventSynchronize, event);
    case STREAM_SYNCHRONIZE: return ON(cuStreamSynchronize, on.handle);
    case CONTEXT_SYNCHRONIZE: return CALL(cuCtxSynchronize);
    case EVENT_POLL: return poll_event(event, variant);
    case EVENT_QUERY: return CALL(cuEventQuery, event);
    case STREAM_QUERY: return ON(cuStreamQuery, on.handle);
    case HAND_EVENT: return CALL(cuIpcGetEventHandle, &handle, event);
    case PEEK: return peek(event);
    case ELAPSED: return elapsed(event, world.events[call->value], variant);
    case GATE_CLOSE:
        return ON(cuStreamWaitValue32_v2, on.handle, world.gate + 4 * call->value, 1, CU_STREAM_WAIT_VALUE_EQ);
    default: return ON(cuStreamWriteValue32_v2, on.handle, world.gate + 4 * call->value, 1, 0);
    }
}

static CUresult change_mode(const struct call *call) {
    uint32_t variant = call->variant;
    CUstreamCaptureMode mode = (CUstreamCaptureMode)call->value;
    return CALL(cuThreadExchangeStreamCaptureMode, &mode);
}

static CUresult end_context(const struct call *call) {
    uint32_t variant = call->variant;
    CUcontext context = world.contexts[call->context];
    return variant & 4 ? CALL(cuCtxDestroy_v2, context) : CALL(cuCtxDestroy, context);
}

static CUresult look_up(const struct call *call) {
    uint32_t variant = call->variant;
    CUdeviceptr address;
    size_t size;
    CUresult result = CALL(cuModuleGetGlobal_v2, &address, &size, world.variable, "fuzz_variable");
    world.address[call->to] = (char *)(uintptr_t)address;
    return result;
}

CUresult make_call(const struct call *call, uint32_t *seen) {
    switch (call->kind) {
    case ALLOC:
    case ALLOC_ASYNC:
    case FREE:
    case FREE_ASYNC:
    case CLOSE:
    case OPEN: return make_memory_call(call);
    case SET:
    case COPY:
    case KERNEL:
    case EARLY_KERNEL:
    case HOST_FUNCTION:
    case CALLBACK:
    case COPY_UP:
    case PUBLISH:
    case FAULT:
    case COPY_DOWN: return make_work(call, seen);
    case LOOK_UP: return look_up(call);
    case HOST_READ: memcpy(seen, world.address[call->from], BYTES); return CUDA_SUCCESS;
    case HOST_WRITE: memcpy(world.address[call->to], call->want, BYTES); return CUDA_SUCCESS;
    case NEW_STREAM:
    case DESTROY_STREAM: return make_stream_call(call);
    case NEW_CONTEXT: return add_context_to_world(call->context, call->variant);
    case DESTROY_CONTEXT: return end_context(call);
    case MODE: return change_mode(call);
    case BEGIN_CAPTURE:
    case END_CAPTURE:
    case MAKE_GRAPH:
    case DESTROY_GRAPH:
    case GRAPH_LAUNCH: return make_graph_call(call);
    case FURTHER: return make_further_call(call, seen);
    default: return make_order(call);
    }
}

/* ---- the whole plan */

static void out_of_time(int number) {
    char text[96];
    const struct call *call = world.running;
    int length =
        snprintf(text, sizeof text, "call %td, %s: does not end\n", call - world.plan->calls, call_name(call->kind));
    if (write(STDOUT_FILENO, text, (size_t)length) < 0)
        _exit(4);
    _exit(3);
}

static void show(const struct call *call) {
    world.mistakes++;
    printf("wrong: step %u, call %td, %s", call->step, call - world.plan->calls, call_name(call->kind));
    if (call->from || call->to)
        printf(" of %s memory", kind_name(object_of(call->from ? call->from : call->to)->made));
    printf(": ");
}

static void compare(const struct call *call, CUresult result, const uint32_t *seen) {
    if (call->result != UNDETERMINED && (int)result != call->result) {
        show(call);
        printf("returns %d instead of %d\n", (int)result, call->result);
        exit(9);
    }
    if (!call->want || call->kind == HOST_WRITE || call->kind == COPY_UP)
        return;
    for (int i = 0; i < WORDS; i++)
        if (seen[i] != call->want[i] && world.mistakes < SHOWN) {
            show(call);
            printf("word %d is %#x instead of %#x\n", i, seen[i], call->want[i]);
            return;
        }
}

static void show_answer(const struct made *made) {
    printf("call %td, %s: %d", made->call - world.plan->calls, call_name(made->call->kind), (int)made->result);
    if (made->call->kind == FURTHER)
        printf(", %u says %u %u %u", made->call->value, made->seen[0], made->seen[1], made->seen[2]);
    printf("\n");
}

/* One call, or all of a group. Returns how many. */
static size_t make_next(const struct call *first, size_t most) {
    static struct made made[GROUP];
    size_t count = 1;
    while (first->group && count < most && count < GROUP && first[count].group == first->group)
        count++;
    for (size_t i = 0; i < count; i++)
        made[i] = (struct made){.call = &first[i]};
    make_by_threads(made, count);
    for (size_t i = 0; i < count; i++) {
        enum call_kind kind = first[i].kind;
        compare(&first[i], made[i].result, made[i].seen);
        if (kind == FURTHER || (first[i].result == UNDETERMINED && kind != STREAM_QUERY && kind != EVENT_QUERY))
            show_answer(&made[i]);
    }
    return count;
}

unsigned plan_perform(const struct plan *plan, const struct place *place) {
    set_up_world(plan, place);
    world.running = plan->calls;
    signal(SIGALRM, out_of_time);
    alarm(TIME_LIMIT_S);
    for (size_t i = 0, made; i < plan->count && world.mistakes < SHOWN; i += made) {
        made = 1;
        const struct call *call = world.running = &plan->calls[i];
        if (place->shows)
            fprintf(stderr, "call %zu, %s\n", i, call_name(call->kind));
        if (call->kind == NEW_THREAD)
            begin_thread(call->thread);
        else if (call->kind == END_THREAD)
            end_thread(call->thread);
        else
            made = make_next(call, plan->count - i);
    }
    for (int thread = 1; thread <= THREADS; thread++)
        end_thread(thread);
    uint64_t (*violations)(void) = (uint64_t(*)(void))(uintptr_t)driver_symbol("simcuda_violations");
    if (violations && violations() && !plan->faults) {
        world.mistakes++;
        printf("wrong: %s\n", ((const char *(*)(void))(uintptr_t)driver_symbol("simcuda_last_violation"))());
    }
    return world.mistakes;
}

/* The device and its driver (device.h). */
#include "tests/unit/driver/device.h"

#include "shim/driver/event.h"
#include "tests/unit/driver/interleave.h"

struct device device;

CUcontext device_handle(unsigned context) { return (CUcontext)(uintptr_t)(0x1000 * (context + 1)); }

static unsigned context_at(CUcontext handle) { return (unsigned)((uintptr_t)handle / 0x1000 - 1); }

/* ---- work */

static items all_before(items some) {
    items all = some;
    for (items rest = some; rest; rest &= rest - 1)
        all |= device.before[__builtin_ctz(rest)];
    return all;
}

static void finish(items some) {
    device.done |= all_before(some);
    for (unsigned i = 0; i < CONTEXTS; i++)
        if (device.done & device.faulty & device.contexts[i].of) {
            device.contexts[i].fault = CUDA_ERROR_ILLEGAL_ADDRESS;
            device.done |= device.contexts[i].of;
        }
}

static bool is_blocking(enum stream stream) {
    return stream == BLOCKING || (stream >= OWN_FIRST && stream <= OWN_LAST);
}

static items tails(bool with_legacy, bool with_non_blocking) {
    items all = 0;
    for (enum stream i = 0; i < LEGACY_SECOND; i++)
        if (i == LEGACY ? with_legacy : i == NON_BLOCKING ? with_non_blocking : true)
            all |= device.streams[i].tail;
    return all;
}

static items behind(enum stream stream, bool overtakes) {
    items own = overtakes ? 0 : device.streams[stream].tail;
    if (stream == LEGACY)
        own |= overtakes ? 0 : tails(true, false);
    else if (is_blocking(stream))
        own |= device.streams[LEGACY].tail;
    return own | device.streams[stream].behind;
}

bool device_submit(enum stream stream, unsigned item, bool overtakes, items *before) {
    unsigned context = device_context_of(stream);
    il_point(&device, true, IL_HERE);
    if (!device.contexts[context].lives || device.contexts[context].fault || !device.streams[stream].exists ||
        device.streams[stream].captures)
        return false;
    if ((stream == LEGACY && device.streams[BLOCKING].captures) || item >= 32)
        return il_fault("the program's own fault: the legacy stream is used while a blocking stream captures"), false;
    *before = device.before[item] = all_before(behind(stream, overtakes));
    device.streams[stream].tail |= 1u << item | *before;
    device.contexts[context].of |= 1u << item;
    device.submitted |= 1u << item;
    return true;
}

bool device_synchronise(unsigned context) {
    il_point(&device, true, IL_HERE);
    if (!device.contexts[context].lives || device.capturing)
        return false;
    finish(device.contexts[context].of);
    return true;
}

void device_make(unsigned context) {
    device.contexts[context].lives = true;
    device.contexts[context].of = 0;
    device.contexts[context].fault = CUDA_SUCCESS;
    device.streams[context ? LEGACY_SECOND : LEGACY].exists = true;
    device.streams[context ? LEGACY_SECOND : LEGACY].tail = device.streams[context ? LEGACY_SECOND : LEGACY].behind = 0;
    for (enum stream i = OWN_FIRST; !context && i <= OWN_LAST; i++)
        device.streams[i].exists = true;
}

void device_destroy(unsigned context) {
    finish(device.contexts[context].of);
    device.contexts[context].lives = false;
    for (unsigned i = 0; i < EVENTS; i++)
        device.events[i].exists &= device.events[i].context != context;
    for (enum stream i = 0; i < STREAMS; i++)
        if (device_context_of(i) == context)
            device.streams[i].exists = false;
}

/* ---- the driver */

static unsigned current(void) { return device.threads[il_thread()].context; }

static CUresult answer(unsigned context) {
    return !device.contexts[context].lives ? CUDA_ERROR_CONTEXT_IS_DESTROYED : (CUresult)device.contexts[context].fault;
}

/* A call that no stream orders. */
static void unsafe(void) {
    if (device.capturing && device.threads[il_thread()].mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        il_fault("an unsafe call, not in relaxed mode, invalidates a capture");
}

static CUresult ctx_get_current(CUcontext *context) { return *context = device_handle(current()), CUDA_SUCCESS; }
static CUresult ctx_get_device(CUdevice *number) { return *number = 0, CUDA_SUCCESS; }
static CUresult ctx_get_id(CUcontext context, unsigned long long *id) {
    return *id = context_at(context), CUDA_SUCCESS;
}

static CUresult ctx_push(CUcontext context) {
    unsigned self = il_thread();
    device.threads[self].pushed[device.threads[self].depth++ & 3] = device.threads[self].context;
    device.threads[self].context = (uint8_t)context_at(context);
    return CUDA_SUCCESS;
}

static CUresult ctx_pop(CUcontext *context) {
    unsigned self = il_thread();
    *context = device_handle(current());
    device.threads[self].context = device.threads[self].pushed[--device.threads[self].depth & 3];
    return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode) {
    CUstreamCaptureMode was = device.threads[il_thread()].mode;
    device.threads[il_thread()].mode = *mode;
    return *mode = was, CUDA_SUCCESS;
}

static CUresult event_create(CUevent *event, unsigned flags) {
    il_point(&device, true, IL_HERE);
    il_note("event_create");
    if (answer(current()))
        return answer(current());
    if (device.refuses_event)
        return device.refuses_event = false, CUDA_ERROR_OUT_OF_MEMORY;
    if (device.event_count == EVENTS)
        return il_fault("too many events are created"), CUDA_ERROR_OUT_OF_MEMORY;
    device.events[device.event_count].exists = true;
    device.events[device.event_count].context = (uint8_t)current();
    return *event = (CUevent)(uintptr_t)++device.event_count, CUDA_SUCCESS;
}

/* NULL, with a fault: the event does not exist. */
static bool has(CUevent event) {
    bool exists = (uintptr_t)event - 1 < EVENTS && device.events[(uintptr_t)event - 1].exists;
    if (!exists)
        il_fault("a destroyed event is used");
    return exists;
}

static CUresult event_destroy(CUevent event) {
    il_point(&device, true, IL_HERE);
    il_note("event_destroy");
    if (has(event))
        device.events[(uintptr_t)event - 1].exists = false;
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, unsigned context, items covered) {
    if (!device.contexts[context].lives)
        il_fault("a destroyed context is used");
    if (answer(context))
        return answer(context);
    if (!has(event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!context && device.capturing)
        return il_fault("an event of the context is recorded while a stream captures"), CUDA_SUCCESS;
    device.events[(uintptr_t)event - 1].covers = covered;
    return CUDA_SUCCESS;
}

static CUresult ctx_record_event(CUcontext context, CUevent event) {
    il_point(&device, true, IL_HERE);
    il_note("ctx_record_event");
    return record(event, context_at(context), device.contexts[context_at(context)].of);
}

/* In the legacy default stream. */
static CUresult event_record(CUevent event, CUstream stream) {
    il_point(&device, true, IL_HERE);
    il_note("event_record");
    if (stream != CU_STREAM_LEGACY)
        return il_fault("an event is recorded in an unexpected stream"), CUDA_SUCCESS;
    return record(event, current(), current() ? device.streams[LEGACY_SECOND].tail : tails(true, false));
}

static CUresult ctx_wait_event(CUcontext context, CUevent event) {
    il_point(&device, true, IL_HERE);
    il_note("ctx_wait_event");
    unsigned at = context_at(context);
    if (!device.contexts[at].lives)
        il_fault("a destroyed context is used");
    if (answer(at))
        return answer(at);
    if (!has(event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!at && device.capturing)
        return il_fault("a context waits for an event while a stream captures"), CUDA_SUCCESS;
    for (enum stream i = 0; i < STREAMS; i++) /* not for streams that are created later */
        if (device.streams[i].exists && device_context_of(i) == at)
            device.streams[i].behind |= all_before(device.events[(uintptr_t)event - 1].covers);
    return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event) {
    il_point(&device, false, IL_HERE);
    il_note("event_query");
    unsafe();
    if (!has(event))
        return CUDA_ERROR_INVALID_HANDLE;
    if (answer(device.events[(uintptr_t)event - 1].context))
        return answer(device.events[(uintptr_t)event - 1].context);
    return device.events[(uintptr_t)event - 1].covers & ~device.done ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult event_synchronize(CUevent event) {
    il_point(&device, true, IL_HERE);
    il_note("event_synchronize");
    unsafe();
    if (!has(event))
        return CUDA_ERROR_INVALID_HANDLE;
    unsigned context = device.events[(uintptr_t)event - 1].context;
    if (answer(context))
        return answer(context);
    device.waits(all_before(device.events[(uintptr_t)event - 1].covers), false);
    finish(device.events[(uintptr_t)event - 1].covers);
    return answer(context);
}

/* In place of waiting.c, whose queries take time. */
gm_status gm_event_block(const struct gm_event_of *event) { return (gm_status)event_synchronize(event->event); }

static CUresult ctx_synchronize(void) {
    il_point(&device, true, IL_HERE);
    il_note("ctx_synchronize");
    if (answer(current()))
        return answer(current());
    if (!current() && device.capturing)
        return il_fault("a context is synchronised while a stream captures"), CUDA_SUCCESS;
    device.waits(device.contexts[current()].of, true);
    finish(device.contexts[current()].of);
    return answer(current());
}

static CUresult stream_synchronize(CUstream stream) {
    il_point(&device, true, IL_HERE);
    il_note("stream_synchronize");
    unsafe();
    items covered = device.streams[(uintptr_t)stream - 0x100].tail | device.streams[(uintptr_t)stream - 0x100].behind;
    if (answer(0))
        return answer(0);
    device.waits(covered, false);
    finish(covered);
    return answer(0);
}

static CUresult mem_alloc(CUdeviceptr *address, size_t size) {
    il_point(&device, true, IL_HERE);
    il_note("mem_alloc");
    unsafe();
    return *address = size, answer(current());
}

static CUresult mem_free(CUdeviceptr address) {
    il_point(&device, true, IL_HERE);
    il_note("mem_free");
    unsafe();
    if (answer(current()))
        return answer(current());
    device.waits(device.contexts[current()].of, true);
    finish(device.contexts[current()].of);
    return answer(current());
}

static CUresult is_capturing(CUstream stream, CUstreamCaptureStatus *status) {
    il_point(&device, false, IL_HERE);
    il_note("is_capturing");
    bool captures = (uintptr_t)stream >= 0x100 && device.streams[(uintptr_t)stream - 0x100].captures;
    *status = captures ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static CUresult stream_get_ctx(CUstream stream, CUcontext *context) {
    return (void)stream, *context = device_handle(0), CUDA_SUCCESS;
}

static CUresult primary_get_state(CUdevice number, unsigned *flags, int *active) {
    return *flags = 0, *active = device.contexts[0].lives, CUDA_SUCCESS;
}

void device_use(bool records_contexts) {
    gm_drv = (struct gm_driver){
        .ctx_get_current = ctx_get_current,
        .ctx_get_device = ctx_get_device,
        .ctx_get_id = ctx_get_id,
        .ctx_push = ctx_push,
        .ctx_pop = ctx_pop,
        .primary_get_state = primary_get_state,
        .ctx_synchronize = ctx_synchronize,
        .ctx_record_event = records_contexts ? ctx_record_event : NULL,
        .ctx_wait_event = records_contexts ? ctx_wait_event : NULL,
        .stream_synchronize = stream_synchronize,
        .mem_alloc = mem_alloc,
        .mem_free = mem_free,
        .stream_is_capturing = is_capturing,
        .stream_is_capturing_ptsz = is_capturing,
        .stream_get_ctx = stream_get_ctx,
        .thread_exchange_capture_mode = exchange_mode,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .event_record = event_record,
        .event_query = event_query,
        .event_synchronize = event_synchronize,
    };
}

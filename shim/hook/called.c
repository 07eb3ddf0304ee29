/* Calls that pass through an entry which has to look: their role decides what is done before they go on. */
#include "shim/hook/arguments.h"

#include "shim/driver/check_order.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/in_flight.h"
#include "shim/grow/handover.h"
#include "shim/hook/check.h"
#include "shim/hook/diverted.h"
#include "shim/hook/entry_points.h"
#include "shim/hook/guard.h"
#include "shim/hook/hook.h"
#include "shim/suspend/suspend.h"

static void submits(const struct gm_called *call) {
    CUstream stream = gm_called_stream(call);
    bool twin = call->row->twin, per_thread = gm_is_per_thread(stream, twin);
    if (per_thread)
        gm_free_sync_per_thread();
    if (GM_UNLIKELY(gm_capture_any()) && gm_capture_on(stream, twin)) { /* no work, but a node of a graph */
        if (gm_copies_host_memory(call))
            gm_free_sync_note(GM_SYNC_HOST_MEMORY);
        return;
    }
    bool ordinary = gm_is_ordinary_launch(call);
    if (!ordinary && gm_in_flight_state())
        gm_free_sync_overtake();
    else if (gm_in_flight_state() & GM_FLIGHT_OPEN)
        gm_free_sync_submit(!per_thread && (!stream || stream == CU_STREAM_LEGACY));
}

/* ---- roles */

/* The function of such a row finds out itself whether work in flight decides the answer (queries.c). */
static bool is_query(const struct gm_call_row *row) {
    return gm_free_sync_observes() &&
           (row->meaning == GM_MEANING_QUERY_STREAM || row->meaning == GM_MEANING_QUERY_EVENT);
}

static void look(const struct gm_called *call) {
    enum gm_role role = (enum gm_role)call->row->role;
    if (GM_UNLIKELY(gm_check_order_on))
        gm_check_observe(call);
    if (call->row->hooked) /* the hook does what its role says */
        return;
    if (GM_UNLIKELY(gm_watch_has(GM_WATCH_HANDOVER)) && !gm_copies_defers(call->number) &&
        gm_call_ends_handover(role, (enum gm_meaning)call->row->meaning))
        gm_handover_driver_entered();
    switch (role) {
    case GM_ROLE_BLIND:
    case GM_ROLE_WAITS: break;
    case GM_ROLE_SUBMITS: submits(call); break;
    case GM_ROLE_SHARES:
        if (call->row->meaning >= GM_MEANING_COPY_NODE_1)
            gm_context_note_graphs();
        if (gm_reason_of_call(call) != GM_SYNC_NO)
            gm_free_sync_note(gm_reason_of_call(call));
        if (call->row->stream != GM_STREAM_NONE)
            submits(call);
        break;
    default:
        if (gm_in_flight_state() && !is_query(call->row))
            gm_free_sync_notice();
    }
}

/* A function without a row: neither its arguments nor its stream are known. */
static const struct gm_call_row unknown = {
    .role = GM_ROLE_NOTICES, .stream = GM_STREAM_NONE, .why = GM_SYNC_NO, .memory = GM_MEMORY_CALL};

/* Functions of entry.S. */
GM_INTERNAL void gm_again(void), gm_again_unknown(void), gm_counted(void), gm_counted_unknown(void);

/* How the entry goes on: it jumps to `at` with `target` in a register, where gm_again finds it. In this order. */
struct gm_way {
    void *target, *at;
};

/* A call under GPUMEM_SUSPEND; one without a row may submit work. */
static bool is_counted(const struct gm_called *call) {
    return GM_UNLIKELY(gm_watch_has(GM_WATCH_SUSPENDS)) && !call->row->hooked &&
           (call->row == &unknown || gm_submits_work((enum gm_role)call->row->role, call->row->stream));
}

static bool is_made_again(const struct gm_called *call, const void *target) {
    return gm_watch_has(GM_WATCH_KEPT) && gm_call_is_made_again(call->row) && target == call->function;
}

/* Called by gm_counted (entry.S) with the result of the call; -1: it is to be made once more. */
GM_INTERNAL int gm_call_counted(int result);
int gm_call_counted(int result) {
    struct gm_submissions_mine *mine = &gm_submissions_mine;
    bool again = mine->again && mine->inside == 1 && result == CUDA_ERROR_OUT_OF_MEMORY;
    mine->again &= mine->inside > 1;
    if (GM_UNLIKELY(again) && gm_call_trim())
        return -1;
    gm_submission_end();
    return result;
}

static struct gm_way way_counted(const struct gm_called *call, void *target) {
    void *by = call->row == &unknown ? (void *)gm_counted_unknown : (void *)gm_counted;
    if (gm_submissions_mine.inside == 1) /* a call inside another one is not made again */
        gm_submissions_mine.again = is_made_again(call, target);
    return (struct gm_way){target, by};
}

static struct gm_way way_of(const struct gm_called *call, void *target) {
    bool again = is_made_again(call, target);
    void *by = call->row == &unknown ? (void *)gm_again_unknown : (void *)gm_again;
    return (struct gm_way){target, again ? by : target};
}

/* Called by the entries (entry.S). */
GM_INTERNAL struct gm_way gm_called(unsigned number, const uint64_t *registers, const uint64_t *stack,
                                    uintptr_t caller);
struct gm_way gm_called(unsigned number, const uint64_t *registers, const uint64_t *stack, uintptr_t caller) {
    bool ready = GM_LIKELY(__atomic_load_n(&gm_hooks_active, __ATOMIC_ACQUIRE)) || gm_hooks_ready();
    struct gm_called call = {.number = number, .registers = registers, .stack = stack, .caller = caller};
    call.row = number < GM_CALL_ROWS ? &gm_call_rows[number] : &unknown;
    void *next = gm_call_target(number, &call.function);
    if (ready && gm_mine.depth == 0) {
        bool counted = is_counted(&call);
        if (counted)
            gm_submission_begin();
        gm_mine.depth = 1;
        look(&call);
        if (GM_UNLIKELY(gm_watch_has(GM_WATCH_GUARDS)))
            next = gm_guard_observe(&call, next);
        gm_mine.depth = 0;
        if (counted)
            return way_counted(&call, next);
    }
    return way_of(&call, next);
}

/* Calls from a room to one above it. The lower room publishes an event; these tables name the function above that is
 * told. The README of the shim has them, too. */
#ifndef GM_BASE_EVENTS_H
#define GM_BASE_EVENTS_H

#include "shim/base/base.h"

struct gm_capture;
struct gm_card;
struct gm_context;
struct gm_event;
struct gm_guard_block;
struct gm_guard_damage;
struct gm_request;

/* When the account of a device is taken (shim/start/untracked.h). */
enum gm_moment {
    GM_MOMENT_GROWN,   /* the peak of reserved bytes reached gm_pipeline_sample_from */
    GM_MOMENT_WATCHED, /* a viewer watches */
    GM_MOMENT_FAILED,  /* a request of this thread found no memory, and its event is written */
    GM_MOMENT_ENDING,  /* the context ends */
    GM_MOMENT_MOVED,   /* a viewer let memory leave, or come back */
};

/* Where a library has the publisher, it has the function: plain calls. X(function, result, parameters, when) */
#define GM_EVENTS_LINKED(X)                                                                                     \
    X(gm_hooks_ready, bool, (void), "a call of the program finds the hooks not ready: whether it may pass one") \
    X(gm_process_prepare, void, (void), "the limit is asked for before the first call of the driver")           \
    X(gm_process_bound_trace, void, (void), "a trace begins in the middle: the options that bound its file")    \
    X(gm_process_describe_contexts, void, (void), "a trace began in the middle, and no event is written yet")   \
    X(gm_nvtx_begin_waiting, void, (void), "a trace begins in the middle: the open ranges of this thread")      \
    X(gm_nvtx_is_used, bool, (void), "whether NVTX has called gpumem")                                          \
    X(gm_account_before_release, void, (void), "memory is about to be released for a call that found none")     \
    X(gm_resources_log_stack, void, (uint32_t site), "the adaptor track reports a leak: its call stack, for the log")

/* Of the library to preload, which subscribes at its start (shim/process/start.c). Where nobody has, nobody is told,
 * and a question has the answer 0. X(event, function, result, parameters, when) */
#define GM_EVENTS(X)                                                                                                   \
    X(device_uuid, gm_process_uuid, bool, (int device, unsigned char uuid[16]),                                        \
      "a device counts in a group; false: the driver does not say")                                                    \
    X(device_total, gm_device_total, uint64_t, (int device),                                                           \
      "a limit or guarding is a part of a device's bytes; 0: the driver does not say")                                 \
    X(much_kept, gm_lender_begin, void, (int device), "a cache begins to keep much of a device, or a pool is made")    \
    X(request_due, gm_recording_requested, void, (void),                                                               \
      "a viewer watches, or the trace is flushed: `gpumem trace` may have asked for something; no lock is held")       \
    X(context_new, gm_process_context, void, (const struct gm_context *context), "a context is first seen as current") \
    X(capture_lost, gm_hook_capture_lost, void, (const struct gm_capture *capture),                                    \
      "a capture is over without an end call")                                                                         \
    X(card_asked, gm_card_ask, bool, (int *device, bool own, struct gm_card *card),                                    \
      "an account of a device is taken; false: the card cannot be asked now")                                          \
    X(account_due, gm_untracked_sample, void, (int device, enum gm_moment moment),                                     \
      "memory grew or ran out, a viewer watches, or a context ends; one is current")                                   \
    X(guard_damaged, gm_explain_damage, void,                                                                          \
      (const struct gm_guard_block *block, const struct gm_guard_damage *damage), "bytes beside a block were written") \
    X(request_spared, gm_select_spares, bool, (const struct gm_request *request),                                      \
      "whether native memory has to serve a request, as its call site exports blocks")                                 \
    X(memory_awaited, gm_submission_awaits_memory, void, (bool begins),                                                \
      "a call waits until other processes give memory of the device back, and its end")                                \
    X(quota_short, gm_process_trim_managed, void, (void),                                                              \
      "managed memory has no room left: free blocks of caches go before those of makers")                              \
    X(trace_keeps, gm_pipeline_is_live, bool, (const struct gm_event *event),                                          \
      "a ring drops old events: whether the block of an allocation lives")                                             \
    X(trace_named, gm_process_name_trace, void, (const char *file),                                                    \
      "the file of a trace was opened, also in a forked child; empty: there will be no trace")

#define X(function, result, parameters, when) GM_INTERNAL result function parameters;
GM_EVENTS_LINKED(X)
#undef X

/* Stored atomically, as other threads may publish meanwhile. */
#define X(event, function, result, parameters, when) result(*event) parameters;
struct gm_events {
    GM_EVENTS(X)
};
#undef X
GM_INTERNAL extern struct gm_events gm_events;

#define GM_SUBSCRIBER(event) __atomic_load_n(&gm_events.event, __ATOMIC_ACQUIRE)
#define GM_PUBLISH(event, ...)                                   \
    do {                                                         \
        __typeof__(gm_events.event) told = GM_SUBSCRIBER(event); \
        if (told)                                                \
            told(__VA_ARGS__);                                   \
    } while (0)
#define GM_ASK(event, ...)                                        \
    ({                                                            \
        __typeof__(gm_events.event) asked = GM_SUBSCRIBER(event); \
        asked ? asked(__VA_ARGS__) : 0;                           \
    })

#endif

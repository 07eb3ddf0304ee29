/* The arguments of a call of the driver whose entry has to look (gm_watch in shim/driver/watch.h). */
#ifndef GM_HOOK_ARGUMENTS_H
#define GM_HOOK_ARGUMENTS_H

#include "shim/driver/call.h"
#include "shim/driver/driver.h"

/* Number of arguments in registers. */
#if defined(__x86_64__)
enum { GM_REGISTERS = 6 };
#else
enum { GM_REGISTERS = 8 };
#endif

struct gm_called {
    unsigned number;                   /* enum gm_call_number, or above */
    const struct gm_call_row *row;     /* for a function without a row: one that notices */
    const void *function;              /* of the driver */
    const uint64_t *registers, *stack; /* the arguments; `stack` is also the frame's canonical address */
    uintptr_t caller;
};

static inline uint64_t gm_argument(const struct gm_called *call, unsigned i) {
    return i < GM_REGISTERS ? call->registers[i] : call->stack[i - GM_REGISTERS];
}
static inline void *gm_pointer_argument(const struct gm_called *call, unsigned i) {
    return (void *)(uintptr_t)gm_argument(call, i);
}
/* The stream that the call names; NULL: the default stream, which for a twin is that of the thread. */
GM_INTERNAL CUstream gm_called_stream(const struct gm_called *call);
/* False: the call launches a kernel that may start before earlier work of its stream ends, or that lets others see how
 * far it is. */
GM_INTERNAL bool gm_is_ordinary_launch(const struct gm_called *call);
/* The call copies from or to host memory. In a graph, pageable memory is copied in the order of the work. */
GM_INTERNAL bool gm_copies_host_memory(const struct gm_called *call);
/* Why a call of role SHARES lets others see memory or work, as its arguments say; GM_SYNC_NO: it does not. */
GM_INTERNAL enum gm_sync_reason gm_reason_of_call(const struct gm_called *call);
/* Why work with this node lets others learn how far it is; GM_SYNC_NO: it does not. */
GM_INTERNAL enum gm_sync_reason gm_node_reason(const CUgraphNodeParams *node);

#endif

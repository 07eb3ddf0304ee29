#include "tools/cli/trace_glossary.h"

#include <string.h>

const char *gm_reason_meaning(enum gm_reason reason) {
    static const char *const meanings[GM_REASON_COUNT] = {
        [GM_REASON_NONE] = "not told",
        [GM_REASON_POLICY] = "the policy's choice for every block",
        [GM_REASON_NEVER_MOVED] = "the call is not the policy's to move",
        [GM_REASON_CAPTURE] = "a stream was capturing",
        [GM_REASON_LIST_FILLING] = "too few allocations of that size yet, taken as lasting",
        [GM_REASON_LIST_STEADY] = "blocks of that size come and go, taken as short-lived",
        [GM_REASON_LIST_GROWING] = "blocks of that size pile up, taken as lasting",
        [GM_REASON_LIST_MAP_FULL] = "too many different sizes to watch this one, taken as lasting",
        [GM_REASON_FALLBACK] = "the kind decided on refused, so the block was served as asked",
        [GM_REASON_PROMISE] = "the kind decided on would have broken a promise of the call",
        [GM_REASON_CONTEXT_GONE] = "released with its context",
        [GM_REASON_GROWTH] = "taken by GPUMEM_GROW",
        [GM_REASON_LIST_TURNOVER] = "more blocks of that size (a new one: of sizes like it) were freed so far than are "
                                    "alive, taken as short-lived",
        [GM_REASON_PLAN] = "the plan's entry with the number of this object",
        [GM_REASON_PLAN_SITE] = "the plan's entry for this call site, size and occurrence; the order differed",
        [GM_REASON_RULE] = "a rule of the policy static",
        [GM_REASON_UNSUPPORTED] = "the driver lacks what the kind decided on needs",
        [GM_REASON_OUT_OF_MEMORY] = "the device, or GPUMEM_LIMIT, had no room for it",
    };
    return (unsigned)reason < GM_REASON_COUNT ? meanings[reason] : NULL;
}

const char *gm_action_meaning(enum gm_action action) {
    static const char *const meanings[GM_ACT_COUNT] = {
        [GM_ACT_NONE] = "nothing",
        [GM_ACT_ALLOC] = "memory was given",
        [GM_ACT_ALLOC_FAIL] = "memory was asked for and not given; result tells why",
        [GM_ACT_FREE] = "memory was given back",
        [GM_ACT_FREE_FAIL] = "a free was refused; the block, if it is one, lives on",
        [GM_ACT_RELEASE] = "a block went with its context, or a new one stands at its address",
        [GM_ACT_RESERVE] = "address space was reserved",
        [GM_ACT_UNRESERVE] = "reserved address space was given back",
        [GM_ACT_MAP] = "memory was mapped into reserved address space",
        [GM_ACT_UNMAP] = "such a mapping was removed",
        [GM_ACT_TRIM] = "memory kept back was given to the driver",
        [GM_ACT_EXPORT] = "a handle for other processes or devices was made of the block",
        [GM_ACT_DROP] = "the block does not keep soft promises of its call; bytes holds them as bits: 256 "
                        "handles for other "
                        "processes, 512 access by peers, 1024 registration with network cards",
        [GM_ACT_PHASE_BEGIN] =
            "a range of the program begins, in its thread or, with an address from 2^32 on, in all; site is the number "
            "of its text",
        [GM_ACT_PHASE_END] =
            "a range of the program ends: the innermost of its thread and domain, or the one of that address",
        [GM_ACT_MARK] = "a phase mark of the program; site is the number of its text",
        [GM_ACT_CAPTURE_BEGIN] = "a stream began to capture",
        [GM_ACT_CAPTURE_END] = "a stream ended its capture",
        [GM_ACT_PEER] = "access to a peer device was enabled",
        [GM_ACT_CONTEXT] = "a context was created; address is its handle",
        [GM_ACT_CONTEXT_GONE] = "a context was destroyed",
    };
    return (unsigned)action < GM_ACT_COUNT ? meanings[action] : NULL;
}

const char *gm_column_meaning(const char *name) {
    static const struct {
        const char *name, *meaning;
    } rows[] = {
        {"seq", "place in the order of all events of the process, from 1"},
        {"time_ns", "begin of the call, ns after start_ns of the first comment line"},
        {"action", "what happened, see below"},
        {"call", "the driver's function that the program or its runtime called"},
        {"address", "address or handle of the block, hexadecimal; 0x0 for a failed allocation"},
        {"bytes", "bytes asked for; for a free the size of the block, 0 when unknown"},
        {"device", "ordinal of the device, -1 when unknown"},
        {"stream", "handle of the stream, 0x0 for the default stream"},
        {"thread", "kernel's number of the thread"},
        {"duration_ns", "length of the call"},
        {"bytes_got", "bytes that the block occupies, as far as known"},
        {"kind", "kind of memory that served the block"},
        {"reason", "why it was that kind, see below"},
        {"verdict", "kind that the policy's heuristic named, even if it was not followed"},
        {"hit", "1 when served from memory kept back"},
        {"site", "number of the call site, described by a line \"# site\"; 0 when unknown"},
        {"context", "small number of the context, 0 for none"},
        {"result", "the driver's answer, a CUresult; 0 for success"},
        {"flags", "1 during stream capture, 2 when the function for per-thread default streams was called; added up"},
        {"pid", "the process"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].name, name))
            return rows[i].meaning;
    return NULL;
}

#include "tools/cli/trace_glossary.h"

#include <string.h>

const char *gm_reason_meaning(enum gm_reason reason) {
    static const char *const meanings[GM_REASON_COUNT] = {
        [GM_REASON_NONE] = "unknown",
        [GM_REASON_POLICY] = "the policy's choice for every block",
        [GM_REASON_NEVER_MOVED] = "policies do not move this call",
        [GM_REASON_CAPTURE] = "a stream was capturing",
        [GM_REASON_LIST_FILLING] = "too few allocations of that size yet, so it counts as lasting",
        [GM_REASON_LIST_STEADY] = "the number of live blocks of that size is steady, so it counts as short-lived",
        [GM_REASON_LIST_GROWING] = "the number of live blocks of that size grows, so it counts as lasting",
        [GM_REASON_LIST_MAP_FULL] = "too many different sizes to track this one, so it counts as lasting",
        [GM_REASON_FALLBACK] = "the chosen kind failed, so the call was served as requested",
        [GM_REASON_PROMISE] = "the chosen kind would break a promise of the call",
        [GM_REASON_CONTEXT_GONE] = "released with its context",
        [GM_REASON_CACHE_LIMIT] = "the cache held more than its limits allow, or the device had little free memory",
        [GM_REASON_IDLE] = "unused for GPUMEM_CACHE_IDLE",
        [GM_REASON_TRIM_CALL] = "the program called gpumem_trim or queried how much memory is free",
        [GM_REASON_FENCE] = "work that was submitted before the free may still use it",
        [GM_REASON_PARTLY_USED] = "other blocks lie in its pages",
        [GM_REASON_THRESHOLD] = "a pool of the program keeps it, below its release threshold",
        [GM_REASON_REMAPPED] = "the program maps other memory at the addresses, or uses them in another way",
        [GM_REASON_GROWTH] = "served by GPUMEM_GROW, because the block may grow",
        [GM_REASON_LIST_TURNOVER] = "more blocks of that size were freed so far than are alive (earlier versions)",
        [GM_REASON_FREE_BLOCK] = "a free block of its size class served it, so the policy did not decide",
        [GM_REASON_GUARD] = "GPUMEM_GUARD gave it a guarded block",
        [GM_REASON_PLAN] = "the plan's entry with the number of this object",
        [GM_REASON_PLAN_SITE] = "the plan's entry for this call site, size and occurrence; the order differed",
        [GM_REASON_RULE] = "a rule of the policy static",
        [GM_REASON_UNSUPPORTED] = "the driver lacks a function that the chosen kind needs",
        [GM_REASON_OUT_OF_MEMORY] = "the device, or GPUMEM_LIMIT, had no room for it",
    };
    return (unsigned)reason < GM_REASON_COUNT ? meanings[reason] : NULL;
}

const char *gm_action_meaning(enum gm_action action) {
    static const char *const meanings[GM_ACT_COUNT] = {
        [GM_ACT_NONE] = "nothing",
        [GM_ACT_ALLOC] = "memory was allocated",
        [GM_ACT_ALLOC_FAIL] = "an allocation failed; result has the reason",
        [GM_ACT_FREE] = "memory was freed",
        [GM_ACT_FREE_FAIL] = "a free failed; the block, if there is one, stays alive",
        [GM_ACT_RELEASE] = "a block was released with its context, or a new block has its address",
        [GM_ACT_RESERVE] = "address space was reserved",
        [GM_ACT_UNRESERVE] = "reserved address space was freed",
        [GM_ACT_MAP] = "memory was mapped into reserved address space",
        [GM_ACT_UNMAP] = "such a mapping was removed",
        [GM_ACT_TRIM] = "kept blocks of one kind were returned to the driver, or the program trimmed a pool of its own",
        [GM_ACT_UNTRACKED] = "measured: bytes that the process holds on the device beyond what gpumem sees (contexts, "
                             "modules, graphs, libraries); address has the bytes in use on the card by all processes",
        [GM_ACT_ACCOUNT] = "measured with it: an item of what the card's memory is. site says which: 0 live, 1 "
                           "rounding, 2 kept, 3 pools, 4 handles, 5 contexts, 6 others, 7 free, 32 the card (the last "
                           "item), 33 elsewhere, 34 mapped by the program, 35 in its pools, 36 of graphs, 37 given "
                           "back, 38 number of pools, 39 a pool (address is its handle, 0x0 the default pool's; stream "
                           "the bytes that it uses), 40 suspended",
        [GM_ACT_HELD] = "measured with it: unused bytes that could not be given back; one event for each reason",
        [GM_ACT_KEPT] = "recording begins or goes on: bytes of freed blocks of that kind that are kept at this time",
        [GM_ACT_POOL_SIZE] = "gpumem's pool of that kind took memory or returned some; bytes is what it has now on the "
                             "device",
        [GM_ACT_EXPORT] = "a handle of the block for other processes or devices was created",
        [GM_ACT_DROP] = "the block does not keep soft promises of its call; bytes holds them as bits: 256 "
                        "handles for other "
                        "processes, 512 access by peers, 1024 registration with network cards",
        [GM_ACT_PHASE_BEGIN] =
            "a range of the program begins, in its thread or, with an address from 2^32 on, in all; site is the number "
            "of its text",
        [GM_ACT_PHASE_END] =
            "a range of the program ends: the innermost of its thread and domain, or the one with that address",
        [GM_ACT_COPY_SOURCE] = "where the thread's next copy read; address is host memory, bytes the hash of its "
                               "contents (XXH3, 64 bits; of "
                               "rows with gaps it also depends on their shape), unknown if result is not 0",
        [GM_ACT_COPY] = "a copy from host memory to a device; address is the destination, for kind array its handle",
        [GM_ACT_SUM] =
            "a row of a summary, for a call site and kind of memory since its row before: duration_ns is the "
            "number of allocations, address their bytes, bytes_got - bytes the number of frees (reason "
            "context-gone: of blocks released with their context), stream the most live bytes; bytes are live "
            "at the row's time",
        [GM_ACT_PEAK] =
            "maximum of device memory in an interval of a summary: bytes are live then, address is the most "
            "reserved bytes of the run so far; the rows before it say what call sites held then",
        [GM_ACT_TOTAL] =
            "end of an interval of a summary: bytes are live, address is kept and stream reserved bytes, all "
            "on devices; bytes_got - bytes is the number of failed calls without a line",
        [GM_ACT_MARK] = "a phase mark of the program; site is the number of its text",
        [GM_ACT_CAPTURE_BEGIN] = "a stream began to capture",
        [GM_ACT_CAPTURE_END] = "a stream ended its capture",
        [GM_ACT_ERROR] =
            "a memory error was found (GPUMEM_GUARD): result is 1 for an access outside of a block, 2 after its "
            "free, 3 for a fault of the device, 4 for a wrong free, 5 for a possible race; site is the call at "
            "fault, or that saw it; hit is 1 where it follows from an error before; address and bytes are the "
            "block's, bytes_got - bytes is the call site of its allocation; stream has the call site of its free "
            "times 2^32, plus the number of the text",
        [GM_ACT_SUSPEND] =
            "memory left the devices (GPUMEM_SUSPEND): bytes, stream of them without a copy; address has the bytes "
            "that stayed. If result is not 0, nothing left, and site is the number of the text that says why",
        [GM_ACT_RESUME] = "bytes of it came back; result and site as for suspend",
        [GM_ACT_PEER] = "access to a peer device was enabled",
        [GM_ACT_CONTEXT] = "a context was created; address is its handle",
        [GM_ACT_CONTEXT_DESTROYED] = "a context was destroyed",
    };
    return (unsigned)action < GM_ACT_COUNT ? meanings[action] : NULL;
}

const char *gm_column_meaning(const char *name) {
    static const struct {
        const char *name, *meaning;
    } rows[] = {
        {"seq", "position in the order of all events of the process, from 1"},
        {"time_ns", "begin of the call, ns after start_ns of the first comment line"},
        {"action", "what happened, see below"},
        {"call", "the driver function that the program or its runtime called"},
        {"address", "address or handle of the block, hexadecimal; 0x0 for a failed allocation"},
        {"bytes", "requested bytes; for a free the size of the block, 0 if unknown"},
        {"device", "ordinal of the device, -1 when unknown"},
        {"stream", "handle of the stream, 0x0 for the default stream"},
        {"thread", "thread id of the kernel"},
        {"duration_ns", "duration of the call in ns"},
        {"bytes_got", "bytes that the block occupies, if known"},
        {"kind", "kind of memory that served the block"},
        {"reason", "reason for that kind, see below"},
        {"verdict", "kind that the policy's heuristic named, even if the policy did not use it"},
        {"hit", "1 if reused: served from a free block of the cache"},
        {"site", "number of the call site, described by a line \"# site\"; 0 when unknown"},
        {"context", "small number of the context, 0 for none"},
        {"result", "the driver's result, a CUresult; 0 = success"},
        {"flags",
         "sum of 1 (during stream capture), 2 (the function for per-thread default streams was called), 4 (a "
         "free: the block is kept for reuse), 8 (beyond: other processes of the card are included), 16 (the block "
         "was made before recording began; time_ns is when it was noted) and 32 (beyond: the account is of the request "
         "that failed just before)"},
        {"pid", "the process"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!strcmp(rows[i].name, name))
            return rows[i].meaning;
    return NULL;
}

/* GPUMEM_CHECK_ORDER: observes the program's calls of the driver and reports them to shim/driver/check_order.h,
 * which finds out whether the program relies on the wait of a cudaFree.
 *
 * Each observed function has an entry (entry.S, check_rows.h) that calls gm_check_called with the call's arguments
 * before the call. Queries such as cuEventQuery have wrappers in C, because their result matters. Both are returned
 * by look-ups only when the option is set. */
#include "shim/hook/check.h"

#include <string.h>

#include "shim/base/file.h"
#include "shim/base/options.h"
#include "shim/resource/registry.h"
#include "shim/driver/check_order.h"
#include "shim/driver/functions.h"
#include "shim/hook/check_rows.h"
#include "shim/hook/hook.h"
#include "shim/driver/linked.h"

/* Number of arguments in registers. */
#if defined(__x86_64__)
enum { REGISTERS = 6 };
#else
enum { REGISTERS = 8 };
#endif

enum meaning {
    WORK, /* the meanings from here to COPY_3D_PEER have the stream among the arguments */
    KERNEL,
    COPY, /* a copy to the first argument */
    VISIBLE,
    FUNCTION,
    SIGNAL,
    AWAIT,
    BATCH, /* waits for values and writes values */
    RECORD,
    WAIT,
    SYNCHRONISE,
    COPY_2D,
    COPY_3D,
    COPY_3D_PEER,
    CONFIG,     /* the stream is a member of the configuration */
    FIXED_WORK, /* on the default stream */
    WAITED,
    ENDING,
    EVENT_DONE,
    CONTEXT_DONE,
    NAMED_CONTEXT_DONE,
    CONTEXT_RECORD,
    CONTEXT_WAIT,
    SHARES_MEMORY, /* kernels can access host memory from now on */
    MAY_SHARE_MEMORY,
    FREE,
};

#define ROW_OF(symbol, meaning, stream, twin) GM_INTERNAL void gm_check_##symbol(void);
#define BOTH_OF(symbol, meaning, stream) \
    ROW_OF(symbol, meaning, stream, 0)   \
    ROW_OF(symbol##_ptsz, meaning, stream, 1)
#define FIXED_OF(symbol, meaning) ROW_OF(symbol, meaning, 0, 0) ROW_OF(symbol##_ptds, meaning, 0, 1)
GM_CHECK_ROWS(ROW_OF, BOTH_OF, FIXED_OF)
#undef ROW_OF

/* Ordered by the numbers of the entries. */
static const struct row {
    const char *symbol;
    void (*entry)(void);
    uint8_t meaning, stream;
    bool twin;
} rows[] = {
#define ROW_OF(symbol, meaning, stream, twin) {#symbol, gm_check_##symbol, meaning, stream, twin},
    GM_CHECK_ROWS(ROW_OF, BOTH_OF, FIXED_OF)
#undef ROW_OF
};
enum { ROWS = sizeof rows / sizeof *rows };

static struct gm_driver_functions functions = GM_DRIVER_FUNCTIONS(rows);
static void *targets[ROWS]; /* where each entry continues */

static bool shares_memory; /* kernels may access memory that the host reads */

/* ---- meaning of a call */

struct call {
    const struct row *row;
    const uint64_t *registers, *stack; /* its arguments in registers and on the stack */
    uintptr_t caller;
};

static uint64_t argument(const struct call *call, unsigned i) {
    return i < REGISTERS ? call->registers[i] : call->stack[i - REGISTERS];
}

static void *pointer(const struct call *call, unsigned i) { return (void *)(uintptr_t)argument(call, i); }

/* A copy to pageable memory is complete when the call returns. */
static enum gm_check_call copy_to(CUdeviceptr address) {
    bool managed;
    unsigned type = gm_memory_type(&gm_drv, address, &managed);
    if (!type)
        return GM_CHECK_WAITED_WORK;
    return managed || type == CU_MEMORYTYPE_HOST ? GM_CHECK_VISIBLE_WORK : GM_CHECK_WORK;
}

/* For CUDA_MEMCPY2D and similar structs, which have the same members. */
#define COPY_BY(type, call)                                                                             \
    ({                                                                                                  \
        const type *copy = pointer(call, 0);                                                            \
        !copy                                          ? GM_CHECK_WORK                                  \
        : copy->dstMemoryType == CU_MEMORYTYPE_HOST    ? copy_to((CUdeviceptr)(uintptr_t)copy->dstHost) \
        : copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED ? copy_to(copy->dstDevice)                       \
                                                       : GM_CHECK_WORK;                                 \
    })

static enum gm_check_call meaning_of(const struct call *call) {
    switch ((enum meaning)call->row->meaning) {
    case CONFIG:
    case KERNEL: return __atomic_load_n(&shares_memory, __ATOMIC_RELAXED) ? GM_CHECK_VISIBLE_WORK : GM_CHECK_WORK;
    case COPY: return copy_to(argument(call, 0));
    case COPY_2D: return COPY_BY(CUDA_MEMCPY2D, call);
    case COPY_3D: return COPY_BY(CUDA_MEMCPY3D, call);
    case COPY_3D_PEER: return COPY_BY(CUDA_MEMCPY3D_PEER, call);
    case VISIBLE: return GM_CHECK_VISIBLE_WORK;
    case FUNCTION: return GM_CHECK_HOST_WORK;
    case SIGNAL:
    case BATCH: return GM_CHECK_SIGNAL;
    case AWAIT: return GM_CHECK_AWAIT;
    case RECORD: return GM_CHECK_RECORD;
    case WAIT: return GM_CHECK_WAIT;
    case SYNCHRONISE: return GM_CHECK_SYNCHRONISE;
    case WAITED: return GM_CHECK_WAITED_WORK;
    default: return GM_CHECK_WORK;
    }
}

static struct gm_check_stream stream_of(const struct call *call) {
    struct gm_check_stream stream = {NULL, call->row->twin};
    const CUlaunchConfig *config = call->row->meaning == CONFIG ? pointer(call, 0) : NULL;
    if (config)
        stream.handle = config->hStream;
    else if (call->row->meaning < CONFIG)
        stream.handle = pointer(call, call->row->stream);
    return stream;
}

static uint32_t site_of(void *arg) {
    const struct call *call = arg;
    return gm_site_find(call->caller, (uintptr_t)call->stack);
}

/* A free of memory of a stream-ordered pool does not wait. */
static void observe_free(struct call *call) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    if (registry && gm_registry_find(registry, argument(call, 0), &block) && block.call != GM_CALL_ALLOC_ASYNC &&
        block.call != GM_CALL_ALLOC_FROM_POOL)
        gm_check_order_free((CUcontext)(uintptr_t)block.context, block.context_id, block.device, site_of, call);
}

static void observe(struct call *call) {
    switch ((enum meaning)call->row->meaning) {
    case ENDING: gm_check_order_stream_ending((struct gm_check_stream){pointer(call, 0), false}); break;
    case EVENT_DONE: gm_check_order_event_done(pointer(call, 0)); break;
    case CONTEXT_DONE: gm_check_order_context_done(NULL); break;
    case NAMED_CONTEXT_DONE: gm_check_order_context_done(pointer(call, 0)); break;
    case CONTEXT_RECORD: gm_check_order_context_record(pointer(call, 0), pointer(call, 1)); break;
    case CONTEXT_WAIT: gm_check_order_context_wait(pointer(call, 1)); break;
    case MAY_SHARE_MEMORY:
        if (argument(call, call->row->stream) & CU_MEMHOSTALLOC_DEVICEMAP)
            __atomic_store_n(&shares_memory, true, __ATOMIC_RELAXED);
        break;
    case SHARES_MEMORY: __atomic_store_n(&shares_memory, true, __ATOMIC_RELAXED); break;
    case FREE: observe_free(call); break;
    case BATCH:
        gm_check_order_call(GM_CHECK_AWAIT, stream_of(call), NULL);
        gm_check_order_call(GM_CHECK_SIGNAL, stream_of(call), NULL);
        break;
    case RECORD: gm_check_order_call(GM_CHECK_RECORD, stream_of(call), pointer(call, 0)); break;
    case WAIT: gm_check_order_call(GM_CHECK_WAIT, stream_of(call), pointer(call, 1)); break;
    default: gm_check_order_call(meaning_of(call), stream_of(call), NULL);
    }
}

/* Called by the entries (entry.S) before the program's call. Returns the address where the entry continues. `stack`
 * is also the frame's canonical address. */
GM_INTERNAL void *gm_check_called(unsigned number, const uint64_t *registers, const uint64_t *stack, uintptr_t caller);
void *gm_check_called(unsigned number, const uint64_t *registers, const uint64_t *stack, uintptr_t caller) {
    struct call call = {&rows[number], registers, stack, caller};
    observe(&call);
    return __atomic_load_n(&targets[number], __ATOMIC_RELAXED);
}

/* ---- queries: their result matters */

#define QUERIES(QUERY)                                                                                            \
    QUERY(cuEventQuery, (CUevent event), (event), gm_check_order_event_done(event))                               \
    QUERY(cuStreamQuery, (CUstream stream), (stream), stream_done(stream, false))                                 \
    QUERY(cuStreamQuery_ptsz, (CUstream stream), (stream), stream_done(stream, true))                             \
    QUERY(cuEventElapsedTime, (float *ms, CUevent begin, CUevent end), (ms, begin, end), events_done(begin, end)) \
    QUERY(cuEventElapsedTime_v2, (float *ms, CUevent begin, CUevent end), (ms, begin, end), events_done(begin, end))

static void stream_done(CUstream stream, bool twin) {
    gm_check_order_call(GM_CHECK_SYNCHRONISE, (struct gm_check_stream){stream, twin}, NULL);
}

static void events_done(CUevent begin, CUevent end) {
    gm_check_order_event_done(begin);
    gm_check_order_event_done(end);
}

#define QUERY(symbol, parameters, arguments, done)                                       \
    static CUresult(CUDAAPI *target_##symbol) parameters;                                \
    static CUresult CUDAAPI query_##symbol parameters {                                  \
        CUresult result = __atomic_load_n(&target_##symbol, __ATOMIC_RELAXED) arguments; \
        if (result == CUDA_SUCCESS)                                                      \
            done;                                                                        \
        return result;                                                                   \
    }
QUERIES(QUERY)
#undef QUERY

static const struct {
    const char *symbol;
    void *entry;
    void **target;
} queries[] = {
#define QUERY(symbol, ...) {#symbol, (void *)query_##symbol, (void **)&target_##symbol},
    QUERIES(QUERY)
#undef QUERY
};
static struct gm_driver_functions query_functions = GM_DRIVER_FUNCTIONS(queries);

/* ---- routes */

void *gm_check_route(void *function, void *entry) {
    if (GM_LIKELY(!gm_check_order_on))
        return entry;
    int row = gm_driver_function_row(&functions, function);
    if (row >= 0)
        return gm_substitute((void *)rows[row].entry, &targets[row], entry);
    row = gm_driver_function_row(&query_functions, function);
    return row < 0 ? entry : gm_substitute(queries[row].entry, queries[row].target, entry);
}

/* ---- life */

bool gm_check_start(void) {
    if (!gm_option_bool(GM_OPT_CHECK_ORDER) || !gm_check_order_setup())
        return false;
    if (gm_option_is_set(GM_OPT_FREE) && gm_option_number(GM_OPT_FREE) != GM_FREE_WAIT)
        gm_log(GM_LOG_WARN, "GPUMEM_CHECK_ORDER: every cudaFree waits; GPUMEM_FREE=%s is not in force",
               gm_option_text(GM_OPT_FREE));
    return true;
}

static void write_row(struct gm_stats_reliance *row, const struct gm_order_finding *finding) {
    struct gm_site_location location;
    *row = (struct gm_stats_reliance){.count = finding->count};
    gm_order_say(finding, row->text, sizeof row->text);
    if (!gm_site_location(finding->site, &location))
        return;
    row->base = location.base;
    row->frame_count = location.count;
    for (unsigned i = 0; i < location.count; i++)
        row->frames[i] = location.frames[i];
    gm_format(row->module, sizeof row->module, "%s", location.module);
}

static void write_line(int fd, const struct gm_stats_reliance *row) {
    const char *slash = strrchr(row->module, '/');
    char line[600];
    int length = gm_format(line, sizeof line, "gpumem: check-order: %llu %s at ", (unsigned long long)row->count,
                           row->count == 1 ? "cudaFree" : "cudaFrees");
    for (unsigned i = 0; i < row->frame_count; i++)
        length += gm_format(line + length, sizeof line - (size_t)length, "%s%.60s+0x%llx", i ? " < " : "",
                            slash ? slash + 1 : row->module, (unsigned long long)(row->frames[i] - row->base));
    length += gm_format(line + length, sizeof line - (size_t)length, "%s: %s\n",
                        row->frame_count ? "" : "an unknown site", row->text);
    gm_safe_say(fd, line, (size_t)length);
}

static void write_rest(int fd, const struct gm_stats *stats) {
    char line[200];
    unsigned shown = stats->reliance_count < GM_STATS_RELIANCES ? stats->reliance_count : GM_STATS_RELIANCES;
    int length = 0;
    if (stats->reliance_count > shown)
        length =
            gm_format(line, sizeof line, "gpumem: check-order: %u more call sites\n", stats->reliance_count - shown);
    else if (!shown)
        length =
            gm_format(line, sizeof line, "gpumem: check-order: %llu %s waited for work; none is seen to be relied on\n",
                      (unsigned long long)stats->waiting_frees, stats->waiting_frees == 1 ? "cudaFree" : "cudaFrees");
    gm_safe_say(fd, line, (size_t)length);
}

void gm_check_report(int fd) {
    static struct gm_order_finding findings[GM_STATS_RELIANCES];
    uint64_t more;
    if (!gm_check_order_on)
        return;
    struct gm_stats *stats = gm_stats;
    unsigned count = gm_check_order_findings(findings, GM_STATS_RELIANCES, &stats->waiting_frees, &more);
    for (unsigned i = 0; i < count && i < GM_STATS_RELIANCES; i++)
        write_row(&stats->reliances[i], &findings[i]);
    stats->reliance_count = count + (more ? 1 : 0);
    __atomic_store_n(&stats->checked_order, 1, __ATOMIC_RELEASE);
    if (gm_driver_linked())
        gm_log(GM_LOG_WARN,
               "GPUMEM_CHECK_ORDER: an object is linked with the driver itself, and its calls are not seen");
    if (gm_option_text(GM_OPT_STATS)[0])
        return;
    for (unsigned i = 0; i < count && i < GM_STATS_RELIANCES; i++)
        write_line(fd, &stats->reliances[i]);
    write_rest(fd, stats);
}

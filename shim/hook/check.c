/* GPUMEM_CHECK_ORDER: observes the program's calls of the driver and reports them to shim/driver/check_order.h,
 * which finds out whether the program relies on the wait of a cudaFree. The entries of all calls that have a meaning
 * (shim/driver/calls.h) pass here before they go on. */
#include "shim/hook/check.h"

#include <string.h>

#include "shim/base/options.h"
#include "shim/resource/registry.h"
#include "shim/driver/check_order.h"
#include "shim/driver/in_flight.h"
#include "shim/hook/arguments.h"
#include "shim/hook/hook.h"

static bool shares_memory; /* kernels may access memory that the host reads */

/* ---- meaning of a call */

/* A copy to pageable memory is complete when the call returns. */
static unsigned copy_to(CUdeviceptr address) {
    bool managed;
    unsigned type = gm_memory_type(&gm_drv, address, &managed);
    if (!type)
        return GM_CHECK_SUBMITS | GM_CHECK_HOST_WAITED;
    return GM_CHECK_SUBMITS | (managed || type == CU_MEMORYTYPE_HOST ? GM_CHECK_VISIBLE : 0);
}

/* For CUDA_MEMCPY2D and similar structs, which have the same members. */
#define COPY_BY(type, call)                                                                             \
    ({                                                                                                  \
        const type *copy = gm_pointer_argument(call, 0);                                                \
        !copy                                          ? GM_CHECK_SUBMITS                               \
        : copy->dstMemoryType == CU_MEMORYTYPE_HOST    ? copy_to((CUdeviceptr)(uintptr_t)copy->dstHost) \
        : copy->dstMemoryType == CU_MEMORYTYPE_UNIFIED ? copy_to(copy->dstDevice)                       \
                                                       : GM_CHECK_SUBMITS;                              \
    })

static unsigned effects_of(const struct gm_called *call) {
    switch ((enum gm_meaning)call->row->meaning) {
    case GM_MEANING_CONFIG:
    case GM_MEANING_KERNEL:
        return GM_CHECK_SUBMITS | (__atomic_load_n(&shares_memory, __ATOMIC_RELAXED) ? GM_CHECK_VISIBLE : 0);
    case GM_MEANING_COPY: return copy_to(gm_argument(call, 0));
    case GM_MEANING_COPY_2D: return COPY_BY(CUDA_MEMCPY2D, call);
    case GM_MEANING_COPY_3D: return COPY_BY(CUDA_MEMCPY3D, call);
    case GM_MEANING_COPY_3D_PEER: return COPY_BY(CUDA_MEMCPY3D_PEER, call);
    case GM_MEANING_VISIBLE: return GM_CHECK_SUBMITS | GM_CHECK_VISIBLE;
    case GM_MEANING_FUNCTION: return GM_CHECK_SUBMITS | GM_CHECK_VISIBLE | GM_CHECK_TELLS_HOST;
    case GM_MEANING_SIGNAL: return GM_CHECK_SUBMITS | GM_CHECK_TELLS_HOST;
    case GM_MEANING_BATCH: return GM_CHECK_AWAITS | GM_CHECK_SUBMITS | GM_CHECK_TELLS_HOST;
    case GM_MEANING_AWAIT: return GM_CHECK_AWAITS;
    case GM_MEANING_SYNCHRONISE: return GM_CHECK_HOST_WAITED;
    case GM_MEANING_WAITED: return GM_CHECK_SUBMITS | GM_CHECK_HOST_WAITED;
    default: return GM_CHECK_SUBMITS;
    }
}

static struct gm_check_stream stream_of(const struct gm_called *call) {
    return (struct gm_check_stream){gm_called_stream(call), call->row->twin};
}

static uint32_t site_of_call(void *arg) {
    const struct gm_called *call = arg;
    return gm_site_find(call->caller, (uintptr_t)call->stack);
}

/* A free of memory of a stream-ordered pool does not wait. */
static void observe_free(const struct gm_called *call) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block block;
    if (registry && gm_registry_find(registry, gm_argument(call, 0), &block) && block.call != GM_CALL_ALLOC_ASYNC &&
        block.call != GM_CALL_ALLOC_FROM_POOL)
        gm_check_order_free((CUcontext)(uintptr_t)block.context, block.context_id, block.device, site_of_call,
                            (void *)call);
}

/* The program learns that the event is done only if its own query says so. */
static void observe_query(CUevent event) {
    if (event && gm_drv.event_query(event) == CUDA_SUCCESS)
        gm_check_order_event_done(event);
}

void gm_check_observe(const struct gm_called *call) {
    switch ((enum gm_meaning)call->row->meaning) {
    case GM_MEANING_NO:
    case GM_MEANING_COPY_NODE_1:
    case GM_MEANING_COPY_NODE_2:
    case GM_MEANING_COPY_NODE_4:
    case GM_MEANING_NODE_1:
    case GM_MEANING_NODE_2:
    case GM_MEANING_ASKS: break;
    case GM_MEANING_ENDING:
        gm_check_order_stream_ending((struct gm_check_stream){gm_pointer_argument(call, 0), false});
        break;
    case GM_MEANING_EVENT_DONE: gm_check_order_event_done(gm_pointer_argument(call, 0)); break;
    case GM_MEANING_QUERY_EVENT: observe_query(gm_pointer_argument(call, 0)); break;
    case GM_MEANING_QUERY_EVENTS:
        observe_query(gm_pointer_argument(call, 1));
        observe_query(gm_pointer_argument(call, 2));
        break;
    case GM_MEANING_QUERY_STREAM:
        if (((CUresult(CUDAAPI *)(CUstream))call->function)(gm_called_stream(call)) == CUDA_SUCCESS)
            gm_check_order_call(GM_CHECK_HOST_WAITED, stream_of(call), NULL);
        break;
    case GM_MEANING_CONTEXT_DONE: gm_check_order_context_done(NULL); break;
    case GM_MEANING_NAMED_CONTEXT_DONE: gm_check_order_context_done(gm_pointer_argument(call, 0)); break;
    case GM_MEANING_CONTEXT_RECORD:
        gm_check_order_context_record(gm_pointer_argument(call, 0), gm_pointer_argument(call, 1));
        break;
    case GM_MEANING_CONTEXT_WAIT: gm_check_order_context_wait(gm_pointer_argument(call, 1)); break;
    case GM_MEANING_MAY_SHARE_MEMORY:
        if (gm_argument(call, 2) & CU_MEMHOSTALLOC_DEVICEMAP)
            __atomic_store_n(&shares_memory, true, __ATOMIC_RELAXED);
        break;
    case GM_MEANING_SHARES_MEMORY: __atomic_store_n(&shares_memory, true, __ATOMIC_RELAXED); break;
    case GM_MEANING_FREE: observe_free(call); break;
    case GM_MEANING_RECORD: gm_check_order_call(GM_CHECK_RECORDS, stream_of(call), gm_pointer_argument(call, 0)); break;
    case GM_MEANING_WAIT: gm_check_order_call(GM_CHECK_WAITS, stream_of(call), gm_pointer_argument(call, 1)); break;
    default: gm_check_order_call(effects_of(call), stream_of(call), NULL);
    }
}

/* ---- life */

bool gm_check_start(void) {
    if (!gm_option_bool(GM_OPT_CHECK_ORDER) || !gm_check_order_setup())
        return false;
    gm_watch_set(GM_WATCH_CHECKS, true);
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
    char site[GM_STATS_FRAMES * 96] = "an unknown site";
    size_t length = 0;
    for (unsigned i = 0; i < row->frame_count; i++)
        length += (size_t)gm_format(site + length, sizeof site - length, "%s%.60s+0x%llx", i ? " < " : "",
                                    slash ? slash + 1 : row->module, (unsigned long long)(row->frames[i] - row->base));
    gm_say_line(fd, "gpumem: check-order: %llu %s at %s: %s", (unsigned long long)row->count,
                row->count == 1 ? "cudaFree" : "cudaFrees", site, row->text);
}

static void write_rest(int fd, const struct gm_stats *stats) {
    unsigned shown = stats->reliance_count < GM_STATS_RELIANCES ? stats->reliance_count : GM_STATS_RELIANCES;
    if (stats->reliance_count > shown)
        gm_say_line(fd, "gpumem: check-order: %u more call sites", stats->reliance_count - shown);
    else if (!shown)
        gm_say_line(fd, "gpumem: check-order: %llu %s waited for work; none is seen to be relied on",
                    (unsigned long long)stats->waiting_frees, stats->waiting_frees == 1 ? "cudaFree" : "cudaFrees");
    gm_say_line(fd, "gpumem: check-order: %s", gm_stats_levels(stats));
}

void gm_check_report(int fd) {
    static struct gm_order_finding findings[GM_STATS_RELIANCES];
    struct gm_check_sums sums;
    if (!gm_check_order_on)
        return;
    struct gm_stats *stats = gm_stats;
    unsigned count = gm_check_order_findings(findings, GM_STATS_RELIANCES, &sums);
    for (unsigned i = 0; i < count && i < GM_STATS_RELIANCES; i++)
        write_row(&stats->reliances[i], &findings[i]);
    stats->reliance_count = count + (sums.more ? 1 : 0);
    stats->waiting_frees = sums.frees;
    stats->host_relies = sums.host_relies;
    __atomic_store_n(&stats->checked_order, 1, __ATOMIC_RELEASE);
    if (gm_option_text(GM_OPT_STATS)[0])
        return;
    for (unsigned i = 0; i < count && i < GM_STATS_RELIANCES; i++)
        write_line(fd, &stats->reliances[i]);
    write_rest(fd, stats);
}

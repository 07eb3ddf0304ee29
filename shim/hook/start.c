/* The life of gpumem in a process. The first call of the driver reads the options and creates policy, resources and
 * trace. Nothing happens before. The end of the process completes the trace and writes the coverage report, without
 * any CUDA call. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "shim/base/file.h"
#include "shim/base/options.h"
#include "shim/base/room.h"
#include "shim/base/real_dl.h"
#include "shim/cache/mapped.h"
#include "shim/explain/access.h"
#include "shim/explain/account.h"
#include "shim/explain/explain.h"
#include "shim/pipeline/fast.h"
#include "shim/pipeline/guard.h"
#include "shim/pipeline/phase.h"
#include "shim/sites/python.h"
#include "shim/api/resources.h"
#include "shim/resource/registry.h"
#include "shim/accounts/stats.h"
#include "shim/base/wrappers.h"
#include "shim/driver/check_order.h"
#include "shim/driver/streams.h"
#include "shim/grow/grow.h"
#include "shim/start/card.h"
#include "shim/start/untracked.h"
#include "shim/hook/check.h"
#include "shim/hook/diverted.h"
#include "shim/hook/coverage.h"
#include "shim/start/lender.h"
#include "shim/start/recording.h"
#include "shim/hook/start.h"
#include "shim/hook/nvtx.h"
#include "shim/hook/guard.h"
#include "shim/hook/hook.h"
#include "shim/accounts/limit.h"
#include "shim/placement/router.h"
#include "shim/resource/managed_advice.h"
#include "shim/resource/managed_quota.h"
#include "shim/resource/releases.h"
#include "shim/resource/rows.h"
#include "shim/resource/stack.h"
#include "shim/placement/oom.h"
#include "shim/trace/parts.h"
#include "shim/trace/ring.h"
#include "shim/trace/summary.h"

extern char **environ;

static bool started;

/* ---- policy */

static bool starts_with(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

static bool debugger_attached(void) {
    char text[2048], comm[64];
    gm_read_text("/proc/self/status", text, sizeof(text));
    const char *line = strstr(text, "TracerPid:\t");
    if (!line || line[11] == '0')
        return false;
    gm_format(text, sizeof(text), "/proc/%.*s/comm", (int)strcspn(line + 11, "\n"), line + 11);
    gm_read_text(text, comm, sizeof(comm));
    return starts_with(comm, "cuda-gdb");
}

/* Development tools must see the program's own blocks. Returns the name of a tool that is active, NULL: none. */
static const char *active_tool(void) {
    const char *preload = gm_environment_value(environ, "LD_PRELOAD");
    if (*gm_environment_value(environ, "CUDA_INJECTION64_PATH"))
        return "CUDA_INJECTION64_PATH";
    for (char **variable = environ; variable && *variable; variable++)
        if (starts_with(*variable, "NV_SANITIZER") || starts_with(*variable, "NV_COMPUTE_SANITIZER"))
            return "compute-sanitizer";
    if (strstr(preload, "libsanitizer-collection") || strstr(preload, "libInterceptorInjectionTarget"))
        return "compute-sanitizer";
    return debugger_attached() ? "cuda-gdb" : NULL;
}

static bool try_policy(const char *text, const struct gm_policy **policy, uint32_t *wants) {
    const char *colon = strchr(text, ':');
    struct gm_policy_setup setup = {
        .argument = colon ? colon + 1 : NULL,
        .list_length = (unsigned)gm_option_number(GM_OPT_LIST_LENGTH),
        .list_range = (unsigned)gm_option_number(GM_OPT_LIST_RANGE),
        .managed = gm_option_number(GM_OPT_MANAGED) == 1 ? GM_KIND_MANAGED : GM_KIND_MANAGED_POOL,
        .reserve = gm_pages,
        .load = gm_file_load,
        .unload = gm_file_unmap,
    };
    const struct gm_policy *found = gm_policy_find(text);
    char accepted[256] = "";
    const struct gm_option_label name = gm_option_label(GM_OPT_POLICY);

    if (!found) {
        for (size_t i = 0, used = 0; gm_policies[i] && used < sizeof(accepted); i++)
            used += (size_t)gm_format(accepted + used, sizeof(accepted) - used, "%s%s", i ? ", " : "",
                                      gm_policies[i]->name);
        gm_log(GM_LOG_ERROR, "%s=%s is not a policy; accepted: %s; using %s", name.text, text, accepted,
               gm_policies[0]->name);
        return false;
    }
    if (gm_policy_open(found, &setup)) {
        gm_log(GM_LOG_ERROR, "%s=%s: %s; using %s", name.text, text, setup.error, gm_policies[0]->name);
        return false;
    }
    if (setup.error[0])
        gm_log(GM_LOG_WARN, "%s=%s: %s", name.text, text, setup.error);
    *policy = found;
    *wants = setup.wants;
    return true;
}

static const struct gm_policy *choose_policy(bool *user_named, uint32_t *wants) {
    const struct gm_policy *policy = NULL;
    const char *tool;

    *user_named = gm_option_is_set(GM_OPT_POLICY);
    if (!*user_named && (tool = active_tool()) != NULL) {
        gm_log(GM_LOG_WARN,
               "%s is at work: policy observe, so that it sees the program's own blocks (GPUMEM_POLICY overrides)",
               tool);
        try_policy("observe", &policy, wants);
        return policy;
    }
    if (!try_policy(gm_option_text(GM_OPT_POLICY), &policy, wants))
        try_policy(gm_policies[0]->name, &policy, wants);
    return policy;
}

/* ---- resources: one maker for each kind, wrapped in the adaptors that the options select */

static struct gm_resource *build_resource(const char *text) {
    char error[400];
    struct gm_resource *resource = gm_resource_build(text, error, sizeof(error));
    if (!resource)
        gm_log(GM_LOG_ERROR, "%s", error);
    return resource;
}

/* What every movable call promises. A stack keeps other promises or not; the router asks it. */
enum { NEEDED = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_READY_ANYWHERE };

static struct gm_resource *stacks_of_user[GM_KIND_COUNT];

/* The stack that the user names for a kind. NULL: none, or one that cannot serve a program, which is logged. */
static struct gm_resource *build_of_user(enum gm_option_id option) {
    const char *text = gm_option_text(option);
    const struct gm_option_label name = gm_option_label(option);
    char error[400];
    if (!text[0])
        return NULL;
    struct gm_resource *stack = gm_resource_build(text, error, sizeof(error));
    const char *lacks = stack ? gm_property_name(NEEDED & ~stack->properties) : NULL;
    if (stack && !lacks && stack->kind != GM_KIND_SIM && !gm_stack_find(stack, &gm_resource_router))
        return stack;
    if (!stack)
        gm_log(GM_LOG_ERROR, "%s: %s", name.text, error);
    else
        gm_log(GM_LOG_ERROR, "%s: \"%.80s\" cannot serve a program: %s%s", name.text, text,
               lacks ? "its memory is not " : "it has no memory of its own", lacks ? lacks : "");
    gm_stack_discard(stack);
    return NULL;
}

/* Puts the user's stacks in the place of the built-in ones. */
static void serve_by_users(void) {
    static const struct {
        enum gm_option_id option;
        enum gm_kind kind;
    } rows[] = {
        {GM_OPT_RESOURCE_NATIVE, GM_KIND_NATIVE},
        {GM_OPT_RESOURCE_ASYNC, GM_KIND_ASYNC},
        {GM_OPT_RESOURCE_MANAGED, GM_KIND_MANAGED},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct gm_resource *stack = build_of_user(rows[i].option);
        if (!stack)
            continue;
        if (rows[i].kind == GM_KIND_NATIVE)
            gm_router_call_natively(gm_router_server(GM_KIND_NATIVE));
        gm_router_serve(rows[i].kind, stack);
        if (rows[i].kind == GM_KIND_MANAGED) /* a policy chooses one of the two, as GPUMEM_MANAGED says */
            gm_router_serve(GM_KIND_MANAGED_POOL, stack);
        stacks_of_user[rows[i].kind] = stack;
    }
}

static bool tracks(void) {
    bool found = false;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        found |= gm_stack_find(stacks_of_user[kind], &gm_resource_track) != NULL;
    return found;
}

static void report_stacks(void) {
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        GM_TELL(stacks_of_user[kind], report);
    gm_pipeline_report();
}

static void trim_managed_pool(void) { gm_router_trim_kind(GM_KIND_MANAGED_POOL); }

static struct gm_resource *build_resources(const struct gm_policy *policy) {
    static const char *const fills[] = {"off", "zero", "poison"};
    unsigned long long nth = gm_option_number(GM_OPT_FAIL_NTH);
    uint64_t fill = gm_option_number(GM_OPT_FILL);
    char text[160] = "router", wrapped[160];

    for (const struct gm_resource_ops *const *row = gm_resource_rows; *row; row++)
        if ((*row)->serves)
            gm_router_serve((*row)->kind, build_resource((*row)->serves));
    serve_by_users();
    if (policy->keeps_mapped)
        gm_router_serve(GM_KIND_MAPPED, gm_mapped_start());
    gm_managed_quota_trim = trim_managed_pool;
    if (fill > 0 && fill < 3) {
        gm_format(wrapped, sizeof(wrapped), "fill(%s,%s)", fills[fill], text);
        strcpy(text, wrapped);
    }
    if (nth) {
        gm_format(wrapped, sizeof(wrapped), "fail-nth(%llu,%s)", nth, text);
        strcpy(text, wrapped);
    }
    return build_resource(text);
}

/* ---- out of memory */

static void choose_steps(void) {
    const char *initial = gm_option_rows[GM_OPT_OOM].initial;
    struct gm_oom_chain chain;
    char error[160];

    if (gm_oom_parse(gm_option_text(GM_OPT_OOM), &chain, error, sizeof(error)) != GM_OK) {
        gm_log(GM_LOG_WARN, "%s=%.80s: %s; using %s", gm_option_label(GM_OPT_OOM).text, gm_option_text(GM_OPT_OOM),
               error, initial);
        if (gm_oom_parse(initial, &chain, error, sizeof(error)) != GM_OK)
            return;
    }
    gm_router_set_steps(&chain);
}

static bool read_uuid(int device, unsigned char uuid[16]) {
    CUuuid found;
    if (!gm_drv.device_get_uuid || gm_drv.device_get_uuid(&found, device) != CUDA_SUCCESS)
        return false;
    memcpy(uuid, found.bytes, 16);
    return true;
}

/* ---- contexts and devices are described in the trace when they are first seen */

/* Other devices reach memory that gpumem placed as with peer access: no wait covers what their streams copy. */
static gm_status synchronise(const struct gm_block *block, bool *settled) {
    gm_status status =
        gm_free_sync_before((CUcontext)(uintptr_t)block->context, block->context_id, block->device, settled);
    if (*settled && gm_kind_traits(block->kind) & GM_TRAIT_PLACED && gm_context_other(block->device))
        *settled = false;
    return status;
}

static uint64_t described; /* a bit for each device */
static bool describes;     /* a trace is written, or begins */

static void describe_context(const struct gm_context *context) {
    struct gm_record_context record = {
        .head = {.bytes = sizeof(record), .type = GM_RECORD_CONTEXT},
        .number = context->number,
        .device = context->device,
        .handle = (uint64_t)(uintptr_t)context->handle,
        .id = context->id,
    };
    union {
        struct gm_record_device record;
        char bytes[sizeof(struct gm_record_device) + 128];
        uint64_t align;
    } device = {0};
    size_t total = 0;

    if (!gm_trace_is_on() && !__atomic_load_n(&describes, __ATOMIC_RELAXED))
        return;
    gm_trace_record(&record.head);
    uint64_t bit = 1ull << (context->device & 63);
    if (context->device < 0 || __atomic_fetch_or(&described, bit, __ATOMIC_RELAXED) & bit)
        return;
    char *name = device.bytes + sizeof(device.record);
    if (gm_drv.device_get_name(name, 120, context->device) != CUDA_SUCCESS)
        name[0] = '\0';
    gm_drv.device_total_mem(&total, context->device);
    device.record.device = context->device;
    device.record.total = total;
    device.record.name_bytes = (uint32_t)strlen(name);
    device.record.head.type = GM_RECORD_DEVICE;
    device.record.head.bytes = (uint32_t)(sizeof(device.record) + ((device.record.name_bytes + 7u) & ~7u));
    gm_trace_record(&device.record.head);
}

/* Two threads may use a device for the first time at once. */
static void publish_device(int device) {
    uint64_t words[2];
    if (device < 0 || device >= GM_STATS_DEVICES)
        return;
    __atomic_store_n(&gm_stats->total[device], gm_device_total(device), __ATOMIC_RELAXED);
    bool known = read_uuid(device, (unsigned char *)words);
    for (int i = 0; known && i < 2; i++)
        __atomic_store_n(&gm_stats->uuid[device][i], words[i], __ATOMIC_RELAXED);
}

static void on_new_context(const struct gm_context *context) {
    publish_device(context->device);
    gm_free_sync_context(context);
    gm_hook_device_used(context->handle, context->device);
    describe_context(context);
}

/* A trace begins in the middle of the run. */
static void describe_contexts(void) {
    __atomic_store_n(&described, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&describes, true, __ATOMIC_RELAXED);
    gm_contexts_each(describe_context);
}

/* ---- bounds of the trace */

/* Returns whether the trace is a summary. */
static bool sum_up(void) {
    uint64_t interval = gm_option_number(GM_OPT_TRACE_SUMMARY);
    if (!interval)
        return false;
    const struct gm_option_label name = gm_option_label(GM_OPT_TRACE_SUMMARY);
    if (interval < GM_SUMMARY_LEAST) {
        gm_log(GM_LOG_WARN, "%s is below 10ms: intervals of 10ms", name.text);
        interval = GM_SUMMARY_LEAST;
    }
    if (gm_option_text(GM_OPT_TRACE_RING)[0])
        gm_log(GM_LOG_WARN, "%s: a summary has no single events, so GPUMEM_TRACE_RING has no effect", name.text);
    if (gm_option_text(GM_OPT_TRACE_RANGE)[0])
        gm_log(GM_LOG_WARN, "%s: a summary covers the whole run, so GPUMEM_TRACE_RANGE has no effect", name.text);
    if (gm_option_bool(GM_OPT_TRACE_COPIES))
        gm_log(GM_LOG_WARN, "%s: a summary has no single events, so GPUMEM_TRACE_COPIES has no effect", name.text);
    gm_summary_setup(interval);
    return true;
}

static void bound_trace(void) {
    uint64_t limit = gm_option_number(GM_OPT_TRACE_LIMIT), bytes = 0, ns = 0;
    const char *ring = sum_up() ? "" : gm_option_text(GM_OPT_TRACE_RING);
    const uint64_t least = GM_TRACE_LEAST;
    if (limit && limit < least) {
        gm_log(GM_LOG_WARN, "%s is below 1M: the trace has at most 1M", gm_option_label(GM_OPT_TRACE_LIMIT).text);
        limit = least;
    }
    if (ring[0] && !gm_option_ring(ring, &bytes, &ns)) {
        gm_log(GM_LOG_WARN, "%s=%.80s: accepted: " GM_RING_ACCEPTED "; keeping 64M",
               gm_option_label(GM_OPT_TRACE_RING).text, ring);
        bytes = (uint64_t)64 << 20;
    }
    gm_trace_bound(limit, bytes, ns);
    gm_trace_is_live = gm_pipeline_is_live;
}

/* ---- start, fork, end */

static void name_trace(const char *file) {
    gm_format(gm_stats->trace, sizeof(gm_stats->trace), "%s", file);
    uint32_t records = GM_STATS_RECORDS;
    if (!file[0])
        __atomic_compare_exchange_n(&gm_stats->recording.state, &records, GM_STATS_OFF, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
}

static void in_child(void) {
    gm_fork_zero();
    gm_watch_set(GM_WATCH_CAPTURES, false);
    gm_trace_after_fork();
    gm_site_after_fork();
    gm_phase_again();
    gm_recording_after_fork(gm_nvtx_open_ranges());
    gm_pipeline_after_fork();
    gm_free_sync_after_fork();
    gm_check_order_after_fork();
    gm_stats_after_fork();
    gm_limit_publish();
    gm_guard_after_fork();
    gm_lender_after_fork();
}

void gm_process_prepare(void) {
    static bool registered;
    if (!__atomic_exchange_n(&registered, true, __ATOMIC_RELAXED) && !pthread_atfork(NULL, NULL, in_child))
        gm_nvtx_leave_child();
}

void gm_process_started(void) {
    if (gm_sites_are_on() || gm_sites_are_of_new())
        gm_site_find_unwinder();
    gm_recording_started();
    gm_nvtx_begin_waiting();
}

/* A call site of GPUMEM_GROW is a whole stack: with deeper ones it would take other arrays when a trace is written. */
static unsigned stack_frames(bool guards) {
    bool deep = gm_option_is_set(GM_OPT_STACKS) || ((guards || gm_trace_is_on()) && gm_grow_mode < GM_GROW_VMM);
    return deep ? (unsigned)gm_option_number(GM_OPT_STACKS) : 0;
}

/* Enough to name a function of the program below the layers of a framework. */
static unsigned few_frames(void) {
    const unsigned most = 16;
    uint64_t frames = gm_option_number(GM_OPT_STACKS);
    return frames < most || gm_option_is_set(GM_OPT_STACKS) ? (unsigned)frames : most;
}

static void skip_wrappers(void) {
    const char *globs = gm_option_text(GM_OPT_SKIP);
    char error[160];
    if (globs[0] && !gm_wrappers_skip(globs, error, sizeof error))
        gm_log(GM_LOG_ERROR, "GPUMEM_SKIP=%.80s: %s; ignored", globs, error);
}

void gm_process_start(void) {
    bool user_named;
    uint32_t wants = 0;

    gm_clock_init();
    gm_options_load(environ);
    gm_log_set((enum gm_log_level)gm_option_number(GM_OPT_LOG));
    __atomic_store_n(&gm_coverage_on, gm_option_bool(GM_OPT_COVERAGE), __ATOMIC_RELAXED);
    const struct gm_policy *policy = choose_policy(&user_named, &wants);
    gm_stats_open(gm_option_text(GM_OPT_STATS));
    choose_steps();
    __atomic_store_n(&gm_limit_uuid, read_uuid, __ATOMIC_RELAXED);
    __atomic_store_n(&gm_limit_total, gm_device_total, __ATOMIC_RELAXED);
    gm_limit_start(gm_option_text(GM_OPT_GROUP), gm_option_number(GM_OPT_LIMIT));
    gm_limit_publish();
    wants |= gm_grow_start();
    gm_format(gm_stats->policy, sizeof(gm_stats->policy), "%s", policy->name);
    bool guards = gm_guard_start(wants & GM_WANT_GUARD);
    wants &= ~(uint32_t)GM_WANT_GUARD;

    struct gm_pipeline_setup setup = {
        .policy = policy,
        .root = build_resources(policy),
        .timed = gm_option_text(GM_OPT_STATS)[0] != '\0',
        .synchronise = synchronise,
        .user_named = user_named,
        .wants = wants,
        .advise = gm_managed_advice_advise,
        .grows = gm_grow_mode >= GM_GROW_VMM ? gm_grow_takes : NULL,
        .handed_over = gm_grow_mode != GM_GROW_OFF ? gm_grow_freed : NULL,
        .program_managed = gm_managed_note,
    };
    gm_pipeline_setup(&setup);
    bool checks = gm_check_start();
    gm_free_sync_setup(checks || gm_option_bool(GM_OPT_STRICT) ? GM_FREE_WAIT
                                                               : (enum gm_free_level)gm_option_number(GM_OPT_FREE));
    gm_trace_opened = name_trace;
    if (gm_option_text(GM_OPT_TRACE)[0]) {
        bound_trace();
        gm_trace_setup(gm_option_text(GM_OPT_TRACE), (int)gm_option_number(GM_OPT_TRACE_FORMAT),
                       gm_option_number(GM_OPT_TRACE_FLUSH), policy->name, GM_VERSION);
    }
    gm_copies_start();
    gm_host_copies_start();
    gm_queries_start();
    bool sites = wants & GM_WANT_SITE || checks || (guards && gm_guard_every <= 1);
    const struct gm_recording_setup recording = {
        .keeps_sites = sites || tracks(),
        .bound = bound_trace,
        .opened = describe_contexts,
        .ranges = gm_nvtx_begin_waiting,
        .sees_ranges = gm_nvtx_is_used,
    };
    gm_recording_setup(&recording);
    skip_wrappers();
    if ((gm_trace_is_on() || guards) && gm_option_number(GM_OPT_STACKS) && gm_option_bool(GM_OPT_PYTHON))
        gm_python_setup();
    if (gm_trace_is_on() || sites || guards)
        gm_site_setup(stack_frames(guards), wants & GM_WANT_SITE);
    if (!gm_trace_is_on() && !sites) /* one of N blocks is guarded: only these have a call site */
        __atomic_store_n(&gm_sites_on, false, __ATOMIC_RELEASE);
    gm_site_setup_of_new(few_frames());
    if (tracks())
        gm_resources_track((unsigned)gm_option_number(GM_OPT_STACKS));
    gm_account_card = gm_card_ask;
    gm_releases_for_lack = gm_account_before_release;
    gm_untracked_setup();
    gm_lender_setup();
    gm_fast_open(gm_coverage_on);
    gm_streams_observe();
    gm_context_on_new = on_new_context;
    gm_capture_on_lost = gm_hook_capture_lost;
    __atomic_store_n(&started, true, __ATOMIC_RELEASE);
    gm_log(GM_LOG_INFO, "gpumem %s: policy %s%s%s", GM_VERSION, policy->name, gm_trace_is_on() ? ", trace " : "",
           gm_trace_is_on() ? gm_option_text(GM_OPT_TRACE) : "");
}

/* Whether a driver was loaded that no entry point saw. Such a process starts nothing, and the coverage report says
 * so. */
static bool was_bypassed(void) {
    if (!*gm_environment_value(environ, "GPUMEM_COVERAGE") || !gm_real_dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD))
        return false;
    gm_options_load(environ);
    return gm_option_bool(GM_OPT_COVERAGE);
}

static void log_policy_end(void) {
    const struct gm_policy *policy = gm_pipeline_policy();
    char line[256];
    if (policy && policy->ended && policy->ended(line, sizeof(line)))
        gm_log(GM_LOG_INFO, "%s", line);
}

__attribute__((destructor)) static void process_end(void) {
    if (!__atomic_load_n(&started, __ATOMIC_ACQUIRE)) {
        if (was_bypassed())
            gm_coverage_report(STDERR_FILENO);
        return;
    }
    if (gm_coverage_on)
        gm_coverage_report(STDERR_FILENO);
    log_policy_end();
    report_stacks();
    gm_explain_finish();
    gm_explain_access_finish();
    gm_grow_report(STDERR_FILENO);
    gm_check_report(STDERR_FILENO);
    gm_recording_report();
    gm_recording_end();
    gm_trace_finish();
    if (gm_free_sync_slows())
        gm_format(gm_stats->free_sync, sizeof(gm_stats->free_sync), "%s", gm_free_sync_state());
    __atomic_store_n(&gm_stats->finished, 1, __ATOMIC_RELEASE);
}

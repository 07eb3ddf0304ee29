/* A call that fails changes nothing: of each call on each resource the n-th call of the driver fails, for n = 1, 2, 3
 * ... until the call makes fewer than n. Then device, counters, registry and adaptors hold what they held before, the
 * program's blocks have their contents, and the call can be repeated. The same for the calls of a program that was not
 * changed, and what they count against GPUMEM_LIMIT. */
#include <limits.h>
#include <stdio.h>

#include "public.h"
#include "shim/accounts/limit.h"
#include "shim/resource/guard_closing.h"
#include "shim/resource/guard_ranges.h"
#include "shim/trace/writer.h"
#include "stacks.h"

/* Beside the stacks of stacks.h: those that grow, and limits that have room for the blocks of one call and no more. */
static const char *const more[] = {
    "vmm",
    "statistics(log(track(vmm)))",
    "limit(6MiB,vmm)",
    "aligned(4MiB,vmm)",
    "fallback(vmm,vmm)",
    "fallback(fail-nth(2,vmm),statistics(vmm))",
    "limit(40KiB,statistics(native))",
    "limit(40KiB,cache(1,native))",
    "fallback(fail-nth(2,native),limit(20KiB,async))",
    "fallback(fail-nth(2,native),statistics(track(managed)))",
    "stream-bound(legacy,async)",
    "aligned(64KiB,cache(1,native))",
    "prime(4MiB,async)",
    "track(suspendable)",
    "track(split)",
};
enum { ROWS = STACKS + sizeof more / sizeof *more, SIZE = 20 << 10, GROWN = 4 << 20 };

static struct world world;
static struct gpumem_resource *resource;
static int code = CUDA_ERROR_OUT_OF_MEMORY; /* the driver's answer */

/* ---- what must not change */

struct state {
    unsigned count;
    struct {
        const char *name;
        unsigned number;
        uint64_t value;
    } values[24 + 4 * GM_KIND_COUNT];
};

static void note(struct state *state, const char *name, unsigned number, uint64_t value) {
    assert_true(state->count < sizeof state->values / sizeof *state->values);
    state->values[state->count].name = name;
    state->values[state->count].number = number;
    state->values[state->count++].value = value;
}

static void note_counters(struct state *state) {
    const struct gm_stats_shard total = gm_stats_total(gm_stats);
    for (unsigned kind = 0; kind < GM_KIND_COUNT; kind++) {
        note(state, "live bytes of kind", kind, gm_stats_live(gm_stats, &total, (enum gm_kind)kind));
        note(state, "reserved bytes of kind", kind, gm_stats->reserved_bytes[kind]);
        note(state, "kept bytes of kind", kind, total.cached_in[kind] - total.cached_out[kind]);
        note(state, "slack of kind", kind, gm_stats->slack_bytes[kind]);
    }
    note(state, "live bytes", 0, gm_stats_live_of(gm_stats, 0));
    note(state, "reserved bytes", 0, gm_stats->reserved_on[0]);
    note(state, "frees without an event", 0, total.frees_begun - total.frees_written);
}

static struct state state_now(void) {
    struct gpumem_statistics counts = {.struct_size = sizeof counts};
    struct state now = {0};
    size_t tracked = 0;
    note(&now, "bytes of the device", 0, simcuda_used(0));
    note(&now, "blocks of the driver", 0, simcuda_live_blocks());
    note(&now, "ranges of addresses", 0, simcuda_live_reservations() - gm_guard_arenas());
    note(&now, "handles of memory", 0, simcuda_live_handles());
    note(&now, "managed bytes", 0, gm_managed_alive());
    note(&now, "bytes of host memory", 0, gm_host_numa_alive());
    note(&now, "records", 0, gm_registry_count(gm_registry_shared()));
    note(&now, "violations", 0, simcuda_violations());
    note_counters(&now);
    (void)gpumem_resource_tracked(resource, NULL, NULL, &tracked);
    note(&now, "tracked blocks", 0, tracked);
    (void)gpumem_resource_get_statistics(resource, &counts);
    note(&now, "counted blocks", 0, counts.live_count);
    note(&now, "counted bytes", 0, counts.live_bytes);
    return now;
}

/* Without what is kept for reuse: a call that finds no memory may release that. */
static struct state settled_state(void) {
    CU(cuCtxSynchronize());
    OK(gpumem_resource_trim(resource, SIZE_MAX, NULL));
    return state_now();
}

static void assert_same(const struct state *before, const struct state *after, const char *what) {
    bool same = true;
    for (unsigned i = 0; i < before->count; i++)
        if (before->values[i].value != after->values[i].value) {
            print_error("%s: %s %u: %lld more\n", what, before->values[i].name, before->values[i].number,
                        (long long)(after->values[i].value - before->values[i].value));
            same = false;
        }
    assert_true(same);
}

/* ---- the calls */

struct subject {
    void *memory; /* NULL: none */
    size_t bytes;
};

static struct gpumem_stream_view stream_one(void) { return gpumem_stream(world.one); }

static enum gpumem_status make(struct subject *subject) {
    subject->bytes = SIZE;
    return gpumem_resource_allocate(resource, SIZE, 16, &subject->memory);
}
static enum gpumem_status make_ordered(struct subject *subject) {
    subject->bytes = SIZE;
    return gpumem_resource_allocate_async_aligned(resource, SIZE, 16, stream_one(), &subject->memory);
}
static enum gpumem_status ended(struct subject *subject, enum gpumem_status status) {
    subject->memory = status ? subject->memory : NULL;
    return status;
}
static enum gpumem_status end(struct subject *subject) {
    return ended(subject, gpumem_resource_deallocate(resource, subject->memory, subject->bytes, 16));
}
static enum gpumem_status end_ordered(struct subject *subject) {
    return ended(subject,
                 gpumem_resource_deallocate_async_aligned(resource, subject->memory, subject->bytes, 16, stream_one()));
}
static enum gpumem_status grow(struct subject *subject) {
    enum gpumem_status status = gpumem_resource_grow(resource, subject->memory, subject->bytes, GROWN);
    subject->bytes = status ? subject->bytes : GROWN;
    return status;
}
static enum gpumem_status release_kept(struct subject *subject) {
    return gpumem_resource_trim(resource, SIZE_MAX, NULL);
}
static enum gpumem_status make_and_end(struct subject *subject) {
    enum gpumem_status status = make(subject);
    return status ? status : end(subject);
}

static const struct call {
    const char *name;
    enum gpumem_status (*prepare)(struct subject *subject); /* without a failure; NULL: nothing */
    enum gpumem_status (*act)(struct subject *subject);
    uint64_t needs; /* properties of the resource */
    bool always;    /* it changes nothing where it succeeds, either */
} calls[] = {
    {"allocate", NULL, make, 0, false},
    {"allocate what is kept", make_and_end, make, 0, false},
    {"allocate in order", NULL, make_ordered, GPUMEM_STREAM_ORDERED, false},
    {"deallocate", make, end, 0, false},
    {"deallocate in order", make_ordered, end_ordered, GPUMEM_STREAM_ORDERED, false},
    {"deallocate after an allocation in order", make_ordered, end, GPUMEM_STREAM_ORDERED, false},
    {"grow", make, grow, GPUMEM_GROWABLE, false},
    {"trim", make_and_end, release_kept, 0, true},
};

/* ---- each call of the driver fails */

static struct gm_block as_block(const struct subject *subject) {
    return (struct gm_block){.address = (uint64_t)(uintptr_t)subject->memory, .size = SIZE};
}

static void fill_subject(const struct subject *subject, uint32_t pattern) {
    struct gm_block block = as_block(subject);
    world_fill(&world, world.one, &block, pattern);
}

static void check_subject(const struct subject *subject, uint32_t pattern, const char *what) {
    struct gm_block block = as_block(subject);
    if (subject->memory && world_differing(&world, &block, pattern))
        fail_msg("%s: a block has other contents", what);
}

/* False: the call of the resource made fewer than n calls of the driver. */
static bool fail_nth(const char *text, const struct call *call, unsigned n) {
    char what[160], script[32];
    struct subject held = {0}, subject = {0};
    bool poisons = strstr(text, "poison") != NULL;
    snprintf(what, sizeof what, "%s: %s, call %u of the driver answers %d", text, call->name, n, code);
    OK(make(&held));
    fill_subject(&held, 1);
    const struct state base = settled_state();
    if (call->prepare)
        OK(call->prepare(&subject));
    if (subject.memory)
        fill_subject(&subject, 2);
    const struct state before = subject.memory ? settled_state() : base;
    struct subject same = subject;
    simcuda_reset_counters();
    snprintf(script, sizeof script, "*:%u:%d", n, code);
    assert_int_equal(simcuda_set_failures(script), 0);
    enum gpumem_status status = call->act(&subject);
    bool reached = simcuda_calls(NULL) >= n;
    simcuda_set_failures(NULL);
    if (status || call->always) {
        const struct state after = settled_state();
        assert_same(&before, &after, what);
    }
    if (status) {
        assert_ptr_equal(subject.memory, same.memory);
        if (!poisons)
            check_subject(&subject, 2, what);
        OK(call->act(&subject));
    }
    check_subject(&held, 1, what);
    if (subject.memory)
        OK(end(&subject));
    const struct state after = settled_state();
    assert_same(&base, &after, what);
    OK(end(&held));
    return reached;
}

static void fail_each(const char *text, const struct call *call) {
    bool reached = true;
    for (unsigned n = 1; reached; n++) {
        assert_true(n < 200);
        world_open(&world);
        resource = create(text);
        if (gpumem_resource_properties(resource) & call->needs || !call->needs)
            reached = fail_nth(text, call, n);
        else
            reached = false;
        OK(gpumem_resource_trim(resource, SIZE_MAX, NULL));
        OK(gpumem_resource_destroy(resource));
        resource = NULL;
        world_close(&world, stack_named("async"));
    }
}

/* ---- under a trace, which has to see the end of each free that it saw begin */

static char trace[] = "/tmp/gpumem-undo-XXXXXX";

static int begin(void **state) {
    const char *why = "";
    int file = mkstemp(trace);
    if (file < 0 || close(file) || unlink(trace))
        return -1;
    gm_clock_init();
    if (!gm_trace_prepare(trace, 1, 0, "observe", "test") || !gm_trace_start(true, &why))
        fail_msg("%s", why);
    __atomic_store_n(&gm_trace_on, true, __ATOMIC_SEQ_CST);
    gm_guard_prompt = UINT_MAX; /* no thread calls the driver meanwhile */
    return build_stacks(state);
}

static int end_trace(void **state) {
    __atomic_store_n(&gm_trace_on, false, __ATOMIC_SEQ_CST);
    gm_trace_stop();
    return unlink(trace);
}

TEST(a_call_that_fails_changes_nothing) {
    for (unsigned row = 0; row < ROWS; row++)
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
            fail_each(row < STACKS ? stacks[row] : more[row - STACKS], &calls[i]);
}

/* ---- calls of an unmodified program, below GPUMEM_LIMIT */

static enum gm_kind wanted;

static void decide(const struct gm_request *request, struct gm_decision *decision) {
    *decision = (struct gm_decision){.kind = wanted, .reason = GM_REASON_POLICY, .verdict = wanted};
}
static const struct gm_policy policy = {.name = "wanted", .decide = decide};
static struct gm_resource *router;

/* What serves such a program, each kind by its row. */
static void set_up_pipeline(void) {
    for (const struct gm_resource_ops *const *row = gm_resource_rows; *row; row++)
        if ((*row)->serves)
            gm_router_serve((*row)->kind, build((*row)->serves));
    router = build("router");
    gm_pipeline_setup(&(struct gm_pipeline_setup){.policy = &policy, .root = router});
}

static gm_status refuse(const struct gm_scope *scope, uint64_t key) { return GM_INVALID_VALUE; }

static gm_status call_alloc(const struct gm_request *request, uint64_t *address) {
    struct gm_scope scope = {0};
    gm_scope_begin(&scope, request->call, request->size, 0);
    scope.request = *request;
    gm_status status = gm_pipeline_alloc(&scope);
    *address = status ? 0 : scope.block.address;
    return status;
}

static gm_status call_free(const struct gm_request *request, uint64_t *address) {
    bool in_order = request->call == GM_CALL_ALLOC_ASYNC;
    struct gm_scope scope = {0};
    gm_scope_begin(&scope, in_order ? GM_CALL_FREE_ASYNC : GM_CALL_FREE, 0, 0);
    scope.request.stream = request->stream;
    gm_status status = gm_pipeline_free(&scope, GM_ACT_FREE, *address, refuse);
    *address = status ? *address : 0;
    return status;
}

static struct state settled_pipeline(void) {
    CU(cuCtxSynchronize());
    gm_stack_trim(router, SIZE_MAX);
    struct state now = state_now();
    note(&now, "charged bytes", 0, gm_limit_live(0));
    return now;
}

/* Where the n-th call fails no native memory serves in the place of the wanted kind. */
static bool fail_nth_below_limit(const struct gm_request *request, bool frees, unsigned n) {
    char what[160], script[160];
    uint64_t address = 0;
    snprintf(what, sizeof what, "kind %d, call %d, %s: call %u of the driver answers %d", wanted, request->call,
             frees ? "free" : "allocation", n, code);
    const struct state base = settled_pipeline();
    if (frees)
        assert_int_equal(call_alloc(request, &address), GM_OK);
    const struct state before = settled_pipeline();
    simcuda_reset_counters();
    snprintf(script, sizeof script, "*:%u:%d%s", n, code,
             frees || wanted == GM_KIND_NATIVE ? "" : ",cuMemAlloc_v2:1:2:99,cuMemAllocPitch_v2:1:2:99");
    assert_int_equal(simcuda_set_failures(script), 0);
    gm_status status = frees ? call_free(request, &address) : call_alloc(request, &address);
    bool reached = simcuda_calls(NULL) >= n;
    simcuda_set_failures(NULL);
    if (status) {
        const struct state after = settled_pipeline();
        assert_same(&before, &after, what);
    }
    if (address)
        assert_int_equal(call_free(request, &address), GM_OK);
    const struct state after = settled_pipeline();
    assert_same(&base, &after, what);
    return reached;
}

TEST(a_call_that_fails_is_charged_for_nothing) {
    gm_limit_start("", (uint64_t)1 << 30);
    assert_true(gm_limit_on());
    set_up_pipeline();
    for (wanted = 0; wanted < GM_KIND_COUNT; wanted++)
        for (int call = 0; call < 6 && gm_router_server(wanted); call++) {
            bool reached = true;
            for (unsigned n = 1; reached; n++) {
                assert_true(n < 200);
                world_open(&world);
                const struct gm_request requests[] = {
                    plain_request(&world.origin, SIZE), pitched_request(&world.origin, 301, 40),
                    ordered_request(&world.origin, SIZE, (uint64_t)(uintptr_t)world.one)};
                reached = fail_nth_below_limit(&requests[call / 2], call % 2, n);
                world_close(&world, router);
            }
        }
}

int main(int argc, char **argv) {
    code = argc > 1 ? atoi(argv[1]) : code;
    return run_all(begin, end_trace);
}

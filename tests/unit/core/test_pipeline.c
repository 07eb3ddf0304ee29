/* The one way of every call, over made-up memory, with a real trace that is read back at the end: order of events against reused
 * addresses, failed and unknown frees, counters that add up, what the policy is told. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/base/base.h"
#include "shim/core/pipeline.h"
#include "shim/core/registry.h"
#include "shim/base/stats.h"
#include "shim/gpumem.h"
#include "shim/resource/decided.h"
#include "shim/resource/sim.h"
#include "shim/trace/writer.h"
#include "tools/cli/reader.h"

/* ---- a policy that counts what it is told */

static struct {
    int decided, failed, freed;
    size_t last_freed;
} told;

static void counting_decide(const struct gm_request *request, const struct gm_usage *usage, struct gm_decision *decision) {
    __atomic_add_fetch(&told.decided, 1, __ATOMIC_RELAXED);
    *decision = (struct gm_decision){GM_KIND_NATIVE, GM_REASON_POLICY, GM_KIND_ASYNC};
}
static void counting_failed(const struct gm_request *request) { __atomic_add_fetch(&told.failed, 1, __ATOMIC_RELAXED); }
static void counting_freed(const struct gm_request *request) {
    __atomic_add_fetch(&told.freed, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&told.last_freed, request->size, __ATOMIC_RELAXED);
}
static const struct gm_policy counting = {
    .name = "counting", .decide = counting_decide, .failed = counting_failed, .freed = counting_freed};

/* ---- a resource that stands still in the middle of a free or an allocation, when the memory below has changed hands already */

static struct {
    gm_status (*alloc)(struct gm_resource *, const struct gm_request *, struct gm_block *);
    int hold_free, hold_alloc; /* the next such call stops ... */
    int held;                  /* ... is stopped ... */
    int go_on;                 /* ... and may go on */
} door;

static void stand_still(int *hold) {
    int one = 1;
    if (!__atomic_compare_exchange_n(hold, &one, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return;
    __atomic_store_n(&door.held, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&door.go_on, __ATOMIC_ACQUIRE))
        sched_yield();
}

static gm_status delaying_alloc(struct gm_resource *self, const struct gm_request *request, struct gm_block *block) {
    gm_status status = self->upstream->row->alloc(self->upstream, request, block);
    if (status == GM_OK)
        block->owner = self;
    stand_still(&door.hold_alloc);
    return status;
}

static gm_status delaying_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    gm_status status = self->upstream->row->free(self->upstream, block, how);
    stand_still(&door.hold_free);
    return status;
}

static void delaying_context_gone(struct gm_resource *self, uint64_t context_id) {
    self->upstream->row->context_gone(self->upstream, context_id);
}

static const struct gm_resource_row delaying_row = {.name = "delaying",
                                                    .properties = ~0u,
                                                    .adaptor = true,
                                                    .alloc = delaying_alloc,
                                                    .free = delaying_free,
                                                    .context_gone = delaying_context_gone};
static struct gm_resource delaying = {.row = &delaying_row};

/* ---- the program's side */

static struct gm_resource *sim; /* the maker at the bottom of whatever stack is in use */
static char trace_file[] = "/tmp/gpumem-pipeline-XXXXXX";

static struct gm_resource *build(const char *text) {
    char error[320] = "";
    struct gm_resource *root = gm_resource_build(text, error, sizeof error);
    if (!root)
        fail_msg("%s: %s", text, error);
    for (sim = root; sim->upstream;)
        sim = sim->upstream;
    return root;
}

static void begin_test(const char *name, struct gm_resource *root) {
    struct gm_pipeline_setup setup = {.policy = &counting, .root = root, .timed = true, .user_named = true};
    memset(&told, 0, sizeof told);
    gm_stats_after_fork(); /* counts from zero */
    gm_pipeline_setup(&setup);
    gpumem_mark(name);
}

static struct gm_scope scope_of(enum gm_call call, size_t size) {
    struct gm_scope scope;
    gm_scope_begin(&scope, call, size, 0);
    scope.request.device = 0;
    scope.request.context = 0xc0;
    scope.request.context_id = 7;
    scope.request.context_number = 1;
    return scope;
}

static gm_status get(size_t size, uint64_t *address) {
    struct gm_scope scope = scope_of(GM_CALL_ALLOC, size);
    gm_status status = gm_pipeline_alloc(&scope);
    if (status == GM_OK)
        *address = scope.block.address;
    return status;
}

static gm_status give(uint64_t address) {
    struct gm_scope scope = scope_of(GM_CALL_FREE, 0);
    gm_pipeline_free_begin(&scope, address);
    gm_status status = scope.known && scope.block.owner ? gm_pipeline_owner_free(&scope, false) : GM_INVALID_VALUE;
    gm_pipeline_free_end(&scope, GM_ACT_FREE, address, status);
    return status;
}

static struct gm_stats_shard totals(void) {
    struct gm_stats_shard sum = {0};
    for (unsigned i = 0; i < GM_STATS_SHARDS; i++) {
        const struct gm_stats_shard *shard = &gm_stats->shards[i];
        for (int kind = 0; kind < GM_KIND_COUNT; kind++) {
            sum.allocs[kind] += shard->allocs[kind];
            sum.frees[kind] += shard->frees[kind];
            sum.released[kind] += shard->released[kind];
        }
        sum.failed_allocs += shard->failed_allocs;
        sum.failed_frees += shard->failed_frees;
        sum.unknown_frees += shard->unknown_frees;
        sum.temporary += shard->temporary;
        sum.time_ns += shard->time_ns;
        sum.moved += shard->moved;
    }
    return sum;
}

static uint64_t live_on_devices(void) {
    uint64_t live = 0;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        live += kind == GM_KIND_HOST || kind == GM_KIND_IMPORTED ? 0 : gm_stats->live_bytes[kind];
    return live;
}

static void check_balance(void) {
    struct gm_stats_shard sum = totals();
    uint64_t live = 0;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        live += sum.allocs[kind] - sum.frees[kind] - sum.released[kind];
    assert_int_equal(live, gpumem_live_count());
}

/* ---- tests */

static void test_alloc_and_free(void **state) {
    uint64_t a, b;
    struct gpumem_block block;
    begin_test("alloc_and_free", build("limit(1GiB,sim)"));
    assert_int_equal(get(1000, &a), GM_OK);
    assert_int_equal(get(5000, &b), GM_OK);
    assert_int_equal(gpumem_block_of((void *)(uintptr_t)(b + 4999), &block), 0);
    assert_true(block.address == b && block.size == 5000 && block.device == 0);
    assert_string_equal(block.kind, "sim");
    assert_string_equal(block.call, "cuMemAlloc");
    assert_int_equal(gpumem_block_of((void *)(uintptr_t)(b + 5000), &block), -1);
    assert_true(block.address == b); /* untouched */
    assert_int_equal(live_on_devices(), 6000);
    assert_int_equal(gm_stats->live_bytes[GM_KIND_SIM], 6000);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(give(b), GM_OK);
    assert_int_equal(live_on_devices(), 0);
    assert_int_equal(gm_stats->peak_total, 6000);
    assert_int_equal(gm_stats->peak_bytes[GM_KIND_SIM], 6000);
    assert_int_equal(told.decided, 2);
    assert_int_equal(told.freed, 2);
    assert_int_equal(told.failed, 0);
    assert_int_equal(gm_sim_live_count(sim), 0);
    assert_int_equal(totals().moved, 2); /* another kind than native served */
    check_balance();
}

static void test_reserved_counts_as_slack(void **state) {
    begin_test("slack", build("sim"));
    struct gm_scope scope = scope_of(GM_CALL_ALLOC_PITCH, 1000 * 3);
    scope.request.width = 1000;
    scope.request.height = 3;
    scope.request.element_size = 4;
    assert_int_equal(gm_pipeline_alloc(&scope), GM_OK);
    assert_int_equal(scope.block.pitch, 1024);
    assert_int_equal(gm_stats->slack, 3 * 24);
    assert_int_equal(gm_stats->peak_reserved, 3 * 1024);
    assert_int_equal(give(scope.block.address), GM_OK);
    assert_int_equal(gm_stats->slack, 0);
    check_balance();
}

static void test_a_failed_allocation(void **state) {
    uint64_t a = 42;
    begin_test("failed_allocation", build("fail-nth(2,sim)"));
    assert_int_equal(get(100, &a), GM_OK);
    uint64_t first = a;
    assert_int_equal(get(200, &a), GM_OUT_OF_MEMORY);
    assert_true(a == first);
    assert_int_equal(told.failed, 1);
    gm_sim_fail(sim, 1, 999);
    assert_int_equal(get(300, &a), 999); /* the driver's own number */
    assert_int_equal(told.failed, 2);
    assert_int_equal(totals().failed_allocs, 2);
    assert_int_equal(get(400, &a), GM_OK);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(give(first), GM_OK);
    assert_int_equal(told.freed, 2);
    check_balance();
}

static void test_zero_bytes_are_not_decided(void **state) {
    uint64_t a;
    begin_test("zero_bytes", build("sim"));
    assert_int_equal(get(0, &a), GM_INVALID_VALUE);
    assert_int_equal(told.decided, 0);
    assert_int_equal(told.failed, 0);
}

static void test_a_failed_free_keeps_the_record(void **state) {
    struct gpumem_block block;
    uint64_t a;
    begin_test("failed_free", build("sim"));
    assert_int_equal(get(4096, &a), GM_OK);
    gm_sim_fail_free(sim, 1, 700);
    assert_int_equal(give(a), 700);
    assert_int_equal(gpumem_block_of((void *)(uintptr_t)a, &block), 0);
    assert_int_equal(live_on_devices(), 4096);
    assert_int_equal(told.freed, 0);
    assert_int_equal(totals().failed_frees, 1);
    assert_int_equal(totals().unknown_frees, 0);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(told.freed, 1);
    check_balance();
}

static void test_unknown_and_double_frees(void **state) {
    uint64_t a;
    begin_test("unknown_frees", build("sim"));
    assert_int_equal(get(4096, &a), GM_OK);
    assert_int_equal(give(0x10), GM_INVALID_VALUE);
    assert_int_equal(give(a + 8), GM_INVALID_VALUE); /* interior */
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(give(a), GM_INVALID_VALUE);
    assert_int_equal(totals().unknown_frees, 3);
    assert_int_equal(totals().failed_frees, 3);
    assert_int_equal(told.freed, 1);
    check_balance();
}

/* A free that went past every door: the address comes again while the old record lives. */
static void test_a_stale_record_is_released(void **state) {
    struct gpumem_block block;
    uint64_t a, b;
    begin_test("stale_record", build("sim"));
    assert_int_equal(get(3000, &a), GM_OK);
    struct gm_block behind = {.address = a};
    struct gm_free_request how = {.call = GM_CALL_FREE};
    assert_int_equal(sim->row->free(sim, &behind, &how), GM_OK);
    assert_int_equal(get(2999, &b), GM_OK);
    assert_true(a == b);
    assert_int_equal(gpumem_live_count(), 1);
    assert_int_equal(gpumem_block_of((void *)(uintptr_t)a, &block), 0);
    assert_int_equal(block.size, 2999);
    assert_int_equal(told.freed, 1);
    assert_int_equal(told.last_freed, 3000);
    assert_int_equal(totals().released[GM_KIND_SIM], 1);
    assert_int_equal(live_on_devices(), 2999);
    assert_int_equal(gm_stats->peak_total, 3000); /* they never lived at once */
    assert_int_equal(give(b), GM_OK);
    assert_int_equal(told.freed, 2);
    check_balance();
}

static void test_a_context_takes_its_blocks_along(void **state) {
    uint64_t a = 0, kept;
    begin_test("context_gone", build("sim"));
    for (int i = 0; i < 200; i++)
        assert_int_equal(get(512, &a), GM_OK);
    struct gm_scope other = scope_of(GM_CALL_ALLOC, 512);
    other.request.context_id = 8;
    assert_int_equal(gm_pipeline_alloc(&other), GM_OK);
    kept = other.block.address;
    gm_pipeline_context_gone(7);
    assert_int_equal(gpumem_live_count(), 1);
    assert_int_equal(told.freed, 200);
    assert_int_equal(gm_stats->released_bytes, 200 * 512);
    assert_int_equal(gm_sim_live_count(sim), 1);
    assert_int_equal(give(a), GM_INVALID_VALUE);
    assert_int_equal(give(kept), GM_OK);
    check_balance();
}

/* Temporary: freed with no other allocation of its thread in between. */
static void *get_once(void *arg) {
    uint64_t *address = arg;
    return get(512, address) == GM_OK ? arg : NULL;
}

static void test_temporary(void **state) {
    uint64_t a, b, again;
    pthread_t thread;
    void *done;
    begin_test("temporary", build("sim"));
    assert_int_equal(get(512, &a), GM_OK);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(totals().temporary, 1);
    assert_int_equal(get(512, &a), GM_OK);
    assert_int_equal(get(1024, &b), GM_OK);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(totals().temporary, 1);
    assert_int_equal(give(b), GM_OK);
    assert_int_equal(totals().temporary, 2);
    /* The same address in another thread's hands is not this thread's newest. */
    assert_int_equal(get(512, &a), GM_OK);
    assert_int_equal(give(a), GM_OK);
    assert_int_equal(totals().temporary, 3);
    assert_int_equal(pthread_create(&thread, NULL, get_once, &again), 0);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_true(again == a);
    assert_int_equal(give(again), GM_OK);
    assert_int_equal(totals().temporary, 3);
    check_balance();
}

/* ---- the window: an address is in new hands before the old free has returned */

static void *give_in_thread(void *arg) {
    uint64_t address = (uint64_t)(uintptr_t)arg;
    return give(address) == GM_OK ? arg : NULL;
}

static void await_held(void) {
    while (!__atomic_load_n(&door.held, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void test_reuse_while_the_free_is_under_way(void **state) {
    struct gpumem_block block;
    pthread_t thread;
    uint64_t old, fresh;
    void *done;
    memset(&door, 0, sizeof door);
    delaying.upstream = build("sim");
    delaying.properties = sim->properties;
    delaying.kind = sim->kind;
    begin_test("window", &delaying);
    assert_int_equal(get(7000, &old), GM_OK);
    door.hold_free = 1;
    assert_int_equal(pthread_create(&thread, NULL, give_in_thread, (void *)(uintptr_t)old), 0);
    await_held();
    assert_int_equal(gpumem_live_count(), 0); /* forgotten before it was freed */
    assert_int_equal(get(6999, &fresh), GM_OK);
    assert_true(fresh == old);
    __atomic_store_n(&door.go_on, 1, __ATOMIC_RELEASE);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_int_equal(gpumem_block_of((void *)(uintptr_t)fresh, &block), 0); /* the late end of the old free took nothing away */
    assert_int_equal(block.size, 6999);
    assert_int_equal(totals().released[GM_KIND_SIM], 0); /* and nothing looked stale */
    assert_int_equal(live_on_devices(), 6999);
    assert_int_equal(give(fresh), GM_OK);
    check_balance();
}

/* An allocation that has its memory but has not returned is nobody's yet: not found, not counted. */
static void *get_in_thread(void *arg) { return get(512, arg) == GM_OK ? arg : NULL; }

static void test_remembered_only_after_it_was_got(void **state) {
    pthread_t thread;
    uint64_t address = 0;
    void *done;
    memset(&door, 0, sizeof door);
    delaying.upstream = build("sim");
    delaying.properties = sim->properties;
    delaying.kind = sim->kind;
    begin_test("window_of_alloc", &delaying);
    door.hold_alloc = 1;
    assert_int_equal(pthread_create(&thread, NULL, get_in_thread, &address), 0);
    await_held();
    assert_int_equal(gm_sim_live_count(sim), 1);
    assert_int_equal(gpumem_live_count(), 0);
    assert_int_equal(live_on_devices(), 0);
    __atomic_store_n(&door.go_on, 1, __ATOMIC_RELEASE);
    pthread_join(thread, &done);
    assert_non_null(done);
    assert_int_equal(gpumem_live_count(), 1);
    assert_int_equal(give(address), GM_OK);
    check_balance();
}

/* Eight threads hand the same few addresses around as fast as they can. */
enum { THREADS = 8, ROUNDS = 2000 };

static void *churn(void *arg) {
    uintptr_t wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t a, b;
        if (get(512, &a) != GM_OK || get(512 + (i & 3) * 512, &b) != GM_OK)
            return (void *)1;
        wrong += give(a) != GM_OK;
        wrong += give(b) != GM_OK;
    }
    return (void *)wrong;
}

static void test_threads_on_few_addresses(void **state) {
    pthread_t threads[THREADS];
    begin_test("churn", build("limit(1GiB,sim)"));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    struct gm_stats_shard sum = totals();
    assert_int_equal(sum.allocs[GM_KIND_SIM], 2 * THREADS * ROUNDS);
    assert_int_equal(sum.frees[GM_KIND_SIM], 2 * THREADS * ROUNDS);
    assert_int_equal(sum.unknown_frees, 0);
    assert_int_equal(sum.released[GM_KIND_SIM], 0);
    assert_int_equal(sum.temporary, THREADS * ROUNDS); /* of each pair the second: its own free comes after the first one's */
    assert_int_equal(told.decided, 2 * THREADS * ROUNDS);
    assert_int_equal(told.freed, 2 * THREADS * ROUNDS);
    assert_true(sum.time_ns > 0);
    assert_int_equal(live_on_devices(), 0);
    assert_int_equal(gm_sim_live_count(sim), 0);
    check_balance();
}

/* Calls that are never moved: seen, remembered, freed by the program's own call. */
static void test_seen_calls(void **state) {
    begin_test("seen", build("sim"));
    struct gm_scope scope = scope_of(GM_CALL_HOST_ALLOC, 4096);
    gm_pipeline_saw_alloc(&scope, GM_KIND_HOST, GM_ACT_ALLOC, 0x5000, 0, GM_OK);
    assert_int_equal(gm_stats->live_bytes[GM_KIND_HOST], 4096);
    assert_int_equal(live_on_devices(), 0); /* no device memory */
    scope = scope_of(GM_CALL_VMM_RESERVE, 1 << 30);
    gm_pipeline_saw_alloc(&scope, GM_KIND_VMM, GM_ACT_RESERVE, gm_key(GM_SPACE_RESERVATION, 0x5000), 0, GM_OK);
    assert_int_equal(live_on_devices(), 0); /* address space is no memory */
    assert_int_equal(gpumem_live_count(), 2);  /* the same number in two spaces */
    scope = scope_of(GM_CALL_HOST_ALLOC, 4096);
    gm_pipeline_saw_alloc(&scope, GM_KIND_HOST, GM_ACT_ALLOC, 0, 0, GM_OUT_OF_MEMORY);
    assert_int_equal(totals().failed_allocs, 1);
    scope = scope_of(GM_CALL_FREE_HOST, 0);
    gm_pipeline_free_begin(&scope, 0x5000);
    assert_true(scope.known && !scope.block.owner && scope.block.kind == GM_KIND_HOST);
    gm_pipeline_free_end(&scope, GM_ACT_FREE, 0x5000, GM_OK);
    scope = scope_of(GM_CALL_VMM_ADDRESS_FREE, 0);
    gm_pipeline_free_begin(&scope, gm_key(GM_SPACE_RESERVATION, 0x5000));
    assert_true(scope.known);
    gm_pipeline_free_end(&scope, GM_ACT_UNRESERVE, gm_key(GM_SPACE_RESERVATION, 0x5000), GM_OK);
    assert_int_equal(told.decided + told.freed, 0); /* not the policy's */
    check_balance();
}

static void test_keys(void **state) {
    static const uint64_t values[] = {0, 0x10, 0x7fffffffffff, 1ull << 61, ~0ull >> 2};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        for (int space = GM_SPACE_ADDRESS; space <= GM_SPACE_OBJECT; space++) {
            assert_true(gm_key_value(gm_key((enum gm_space)space, values[i])) == values[i]);
            for (int other = GM_SPACE_ADDRESS; other < space; other++)
                assert_true(gm_key((enum gm_space)space, values[i]) != gm_key((enum gm_space)other, values[i]));
        }
}

/* ---- the trace of all of it */

struct reading {
    const char *mark;
    uint64_t last_seq, frees, releases, fails, free_fails, unknown, marks;
};

/* Blocks alive by the trace alone: address -> bytes. */
static struct alive {
    uint64_t address, bytes;
} alive[512];
static unsigned alive_count;

static struct alive *find_alive(uint64_t address) {
    for (unsigned i = 0; i < alive_count; i++)
        if (alive[i].address == address)
            return &alive[i];
    return NULL;
}

static void check_event(const struct gm_event *event, struct reading *reading) {
    struct alive *block = find_alive(event->address);
    switch (event->action) {
    case GM_ACT_ALLOC:
        if (block)
            fail_msg("%s: seq %llu: allocated twice", reading->mark, (unsigned long long)event->seq);
        assert_true(alive_count < 512 && event->bytes > 0);
        alive[alive_count++] = (struct alive){event->address, event->bytes};
        break;
    case GM_ACT_FREE:
    case GM_ACT_RELEASE:
        if (!block)
            fail_msg("%s: seq %llu: freed but not live", reading->mark, (unsigned long long)event->seq);
        assert_true(block->bytes == event->bytes);
        *block = alive[--alive_count];
        reading->frees += event->action == GM_ACT_FREE;
        reading->releases += event->action == GM_ACT_RELEASE;
        break;
    case GM_ACT_ALLOC_FAIL:
        assert_int_not_equal(event->result, 0);
        assert_true(event->address == 0);
        reading->fails++;
        break;
    case GM_ACT_FREE_FAIL:
        assert_int_not_equal(event->result, 0);
        reading->free_fails++;
        reading->unknown += block == NULL;
        break;
    default: break;
    }
}

static void test_the_trace_tells_it_all(void **state) {
    char error[320];
    gm_trace_finish();
    struct gm_reader *reader = gm_reader_open(trace_file, error, sizeof error);
    struct reading reading = {.mark = "start"};
    struct gm_event event;
    int thread;
    if (!reader)
        fail_msg("%s", error);
    while (gm_reader_next(reader, &event, &thread)) {
        assert_true(event.seq == reading.last_seq + 1); /* nothing is missing */
        reading.last_seq = event.seq;
        if (event.action == GM_ACT_MARK) {
            reading.mark = gm_reader_string(reader, event.site);
            reading.marks++;
            assert_non_null(reading.mark);
            assert_int_equal(alive_count, 0); /* each test leaves nothing */
        }
        check_event(&event, &reading);
    }
    assert_int_equal(gm_reader_damaged(reader), 0);
    assert_int_equal(gm_reader_header(reader)->dropped, 0);
    assert_int_equal(gm_reader_header(reader)->finished, 1);
    assert_string_equal(gm_reader_header(reader)->policy, "counting");
    gm_reader_close(reader);
    assert_int_equal(reading.marks, 13);
    assert_int_equal(reading.releases, 201); /* 200 with their context, one stale */
    assert_int_equal(reading.fails, 4);
    assert_int_equal(reading.free_fails, 5);
    assert_int_equal(reading.unknown, 4); /* all but the one whose free failed below */
    assert_true(reading.frees > 2 * THREADS * ROUNDS);
}

static int begin_trace(void **state) {
    int fd = mkstemp(trace_file);
    if (fd < 0)
        return -1;
    close(fd);
    unlink(trace_file);
    gm_clock_init();
    gm_trace_setup(trace_file, 1, 0, "counting", "test");
    return 0;
}

static int remove_trace(void **state) {
    unlink(trace_file);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_and_free),
        cmocka_unit_test(test_reserved_counts_as_slack),
        cmocka_unit_test(test_a_failed_allocation),
        cmocka_unit_test(test_zero_bytes_are_not_decided),
        cmocka_unit_test(test_a_failed_free_keeps_the_record),
        cmocka_unit_test(test_unknown_and_double_frees),
        cmocka_unit_test(test_a_stale_record_is_released),
        cmocka_unit_test(test_a_context_takes_its_blocks_along),
        cmocka_unit_test(test_temporary),
        cmocka_unit_test(test_reuse_while_the_free_is_under_way),
        cmocka_unit_test(test_remembered_only_after_it_was_got),
        cmocka_unit_test(test_threads_on_few_addresses),
        cmocka_unit_test(test_seen_calls),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_the_trace_tells_it_all),
    };
    return cmocka_run_group_tests(tests, begin_trace, remove_trace);
}

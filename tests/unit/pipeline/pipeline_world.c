/* The policy, the resource and the short calls that the tests of the pipeline share; see pipeline_world.h. */
#include "pipeline_world.h"

#include <sched.h>
#include <string.h>

/* ---- a policy that counts its calls */

struct policy_calls policy_calls;
void (*when_freed)(void);

static void counting_decide(const struct gm_request *request, struct gm_decision *decision) {
    __atomic_add_fetch(&policy_calls.decided, 1, __ATOMIC_RELAXED);
    *decision = (struct gm_decision){GM_KIND_NATIVE, GM_REASON_POLICY, GM_KIND_ASYNC, .counted = true};
}
static void counting_failed(const struct gm_request *request) {
    __atomic_add_fetch(&policy_calls.failed, 1, __ATOMIC_RELAXED);
}
static void counting_freed(const struct gm_request *request) {
    __atomic_add_fetch(&policy_calls.freed, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&policy_calls.last_freed, request->size, __ATOMIC_RELAXED);
    void (*then)(void) = __atomic_exchange_n(&when_freed, NULL, __ATOMIC_ACQ_REL);
    if (then)
        then();
}
static const struct gm_policy counting = {
    .name = "counting", .decide = counting_decide, .failed = counting_failed, .freed = counting_freed};

/* ---- a resource that stops in the middle of a free or an allocation, after the memory below it was freed or
 * allocated */

struct delay delay;

static void stop_once(int *hold) {
    int one = 1;
    if (!__atomic_compare_exchange_n(hold, &one, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return;
    __atomic_store_n(&delay.held, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&delay.go_on, __ATOMIC_ACQUIRE))
        sched_yield();
}

static gm_status delaying_alloc(struct gm_resource *self, const struct gm_request *request,
                                const struct gm_decision *decision, struct gm_block *block) {
    gm_status status = gm_resource_alloc(self->upstream, request, decision, block);
    if (status == GM_OK)
        block->owner = self;
    stop_once(&delay.hold_alloc);
    return status;
}

static gm_status delaying_free(struct gm_resource *self, const struct gm_block *block,
                               const struct gm_free_request *how) {
    gm_status status = gm_resource_free(self->upstream, block, how);
    stop_once(&delay.hold_free);
    return status;
}

static const struct gm_resource_ops delaying_row = {
    .name = "delaying", .properties = ~0u, .adaptor = true, .alloc = delaying_alloc, .free = delaying_free};
struct gm_resource delaying = {.ops = &delaying_row};

/* ---- the program's side */

struct gm_resource *sim;

struct gm_resource *build(const char *text) {
    char error[320] = "";
    struct gm_resource *root = gm_resource_build(text, error, sizeof error);
    if (!root)
        fail_msg("%s: %s", text, error);
    for (sim = root; sim->upstream;)
        sim = sim->upstream;
    return root;
}

void begin_test(const char *name, struct gm_resource *root) {
    struct gm_pipeline_setup setup = {.policy = &counting, .root = root, .timed = true, .user_named = true};
    memset(&policy_calls, 0, sizeof policy_calls);
    gm_stats_after_fork(); /* sets all counters to zero */
    gm_pipeline_setup(&setup);
    gpumem_mark(name);
}

struct gm_scope scope_of(enum gm_call call, size_t size) {
    struct gm_scope scope;
    gm_scope_begin(&scope, call, size, 0);
    scope.request.device = 0;
    scope.request.context = 0xc0;
    scope.request.context_id = 7;
    scope.request.context_number = 1;
    return scope;
}

gm_status get(size_t size, uint64_t *address) {
    struct gm_scope scope = scope_of(GM_CALL_ALLOC, size);
    gm_status status = gm_pipeline_alloc(&scope);
    if (status == GM_OK)
        *address = scope.block.address;
    return status;
}

static gm_status refuse(const struct gm_scope *scope, uint64_t key) { return GM_INVALID_VALUE; }

gm_status give(uint64_t address) {
    struct gm_scope scope = scope_of(GM_CALL_FREE, 0);
    return gm_pipeline_free(&scope, GM_ACT_FREE, address, refuse);
}

struct gm_stats_shard totals(void) {
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

uint64_t live_on_devices(void) {
    uint64_t live = 0;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        live += kind == GM_KIND_HOST || kind == GM_KIND_IMPORTED ? 0 : gm_stats->live_bytes[kind];
    return live;
}

void check_balance(void) {
    struct gm_stats_shard sum = totals();
    uint64_t live = 0;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        live += sum.allocs[kind] - sum.frees[kind] - sum.released[kind];
    assert_int_equal(live, gpumem_live_count());
}

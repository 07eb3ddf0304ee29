/* The router and the steps of GPUMEM_OOM, with servers whose results the test sets. */

#include "tests/test.h"

#include "shim/accounts/limit.h"
#include "shim/placement/router.h"
#include "shim/resource/rows.h"

static struct gm_resource *root;
static char requested[16]; /* a letter for each call of a server, in order */
static gm_status native_answers[3];
static unsigned native_calls;
static gm_status split_answer, host_answer, managed_answer;
static size_t unused;

static void note(char letter) {
    size_t used = strlen(requested);
    assert_true(used + 1 < sizeof requested);
    requested[used] = letter;
    requested[used + 1] = '\0';
}

static gm_status give(struct gm_resource *self, gm_status status, struct gm_block *block) {
    if (!status) {
        block->address = 0x1000;
        block->kind = (uint8_t)self->kind;
        block->reason = GM_REASON_NONE;
    }
    return status;
}

static gm_status native_alloc(struct gm_resource *self, const struct gm_request *request,
                              const struct gm_decision *decision, struct gm_block *block) {
    note('n');
    return give(self, native_answers[native_calls++], block);
}
static gm_status host_alloc(struct gm_resource *self, const struct gm_request *request,
                            const struct gm_decision *decision, struct gm_block *block) {
    note('h');
    return give(self, host_answer, block);
}
static gm_status managed_alloc(struct gm_resource *self, const struct gm_request *request,
                               const struct gm_decision *decision, struct gm_block *block) {
    note('m');
    return give(self, managed_answer, block);
}
static size_t native_trim(struct gm_resource *self, size_t bytes) {
    note('t');
    size_t released = unused;
    unused = 0;
    return released;
}

static const struct gm_resource_ops native_row = {.name = "native", .alloc = native_alloc, .trim = native_trim};
static gm_status split_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    note('s');
    return give(self, split_answer, block);
}

static const struct gm_resource_ops split_row = {.name = "split", .alloc = split_alloc};
static const struct gm_resource_ops host_row = {.name = "host", .alloc = host_alloc};
static const struct gm_resource_ops managed_row = {.name = "managed", .alloc = managed_alloc};
static struct gm_resource native = {.ops = &native_row, .properties = ~0u, .kind = GM_KIND_NATIVE};
static struct gm_resource split = {.ops = &split_row, .properties = ~0u, .kind = GM_KIND_SPLIT};
static struct gm_resource host = {.ops = &host_row, .properties = ~0u, .kind = GM_KIND_HOST_NUMA};
static struct gm_resource managed = {.ops = &managed_row, .properties = ~0u, .kind = GM_KIND_MANAGED};

static void use(const char *steps) {
    struct gm_oom_chain chain;
    char error[160];
    assert_int_equal(gm_oom_parse(steps, &chain, error, sizeof error), GM_OK);
    gm_router_set_steps(&chain);
    requested[0] = '\0';
    native_calls = 0;
    native_answers[0] = native_answers[1] = native_answers[2] = GM_OUT_OF_MEMORY;
    split_answer = host_answer = managed_answer = GM_OK;
    unused = 0;
    host.properties = managed.properties = ~0u;
}

static gm_status allocate_request(struct gm_request request, struct gm_decision decision, struct gm_block *block) {
    struct gm_block untouched;
    request.size = 100;
    request.call = request.call ? request.call : GM_CALL_ALLOC;
    memset(block, 0x5a, sizeof *block);
    memcpy(&untouched, block, sizeof untouched);
    gm_status status = gm_resource_alloc(root, &request, &decision, block);
    if (status)
        assert_memory_equal(block, &untouched, sizeof untouched);
    return status;
}

static gm_status allocate(struct gm_decision decision, struct gm_block *block) {
    return allocate_request((struct gm_request){0}, decision, block);
}

TEST(test_steps_in_their_order) {
    static const struct {
        const char *steps, *requested;
        gm_status host, managed, status;
        enum gm_kind kind;
    } rows[] = {
        {"trim,host,fail", "nth", GM_OK, GM_OK, GM_OK, GM_KIND_HOST_NUMA},
        {"trim,split,host", "nts", GM_OK, GM_OK, GM_OK, GM_KIND_SPLIT},
        {"host,trim", "nh", GM_OK, GM_OK, GM_OK, GM_KIND_HOST_NUMA},
        {"host,managed", "nhm", GM_OUT_OF_MEMORY, GM_OK, GM_OK, GM_KIND_MANAGED},
        {"managed,host", "nm", GM_OK, GM_OK, GM_OK, GM_KIND_MANAGED},
        {"managed,host", "nmh", GM_OK, GM_NOT_SUPPORTED, GM_OK, GM_KIND_HOST_NUMA},
        {"trim,managed,host,fail", "ntmh", GM_NOT_SUPPORTED, GM_OUT_OF_MEMORY, GM_OUT_OF_MEMORY, 0},
        {"trim,host", "nth", 999, GM_OK, GM_OUT_OF_MEMORY, 0}, /* the program gets the device's error */
        {"fail", "n", GM_OK, GM_OK, GM_OUT_OF_MEMORY, 0},
        {"trim", "nt", GM_OK, GM_OK, GM_OUT_OF_MEMORY, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gm_block block;
        use(rows[i].steps);
        host_answer = rows[i].host;
        managed_answer = rows[i].managed;
        assert_int_equal(allocate((struct gm_decision){0}, &block), rows[i].status);
        assert_string_equal(requested, rows[i].requested);
        if (!rows[i].status) {
            assert_int_equal(block.kind, rows[i].kind);
            assert_int_equal(block.reason, GM_REASON_OUT_OF_MEMORY);
        }
    }
}

TEST(test_trim_and_retry) {
    struct gm_block block;
    use("trim,host");
    unused = 4096;
    native_answers[1] = GM_OK;
    assert_int_equal(allocate((struct gm_decision){0}, &block), GM_OK);
    assert_string_equal(requested, "ntn");
    assert_int_equal(block.kind, GM_KIND_NATIVE);
    assert_int_equal(block.reason, GM_REASON_NONE);
    use("trim,host");
    unused = 4096; /* was not enough */
    assert_int_equal(allocate((struct gm_decision){0}, &block), GM_OK);
    assert_string_equal(requested, "ntnh");
    use("trim,host");
    unused = 4096; /* an error other than out of memory ends the steps */
    native_answers[1] = 719;
    assert_int_equal(allocate((struct gm_decision){0}, &block), 719);
    assert_string_equal(requested, "ntn");
}

TEST(test_other_errors_start_no_steps) {
    struct gm_block block;
    use("trim,host");
    native_answers[0] = 719;
    assert_int_equal(allocate((struct gm_decision){0}, &block), 719);
    assert_string_equal(requested, "n");
}

TEST(test_the_reason_of_a_fallback_stays) {
    struct gm_block block;
    use("trim");
    managed_answer = GM_OUT_OF_MEMORY;
    unused = 1;
    native_answers[1] = GM_OK;
    assert_int_equal(allocate((struct gm_decision){.kind = GM_KIND_MANAGED}, &block), GM_OK);
    assert_string_equal(requested, "mntn");
    assert_int_equal(block.reason, GM_REASON_FALLBACK);
}

TEST(test_beyond_the_limit) {
    struct gm_block block;
    use("trim,host,fail");
    unused = 4096; /* the limit does not count unused memory, so releasing it does not help */
    assert_int_equal(allocate((struct gm_decision){.reason = GM_REASON_OUT_OF_MEMORY}, &block), GM_OK);
    assert_string_equal(requested, "h");
    assert_int_equal(unused, 4096);
    use("split,host"); /* the part on the device would exceed it */
    assert_int_equal(allocate((struct gm_decision){.reason = GM_REASON_OUT_OF_MEMORY}, &block), GM_OK);
    assert_string_equal(requested, "h");
    use("trim,fail");
    assert_int_equal(allocate((struct gm_decision){.reason = GM_REASON_OUT_OF_MEMORY}, &block), GM_OUT_OF_MEMORY);
    assert_string_equal(requested, "");
}

TEST(test_captures_and_hard_promises) {
    struct gm_block block;
    use("host,managed");
    assert_int_equal(allocate_request((struct gm_request){.capturing = true, .call = GM_CALL_ALLOC_ASYNC},
                                      (struct gm_decision){0}, &block),
                     GM_OUT_OF_MEMORY);
    assert_string_equal(requested, "n");
    use("host,managed");
    host.properties = GM_PROP_DEVICE_ACCESSIBLE;
    assert_int_equal(
        allocate_request((struct gm_request){.promises = GM_PROMISE_READY_ANYWHERE}, (struct gm_decision){0}, &block),
        GM_OK);
    assert_string_equal(requested, "nm");
}

TEST(test_text) {
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"foo", "\"foo\" is not a step; accepted: trim, split, host, managed, fail"},
        {"trim,foo", "\"foo\" is not a step; accepted: trim, split, host, managed, fail"},
        {"", "\"\" is not a step; accepted: trim, split, host, managed, fail"},
        {"trim,", "\"\" is not a step; accepted: trim, split, host, managed, fail"},
        {"trim host", "\"trim\" is not a step; accepted: trim, split, host, managed, fail"},
        {"trims", "\"trims\" is not a step; accepted: trim, split, host, managed, fail"},
        {"trim,host,trim", "\"trim\" is named twice; accepted: each of trim, split, host, managed, fail once"},
        {"fail,host", "\"host\" stands after fail, which ends the steps"},
    };
    struct gm_oom_chain chain = {.count = 77}, good;
    char error[160];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(gm_oom_parse(rows[i].text, &chain, error, sizeof error), GM_INVALID_VALUE);
        assert_string_equal(error, rows[i].error);
        assert_int_equal(chain.count, 77);
    }
    assert_int_equal(gm_oom_parse(" managed , host,trim,fail ", &good, error, sizeof error), GM_OK);
    assert_int_equal(good.count, 4);
    assert_true(good.steps[0] == GM_OOM_MANAGED && good.steps[1] == GM_OOM_HOST && good.steps[2] == GM_OOM_TRIM);
}

TEST(test_budget) {
    size_t free_bytes = 900, total = 2000;
    gm_limit_view(0, &free_bytes, &total); /* no limit: what the driver reports */
    assert_true(free_bytes == 900 && total == 2000);
    gm_limit_bytes = 1000;
    assert_true(gm_limit_take(0, 600));
    assert_false(gm_limit_take(0, 401));
    assert_false(gm_limit_take(0, UINT64_MAX));
    assert_true(gm_limit_take(1, 1000)); /* each device by itself */
    assert_true(gm_limit_take(0, 400));
    assert_int_equal(gm_limit_live(0), 1000);
    gm_limit_force(0, 500); /* managed memory may exceed a card */
    gm_limit_view(0, &free_bytes, &total);
    assert_true(free_bytes == 0 && total == 1000);
    gm_limit_give(0, 1200);
    free_bytes = 900;
    gm_limit_view(0, &free_bytes, &total);
    assert_int_equal(free_bytes, 700);
    free_bytes = 100; /* the device has less than the limit */
    total = 800;
    gm_limit_view(0, &free_bytes, &total);
    assert_true(free_bytes == 100 && total == 800);
    gm_limit_give(0, 5000);
    assert_int_equal(gm_limit_live(0), 0);
    assert_true(gm_limit_take(-1, 5000) && gm_limit_take(1000, 5000));
    gm_limit_after_fork();
    assert_int_equal(gm_limit_live(1), 0);
    gm_limit_bytes = 0;
}

static int setup(void **state) {
    char error[160];
    root = gm_resource_build("router", error, sizeof error);
    gm_router_serve(GM_KIND_NATIVE, &native);
    gm_router_serve(GM_KIND_HOST_NUMA, &host);
    gm_router_serve(GM_KIND_SPLIT, &split);
    gm_router_serve(GM_KIND_MANAGED, &managed);
    return root ? 0 : -1;
}

int main(void) { return run_all(setup, NULL); }

/* Workspaces: creation, sizes, and loans of one and of several buffers. */
#include "bench_workspace.h"

#include <stdio.h>
#include "tests/said.h"

TEST_WITH(starts_managed_with_one_mebibyte, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    assert_int_equal(gpumem_workspace_is_managed(workspace), 1);
    assert_int_equal(size_of(workspace), MIB);
    assert_ptr_equal(gpumem_workspace_stream(workspace), bench.stream);
    OK(gpumem_workspace_destroy(workspace));
    OK(gpumem_workspace_destroy(NULL));
}

TEST_WITH(a_fixed_size_frees_what_was_there, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    uint64_t freed = frees(), allocated = allocations();
    OK(gpumem_workspace_set_size(workspace, 5000));
    assert_int_equal(frees() - freed, 1);
    assert_int_equal(allocations() - allocated, 1);
    assert_int_equal(size_of(workspace), 5056);
    assert_int_equal(gpumem_workspace_is_managed(workspace), 0);
    OK(gpumem_workspace_destroy(workspace));
}

TEST_WITH(size_0_frees_and_returns_to_managed, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(3 * MIB);
    assert_int_equal(gpumem_workspace_is_managed(workspace), 0);
    uint64_t freed = frees(), allocated = allocations();
    OK(gpumem_workspace_set_size(workspace, 0));
    assert_int_equal(frees() - freed, 1);
    assert_int_equal(allocations() - allocated, 0);
    assert_int_equal(size_of(workspace), 0);
    assert_int_equal(gpumem_workspace_is_managed(workspace), 1);
    GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, 100);
    assert_non_null(loan);
    assert_int_equal(size_of(workspace), MIB);
    gpumem_loan_end(&loan);
    OK(gpumem_workspace_destroy(workspace));
}

TEST_WITH(a_managed_workspace_grows, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    for (size_t size = 1; size <= 64 * MIB; size *= 3) {
        GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, size);
        assert_non_null(loan);
        void *buffer = gpumem_loan_next(loan, size);
        bench_fill(buffer, size, 7);
        bench_check(buffer, size, 7);
    }
    assert_true(size_of(workspace) > 16 * MIB);
    assert_int_equal(bench_differing(), 0);
    OK(gpumem_workspace_destroy(workspace));
}

TEST_WITH(a_fixed_workspace_never_grows, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(4096);
    uint64_t calls = simcuda_calls(NULL);
    for (unsigned i = 0; i < 100; i++) {
        GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, 4096 + i);
        assert_true(!loan == (i > 0));
    }
    assert_non_null(strstr(gpumem_last_error(), "whose size is fixed"));
    assert_int_equal(simcuda_calls(NULL), calls);
    assert_int_equal(size_of(workspace), 4096);
    OK(gpumem_workspace_destroy(workspace));
}

/* The cost does not depend on the sizes: no driver call, whatever was lent before. */
TEST_WITH(a_loan_that_fits_makes_no_driver_call, bench_open, close_workspace) {
    struct gpumem_workspace *managed = workspace_of(0), *fixed = workspace_of(8 * MIB);
    gpumem_loan_return(GPUMEM_WORKSPACE_BORROW(managed, 8 * MIB));
    uint64_t calls = simcuda_calls(NULL);
    for (size_t size = 64; size <= 8 * MIB; size *= 2) {
        GPUMEM_LOAN one = GPUMEM_WORKSPACE_BORROW(managed, size);
        GPUMEM_LOAN two = GPUMEM_WORKSPACE_BORROW(fixed, size / 2, size / 2);
        assert_true(one && two);
    }
    assert_int_equal(simcuda_calls(NULL), calls);
    OK(gpumem_workspace_destroy(managed));
    OK(gpumem_workspace_destroy(fixed));
}

TEST_WITH(one_loan_is_alive_at_a_time, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    size_t size = 64;
    void *buffer = &size;
    struct gpumem_loan *first = gpumem_workspace_borrow(workspace, 1, &size, &buffer, "first.c:1");
    assert_non_null(first);
    assert_null(gpumem_workspace_borrow_bytes(workspace, 64, "second.c:2"));
    assert_non_null(strstr(gpumem_last_error(), "borrowed at first.c:1"));
    /* A failed attempt is no loan: the next one may be alive. */
    gpumem_loan_return(first);
    struct gpumem_loan *second = gpumem_workspace_borrow_bytes(workspace, 64, NULL);
    assert_non_null(second);
    gpumem_loan_return(second);
    gpumem_loan_return(NULL);
    OK(gpumem_workspace_destroy(workspace));
}

/* What a call writes to standard error meanwhile. */
static const char *logged(void (*call)(void *), void *argument) {
    static char text[512];
    struct said said = said_begin();
    call(argument);
    said_end(said, text, sizeof text);
    return text;
}

static void return_it(void *loan) { gpumem_loan_return(loan); }
static void forget(void *workspace) { assert_null(gpumem_workspace_borrow_bytes(workspace, 1, "later.c:9")); }

TEST_WITH(mistakes_with_loans_are_reported, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    struct gpumem_loan *loan = gpumem_workspace_borrow_bytes(workspace, 64, "forgetful.c:3");
    const char *text = logged(forget, workspace);
    assert_non_null(strstr(text, "borrowed at forgetful.c:3 was not returned"));
    assert_non_null(strstr(text, "later.c:9"));
    gpumem_loan_return(loan);
    assert_non_null(strstr(logged(return_it, loan), "returned a second time"));
    /* Of an earlier loan, while a later one is alive: that stays alive. */
    struct gpumem_loan *later = gpumem_workspace_borrow_bytes(workspace, 64, "later.c:9");
    assert_non_null(strstr(logged(return_it, loan), "returned a second time"));
    assert_null(gpumem_workspace_borrow_bytes(workspace, 64, "third.c:1"));
    gpumem_loan_return(later);
    later = gpumem_workspace_borrow_bytes(workspace, 64, "third.c:1");
    assert_non_null(later);
    gpumem_loan_return(later);
    OK(gpumem_workspace_destroy(workspace));
}

TEST_WITH(a_late_second_return_ends_no_other_loan, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    struct gpumem_loan *loan = gpumem_workspace_borrow_bytes(workspace, 64, "early.c:1");
    gpumem_loan_return(loan);
    for (int later = 1; later <= 70000; later++) {
        struct gpumem_loan *live = gpumem_workspace_borrow_bytes(workspace, 64, "later.c:9");
        if (!(later & (later - 1)) || later == 70000) { /* 16 later, and each power of two */
            assert_non_null(strstr(logged(return_it, loan), "returned a second time"));
            assert_null(gpumem_workspace_borrow_bytes(workspace, 64, "third.c:1"));
        }
        gpumem_loan_return(live);
    }
    OK(gpumem_workspace_destroy(workspace));
}

/* Whatever way a scope is left, its loan is returned. */
static int leave_early(struct gpumem_workspace *workspace, int way) {
    for (int i = 0; i < 3; i++) {
        GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, 64, 64);
        if (!loan)
            return -1;
        if (way == 0)
            return 1;
        if (way == 1)
            break;
        if (way == 2)
            continue;
        goto out;
    }
out:
    return 0;
}

TEST_WITH(a_loan_ends_with_its_scope, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    for (int way = 0; way < 4; way++)
        assert_int_equal(leave_early(workspace, way), way == 0);
    {
        GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, 2 * SIZE_MAX / 3);
        assert_null(loan);
        loan = GPUMEM_WORKSPACE_BORROW(workspace, 64);
        assert_non_null(loan);
    }
    assert_int_equal(leave_early(workspace, 0), 1);
    OK(gpumem_workspace_destroy(workspace));
}

TEST_WITH(a_loan_protects_the_workspace, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    struct gpumem_loan *loan = GPUMEM_WORKSPACE_BORROW(workspace, 64);
    uint64_t allocated = allocations(), freed = frees();
    assert_int_equal(gpumem_workspace_set_size(workspace, 64), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(gpumem_workspace_set_size(workspace, 0), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(gpumem_workspace_set_stream(workspace, NULL), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_non_null(strstr(gpumem_last_error(), "test_workspace.c:"));
    assert_int_equal(gpumem_workspace_destroy(workspace), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(allocations() + frees(), allocated + freed);
    assert_int_equal(size_of(workspace), MIB);
    gpumem_loan_return(loan);
    OK(gpumem_workspace_destroy(workspace));
}

/* Buffers of one loan: disjoint, aligned, inside the workspace, from one allocation. */
static void buffers_are_apart(struct gpumem_workspace *workspace, size_t count, const size_t *sizes) {
    void *buffers[8];
    uint64_t allocated = allocations();
    GPUMEM_LOAN loan = gpumem_workspace_borrow(workspace, count, sizes, buffers, NULL);
    assert_non_null(loan);
    assert_true(allocations() - allocated <= 1);
    char *end = loan->address;
    for (size_t i = 0; i < count; i++) {
        if (!sizes[i]) {
            assert_null(buffers[i]);
            continue;
        }
        assert_true((char *)buffers[i] >= end);
        assert_int_equal((uintptr_t)buffers[i] % GPUMEM_WORKSPACE_CHUNK, 0);
        end = (char *)buffers[i] + sizes[i];
        bench_fill(buffers[i], sizes[i], (uint32_t)i + 1);
    }
    assert_true(end <= loan->address + size_of(workspace));
    for (size_t i = 0; i < count; i++)
        if (sizes[i])
            bench_check(buffers[i], sizes[i], (uint32_t)i + 1);
    assert_int_equal(bench_differing(), 0);
}

TEST_WITH(several_buffers_in_one_loan, bench_open, close_workspace) {
    static const size_t cases[][8] = {{1024, 256, 100, 512}, {1}, {1, 1, 1, 1, 1, 1, 1, 1}, {0, 64, 0, 65, 63},
                                      {3 << 20, 5, 2 << 20}, {0}};
    struct gpumem_workspace *workspace = workspace_of(0);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        buffers_are_apart(workspace, 8, cases[i]);
    OK(gpumem_workspace_destroy(workspace));
}

TEST_WITH(a_loan_holds_exactly_what_was_requested, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(256);
    GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, 100, 0, 65);
    assert_non_null(loan);
    assert_ptr_equal(gpumem_loan_next(loan, 100), loan->address);
    assert_null(gpumem_loan_next(loan, 0));
    assert_null(gpumem_loan_next(loan, 129));
    assert_null(gpumem_loan_next(loan, SIZE_MAX));
    assert_ptr_equal(gpumem_loan_next(loan, 65), loan->address + 128);
    assert_null(gpumem_loan_next(loan, 1));
    gpumem_loan_end(&loan);
    loan = GPUMEM_WORKSPACE_BORROW(workspace, 64, 65, 65); /* 64 + 128 + 128 */
    assert_null(loan);
    loan = GPUMEM_WORKSPACE_BORROW(workspace, 64, 65, 64);
    assert_non_null(loan);
    gpumem_loan_end(&loan);
    OK(gpumem_workspace_destroy(workspace));
}

TEST_WITH(sums_do_not_overflow, bench_open, close_workspace) {
    const size_t half = SIZE_MAX / 2 + 1, sizes[] = {half, half, 64};
    void *buffers[3] = {NULL};
    struct gpumem_workspace *workspace = workspace_of(0);
    uint64_t calls = simcuda_calls(NULL);
    assert_null(gpumem_workspace_borrow(workspace, 3, sizes, buffers, NULL));
    assert_null(GPUMEM_WORKSPACE_BORROW(workspace, half, half));
    assert_null(GPUMEM_WORKSPACE_BORROW(workspace, SIZE_MAX));
    assert_null(gpumem_workspace_borrow_bytes(workspace, SIZE_MAX - 1, NULL));
    assert_null(buffers[0]);
    assert_int_equal(simcuda_calls(NULL), calls);
    OK(gpumem_workspace_destroy(workspace));
}

TEST_WITH(null_pointers_are_refused, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    size_t size = 64;
    assert_int_equal(gpumem_workspace_create(NULL, NULL), GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(gpumem_workspace_get_size(workspace, NULL), GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(gpumem_workspace_get_size(NULL, &size), GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(gpumem_workspace_set_size(NULL, 1), GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(gpumem_workspace_set_stream(NULL, NULL), GPUMEM_WORKSPACE_INVALID_POINTER);
    assert_int_equal(gpumem_workspace_is_managed(NULL), 0);
    assert_null(gpumem_workspace_borrow_bytes(NULL, 64, NULL));
    assert_null(gpumem_workspace_borrow(workspace, 1, &size, NULL, NULL));
    assert_null(gpumem_workspace_borrow(workspace, 1, NULL, (void *[]){NULL}, NULL));
    assert_int_equal(size, 64);
    OK(gpumem_workspace_destroy(workspace));
}

TEST_WITH(wrong_options_are_refused, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = NULL;
    struct gpumem_workspace_options options = {.struct_size = 3};
    assert_int_equal(gpumem_workspace_create(&options, &workspace), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    options = (struct gpumem_workspace_options){.struct_size = sizeof options, .release = (void *)(uintptr_t)1};
    assert_int_equal(gpumem_workspace_create(&options, &workspace), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_non_null(strstr(gpumem_last_error(), "allocate"));
    CUcontext popped;
    CU(cuCtxPopCurrent_v2(&popped));
    assert_int_equal(simcuda_set_failures("cuDevicePrimaryCtxRetain:1"), 0);
    assert_int_equal(gpumem_workspace_create(NULL, &workspace), GPUMEM_WORKSPACE_INTERNAL_ERROR);
    assert_int_equal(simcuda_set_failures(NULL), 0);
    assert_non_null(strstr(gpumem_last_error(), "no context"));
    assert_null(workspace);
    OK(gpumem_workspace_create(NULL, &workspace)); /* in the primary context of device 0 */
    OK(gpumem_workspace_destroy(workspace));
    CU(cuCtxPushCurrent_v2(popped));
}

/* A later version adds fields at the end, not in padding. */
TEST_WITH(options_of_other_versions, bench_open, close_workspace) {
    struct {
        struct gpumem_workspace_options known;
        uint64_t tail;
    } newer = {.known = {.struct_size = sizeof newer, .size = 128}};
    struct gpumem_workspace_options older = {.struct_size = offsetof(struct gpumem_workspace_options, size), .size = 7};
    struct gpumem_workspace *workspace = NULL;
    assert_int_equal(offsetof(struct gpumem_workspace_options, user) + sizeof older.user, sizeof older);
    OK(gpumem_workspace_create(&older, &workspace));
    assert_int_equal(size_of(workspace), MIB);
    OK(gpumem_workspace_destroy(workspace));
    OK(gpumem_workspace_create(&newer.known, &workspace));
    assert_int_equal(size_of(workspace), 128);
    OK(gpumem_workspace_destroy(workspace));
    newer.tail = 1;
    assert_int_equal(gpumem_workspace_create(&newer.known, &workspace), GPUMEM_WORKSPACE_INTERNAL_ERROR);
}

/* A workspace works in its own context, whichever is current. */
TEST_WITH(other_contexts_stay_current, bench_open, close_workspace) {
    struct gpumem_workspace *workspace = workspace_of(0);
    CUcontext other, now;
    CU(cuCtxCreate_v2(&other, 0, 0));
    gpumem_loan_return(GPUMEM_WORKSPACE_BORROW(workspace, 2 * MIB));
    OK(gpumem_workspace_set_size(workspace, 64));
    OK(gpumem_workspace_destroy(workspace));
    CU(cuCtxGetCurrent(&now));
    assert_ptr_equal(now, other);
    uint64_t id;
    gm_context_end(other, &id);
    CU(cuCtxDestroy_v2(other));
    CU(cuCtxSetCurrent(bench.context));
}

/* In a process that was started with GPUMEM_WORKSPACE_SIZE. */
TEST_WITH(the_environment_fixes_the_size, bench_open, close_workspace) {
    const char *text = getenv("GPUMEM_WORKSPACE_SIZE");
    struct gpumem_workspace *workspace = workspace_of(0), *own = workspace_of(128);
    bool managed = !strcmp(text, "0");
    assert_int_equal(size_of(workspace), managed ? MIB : 100 * KIB);
    assert_int_equal(gpumem_workspace_is_managed(workspace), managed);
    GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, MIB + 1);
    assert_true(!loan == !managed);
    gpumem_loan_end(&loan);
    assert_int_equal(size_of(own), 128);
    OK(gpumem_workspace_set_size(own, 0));
    assert_int_equal(gpumem_workspace_is_managed(own), 1);
    OK(gpumem_workspace_destroy(workspace));
    OK(gpumem_workspace_destroy(own));
}

int main(void) {
    if (getenv("GPUMEM_WORKSPACE_SIZE"))
        cmocka_set_test_filter("the_environment_*");
    else
        cmocka_set_skip_filter("the_environment_*");
    return run_all(NULL, NULL);
}

/* The page reserve on a scripted driver: each device keeps one set of extents, returns it to a request that it fits,
 * and releases it otherwise. Each handle is released exactly once. */
#include <time.h>

#include "tests/test.h"

#include "shim/base/options.h"
#include "shim/resource/vmm_reserve.h"

#define MIB ((uint64_t)1 << 20)
enum { HANDLES = 64, IDLE_MS = 200 }; /* as GPUMEM_CACHE_IDLE in main */

static int released[HANDLES];
static size_t free_bytes;

static CUresult release(CUmemGenericAllocationHandle handle) {
    assert_in_range(handle, 0, HANDLES - 1);
    return released[handle]++, CUDA_SUCCESS;
}
static CUresult get_info(size_t *free_now, size_t *total) {
    return *free_now = free_bytes, *total = 64 * 1024 * MIB, CUDA_SUCCESS;
}

static CUstreamCaptureMode mode;
static int exchanges;

static CUresult exchange(CUstreamCaptureMode *other) {
    CUstreamCaptureMode before = mode;
    mode = *other;
    *other = before;
    return exchanges++, CUDA_SUCCESS;
}
static CUresult release_relaxed(CUmemGenericAllocationHandle handle) {
    bool may = mode == CU_STREAM_CAPTURE_MODE_RELAXED || !gm_capture_any();
    return may ? release(handle) : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static int start(void **unused) {
    gm_fork_zero();
    gm_drv = (struct gm_driver){
        .mem_release = release_relaxed, .mem_get_info = get_info, .thread_exchange_capture_mode = exchange};
    memset(released, 0, sizeof released);
    exchanges = 0;
    free_bytes = 32 * 1024 * MIB;
    return 0;
}

/* `count` extents of 2 MiB from handle `first` on. */
static void keep(int device, unsigned first, unsigned count) {
    struct gm_extent extents[GM_VMM_RESERVE_SLOTS + 1];
    for (unsigned i = 0; i < count; i++)
        extents[i] = (struct gm_extent){.handle = first + i, .size = 2 * MIB};
    gm_vmm_reserve_keep(device, extents, count);
}

static unsigned all_released(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < HANDLES; i++) {
        assert_in_range(released[i], 0, 1);
        sum += (unsigned)released[i];
    }
    return sum;
}

TEST_WITH(handed_out_where_they_fit, start, NULL) {
    struct gm_extent got[GM_VMM_RESERVE_SLOTS];
    assert_int_equal(gm_vmm_reserve_take(0, 100 * MIB, got), 0);
    keep(0, 0, 3);
    assert_int_equal(gm_vmm_reserve_bytes(0), 6 * MIB);
    assert_int_equal(gm_vmm_reserve_bytes(1) + gm_vmm_reserve_bytes(-1) + gm_vmm_reserve_bytes(64), 0);
    assert_int_equal(gm_vmm_reserve_take(1, 100 * MIB, got), 0);
    assert_int_equal(gm_vmm_reserve_take(0, 6 * MIB - 1, got), 0);
    assert_int_equal(gm_vmm_reserve_take(0, 6 * MIB, got), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_true(got[i].handle == i && got[i].size == 2 * MIB);
    assert_int_equal(gm_vmm_reserve_take(0, 6 * MIB, got), 0);
    assert_int_equal(gm_vmm_reserve_bytes(0), 0);
    assert_int_equal(all_released(), 0);
}

TEST_WITH(one_set_a_device, start, NULL) {
    keep(0, 0, 2);
    keep(1, 2, 2);
    keep(0, 4, 4);
    assert_true(released[0] && released[1] && all_released() == 2);
    assert_int_equal(gm_vmm_reserve_release(false), 12 * MIB);
    assert_int_equal(all_released(), 8);
    assert_int_equal(gm_vmm_reserve_release(false), 0);
}

TEST_WITH(too_much_is_released, start, NULL) {
    keep(0, 0, GM_VMM_RESERVE_SLOTS + 1);
    assert_int_equal(all_released(), GM_VMM_RESERVE_SLOTS + 1);
    assert_int_equal(gm_vmm_reserve_bytes(0), 0);
    const struct gm_extent limit = {.handle = 20, .size = 64 * MIB}, more = {.handle = 21, .size = 66 * MIB};
    gm_vmm_reserve_keep(0, &more, 1);
    assert_true(released[21]);
    gm_vmm_reserve_keep(0, &limit, 1);
    assert_int_equal(gm_vmm_reserve_bytes(0), limit.size);
}

TEST_WITH(little_memory_left, start, NULL) {
    free_bytes = 2 * 1024 * MIB; /* 3 % of the device */
    keep(0, 0, 1);
    assert_int_equal(gm_vmm_reserve_bytes(0), 2 * MIB);
    free_bytes--;
    keep(0, 1, 1);
    assert_true(released[1]);
    gm_drv.mem_get_info = NULL;
    keep(0, 2, 1);
    assert_true(released[2]);
}

TEST_WITH(released_when_idle, start, NULL) {
    uint64_t begin = gm_now_ns();
    keep(0, 0, 2);
    size_t at_once = gm_vmm_reserve_release(true);
    if (gm_now_ns() - begin > IDLE_MS * 1000000ull) /* on a machine that stood still they were idle by then */
        skip();
    assert_int_equal(at_once, 0);
    const struct timespec nap = {0, 250000000};
    nanosleep(&nap, NULL);
    assert_int_equal(gm_vmm_reserve_release(true), 4 * MIB);
}

/* During a capture idle extents stay; a release on request happens, in relaxed mode. */
TEST_WITH(captures_are_left_alone, start, NULL) {
    const struct timespec nap = {0, 250000000};
    keep(0, 0, 2);
    nanosleep(&nap, NULL);
    gm_capture_begin(NULL, false, CU_STREAM_CAPTURE_MODE_GLOBAL);
    assert_int_equal(gm_vmm_reserve_release(true), 0);
    assert_true(!all_released() && !exchanges);
    assert_int_equal(gm_vmm_reserve_release(false), 4 * MIB);
    assert_true(exchanges == 2 && mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    gm_capture_end(NULL, false);
    keep(0, 2, 2);
    nanosleep(&nap, NULL);
    assert_int_equal(gm_vmm_reserve_release(true), 4 * MIB);
}

TEST_WITH(nothing_in_a_child, start, NULL) {
    struct gm_extent got[GM_VMM_RESERVE_SLOTS];
    keep(0, 0, 2);
    gm_fork_zero();
    assert_int_equal(gm_vmm_reserve_bytes(0), 0);
    assert_int_equal(gm_vmm_reserve_take(0, 100 * MIB, got), 0);
    assert_int_equal(gm_vmm_reserve_release(false), 0);
    assert_int_equal(all_released(), 0);
}

int main(void) {
    static char limit[] = "GPUMEM_CACHE_LIMIT=64M", idle[] = "GPUMEM_CACHE_IDLE=200ms";
    char *environment[] = {limit, idle, NULL};
    gm_clock_init();
    gm_options_load(environment);
    return run_all(NULL, NULL);
}

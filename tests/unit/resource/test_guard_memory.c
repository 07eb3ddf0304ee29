/* Kept memory of guarded blocks on a scripted driver: it is found by size and device, with its pattern if possible; it
 * stays within its bounds, and each handle is released and each mapping undone exactly once. */
#include <time.h>

#include "tests/test.h"

#include "shim/base/options.h"
#include "shim/resource/guard_memory.h"

#define MIB ((size_t)1 << 20)
enum { HANDLES = 512, IDLE_MS = 200 }; /* as GPUMEM_CACHE_IDLE in main */

static int released[HANDLES];
static CUstreamCaptureMode mode;

static CUresult release(CUmemGenericAllocationHandle handle) {
    assert_in_range(handle, 0, HANDLES - 1);
    return released[handle]++, CUDA_SUCCESS;
}
/* Of which a sixteenth may be kept: 64 MiB. */
static CUresult total_mem(size_t *total, CUdevice device) { return *total = 1024 * MIB, CUDA_SUCCESS; }
static CUresult exchange(CUstreamCaptureMode *other) {
    CUstreamCaptureMode before = mode;
    mode = *other;
    *other = before;
    return CUDA_SUCCESS;
}

static int mapped;
static bool refuse_access;

static CUresult map(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                    unsigned long long flags) {
    return mapped++, CUDA_SUCCESS;
}
static CUresult unmap(CUdeviceptr at, size_t size) { return mapped--, CUDA_SUCCESS; }
static CUresult access_of(CUdeviceptr at, size_t size, const CUmemAccessDesc *access, size_t count) {
    return refuse_access ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
static uint64_t reserve(size_t bytes) { return 1024 * MIB; }

static int start(void **unused) {
    gm_guard_memory_after_fork();
    gm_drv = (struct gm_driver){.mem_map = map,
                                .mem_unmap = unmap,
                                .mem_set_access = access_of,
                                .mem_release = release,
                                .device_total_mem = total_mem,
                                .thread_exchange_capture_mode = exchange};
    memset(released, 0, sizeof released);
    return 0;
}

static unsigned all_released(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < HANDLES; i++) {
        assert_in_range(released[i], 0, 1);
        sum += (unsigned)released[i];
    }
    return sum;
}

/* Memory with a block of `size` bytes at the end of its mapping. */
static struct gm_guard_memory memory_of(unsigned handle, int device, size_t mapped, size_t size) {
    return (struct gm_guard_memory){
        .extent = {handle, mapped}, .device = device, .patterned = size > 0, .before = mapped - size, .size = size};
}

static bool keep(unsigned handle, int device, size_t mapped, size_t size) {
    const struct gm_guard_memory memory = memory_of(handle, device, mapped, size);
    return gm_guard_memory_keep(&memory);
}

/* The handle; HANDLES: none. */
static unsigned take(int device, size_t mapped, size_t size) {
    const struct gm_guard_memory wanted = memory_of(0, device, mapped, size);
    struct gm_guard_memory memory;
    return gm_guard_memory_take(&wanted, &memory) ? (unsigned)memory.extent.handle : HANDLES;
}

TEST_WITH(found_by_size_and_pattern, start, NULL) {
    assert_true(keep(1, 0, 2 * MIB, 512) && keep(2, 0, 2 * MIB, 1024) && keep(3, 0, 2 * MIB, 0));
    assert_int_equal(take(0, 4 * MIB, 512), HANDLES);
    assert_int_equal(take(1, 2 * MIB, 512), HANDLES);
    assert_int_equal(take(0, 2 * MIB, 512), 1);
    assert_int_equal(take(0, 2 * MIB, 512), 3); /* the latest, as none has the pattern */
    assert_int_equal(gm_guard_memory_bytes(0), 2 * MIB);
    assert_int_equal(take(0, 2 * MIB, 2048), 2);
    assert_int_equal(gm_guard_memory_bytes(0) + gm_guard_memory_bytes(-1) + gm_guard_memory_bytes(64), 0);
    assert_int_equal(all_released(), 0);
}

TEST_WITH(patterns_have_a_place, start, NULL) {
    const struct gm_guard_memory wanted = memory_of(0, 0, 2 * MIB, 512);
    struct gm_guard_memory memory = memory_of(1, 0, 2 * MIB, 512);
    assert_true(gm_guard_memory_has_pattern(&memory, &wanted));
    memory.patterned = false;
    assert_false(gm_guard_memory_has_pattern(&memory, &wanted));
    memory.patterned = true;
    memory.before = 0;
    assert_false(gm_guard_memory_has_pattern(&memory, &wanted));
}

TEST_WITH(bounded_by_device, start, NULL) {
    assert_false(gm_guard_memory_may_keep(0, 66 * MIB));
    assert_true(gm_guard_memory_may_keep(0, 64 * MIB));
    assert_false(keep(0, 0, 66 * MIB, 512));
    for (unsigned i = 1; i <= 33; i++)
        assert_true(keep(i, 0, 2 * MIB, 512));
    assert_int_equal(gm_guard_memory_bytes(0), 64 * MIB);
    assert_int_equal(released[1], 1);
    assert_true(keep(40, 1, 2 * MIB, 512)); /* another device has its own bound */
    assert_int_equal(all_released(), 1);
    assert_true(keep(41, 0, 64 * MIB, 512));
    assert_int_equal(gm_guard_memory_bytes(0), 64 * MIB);
    assert_int_equal(all_released(), 33);
    assert_int_equal(gm_guard_memory_release_all(), 66 * MIB);
    assert_int_equal(all_released(), 35);
    assert_int_equal(gm_guard_memory_release_all(), 0);
}

TEST_WITH(bounded_in_number, start, NULL) {
    for (unsigned i = 0; i < 300; i++)
        assert_true(keep(i, (int)(i % 16), 2 * MIB, 512));
    assert_int_equal(all_released(), 300 - 256);
    assert_int_equal(released[43], 1);
    assert_int_equal(released[44], 0);
}

TEST_WITH(idle_memory_goes, start, NULL) {
    const struct timespec pause = {.tv_nsec = (IDLE_MS + 50) * 1000000L};
    assert_true(keep(1, 0, 2 * MIB, 512));
    assert_true(keep(2, 1, 2 * MIB, 512));
    nanosleep(&pause, NULL);
    assert_true(keep(3, 0, 2 * MIB, 512));
    assert_int_equal(all_released(), 2);
    assert_int_equal(take(0, 2 * MIB, 512), 3);
}

/* Each range holds one mapping at a time, and is free again when its memory is closed or released. */
TEST_WITH(open_at_a_range, start, NULL) {
    struct gm_guard_memory memory = memory_of(1, 0, 2 * MIB, 512), other = memory_of(2, 0, 2 * MIB, 512);
    assert_int_equal(gm_guard_memory_open(&memory), GM_OK);
    assert_int_equal(gm_guard_memory_open(&other), GM_OK);
    assert_int_not_equal(memory.mapping, other.mapping);
    assert_int_equal(mapped, 2);
    gm_guard_memory_close(&memory);
    gm_guard_memory_close(&memory);
    assert_int_equal(mapped, 1);
    gm_guard_memory_release(&other, false);
    assert_int_equal(mapped, 0);
    assert_int_equal(all_released(), 1);
    refuse_access = true;
    assert_int_equal(gm_guard_memory_open(&memory), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(memory.mapping, 0);
    assert_int_equal(mapped, 0);
    for (unsigned i = 0; i < 100; i++) { /* more than there are ranges */
        refuse_access = i % 2;
        (void)gm_guard_memory_open(&memory);
        gm_guard_memory_close(&memory);
    }
    refuse_access = false;
    assert_int_equal(gm_guard_memory_open(&memory), GM_OK);
    assert_true(gm_guard_memory_keep(&memory));
    assert_int_equal(gm_guard_memory_release_all(), 2 * MIB);
    assert_int_equal(mapped, 0);
}

TEST_WITH(forgotten_after_fork, start, NULL) {
    assert_true(keep(1, 0, 2 * MIB, 512));
    gm_guard_memory_after_fork();
    assert_int_equal(take(0, 2 * MIB, 512), HANDLES);
    assert_int_equal(gm_guard_memory_release_all(), 0);
    assert_int_equal(all_released(), 0);
}

int main(void) {
    static char idle[] = "GPUMEM_CACHE_IDLE=200ms";
    char *environment[] = {idle, NULL};
    gm_clock_init();
    gm_options_load(environment);
    gm_guard_ranges_setup(64 * MIB, reserve);
    return run_all(NULL, NULL);
}

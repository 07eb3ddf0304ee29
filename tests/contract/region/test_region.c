/* Regions on the simulated driver: growth in place and into new addresses, shrinking, sharing, and each driver call
 * failing once. */
#include "bench.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/driver/address_range.h"

static struct gpumem_region *new_region(size_t reserve, unsigned flags) {
    struct gpumem_region_options options = {.struct_size = sizeof options, .reserve = reserve, .flags = flags};
    struct gpumem_region *region = NULL;
    CU(gpumem_region_create(&options, &region));
    assert_non_null(region);
    return region;
}

static struct gpumem_view view_of(const struct gpumem_region *region) {
    struct gpumem_view view = {.struct_size = sizeof view};
    CU(gpumem_region_view(region, &view));
    return view;
}

static void assert_same(const struct gpumem_view *one, const struct gpumem_view *other) {
    assert_ptr_equal(one->base, other->base);
    assert_int_equal(one->size, other->size);
    assert_int_equal(one->mapped, other->mapped);
    assert_int_equal(one->capacity, other->capacity);
    assert_int_equal(one->handles, other->handles);
}

/* ---- growth */

TEST_WITH(grows_in_place, bench_open, bench_close) {
    struct gpumem_region *region = new_region(0, GPUMEM_REGION_EXACT);
    struct gpumem_view first = view_of(region), view;
    size_t before = simcuda_used(0);
    assert_int_equal(first.mapped, 0);
    assert_true(first.capacity >= 1024 * MIB); /* the size of the device's memory */
    assert_int_equal(simcuda_used(0), before); /* addresses take no memory */
    for (size_t size = 3 * MIB, step = 1; step <= 5; size *= 2, step++) {
        uint64_t opened = simcuda_calls("cuMemSetAccess"), copies = simcuda_calls("cuMemcpyAsync");
        CU(gpumem_region_grow(region, size));
        view = view_of(region);
        assert_ptr_equal(view.base, first.base);
        assert_int_equal(view.size, size);
        assert_int_equal(view.mapped, (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
        assert_int_equal(view.handles, step);
        assert_int_equal(simcuda_used(0) - before, view.mapped);
        /* One call for each step, whatever the size of the region. */
        assert_int_equal(simcuda_calls("cuMemSetAccess") - opened, 1);
        assert_int_equal(simcuda_calls("cuMemcpyAsync"), copies);
        if (step == 1)
            bench_fill(view.base, size, 0xabcd0123);
        bench_check(view.base, 3 * MIB, 0xabcd0123);
    }
    assert_int_equal(bench_differing(), 0);
    CU(gpumem_region_grow(region, MIB)); /* smaller than the region: no effect */
    assert_int_equal(view_of(region).size, view.size);
    CU(gpumem_region_destroy(region));
}

/* With mapping ahead, small steps create few handles, within the bound. Without it, each step creates one. */
TEST_WITH(maps_ahead_within_its_bound, bench_open, bench_close) {
    struct gpumem_region *region = new_region(0, 0), *exact = new_region(0, GPUMEM_REGION_EXACT);
    for (size_t size = 2 * MIB; size <= 512 * MIB; size += 2 * MIB) {
        CU(gpumem_region_grow(region, size));
        CU(gpumem_region_grow(exact, size));
        assert_true(view_of(region).mapped <= size + size / 20 + 1 && view_of(region).mapped <= size + 64 * MIB);
        assert_int_equal(view_of(exact).mapped, size);
    }
    assert_int_equal(view_of(exact).handles, 256);
    assert_true(view_of(region).handles < 128);
    CU(gpumem_region_destroy(exact));
    /* When only the requested memory is free, the region takes only that. */
    size_t mapped = view_of(region).mapped;
    CUdeviceptr filler[4096];
    unsigned fillers = 0;
    while (fillers < 4096 && cuMemAlloc_v2(&filler[fillers], 2 * MIB) == CUDA_SUCCESS)
        fillers++;
    CU(cuMemFree_v2(filler[--fillers]));
    CU(gpumem_region_grow(region, mapped + MIB));
    assert_int_equal(view_of(region).mapped, mapped + 2 * MIB);
    while (fillers > 0)
        CU(cuMemFree_v2(filler[--fillers]));
    CU(gpumem_region_destroy(region));
}

/* A twentieth of what is mapped, in whole granules, at most 64 MiB, and never in addition to what is needed. */
TEST_WITH(maps_ahead_a_twentieth, bench_open, bench_close) {
    static const struct {
        size_t mapped, step, more;
    } rows[] = {{200 * MIB, MIB, 10 * MIB},  {200 * MIB, 10 * MIB, 10 * MIB}, {200 * MIB, 12 * MIB, 12 * MIB},
                {30 * MIB, MIB, 2 * MIB},    {790 * MIB, MIB, 38 * MIB},      {1280 * MIB, MIB, 64 * MIB},
                {1600 * MIB, MIB, 64 * MIB}, {1600 * MIB, 66 * MIB, 66 * MIB}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gpumem_region *region = new_region((size_t)2048 * MIB, 0);
        CU(gpumem_region_grow(region, rows[i].mapped));
        assert_int_equal(view_of(region).mapped, rows[i].mapped);
        CU(gpumem_region_grow(region, rows[i].mapped + rows[i].step));
        assert_int_equal(view_of(region).mapped, rows[i].mapped + rows[i].more);
        CU(gpumem_region_destroy(region));
    }
}

TEST_WITH(out_of_memory_names_the_bytes, bench_open, bench_close) {
    struct gpumem_region *region = new_region(0, 0);
    CU(gpumem_region_grow(region, 8 * MIB));
    struct gpumem_view before = view_of(region), after;
    assert_int_equal(gpumem_region_grow(region, (size_t)1 << 46), GPUMEM_OUT_OF_MEMORY);
    assert_non_null(strstr(gpumem_last_error(), "70368744177664 bytes"));
    assert_non_null(strstr(gpumem_last_error(), "bytes free"));
    assert_int_equal(gpumem_region_grow(region, SIZE_MAX), GPUMEM_OUT_OF_MEMORY);
    after = view_of(region);
    assert_same(&before, &after);
    CU(gpumem_region_destroy(region));
}

/* ---- the reserved addresses are used up */

/* First case of the thesis: the addresses behind the range are free. */
TEST_WITH(extends_where_the_addresses_behind_are_free, bench_open, bench_close) {
    struct gm_address_range range = {.segment_count = 1, .reserved = 4 * MIB, .segments = {4 * MIB}};
    CUdeviceptr hole;
    CU(cuMemAddressReserve(&hole, 64 * MIB, 0, 0, 0));
    CU(cuMemAddressFree(hole, 64 * MIB));
    CU(cuMemAddressReserve(&range.base, 4 * MIB, 0, hole, 0));
    assert_int_equal(range.base, hole);
    assert_int_equal(gm_address_range_extend(&range, 6 * MIB), GM_OK);
    assert_int_equal(range.base, hole);
    /* The range doubles. Strict addresses are real addresses of the process; there it doubles only if these are free.
     */
    assert_true(range.reserved == 8 * MIB || (getenv("SIMCUDA_STRICT") && range.reserved == 6 * MIB));
    assert_int_equal(range.segment_count, 2);
    assert_int_equal(gm_address_range_room(&range, 3 * MIB), MIB);
    assert_int_equal(gm_address_range_room(&range, 4 * MIB), range.reserved - 4 * MIB);
    gm_address_range_drop(&range, NULL, 0);
}

/* Reserves the addresses behind a region of `size` reserved bytes. */
static CUdeviceptr block_behind(const struct gpumem_region *region, size_t size) {
    CUdeviceptr end = (CUdeviceptr)(uintptr_t)view_of(region).base + size, got;
    CU(cuMemAddressReserve(&got, 2 * MIB, 0, end, 0));
    return got;
}

/* Second case: everything is mapped once more at other addresses. Nothing is copied, and running work keeps its
 * memory. */
TEST_WITH(maps_its_pages_elsewhere_where_they_are_taken, bench_open, bench_close) {
    struct gpumem_region *region = new_region(4 * MIB, GPUMEM_REGION_EXACT);
    CUdeviceptr behind = block_behind(region, 4 * MIB);
    void *old = view_of(region).base;
    CU(gpumem_region_grow(region, 2 * MIB));
    CU(gpumem_region_grow(region, 4 * MIB));
    simcuda_set_streams("manual");
    bench_fill(old, 4 * MIB, 77);
    size_t used = simcuda_used(0);
    uint64_t copies = simcuda_calls("cuMemcpyAsync");
    CU(gpumem_region_grow(region, 10 * MIB));
    simcuda_set_streams("immediate");
    struct gpumem_view view = view_of(region);
    assert_ptr_not_equal(view.base, old);
    assert_true(view.capacity >= 20 * MIB);
    assert_int_equal(simcuda_used(0) - used, 6 * MIB);
    assert_int_equal(simcuda_calls("cuMemcpyAsync"), copies);
    bench_check(view.base, 4 * MIB, 77);
    bench_fill(view.base, 10 * MIB, 78);
    bench_check(view.base, 10 * MIB, 78);
    assert_int_equal(bench_differing(), 0);
    CU(gpumem_region_destroy(region));
    CU(cuMemAddressFree(behind, 2 * MIB));
}

/* ---- shrinking */

TEST_WITH(shrinks_by_whole_handles, bench_open, bench_close) {
    struct gpumem_region *region = new_region(0, GPUMEM_REGION_EXACT);
    for (size_t size = 4 * MIB; size <= 16 * MIB; size += 4 * MIB)
        CU(gpumem_region_grow(region, size));
    size_t used = simcuda_used(0);
    simcuda_set_streams("manual");
    bench_fill(view_of(region).base, 16 * MIB, 5); /* unmapping does not wait, so the region has to */
    CU(gpumem_region_shrink(region, 5 * MIB));
    simcuda_set_streams("immediate");
    assert_int_equal(view_of(region).size, 5 * MIB);
    assert_int_equal(view_of(region).mapped, 8 * MIB);
    assert_int_equal(used - simcuda_used(0), 8 * MIB);
    CU(gpumem_region_grow(region, 8 * MIB));
    bench_check(view_of(region).base, 8 * MIB, 5);
    assert_int_equal(bench_differing(), 0);
    CU(gpumem_region_shrink(region, 0));
    assert_int_equal(view_of(region).mapped, 0);
    CU(gpumem_region_destroy(region));
}

TEST_WITH(memory_behind_its_end_is_unmapped, bench_open, bench_close) {
    struct gpumem_region *region = new_region(0, GPUMEM_REGION_EXACT);
    char byte = 0;
    CU(gpumem_region_grow(region, 2 * MIB));
    char *base = view_of(region).base;
    CU(cuMemcpyDtoH_v2(&byte, (CUdeviceptr)(uintptr_t)base + 2 * MIB - 1, 1));
    assert_int_equal(cuMemcpyDtoH_v2(&byte, (CUdeviceptr)(uintptr_t)base + 2 * MIB, 1), GPUMEM_INVALID_VALUE);
    CU(gpumem_region_destroy(region));
    assert_int_equal(cuMemcpyDtoH_v2(&byte, (CUdeviceptr)(uintptr_t)base, 1), GPUMEM_INVALID_VALUE);
}

TEST_WITH(a_capture_blocks_shrinking_and_destruction, bench_open, bench_close) {
    struct gpumem_region *region = new_region(0, GPUMEM_REGION_EXACT);
    CU(gpumem_region_grow(region, 4 * MIB));
    gm_capture_begin(bench.stream, false, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CU(cuStreamBeginCapture_v2(bench.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    struct gpumem_view before = view_of(region), after;
    assert_int_equal(gpumem_region_shrink(region, 0), GPUMEM_STREAM_CAPTURE);
    assert_int_equal(gpumem_region_destroy(region), GPUMEM_STREAM_CAPTURE);
    assert_non_null(strstr(gpumem_last_error(), "4194304 bytes"));
    after = view_of(region);
    assert_same(&before, &after);
    CU(gpumem_region_grow(region, 8 * MIB)); /* mapping does no work in a stream */
    CUgraph graph;
    CU(cuStreamEndCapture(bench.stream, &graph));
    gm_capture_end(bench.stream, false);
    CU(cuGraphDestroy(graph));
    CU(gpumem_region_destroy(region));
}

/* ---- more than one view, device, process, tier */

TEST_WITH(a_read_only_view_follows, bench_open, bench_close) {
    struct gpumem_region *region = new_region(4 * MIB, GPUMEM_REGION_EXACT);
    CUdeviceptr behind = block_behind(region, 4 * MIB);
    struct gpumem_view own, alias = {.struct_size = sizeof alias};
    CU(gpumem_region_grow(region, 2 * MIB));
    CU(gpumem_region_view_read_only(region, &alias));
    size_t used = simcuda_used(0);
    own = view_of(region);
    assert_ptr_not_equal(alias.base, own.base);
    bench_fill(own.base, 2 * MIB, 1);
    bench_check(alias.base, 2 * MIB, 1);
    CU(gpumem_region_grow(region, 4 * MIB));
    CU(gpumem_region_grow(region, 12 * MIB)); /* new addresses for both ranges */
    assert_int_equal(simcuda_used(0) - used, 10 * MIB);
    own = view_of(region);
    CU(gpumem_region_view_read_only(region, &alias));
    assert_int_equal(alias.mapped, 12 * MIB);
    bench_fill(own.base, 12 * MIB, 2);
    bench_check(alias.base, 12 * MIB, 2);
    assert_int_equal(bench_differing(), 0);
    unsigned long long flags;
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    for (size_t offset = 0; offset < 12 * MIB; offset += 2 * MIB) {
        CU(cuMemGetAccess(&flags, &here, (CUdeviceptr)(uintptr_t)alias.base + offset));
        assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    }
    CU(gpumem_region_shrink(region, 2 * MIB));
    CU(gpumem_region_destroy(region));
    CU(cuMemAddressFree(behind, 2 * MIB));
}

TEST_WITH(peers_get_access, bench_open, bench_close) {
    struct gpumem_region_options options = {.struct_size = sizeof options, .flags = GPUMEM_REGION_EXACT};
    struct gpumem_region *region = NULL;
    unsigned long long flags;
    CUmemLocation there = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    int devices = 0;
    CU(cuDeviceGetCount(&devices));
    CU(gpumem_region_create(&options, &region));
    CU(gpumem_region_grow(region, 4 * MIB));
    if (devices < 2) {
        assert_int_not_equal(gpumem_region_allow(region, 1), CUDA_SUCCESS);
        assert_non_null(strstr(gpumem_last_error(), "device 1"));
    } else {
        CUdeviceptr base = (CUdeviceptr)(uintptr_t)view_of(region).base;
        CU(cuMemGetAccess(&flags, &there, base));
        assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
        CU(gpumem_region_allow(region, 1));
        CU(gpumem_region_grow(region, 8 * MIB));
        for (size_t offset = 0; offset < 8 * MIB; offset += 2 * MIB) {
            CU(cuMemGetAccess(&flags, &there, base + offset));
            assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        }
        /* The work of a peer is waited for before anything is unmapped. */
        CUcontext primary, popped;
        CU(cuDevicePrimaryCtxRetain(&primary, 1));
        CU(cuCtxPushCurrent_v2(primary));
        simcuda_set_streams("manual");
        CU(cuMemsetD8Async(base, 3, 8 * MIB, NULL));
        CU(cuCtxPopCurrent_v2(&popped));
        CU(gpumem_region_shrink(region, 0));
        simcuda_set_streams("immediate");
        CU(cuDevicePrimaryCtxRelease_v2(1));
    }
    assert_int_equal(gpumem_region_allow(region, 64), GPUMEM_INVALID_VALUE);
    CU(gpumem_region_destroy(region));
}

TEST_WITH(handles_can_be_exported, bench_open, bench_close) {
    struct gpumem_region *region = new_region(0, GPUMEM_REGION_EXPORTABLE | GPUMEM_REGION_EXACT),
                         *plain = new_region(0, 0);
    CUmemGenericAllocationHandle imported;
    struct stat file;
    size_t size = 0;
    int descriptor = -1;
    CU(gpumem_region_grow(region, 2 * MIB));
    CU(gpumem_region_grow(region, 6 * MIB));
    assert_int_equal(gpumem_region_export(region, 2, &descriptor, &size), GPUMEM_INVALID_VALUE);
    CU(gpumem_region_export(region, 1, &descriptor, &size));
    assert_int_equal(size, 4 * MIB);
    assert_int_equal(fstat(descriptor, &file), 0);
    CU(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)descriptor,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CU(cuMemRelease(imported));
    close(descriptor);
    CU(gpumem_region_grow(plain, 2 * MIB));
    assert_int_equal(gpumem_region_export(plain, 0, &descriptor, &size), GPUMEM_NOT_SUPPORTED);
    CU(gpumem_region_destroy(plain));
    CU(gpumem_region_destroy(region));
}

TEST_WITH(the_host_tier_takes_no_device_memory, bench_open, bench_close) {
    struct gpumem_region *region = new_region(0, GPUMEM_REGION_HOST);
    size_t used = simcuda_used(0);
    CU(gpumem_region_grow(region, 4 * MIB));
    assert_int_equal(simcuda_used(0), used);
    bench_fill(view_of(region).base, 4 * MIB, 9);
    bench_check(view_of(region).base, 4 * MIB, 9);
    assert_int_equal(bench_differing(), 0);
    assert_int_equal(gpumem_region_grow(region, (size_t)1 << 45),
                     GPUMEM_OUT_OF_MEMORY); /* the kernel is never asked for so much */
    CU(gpumem_region_destroy(region));
}

TEST_WITH(errors_without_a_region, bench_open, bench_close) {
    struct gpumem_region *region = NULL;
    CUcontext popped;
    CU(cuCtxPopCurrent_v2(&popped));
    assert_int_equal(simcuda_set_failures("cuDevicePrimaryCtxRetain:1:2"), 0);
    assert_int_equal(gpumem_region_create(NULL, &region), GPUMEM_OUT_OF_MEMORY);
    assert_non_null(strstr(gpumem_last_error(), "no context"));
    assert_int_equal(simcuda_set_failures(NULL), 0);
    assert_null(region);
    CU(gpumem_region_create(NULL, &region)); /* in the primary context of device 0 */
    CU(gpumem_region_destroy(region));
    CU(cuCtxPushCurrent_v2(popped));
    CU(gpumem_region_destroy(NULL));
}

/* ---- every driver call fails once */

struct shape {
    bool moves, alias;
};

static void grow_with_failures(const struct shape *shape) {
    for (unsigned n = 1;; n++) {
        assert_true(n < 200);
        struct gpumem_region *region = new_region(shape->moves ? 4 * MIB : 0, GPUMEM_REGION_EXACT);
        CUdeviceptr behind = shape->moves ? block_behind(region, 4 * MIB) : 0;
        struct gpumem_view before, after, alias_before = {.struct_size = sizeof alias_before},
                                          alias_after = alias_before;
        CU(gpumem_region_grow(region, 2 * MIB));
        CU(gpumem_region_grow(region, 4 * MIB));
        if (shape->alias)
            CU(gpumem_region_view_read_only(region, &alias_before));
        bench_fill(view_of(region).base, 4 * MIB, n);
        CU(cuStreamSynchronize(bench.stream));
        before = view_of(region);
        size_t reservations = simcuda_live_reservations(), handles = simcuda_live_handles(), used = simcuda_used(0);
        bench_fail_call(n);
        int status = gpumem_region_grow(region, 8 * MIB);
        bool reached = bench_failed();
        after = view_of(region);
        if (status) {
            if (shape->alias)
                CU(gpumem_region_view_read_only(region, &alias_after));
            assert_same(&before, &after);
            assert_same(&alias_before, &alias_after);
            assert_int_equal(simcuda_live_reservations(), reservations);
            assert_int_equal(simcuda_live_handles(), handles);
            assert_int_equal(simcuda_used(0), used);
            assert_string_not_equal(gpumem_last_error(), "");
        } else {
            assert_int_equal(after.size, 8 * MIB);
        }
        bench_check(after.base, 4 * MIB, n);
        assert_int_equal(bench_differing(), 0);
        CU(gpumem_region_destroy(region));
        if (behind)
            CU(cuMemAddressFree(behind, 2 * MIB));
        if (!reached) {
            assert_int_equal(status, CUDA_SUCCESS);
            assert_true(n > 3);
            break;
        }
    }
}

TEST_WITH(failing_growth_changes_nothing, bench_open, bench_close) {
    grow_with_failures(&(struct shape){0});
    grow_with_failures(&(struct shape){.alias = true});
    grow_with_failures(&(struct shape){.moves = true});
    grow_with_failures(&(struct shape){.moves = true, .alias = true});
}

TEST_WITH(failing_shrink_loses_nothing, bench_open, bench_close) {
    for (unsigned n = 1;; n++) {
        struct gpumem_region *region = new_region(0, GPUMEM_REGION_EXACT);
        struct gpumem_view alias = {.struct_size = sizeof alias}, before, after;
        for (size_t size = 2 * MIB; size <= 8 * MIB; size += 2 * MIB)
            CU(gpumem_region_grow(region, size));
        CU(gpumem_region_view_read_only(region, &alias));
        bench_fill(view_of(region).base, 8 * MIB, n);
        CU(cuStreamSynchronize(bench.stream));
        before = view_of(region);
        size_t used = simcuda_used(0);
        bench_fail_call(n);
        int status = gpumem_region_shrink(region, 4 * MIB);
        bool reached = bench_failed();
        after = view_of(region);
        if (status) {
            assert_same(&before, &after);
            assert_int_equal(simcuda_used(0), used);
        } else {
            assert_int_equal(after.size, 4 * MIB);
            assert_int_equal(used - simcuda_used(0), 4 * MIB);
        }
        bench_check(after.base, after.size, n);
        CU(gpumem_region_view_read_only(region, &alias));
        bench_check(alias.base, alias.size, n);
        assert_int_equal(bench_differing(), 0);
        CU(gpumem_region_destroy(region));
        if (!reached)
            break;
        assert_true(n < 200);
    }
}

/* The driver refuses the last handle that is to go, twice: the two before are gone. */
TEST_WITH(shrink_that_fails_half_way_keeps_what_is_mapped, bench_open, bench_close) {
    struct gpumem_region *region = new_region(0, GPUMEM_REGION_EXACT);
    for (size_t size = 2 * MIB; size <= 8 * MIB; size += 2 * MIB)
        CU(gpumem_region_grow(region, size));
    bench_fill(view_of(region).base, 4 * MIB, 7);
    assert_int_equal(simcuda_set_failures("cuMemUnmap:3:2:2"), 0);
    assert_int_equal(gpumem_region_shrink(region, 2 * MIB - 4), GPUMEM_OUT_OF_MEMORY);
    assert_int_equal(simcuda_set_failures(NULL), 0);
    struct gpumem_view view = view_of(region);
    assert_int_equal(view.size, 2 * MIB - 4);
    assert_int_equal(view.mapped, 4 * MIB);
    bench_check(view.base, 4 * MIB, 7);
    assert_int_equal(bench_differing(), 0);
    CU(gpumem_region_grow(region, 6 * MIB));
    bench_check(view.base, 2 * MIB, 7);
    assert_int_equal(bench_differing(), 0);
    CU(gpumem_region_destroy(region));
}

/* A region begins with half of the addresses that the driver has just refused, down to one granule. */
TEST_WITH(fewer_addresses_than_wanted, bench_open, bench_close) {
    struct gpumem_region *region = NULL;
    size_t total, refused;
    CU(cuDeviceTotalMem_v2(&total, 0));
    assert_int_equal(simcuda_set_failures("cuMemAddressReserve:1:2:3"), 0);
    CU(gpumem_region_create(NULL, &region));
    assert_int_equal(simcuda_set_failures(NULL), 0);
    assert_in_range(view_of(region).capacity, total / 8, total / 8 + 4 * MIB);
    CU(gpumem_region_destroy(region));
    assert_int_equal(simcuda_set_failures("cuMemAddressReserve:1:2:1000"), 0);
    refused = simcuda_calls("cuMemAddressReserve");
    assert_int_equal(gpumem_region_create(NULL, &region), GPUMEM_OUT_OF_MEMORY);
    assert_int_equal(simcuda_set_failures(NULL), 0);
    assert_in_range(simcuda_calls("cuMemAddressReserve") - refused, 8, 24);
}

TEST_WITH(failing_creation_leaves_nothing, bench_open, bench_close) {
    for (unsigned n = 1;; n++) {
        struct gpumem_region *region = NULL;
        size_t reservations = simcuda_live_reservations();
        bench_fail_call(n);
        int status = gpumem_region_create(NULL, &region);
        bool reached = bench_failed();
        if (status) {
            assert_null(region);
            assert_int_equal(simcuda_live_reservations(), reservations);
        }
        CU(gpumem_region_destroy(region));
        if (!reached)
            break;
        assert_true(n < 100);
    }
}

int main(void) { return run_all(NULL, NULL); }

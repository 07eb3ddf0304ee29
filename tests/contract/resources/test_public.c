/* The calls of gpumem_resource.h on the simulated driver: what resources are, what views may ask for, and how memory is
 * allocated and freed. The behaviours are those of cuda-memory-resource-proposal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "public.h"
#include "shim/driver/fence.h"
#include "shim/driver/internal_stream.h"
#include "shim/resource/guard_ranges.h"
#include "shim/resource/rows.h"
#include "tests/said.h"

static struct world world;

static int open_world(void **state) {
    world_open(&world);
    return 0;
}

static int close_world(void **state) {
    struct gpumem_resource *any = create("async");
    simcuda_set_streams("immediate");
    simcuda_run_all();
    OK(gpumem_resource_trim(any, SIZE_MAX, NULL));
    OK(gpumem_resource_destroy(any));
    assert_int_equal(simcuda_live_blocks(), 0);
    assert_int_equal(simcuda_live_handles(), 0);
    assert_int_equal(simcuda_live_reservations(), gm_guard_arenas());
    assert_int_equal(gpumem_live_count(), 0);
    world_close(&world, build("async"));
    return 0;
}

static struct gpumem_stream_view stream_one(void) { return gpumem_stream(world.one); }

/* ---- kinds, properties, views */

TEST_WITH(test_kinds_have_their_properties, open_world, close_world) {
    assert_int_equal(gpumem_kind_properties(GPUMEM_KIND_HOST),
                     GPUMEM_HOST_ACCESSIBLE | GPUMEM_OVERSUBSCRIBABLE | GPUMEM_HOST_STORAGE);
    assert_int_equal(gpumem_kind_properties(GPUMEM_KIND_PINNED),
                     GPUMEM_HOST_ACCESSIBLE | GPUMEM_DEVICE_ACCESSIBLE | GPUMEM_RESIDENT | GPUMEM_HOST_STORAGE);
    assert_int_equal(gpumem_kind_properties(GPUMEM_KIND_DEVICE),
                     GPUMEM_DEVICE_ACCESSIBLE | GPUMEM_RESIDENT | GPUMEM_DEVICE_STORAGE);
    assert_int_equal(gpumem_kind_properties(GPUMEM_KIND_UNIFIED), GPUMEM_HOST_ACCESSIBLE | GPUMEM_DEVICE_ACCESSIBLE |
                                                                      GPUMEM_OVERSUBSCRIBABLE | GPUMEM_HOST_STORAGE |
                                                                      GPUMEM_DEVICE_STORAGE);
    assert_int_equal(gpumem_kind_properties((enum gpumem_kind)77), 0);
    assert_string_equal(gpumem_property_name(GPUMEM_OVERSUBSCRIBABLE), "oversubscribable");
    assert_string_equal(gpumem_property_name(GPUMEM_HOST_ACCESSIBLE | GPUMEM_RESIDENT), "unknown property");
    assert_string_equal(gpumem_property_name(1u << 30), "unknown property");
    /* A property of a later version is one more bit: no resource of this version has it. */
    struct gpumem_resource *resource = create("native");
    struct gpumem_resource_view view;
    assert_int_equal(gpumem_resource_view_of(resource, (uint64_t)1 << 40, &view), GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(gpumem_last_error(), "unknown property"));
    OK(gpumem_resource_destroy(resource));
}

/* The concrete resources, and the driver call that each makes. */
static const struct {
    const char *text, *call;
    enum gpumem_kind kind;
    uint64_t more;
} concrete[] = {
    {"new-delete", NULL, GPUMEM_KIND_HOST, GPUMEM_ANY_CONTEXT},
    {"native", "cuMemAlloc_v2", GPUMEM_KIND_DEVICE, GPUMEM_STREAM_ORDERED | GPUMEM_IPC_EXPORTABLE},
    {"managed", "cuMemAllocManaged", GPUMEM_KIND_MANAGED, GPUMEM_STREAM_ORDERED},
    {"managed-pool", "cuMemAllocFromPoolAsync", GPUMEM_KIND_MANAGED, GPUMEM_STREAM_ORDERED},
    {"pinned", "cuMemHostAlloc", GPUMEM_KIND_PINNED, GPUMEM_CROSS_DEVICE_ACCESSIBLE},
    {"async", "cuMemAllocFromPoolAsync", GPUMEM_KIND_DEVICE, GPUMEM_STREAM_ORDERED},
    {"vmm", "cuMemMap", GPUMEM_KIND_DEVICE, GPUMEM_GROWABLE},
    {"guard", "cuMemMap", GPUMEM_KIND_DEVICE, GPUMEM_STREAM_ORDERED},
    {"host-numa", "cuMemMap", GPUMEM_KIND_PINNED, GPUMEM_STREAM_ORDERED},
    {"split", "cuMemMap", GPUMEM_KIND_DEVICE, GPUMEM_HOST_STORAGE},
};
enum { CONCRETE = sizeof concrete / sizeof *concrete };

TEST_WITH(test_concrete_resources, open_world, close_world) {
    for (int i = 0; i < CONCRETE; i++) {
        struct gpumem_resource *resource = create(concrete[i].text);
        uint64_t calls = concrete[i].call ? simcuda_calls(concrete[i].call) : 0;
        void *memory = must_get(resource, 5000);
        if (concrete[i].call && simcuda_calls(concrete[i].call) == calls)
            fail_msg("%s does not call %s", concrete[i].text, concrete[i].call);
        assert_int_equal(gpumem_resource_kind(resource), concrete[i].kind);
        uint64_t has = gpumem_resource_properties(resource);
        uint64_t should = gpumem_kind_properties(concrete[i].kind) | concrete[i].more | GPUMEM_ANY_CONTEXT;
        assert_int_equal(should & ~has, 0);
        if (concrete[i].kind == GPUMEM_KIND_MANAGED) /* the driver exports no managed memory */
            assert_false(has & GPUMEM_IPC_EXPORTABLE);
        if (has & GPUMEM_HOST_ACCESSIBLE && !getenv("SIMCUDA_STRICT"))
            memset(memory, 7, 5000);
        must_put(resource, memory, 5000);
        assert_string_equal(gpumem_resource_text(resource), concrete[i].text);
        OK(gpumem_resource_destroy(resource));
    }
}

TEST_WITH(test_host_memory_needs_no_context, open_world, close_world) {
    struct gpumem_resource *host = create("statistics(new-delete)"), *device = create("native");
    CU(cuCtxSetCurrent(NULL));
    void *memory = must_get(host, 100);
    memset(memory, 1, 100);
    must_put(host, memory, 100);
    CUcontext none = world.context;
    CU(cuCtxGetCurrent(&none));
    assert_null(none);
    CU(cuCtxSetCurrent(world.context));
    OK(gpumem_resource_destroy(host));
    OK(gpumem_resource_destroy(device));
}

static CUcontext current_context(void) {
    CUcontext current = NULL;
    CU(cuCtxGetCurrent(&current));
    return current;
}

/* As with the CUDA runtime: the first call of a thread makes the primary context of device 0 current. A thread without
 * a context may free. */
TEST_WITH(test_device_memory_finds_a_context, open_world, close_world) {
    CUcontext primary;
    CU(cuDevicePrimaryCtxRetain(&primary, 0));
    for (int i = 0; i < CONCRETE; i++) {
        struct gpumem_resource *resource = create(concrete[i].text);
        bool needs = gpumem_resource_properties(resource) & GPUMEM_DEVICE_ACCESSIBLE;
        CU(cuCtxSetCurrent(NULL));
        void *memory = must_get(resource, 5000);
        assert_ptr_equal(current_context(), needs ? primary : NULL);
        CU(cuCtxSetCurrent(NULL));
        if (gpumem_resource_properties(resource) & GPUMEM_GROWABLE)
            OK(gpumem_resource_grow(resource, memory, 5000, 5000));
        must_put(resource, memory, 5000);
        assert_null(current_context());
        OK(gpumem_resource_destroy(resource));
    }
    CU(cuCtxSetCurrent(world.context));
    CU(cuDevicePrimaryCtxRelease_v2(0));
}

/* Each resource, each set of properties: a view exists where the resource has them all, else the error names one that
 * it lacks. */
TEST_WITH(test_a_view_asks_for_properties, open_world, close_world) {
    for (int i = 0; i < CONCRETE; i++) {
        struct gpumem_resource *resource = create(concrete[i].text);
        uint64_t has = gpumem_resource_properties(resource);
        for (uint64_t wanted = 0; wanted < 2 * GPUMEM_ANY_CONTEXT; wanted++) {
            struct gpumem_resource_view view = {NULL, 77};
            enum gpumem_status status = gpumem_resource_view_of(resource, wanted, &view);
            uint64_t lacks = wanted & ~has;
            assert_int_equal(status, lacks ? GPUMEM_INVALID_VALUE : GPUMEM_OK);
            assert_int_equal(view.properties, lacks ? 77 : wanted);
            if (lacks)
                assert_non_null(strstr(gpumem_last_error(), gpumem_property_name(lacks & -lacks)));
        }
        OK(gpumem_resource_destroy(resource));
    }
}

/* The program of the proposal: foo, goo, boo and loo. */
static gm_status foo(struct gpumem_resource *resource) {
    struct gpumem_resource_view view;
    return (gm_status)gpumem_resource_view_of(resource, GPUMEM_HOST_ACCESSIBLE | GPUMEM_HOST_STORAGE, &view);
}

static gm_status boo(struct gpumem_resource_view view) {
    struct gpumem_resource_view own;
    gm_status status = (gm_status)gpumem_resource_view_convert(view, GPUMEM_DEVICE_ACCESSIBLE, &own);
    if (!status) {
        assert_ptr_equal(own.resource, view.resource);
        must_put(own.resource, must_get(own.resource, 64), 64);
    }
    return status;
}

static gm_status goo(struct gpumem_resource *resource) {
    struct gpumem_resource_view view;
    gm_status status =
        (gm_status)gpumem_resource_view_of(resource, GPUMEM_DEVICE_ACCESSIBLE | GPUMEM_OVERSUBSCRIBABLE, &view);
    return status ? status : boo(view);
}

TEST_WITH(test_foo_goo_boo_loo, open_world, close_world) {
    struct gpumem_resource *managed = create("managed"), *device = create("native");
    assert_int_equal(foo(managed), GPUMEM_OK);
    assert_int_equal(goo(managed), GPUMEM_OK);
    assert_int_equal(foo(device), GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(gpumem_last_error(), "the resource native is not host-accessible"));
    assert_int_equal(goo(device), GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(gpumem_last_error(), "oversubscribable"));
    OK(gpumem_resource_destroy(managed));
    OK(gpumem_resource_destroy(device));
}

TEST_WITH(test_a_view_converts_to_a_subset_only, open_world, close_world) {
    struct gpumem_resource *managed = create("managed");
    struct gpumem_resource_view view, other = {NULL, 77};
    OK(gpumem_resource_view_of(managed, GPUMEM_DEVICE_ACCESSIBLE | GPUMEM_OVERSUBSCRIBABLE, &view));
    OK(gpumem_resource_view_convert(view, GPUMEM_OVERSUBSCRIBABLE, &other));
    assert_int_equal(other.properties, GPUMEM_OVERSUBSCRIBABLE);
    assert_ptr_equal(other.resource, managed);
    /* The resource is host-accessible, but the view did not ask for that. */
    assert_int_equal(gpumem_resource_view_convert(view, GPUMEM_HOST_ACCESSIBLE, &other), GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(gpumem_last_error(), "host-accessible"));
    assert_int_equal(other.properties, GPUMEM_OVERSUBSCRIBABLE);
    OK(gpumem_resource_destroy(managed));
}

/* ---- allocate and free */

TEST_WITH(test_alignment, open_world, close_world) {
    for (int i = 0; i < CONCRETE; i++) {
        struct gpumem_resource *resource = create(concrete[i].text);
        void *memory[24];
        for (int log2 = 0; log2 < 24; log2++) {
            OK(gpumem_resource_allocate(resource, 100, (size_t)1 << log2, &memory[log2]));
            assert_int_equal((uintptr_t)memory[log2] % ((size_t)1 << log2), 0);
        }
        for (int log2 = 0; log2 < 24; log2++)
            OK(gpumem_resource_deallocate(resource, memory[log2], 100, (size_t)1 << log2));
        static const size_t bad[] = {0, 3, 24, 4095, SIZE_MAX};
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
            void *none = resource;
            assert_int_equal(gpumem_resource_allocate(resource, 100, bad[b], &none), GPUMEM_INVALID_VALUE);
            assert_non_null(strstr(gpumem_last_error(), "power of two"));
            assert_ptr_equal(none, resource);
        }
        OK(gpumem_resource_destroy(resource));
    }
}

TEST_WITH(test_default_alignment, open_world, close_world) {
    struct gpumem_resource *resource = create("async");
    void *memory;
    assert_int_equal(GPUMEM_DEFAULT_ALIGNMENT, _Alignof(max_align_t));
    OK(gpumem_resource_allocate_async(resource, 100, stream_one(), &memory));
    OK(gpumem_resource_deallocate_async_aligned(resource, memory, 100, GPUMEM_DEFAULT_ALIGNMENT, stream_one()));
    OK(gpumem_resource_allocate_async_aligned(resource, 100, GPUMEM_DEFAULT_ALIGNMENT, stream_one(), &memory));
    OK(gpumem_resource_deallocate_async(resource, memory, 100, stream_one()));
    OK(gpumem_resource_allocate_async_aligned(resource, 100, 65536, stream_one(), &memory));
    assert_int_equal((uintptr_t)memory % 65536, 0);
    OK(gpumem_resource_deallocate_async_aligned(resource, memory, 100, 65536, stream_one()));
    assert_int_equal(info_of(resource).mismatches, 0);
    OK(gpumem_resource_destroy(resource));
}

TEST_WITH(test_zero_bytes, open_world, close_world) {
    struct gpumem_resource *resource = create("native");
    void *memory = resource;
    OK(gpumem_resource_allocate(resource, 0, 16, &memory));
    assert_null(memory);
    OK(gpumem_resource_deallocate(resource, memory, 0, 16));
    OK(gpumem_resource_destroy(resource));
}

TEST_WITH(test_a_wrong_size_or_alignment_is_tracked, open_world, close_world) {
    for (int i = 0; i < CONCRETE; i++) {
        struct gpumem_resource *resource = create(concrete[i].text);
        void *memory = must_get(resource, 1000);
        assert_int_equal(gpumem_resource_deallocate(resource, memory, 999, 16), GPUMEM_INVALID_VALUE);
        assert_non_null(strstr(gpumem_last_error(), "allocated with 1000 bytes"));
        assert_non_null(strstr(gpumem_last_error(), "freed with 999 bytes"));
        OK(gpumem_resource_allocate(resource, 1000, 4096, &memory));
        assert_int_equal(gpumem_resource_deallocate(resource, memory, 1000, 512), GPUMEM_INVALID_VALUE);
        assert_non_null(strstr(gpumem_last_error(), "alignment 4096"));
        assert_int_equal(info_of(resource).mismatches, 2);
        assert_int_equal(info_of(resource).live_count, 0); /* the memory is freed all the same */
        OK(gpumem_resource_destroy(resource));
    }
}

static void fill_and_check(CUstream fill, CUstream check, void *memory, size_t bytes, uint32_t pattern) {
    struct gm_block block = {.address = (uint64_t)(uintptr_t)memory, .size = bytes};
    world_fill(&world, fill, &block, pattern);
    world_check(&world, check, &block, pattern);
}

/* No such alignment can have been asked for. Deallocations of C++ cannot fail: the block must not stay. */
TEST_WITH(test_an_impossible_alignment_is_tracked, open_world, close_world) {
    static const size_t bad[] = {0, 3, 24, 4095, (size_t)1 << 63, SIZE_MAX};
    for (int i = 0; i < CONCRETE; i++)
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
            struct gpumem_resource *resource = create(concrete[i].text);
            bool ordered = gpumem_resource_properties(resource) & GPUMEM_STREAM_ORDERED;
            void *memory = must_get(resource, 1000), *other = must_get(resource, 1000);
            assert_int_equal(gpumem_resource_deallocate(resource, memory, 1000, bad[b]), GPUMEM_INVALID_VALUE);
            assert_non_null(strstr(gpumem_last_error(), "allocated with 1000 bytes and alignment 16"));
            if (ordered)
                assert_int_equal(gpumem_resource_deallocate_async_aligned(resource, other, 1000, bad[b], stream_one()),
                                 GPUMEM_INVALID_VALUE);
            else
                must_put(resource, other, 1000);
            assert_int_equal(info_of(resource).mismatches, ordered ? 2 : 1);
            assert_int_equal(info_of(resource).live_count, 0);
            OK(gpumem_resource_destroy(resource));
        }
}

TEST_WITH(test_a_free_in_an_order_that_the_resource_lacks_is_tracked, open_world, close_world) {
    static const char *const texts[] = {"vmm",
                                        "new-delete",
                                        "cache(vmm)",
                                        "fill(poison,vmm)",
                                        "stream-bound(legacy,async)",
                                        "log(stream-bound(legacy,cache(native)))"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct gpumem_resource *resource = create(texts[i]);
        void *memory = must_get(resource, 1000);
        assert_int_equal(gpumem_resource_deallocate_async(resource, memory, 1000, stream_one()), GPUMEM_INVALID_VALUE);
        assert_non_null(strstr(gpumem_last_error(), "is not stream-ordered"));
        assert_int_equal(info_of(resource).mismatches, 1);
        assert_int_equal(info_of(resource).live_count, 0);
        CU(cuCtxSynchronize());
        OK(gpumem_resource_destroy(resource));
    }
}

/* Work of the stream named and of the stream bound may use the memory. */
TEST_WITH(test_a_free_of_a_bound_block_on_another_stream_waits_for_both, open_world, close_world) {
    struct gpumem_resource *async = create("async"), *bound;
    OK(gpumem_resource_bind(async, stream_one(), &bound));
    simcuda_set_streams("manual");
    void *memory = must_get(bound, BYTES);
    fill_and_check(world.one, world.two, memory, BYTES, 3);
    fill_and_check(world.two, world.one, memory, BYTES, 3);
    assert_int_equal(gpumem_resource_deallocate_async(bound, memory, BYTES, gpumem_stream(world.two)),
                     GPUMEM_INVALID_VALUE);
    void *next = must_get(bound, BYTES);
    struct gm_block block = {.address = (uint64_t)(uintptr_t)next, .size = BYTES};
    world_fill(&world, world.one, &block, 4);
    while (simcuda_step(world.one) > 0) /* before stream two did anything */
        ;
    simcuda_run_all();
    simcuda_set_streams("immediate");
    assert_int_equal(simcuda_violations(), 0);
    must_put(bound, next, BYTES);
    OK(gpumem_resource_destroy(bound));
    OK(gpumem_resource_destroy(async));
}

TEST_WITH(test_memory_of_another_resource, open_world, close_world) {
    struct gpumem_resource *one = create("native"), *other = create("native");
    int local;
    void *memory = must_get(one, 1000);
    assert_int_equal(gpumem_resource_deallocate(other, memory, 1000, 16), GPUMEM_NOT_FOUND);
    assert_int_equal(gpumem_resource_deallocate(one, (char *)memory + 16, 1000, 16), GPUMEM_NOT_FOUND);
    assert_int_equal(gpumem_resource_deallocate(one, &local, 1000, 16), GPUMEM_NOT_FOUND);
    assert_int_equal(info_of(one).live_count, 1);
    must_put(one, memory, 1000);
    assert_int_equal(gpumem_resource_deallocate(one, memory, 1000, 16), GPUMEM_NOT_FOUND);
    assert_int_equal(info_of(one).mismatches, 3); /* each of them is tracked */
    assert_int_equal(info_of(other).mismatches, 1);
    OK(gpumem_resource_destroy(one));
    OK(gpumem_resource_destroy(other));
}

/* A stream-ordered resource is a resource: its plain memory is ready on every stream and in every thread at once. */
TEST_WITH(test_plain_memory_is_ready_on_every_stream, open_world, close_world) {
    for (int i = 0; i < CONCRETE; i++) {
        struct gpumem_resource *resource = create(concrete[i].text);
        if (!(gpumem_resource_properties(resource) & GPUMEM_DEVICE_ACCESSIBLE)) {
            OK(gpumem_resource_destroy(resource));
            continue;
        }
        assert_int_equal(gpumem_resource_get_context(resource).any, 1);
        void *busy = must_get(resource, BYTES);
        simcuda_set_streams("manual");
        fill_and_check(world.one, world.one, busy, BYTES, 1);
        void *memory = must_get(resource, BYTES);
        fill_and_check(world.two, world.two, memory, BYTES, 2);
        while (simcuda_step(world.two) > 0) /* before stream one did anything */
            ;
        simcuda_run_all();
        simcuda_set_streams("immediate");
        must_put(resource, busy, BYTES);
        must_put(resource, memory, BYTES);
        assert_int_equal(simcuda_check_mismatches(), 0);
        assert_int_equal(simcuda_violations(), 0);
        OK(gpumem_resource_destroy(resource));
    }
}

TEST_WITH(test_stream_order, open_world, close_world) {
    static const char *const ordered[] = {"native", "async",     "managed", "managed-pool",
                                          "pinned", "host-numa", "guard",   "suspendable"};
    for (size_t i = 0; i < sizeof ordered / sizeof *ordered; i++) {
        struct gpumem_resource *resource = create(ordered[i]);
        void *memory;
        simcuda_set_streams("manual");
        for (uint32_t round = 0; round < 20; round++) {
            OK(gpumem_resource_allocate_async(resource, BYTES, stream_one(), &memory));
            fill_and_check(world.one, world.one, memory, BYTES, round);
            OK(gpumem_resource_deallocate_async(resource, memory, BYTES, stream_one()));
        }
        assert_true(simcuda_pending() > 0); /* no call waited */
        simcuda_run_all();
        simcuda_set_streams("immediate");
        assert_int_equal(simcuda_check_mismatches(), 0);
        assert_int_equal(simcuda_violations(), 0);
        /* memory of one call is freed by the other */
        OK(gpumem_resource_allocate_async(resource, BYTES, stream_one(), &memory));
        must_put(resource, memory, BYTES);
        OK(gpumem_resource_deallocate_async(resource, must_get(resource, BYTES), BYTES, stream_one()));
        OK(gpumem_resource_trim(resource, SIZE_MAX, NULL));
        OK(gpumem_resource_destroy(resource));
    }
    struct gpumem_resource *plain = create("vmm");
    void *none;
    assert_int_equal(gpumem_resource_allocate_async(plain, 100, stream_one(), &none), GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(gpumem_last_error(), "stream-ordered"));
    OK(gpumem_resource_destroy(plain));
}

TEST_WITH(test_stream_bound, open_world, close_world) {
    struct gpumem_resource *async = create("async"), *bound;
    struct gpumem_resource_view view;
    OK(gpumem_resource_bind(async, stream_one(), &bound));
    struct gpumem_resource_context context = gpumem_resource_get_context(bound);
    assert_int_equal(context.any, 0);
    assert_ptr_equal(context.stream.stream, world.one);
    assert_int_equal(gpumem_resource_view_of(bound, GPUMEM_ANY_CONTEXT, &view), GPUMEM_INVALID_VALUE);
    OK(gpumem_resource_view_of(bound, GPUMEM_DEVICE_ACCESSIBLE, &view));
    simcuda_set_streams("manual");
    void *first = must_get(bound, BYTES);
    fill_and_check(world.one, world.one, first, BYTES, 3);
    must_put(bound, first, BYTES); /* in the order of the stream: the call does not wait */
    assert_true(simcuda_pending() > 0);
    void *again = must_get(bound, BYTES);
    assert_ptr_equal(again, first);
    fill_and_check(world.one, world.one, again, BYTES, 4);
    must_put(bound, again, BYTES);
    simcuda_run_all();
    simcuda_set_streams("immediate");
    assert_int_equal(simcuda_check_mismatches(), 0);
    assert_int_equal(simcuda_violations(), 0);
    OK(gpumem_resource_destroy(bound));
    OK(gpumem_resource_bind(async, gpumem_stream(NULL), &bound));
    assert_null(gpumem_resource_get_context(bound).stream.stream);
    must_put(bound, must_get(bound, 100), 100);
    OK(gpumem_resource_destroy(bound));
    struct gpumem_resource *plain = create("vmm");
    assert_int_equal(gpumem_resource_bind(plain, stream_one(), &bound), GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(gpumem_last_error(), "stream-ordered"));
    OK(gpumem_resource_destroy(plain));
    OK(gpumem_resource_destroy(async));
}

TEST_WITH(test_grow, open_world, close_world) {
    struct gpumem_resource *resource = create("statistics(limit(1GiB,log(track(vmm))))"), *fixed = create("native");
    size_t mib = (size_t)1 << 20, bytes = 100;
    void *memory = must_get(resource, bytes);
    fill_and_check(world.one, world.one, memory, bytes, 9);
    for (int step = 0; step < 6; step++) {
        enum gpumem_status status = gpumem_resource_grow(resource, memory, bytes, bytes + 3 * mib);
        if (status == GPUMEM_OUT_OF_MEMORY) /* the addresses behind are taken */
            break;
        OK(status);
        bytes += 3 * mib;
        world_check(&world, world.one, &(struct gm_block){.address = (uint64_t)(uintptr_t)memory, .size = 100}, 9);
        struct gm_block tail = {.address = (uint64_t)(uintptr_t)memory + bytes / 4 * 4 - 4096, .size = 4096};
        world_fill(&world, world.one, &tail, 5);
        world_check(&world, world.one, &tail, 5);
    }
    assert_true(bytes > 100);
    assert_int_equal(info_of(resource).live_bytes, bytes);
    assert_int_equal(simcuda_check_mismatches(), 0);
    assert_int_equal(gpumem_resource_grow(resource, memory, bytes, (size_t)2 << 30), GPUMEM_OUT_OF_MEMORY);
    assert_int_equal(gpumem_resource_grow(resource, memory, bytes, bytes - 1), GPUMEM_INVALID_VALUE);
    assert_int_equal(gpumem_resource_grow(resource, memory, bytes - 1, bytes), GPUMEM_INVALID_VALUE);
    must_put(resource, memory, bytes);
    memory = must_get(fixed, 100);
    assert_int_equal(gpumem_resource_grow(fixed, memory, 100, 200), GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(gpumem_last_error(), "growable"));
    must_put(fixed, memory, 100);
    OK(gpumem_resource_destroy(resource));
    OK(gpumem_resource_destroy(fixed));
}

/* The start of such a block is moved, and all of what it grows to is memory. */
TEST_WITH(test_an_aligned_block_grows, open_world, close_world) {
    struct gpumem_resource *resource = create("aligned(4MiB,vmm)");
    const size_t mib = (size_t)1 << 20;
    void *memory[4];
    unsigned grown = 0;
    for (int i = 0; i < 4; i++) {
        memory[i] = must_get(resource, 2 * mib);
        assert_int_equal((uintptr_t)memory[i] % (4 * mib), 0);
        fill_and_check(world.one, world.one, memory[i], 2 * mib, 6);
    }
    for (int i = 0; i < 4; i++) {
        bool grows = gpumem_resource_grow(resource, memory[i], 2 * mib, 6 * mib) == GPUMEM_OK;
        if (grows)
            fill_and_check(world.one, world.one, memory[i], 6 * mib, 7);
        grown += grows;
        CU(cuCtxSynchronize());
        must_put(resource, memory[i], (grows ? 6 : 2) * mib);
    }
    assert_true(grown > 0);
    assert_int_equal(simcuda_check_mismatches() + simcuda_violations(), 0);
    OK(gpumem_resource_destroy(resource));
}

/* ---- composition */

TEST_WITH(test_composed_in_code_and_in_text, open_world, close_world) {
    struct gpumem_resource *async = create("async"), *cache, *limit, *log;
    OK(gpumem_resource_compose("cache($1)", &async, 1, &cache));
    OK(gpumem_resource_compose("limit(2GiB,$1)", &cache, 1, &limit));
    OK(gpumem_resource_compose("log($1)", &limit, 1, &log));
    assert_string_equal(gpumem_resource_text(log), "log(limit(2GiB,cache(async)))");
    struct gpumem_resource *text = create(gpumem_resource_text(log));
    assert_int_equal(gpumem_resource_properties(text), gpumem_resource_properties(log));
    OK(gpumem_resource_destroy(async)); /* the composed one keeps it alive */
    OK(gpumem_resource_destroy(limit));
    OK(gpumem_resource_destroy(cache));
    must_put(log, must_get(log, 4096), 4096);
    must_put(text, must_get(text, 4096), 4096);
    void *none;
    assert_int_equal(gpumem_resource_allocate(log, (size_t)3 << 30, 16, &none), GPUMEM_OUT_OF_MEMORY);
    assert_non_null(strstr(gpumem_last_error(), "3221225472 bytes requested"));
    OK(gpumem_resource_destroy(log));
    OK(gpumem_resource_destroy(text));
}

TEST_WITH(test_wrong_texts, open_world, close_world) {
    static const struct {
        const char *text, *word;
    } wrong[] = {
        {"nonsense", "nonsense"},
        {"log", "wraps a resource"},
        {"fallback(native)", "\",\" is expected"},
        {"fallback(native,async,managed)", "\")\" is expected"},
        {"aligned(3,native)", "power of two"},
        {"aligned(native)", "4KiB"},
        {"stream-bound(never,async)", "per-thread"},
        {"stream-bound(legacy,vmm)", "not stream-ordered"},
        {"stream-bound(legacy,stream-bound(legacy,async))", "not stream-ordered"},
        {"prefetch(native)", "not host-accessible"},
        {"cache(new-delete)", "not device-accessible"},
        {"fill(zero,new-delete)", "not device-accessible"},
        {"fallback(native,stream-bound(legacy,async))", "not any-context"},
        {"$1", "$1"},
        {"log($2)", "$2"},
        {"router", "unmodified programs"},
        {"log(router)", "unmodified programs"},
        {"sim", "no memory"},
        {"statistics(sim)", "no memory"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct gpumem_resource *none = NULL;
        if (gpumem_resource_create(wrong[i].text, &none) != GPUMEM_INVALID_VALUE ||
            !strstr(gpumem_last_error(), wrong[i].word))
            fail_msg("%s: %s", wrong[i].text, gpumem_last_error());
        assert_null(none);
        assert_null(strstr(gpumem_last_error(), ", sim")); /* not among what is accepted */
    }
}

/* The owner stays the owner: the next destroy ends the resource. */
TEST_WITH(test_a_destroy_that_is_refused_ends_nothing, open_world, close_world) {
    struct gpumem_resource *resource = create("cache(native)");
    size_t before = simcuda_live_blocks();
    void *memory = must_get(resource, BYTES);
    for (int i = 0; i < 2; i++)
        assert_int_equal(gpumem_resource_destroy(resource), GPUMEM_INVALID_VALUE);
    must_put(resource, memory, BYTES);
    if (gm_fence_supported())
        assert_int_equal(simcuda_live_blocks(), before + 1); /* it is kept */
    OK(gpumem_resource_destroy(resource));
    assert_int_equal(simcuda_live_blocks(), before);
}

TEST_WITH(test_destroy_refuses_live_blocks, open_world, close_world) {
    struct gpumem_resource *resource = create("track(native)");
    void *memory = must_get(resource, 4096);
    assert_int_equal(gpumem_resource_destroy(resource), GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(gpumem_last_error(), "1 live blocks of 4096 bytes"));
    must_put(resource, memory, 4096);
    OK(gpumem_resource_destroy(resource));
    OK(gpumem_resource_destroy(NULL));
}

/* ---- adaptors */

struct seen {
    size_t count, bytes, frames;
    uint64_t last;
};

static int see(const struct gpumem_tracked *block, void *arg) {
    struct seen *seen = arg;
    assert_true(block->number > seen->last);
    seen->last = block->number;
    seen->count++;
    seen->bytes += block->bytes;
    seen->frames += block->frame_count;
    return 0;
}

TEST_WITH(test_track, open_world, close_world) {
    struct gpumem_resource *resource = create("log(track(async))"), *other = create("async");
    struct seen seen = {0};
    void *memory[3];
    size_t count = 77;
    for (int i = 0; i < 3; i++)
        memory[i] = must_get(resource, 100 * (size_t)(i + 1));
    must_put(resource, memory[1], 200);
    OK(gpumem_resource_tracked(resource, see, &seen, &count));
    assert_int_equal(count, 2);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.bytes, 400);
    assert_int_equal(seen.last, 3);
    assert_true(seen.frames >= 2); /* each has a call stack */
    must_put(resource, memory[0], 100);
    must_put(resource, memory[2], 300);
    OK(gpumem_resource_tracked(resource, NULL, NULL, &count));
    assert_int_equal(count, 0);
    assert_int_equal(gpumem_resource_tracked(other, see, &seen, &count), GPUMEM_NOT_FOUND);
    OK(gpumem_resource_destroy(resource));
    OK(gpumem_resource_destroy(other));
}

TEST_WITH(test_statistics, open_world, close_world) {
    struct gpumem_resource *resource = create("limit(1MiB,statistics(native))"),
                           *outside = create("statistics(limit(1MiB,native))");
    struct gpumem_statistics counts = {.struct_size = sizeof counts};
    void *a = must_get(resource, 1000), *b = must_get(resource, 2000), *none;
    must_put(resource, a, 1000);
    OK(gpumem_resource_get_statistics(resource, &counts));
    assert_int_equal(counts.allocations, 2);
    assert_int_equal(counts.deallocations, 1);
    assert_int_equal(counts.total_bytes, 3000);
    assert_int_equal(counts.live_count, 1);
    assert_int_equal(counts.live_bytes, 2000);
    assert_int_equal(counts.peak_count, 2);
    assert_int_equal(counts.peak_bytes, 3000);
    must_put(resource, b, 2000);
    assert_int_equal(gpumem_resource_allocate(resource, 2 << 20, 16, &none), GPUMEM_OUT_OF_MEMORY);
    assert_int_equal(gpumem_resource_allocate(outside, 2 << 20, 16, &none), GPUMEM_OUT_OF_MEMORY);
    OK(gpumem_resource_get_statistics(resource, &counts));
    assert_int_equal(counts.failures, 0); /* it stands inside the limit */
    OK(gpumem_resource_get_statistics(outside, &counts));
    assert_int_equal(counts.failures, 1);
    OK(gpumem_resource_destroy(resource));
    OK(gpumem_resource_destroy(outside));
}

TEST_WITH(test_log, open_world, close_world) {
    struct gpumem_resource *resource = create("log(native)");
    char text[1024], wanted[128];
    struct said said = said_begin();
    void *memory = must_get(resource, 4242), *none = NULL;
    enum gpumem_status status = gpumem_resource_allocate(resource, (size_t)1 << 50, 16, &none);
    must_put(resource, memory, 4242);
    said_end(said, text, sizeof text);
    assert_int_equal(status, GPUMEM_OUT_OF_MEMORY);
    snprintf(wanted, sizeof wanted, "gpumem: native: cuMemAlloc of 4242 bytes on device 0: %p\n", memory);
    assert_non_null(strstr(text, wanted));
    snprintf(wanted, sizeof wanted, "gpumem: native: cuMemFree of 4242 bytes at %p\n", memory);
    assert_non_null(strstr(text, wanted));
    assert_non_null(strstr(text, "1125899906842624 bytes on device 0: error 2\n"));
    OK(gpumem_resource_destroy(resource));
}

TEST_WITH(test_leaks_are_reported, open_world, close_world) {
    struct gpumem_resource *resource = create("track(native)");
    char text[4096];
    void *memory = must_get(resource, 31337);
    struct said said = said_begin();
    enum gpumem_status status = gpumem_resource_destroy(resource);
    said_end(said, text, sizeof text);
    assert_int_equal(status, GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(text, "leaked: 31337 bytes"));
    assert_non_null(strstr(text, " + 0x")); /* a frame of its call stack */
    assert_non_null(strstr(text, "1 blocks of native leaked, 31337 bytes"));
    must_put(resource, memory, 31337);
    OK(gpumem_resource_destroy(resource));
}

TEST_WITH(test_cache_and_trim, open_world, close_world) {
    struct gpumem_resource *resource = create("cache(1,native)");
    uint64_t calls;
    if (!gm_fence_supported()) { /* such a cache keeps nothing */
        OK(gpumem_resource_destroy(resource));
        return;
    }
    void *first = must_get(resource, 65536);
    must_put(resource, first, 65536);
    calls = simcuda_calls("cuMemAlloc_v2");
    void *again = must_get(resource, 65536);
    assert_ptr_equal(again, first);
    assert_int_equal(simcuda_calls("cuMemAlloc_v2"), calls);
    must_put(resource, again, 65536);
    size_t released = 0, live = simcuda_live_blocks();
    OK(gpumem_resource_trim(resource, SIZE_MAX, &released));
    assert_int_equal(released, 65536);
    assert_int_equal(simcuda_live_blocks(), live - 1);
    must_put(resource, must_get(resource, 65536), 65536);
    OK(gpumem_trim(SIZE_MAX, &released)); /* the program's own caches, too */
    assert_int_equal(released, 65536);
    OK(gpumem_resource_destroy(resource));
}

/* A cache rounds up what it allocates, and frees it so. */
TEST_WITH(test_a_cache_frees_what_it_allocated, open_world, close_world) {
    static const char *const texts[] = {"cache(1,statistics(native))", "cache(statistics(vmm))",
                                        "cache(statistics(aligned(64KiB,async)))", "cache(statistics(host-numa))"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct gpumem_resource *resource = create(texts[i]);
        struct gpumem_statistics counts = {.struct_size = sizeof counts};
        void *one = must_get(resource, 100), *two = must_get(resource, 3000000);
        must_put(resource, one, 100);
        must_put(resource, two, 3000000);
        OK(gpumem_resource_trim(resource, SIZE_MAX, NULL));
        OK(gpumem_resource_get_statistics(resource, &counts));
        assert_int_equal(counts.deallocations, counts.allocations);
        assert_int_equal(counts.live_bytes, 0);
        OK(gpumem_resource_destroy(resource));
    }
}

TEST_WITH(test_fallback_and_fail_nth, open_world, close_world) {
    struct gpumem_resource *resource = create("fallback(fail-nth(2,native),pinned)");
    assert_int_equal(gpumem_resource_kind(resource), GPUMEM_KIND_MIXED);
    void *one = must_get(resource, 100), *two = must_get(resource, 100), *three = must_get(resource, 100);
    struct gpumem_block block = {.struct_size = sizeof block};
    OK(gpumem_block_of(one, &block));
    assert_string_equal(block.kind, "native");
    OK(gpumem_block_of(two, &block));
    assert_string_equal(block.kind, "host");
    uint64_t frees = simcuda_calls("cuMemFreeHost");
    must_put(resource, two, 100);
    assert_int_equal(simcuda_calls("cuMemFreeHost"), frees + 1);
    must_put(resource, one, 100);
    must_put(resource, three, 100);
    assert_int_equal(simcuda_calls("cuMemFreeHost"), frees + 1);
    OK(gpumem_resource_destroy(resource));
}

/* Exactly the limit is allowed, one byte more is not. */
TEST_WITH(test_limit_to_the_byte, open_world, close_world) {
    struct gpumem_resource *resource = create("limit(1000,new-delete)");
    void *whole = must_get(resource, 1000), *more;
    assert_int_equal(gpumem_resource_allocate(resource, 1, 1, &more), GPUMEM_OUT_OF_MEMORY);
    must_put(resource, whole, 1000);
    assert_int_equal(gpumem_resource_allocate(resource, 1001, 1, &more), GPUMEM_OUT_OF_MEMORY);
    OK(gpumem_resource_destroy(resource));
}

TEST_WITH(test_aligned, open_world, close_world) {
    static const char *const texts[] = {"aligned(4KiB,new-delete)", "aligned(4KiB,native)", "aligned(4KiB,async)"};
    for (int i = 0; i < 3; i++) {
        struct gpumem_resource *resource = create(texts[i]);
        void *memory[4];
        for (int n = 0; n < 4; n++) {
            memory[n] = must_get(resource, 100);
            assert_int_equal((uintptr_t)memory[n] % 4096, 0);
        }
        for (int n = 0; n < 4; n++)
            must_put(resource, memory[n], 100);
        OK(gpumem_resource_destroy(resource));
    }
}

TEST_WITH(test_prefetch, open_world, close_world) {
    struct gpumem_resource *with = create("prefetch(managed)"), *without = create("managed");
    uint64_t calls = simcuda_calls("cuMemPrefetchAsync_v2");
    must_put(without, must_get(without, 65536), 65536);
    assert_int_equal(simcuda_calls("cuMemPrefetchAsync_v2"), calls);
    must_put(with, must_get(with, 65536), 65536);
    assert_int_equal(simcuda_calls("cuMemPrefetchAsync_v2"), calls + 1);
    OK(gpumem_resource_destroy(with));
    OK(gpumem_resource_destroy(without));
}

/* ---- resources of the program */

struct own {
    size_t live, bytes, last_alignment;
    int destroyed;
};

static enum gpumem_status own_allocate(void *self, size_t bytes, size_t alignment, void **memory) {
    struct own *own = self;
    if (posix_memalign(memory, alignment < 16 ? 16 : alignment, bytes))
        return GPUMEM_OUT_OF_MEMORY;
    own->live++;
    own->bytes += bytes;
    own->last_alignment = alignment;
    return GPUMEM_OK;
}

static enum gpumem_status own_deallocate(void *self, void *memory, size_t bytes, size_t alignment) {
    struct own *own = self;
    assert_int_equal((uintptr_t)memory % alignment, 0);
    own->live--;
    own->bytes -= bytes;
    free(memory);
    return GPUMEM_OK;
}

static void own_destroy(void *self) { ((struct own *)self)->destroyed++; }

TEST_WITH(test_own_resource, open_world, close_world) {
    struct own own = {0};
    struct gpumem_resource_author author = {
        .struct_size = sizeof author,
        .name = "mine",
        .kind = GPUMEM_KIND_HOST,
        .properties = GPUMEM_ANY_CONTEXT,
        .self = &own,
        .allocate = own_allocate,
        .deallocate = own_deallocate,
        .destroy = own_destroy,
    };
    struct gpumem_resource *mine, *around, *none = NULL;
    OK(gpumem_resource_create_own(&author, &mine));
    OK(gpumem_resource_compose("statistics(limit(1MiB,$1))", &mine, 1, &around));
    assert_string_equal(gpumem_resource_text(around), "statistics(limit(1MiB,mine))");
    assert_int_equal(gpumem_resource_kind(around), GPUMEM_KIND_HOST);
    void *memory;
    OK(gpumem_resource_allocate(around, 1000, 8192, &memory));
    assert_int_equal(own.last_alignment, 8192);
    assert_int_equal(own.bytes, 1000);
    OK(gpumem_resource_deallocate(around, memory, 1000, 8192));
    assert_int_equal(own.live, 0);
    assert_int_equal(own.bytes, 0);
    OK(gpumem_resource_destroy(mine));
    assert_int_equal(own.destroyed, 0);
    OK(gpumem_resource_destroy(around));
    assert_int_equal(own.destroyed, 1);
    struct gpumem_resource_author wrong = author;
    wrong.properties = GPUMEM_RESIDENT; /* host memory is not */
    assert_int_equal(gpumem_resource_create_own(&wrong, &none), GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(gpumem_last_error(), "resident"));
    wrong = author;
    wrong.properties |= GPUMEM_STREAM_ORDERED;
    assert_int_equal(gpumem_resource_create_own(&wrong, &none), GPUMEM_INVALID_VALUE);
    wrong = author;
    wrong.kind = GPUMEM_KIND_MIXED;
    assert_int_equal(gpumem_resource_create_own(&wrong, &none), GPUMEM_INVALID_VALUE);
    wrong = author;
    wrong.name = "two words";
    assert_int_equal(gpumem_resource_create_own(&wrong, &none), GPUMEM_INVALID_VALUE);
    wrong = author;
    wrong.allocate = NULL;
    assert_int_equal(gpumem_resource_create_own(&wrong, &none), GPUMEM_INVALID_VALUE);
    assert_null(none);
    assert_int_equal(own.destroyed, 1);
}

static enum gpumem_status own_refuses(void *self, size_t bytes, size_t alignment, void **memory) {
    return (enum gpumem_status)((struct own *)self)->last_alignment;
}

/* The second serves what the first does not support, and nothing else. */
TEST_WITH(test_fallback_of_what_is_not_supported, open_world, close_world) {
    struct own own = {.last_alignment = GPUMEM_NOT_SUPPORTED};
    const struct gpumem_resource_author author = {.struct_size = sizeof author,
                                                  .name = "unable",
                                                  .kind = GPUMEM_KIND_HOST,
                                                  .properties = GPUMEM_ANY_CONTEXT,
                                                  .self = &own,
                                                  .allocate = own_refuses,
                                                  .deallocate = own_deallocate};
    struct gpumem_resource *mine, *both;
    void *memory;
    OK(gpumem_resource_create_own(&author, &mine));
    OK(gpumem_resource_compose("fallback($1,new-delete)", &mine, 1, &both));
    must_put(both, must_get(both, 100), 100);
    own.last_alignment = GPUMEM_OUT_OF_MEMORY;
    must_put(both, must_get(both, 100), 100);
    own.last_alignment = GPUMEM_INVALID_CONTEXT;
    assert_int_equal(gpumem_resource_allocate(both, 100, 16, &memory), GPUMEM_INVALID_CONTEXT);
    OK(gpumem_resource_destroy(both));
    OK(gpumem_resource_destroy(mine));
}

/* There can be 1024 resources. What fails does not end what its author still owns. */
TEST_WITH(test_no_end_after_a_failure, open_world, close_world) {
    struct own own = {0};
    const struct gpumem_resource_author author = {.struct_size = sizeof author,
                                                  .name = "many",
                                                  .kind = GPUMEM_KIND_HOST,
                                                  .properties = GPUMEM_ANY_CONTEXT,
                                                  .self = &own,
                                                  .allocate = own_allocate,
                                                  .deallocate = own_deallocate,
                                                  .destroy = own_destroy};
    struct gpumem_resource *made[1025];
    int count = 0;
    while (count < 1025 && !gpumem_resource_create_own(&author, &made[count]))
        count++;
    assert_in_range(count, 1000, 1024);
    assert_non_null(strstr(gpumem_last_error(), "1024 resources exist"));
    assert_int_equal(own.destroyed, 0);
    for (int i = 0; i < count; i++)
        OK(gpumem_resource_destroy(made[i]));
    assert_int_equal(own.destroyed, count);
}

struct spare {
    struct gpumem_resource *upstream;
    void *memory;
    int calls;
};

/* Frees what it has, once. */
static int free_spare(size_t bytes, void *user) {
    struct spare *spare = user;
    spare->calls++;
    if (!spare->memory)
        return 0;
    must_put(spare->upstream, spare->memory, 600 << 10);
    spare->memory = NULL;
    return bytes == 600 << 10;
}

TEST_WITH(test_failure_callback, open_world, close_world) {
    struct gpumem_resource *limited = create("limit(1MiB,native)"), *tries;
    struct spare spare = {.upstream = limited, .memory = must_get(limited, 600 << 10)};
    void *none;
    assert_int_equal(gpumem_resource_on_failure(limited, NULL, NULL, &tries), GPUMEM_INVALID_VALUE);
    OK(gpumem_resource_on_failure(limited, free_spare, &spare, &tries));
    void *memory = must_get(tries, 600 << 10);
    assert_int_equal(spare.calls, 1);
    assert_int_equal(gpumem_resource_allocate(tries, 600 << 10, 16, &none), GPUMEM_OUT_OF_MEMORY);
    assert_int_equal(spare.calls, 2);
    must_put(tries, memory, 600 << 10);
    OK(gpumem_resource_destroy(tries));
    OK(gpumem_resource_destroy(limited));
}

/* A pool that begins with 4 MiB: its blocks are served without more of the device. */
TEST_WITH(test_pool_of_initial_and_largest_size, open_world, close_world) {
    struct gpumem_resource *pool = create("limit(8MiB,prime(4MiB,async))");
    size_t before, after, total;
    void *memory = must_get(pool, 65536), *more;
    CU(cuMemGetInfo_v2(&before, &total));
    void *second = must_get(pool, 3 << 20);
    CU(cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
    assert_int_equal(gpumem_resource_allocate(pool, 6 << 20, 16, &more), GPUMEM_OUT_OF_MEMORY);
    must_put(pool, second, 3 << 20);
    must_put(pool, memory, 65536);
    OK(gpumem_resource_destroy(pool));
}

TEST_WITH(test_current_resource, open_world, close_world) {
    struct gpumem_resource *found, *mine = create("statistics(native)");
    OK(gpumem_resource_current(&found));
    assert_string_equal(gpumem_resource_text(found), "native");
    OK(gpumem_resource_set_current(mine));
    OK(gpumem_resource_current(&found));
    assert_ptr_equal(found, mine);
    OK(gpumem_resource_destroy(mine)); /* the table owns it, too */
    must_put(found, must_get(found, 100), 100);
    OK(gpumem_resource_set_current(NULL));
    OK(gpumem_resource_current(&found));
    assert_string_equal(gpumem_resource_text(found), "native");
    OK(gpumem_resource_set_current(NULL));
    for (int set = 0; set < 2; set++) { /* device 0 has the primary context, which becomes current */
        CU(cuCtxSetCurrent(NULL));
        OK(set ? gpumem_resource_set_current(NULL) : gpumem_resource_current(&found));
        CU(cuCtxSetCurrent(world.context));
    }
}

/* Another thread may set another resource between a look and a share. */
TEST_WITH(test_the_current_resource_is_shared, open_world, close_world) {
    struct gpumem_resource *mine = create("statistics(native)"), *found = NULL;
    OK(gpumem_resource_set_current(mine));
    OK(gpumem_resource_destroy(mine));
    OK(gpumem_resource_share_current(&found));
    OK(gpumem_resource_set_current(NULL));
    must_put(found, must_get(found, 100), 100);
    OK(gpumem_resource_destroy(found));
    assert_int_equal(gpumem_resource_share_current(NULL), GPUMEM_INVALID_VALUE);
}

/* A text that is too long keeps what failed and why. */
TEST_WITH(test_a_long_text_keeps_its_reason, open_world, close_world) {
    struct gpumem_resource *resource = create("limit(1MiB,native)"), *inner;
    void *memory;
    for (int i = 0; i < 10; i++) {
        inner = resource;
        OK(gpumem_resource_compose("statistics(log(fill(zero,$1)))", &inner, 1, &resource));
        OK(gpumem_resource_destroy(inner));
    }
    assert_int_equal(gpumem_resource_allocate(resource, 2 << 20, 16, &memory), GPUMEM_OUT_OF_MEMORY);
    const char *error = gpumem_last_error(), *end = ": GPUMEM_OUT_OF_MEMORY: 1048576 bytes are the limit";
    assert_int_equal(strncmp(error, "the resource statistics(log(", 28), 0);
    assert_string_equal(error + strlen(error) - strlen(end), end);
    assert_non_null(strstr(error, " ... "));
    OK(gpumem_resource_destroy(resource));
}

/* The free bytes of the device are said where it is out of memory, not where a limit is. */
TEST_WITH(test_who_is_out_of_memory, open_world, close_world) {
    static const struct {
        const char *text;
        bool device;
    } cases[] = {{"limit(1MiB,native)", false},
                 {"cache(limit(1MiB,native))", false},
                 {"fallback(limit(1MiB,native),native)", true},
                 {"limit(1048576GiB,native)", true},
                 {"fallback(native,limit(1MiB,native))", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gpumem_resource *resource = create(cases[i].text);
        void *memory;
        assert_int_equal(gpumem_resource_allocate(resource, (size_t)1 << 45, 16, &memory), GPUMEM_OUT_OF_MEMORY);
        if (!strstr(gpumem_last_error(),
                    cases[i].device ? "bytes of the device free" : "1048576 bytes are the limit") ||
            (!cases[i].device && strstr(gpumem_last_error(), "bytes of the device free")))
            fail_msg("%s: %s", cases[i].text, gpumem_last_error());
        OK(gpumem_resource_destroy(resource));
    }
}

TEST_WITH(test_calls_name_themselves, open_world, close_world) {
    struct gpumem_resource *resource = create("native"), *made;
    assert_int_equal(gpumem_resource_create(NULL, &made), GPUMEM_INVALID_VALUE);
    assert_string_equal(gpumem_last_error(), "gpumem_resource_create: text is NULL");
    assert_int_equal(gpumem_resource_create("native", NULL), GPUMEM_INVALID_VALUE);
    assert_string_equal(gpumem_last_error(), "gpumem_resource_create: resource is NULL");
    OK(gpumem_resource_destroy(resource));
}

TEST_WITH(test_nine_resources_given, open_world, close_world) {
    struct gpumem_resource *given[10], *made = NULL;
    for (int i = 0; i < 10; i++)
        given[i] = create("new-delete");
    OK(gpumem_resource_compose("fallback($1,$9)", given, 9, &made));
    OK(gpumem_resource_destroy(made));
    assert_int_equal(gpumem_resource_compose("fallback($1,$9)", given, 10, &made), GPUMEM_INVALID_VALUE);
    for (int i = 0; i < 10; i++)
        OK(gpumem_resource_destroy(given[i]));
}

static void *answer;

static enum gpumem_status own_allocate_answer(void *self, size_t bytes, size_t alignment, void **memory) {
    ((struct own *)self)->live++;
    *memory = answer;
    return GPUMEM_OK;
}

static enum gpumem_status own_take_back(void *self, void *memory, size_t bytes, size_t alignment) {
    ((struct own *)self)->live--;
    return GPUMEM_OK;
}

/* What a program's own resource returns becomes a block only if it is one. */
TEST_WITH(test_own_resource_with_wrong_answers, open_world, close_world) {
    struct own own = {0};
    struct gpumem_resource_author author = {
        .struct_size = sizeof author,
        .name = "careless",
        .kind = GPUMEM_KIND_HOST,
        .properties = GPUMEM_ANY_CONTEXT,
        .self = &own,
        .allocate = own_allocate_answer,
        .deallocate = own_take_back,
    };
    struct gpumem_resource *mine;
    void *memory = &own;
    OK(gpumem_resource_create_own(&author, &mine));
    answer = NULL;
    assert_int_equal(gpumem_resource_allocate(mine, 100, 16, &memory), GPUMEM_INVALID_VALUE);
    assert_ptr_equal(memory, &own);
    answer = (void *)0x7f0000000010;
    assert_int_equal(gpumem_resource_allocate(mine, 100, 256, &memory), GPUMEM_INVALID_VALUE);
    assert_int_equal(own.live, 1); /* the misaligned block was given back */
    OK(gpumem_resource_allocate(mine, 100, 16, &memory));
    OK(gpumem_resource_deallocate(mine, memory, 100, 16));
    OK(gpumem_resource_destroy(mine));
}

/* Free bytes of the device say something only of device memory that is out. */
TEST_WITH(test_errors_name_free_memory_where_it_matters, open_world, close_world) {
    static const struct {
        const char *text;
        bool named;
    } rows[] = {{"fail-nth(1,native)", true}, {"fail-nth(1,new-delete)", false}, {"fail-nth(1,pinned)", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gpumem_resource *resource = create(rows[i].text);
        void *memory;
        assert_int_equal(gpumem_resource_allocate(resource, 4096, 16, &memory), GPUMEM_OUT_OF_MEMORY);
        assert_non_null(strstr(gpumem_last_error(), "4096 bytes requested"));
        assert_int_equal(strstr(gpumem_last_error(), "of the device free") != NULL, rows[i].named);
        OK(gpumem_resource_destroy(resource));
    }
}

#define NULL_REFUSED(call, name)                                       \
    do {                                                               \
        assert_int_equal(call, GPUMEM_INVALID_VALUE);                  \
        assert_non_null(strstr(gpumem_last_error(), name " is NULL")); \
    } while (0)

static int ask_nobody(size_t bytes, void *user) { return 0; }

TEST_WITH(test_null_is_refused, open_world, close_world) {
    struct gpumem_resource *resource = create("native"), *made = NULL;
    struct gpumem_resource_view view;
    struct gpumem_resource_info info = {.struct_size = sizeof info};
    struct gpumem_statistics counts = {.struct_size = sizeof counts};
    void *memory = NULL;
    NULL_REFUSED(gpumem_resource_create(NULL, &made), "text");
    NULL_REFUSED(gpumem_resource_create("native", NULL), "resource");
    NULL_REFUSED(gpumem_resource_compose("log($1)", NULL, 1, &made), "given");
    NULL_REFUSED(gpumem_resource_compose("log($1)", &made, 1, &made), "given[i]");
    NULL_REFUSED(gpumem_resource_on_failure(NULL, ask_nobody, NULL, &made), "upstream");
    NULL_REFUSED(gpumem_resource_bind(NULL, stream_one(), &made), "upstream");
    NULL_REFUSED(gpumem_resource_bind(resource, stream_one(), NULL), "resource");
    NULL_REFUSED(gpumem_resource_create_own(NULL, &made), "gpumem_resource_author");
    NULL_REFUSED(gpumem_resource_allocate(NULL, 1, 16, &memory), "resource");
    NULL_REFUSED(gpumem_resource_allocate(resource, 1, 16, NULL), "memory");
    NULL_REFUSED(gpumem_resource_allocate_async(NULL, 1, stream_one(), &memory), "resource");
    NULL_REFUSED(gpumem_resource_allocate_async_aligned(resource, 1, 16, stream_one(), NULL), "memory");
    NULL_REFUSED(gpumem_resource_deallocate(NULL, &made, 1, 16), "resource");
    NULL_REFUSED(gpumem_resource_deallocate_async(NULL, &made, 1, stream_one()), "resource");
    NULL_REFUSED(gpumem_resource_deallocate_async_aligned(NULL, &made, 1, 16, stream_one()), "resource");
    NULL_REFUSED(gpumem_resource_grow(NULL, &made, 1, 2), "resource");
    NULL_REFUSED(gpumem_resource_trim(NULL, 1, NULL), "resource");
    NULL_REFUSED(gpumem_resource_view_of(NULL, 0, &view), "resource");
    NULL_REFUSED(gpumem_resource_view_of(resource, 0, NULL), "view");
    NULL_REFUSED(gpumem_resource_view_convert((struct gpumem_resource_view){0}, 0, &view), "the resource of the view");
    NULL_REFUSED(gpumem_resource_get_info(NULL, &info), "resource");
    NULL_REFUSED(gpumem_resource_get_info(resource, NULL), "info");
    NULL_REFUSED(gpumem_resource_get_statistics(NULL, &counts), "resource");
    NULL_REFUSED(gpumem_resource_get_statistics(resource, NULL), "statistics");
    NULL_REFUSED(gpumem_resource_tracked(NULL, NULL, NULL, NULL), "resource");
    assert_string_equal(gpumem_resource_text(NULL), "");
    assert_int_equal(gpumem_resource_properties(NULL), 0);
    assert_int_equal(gpumem_resource_kind(NULL), GPUMEM_KIND_MIXED);
    assert_int_equal(gpumem_resource_get_context(NULL).any, 1);
    OK(gpumem_resource_destroy(NULL));
    OK(gpumem_resource_destroy(resource));
}

TEST_WITH(test_own_stream_bound_resource, open_world, close_world) {
    struct own own = {0};
    struct gpumem_resource_author author = {
        .struct_size = sizeof author,
        .name = "bound",
        .kind = GPUMEM_KIND_HOST,
        .stream = stream_one(),
        .self = &own,
        .allocate = own_allocate,
        .deallocate = own_deallocate,
    };
    struct gpumem_resource *mine;
    OK(gpumem_resource_create_own(&author, &mine));
    struct gpumem_resource_context context = gpumem_resource_get_context(mine);
    assert_int_equal(context.any, 0);
    assert_ptr_equal(context.stream.stream, world.one);
    OK(gpumem_resource_destroy(mine));
}

/* ---- the end of a context */

static void end_context(CUcontext context) {
    uint64_t id;
    CU(cuCtxDestroy_v2(context));
    assert_true(gm_context_end(context, &id));
    gm_pipeline_context_destroyed(id);
}

TEST_WITH(test_a_cache_forgets_a_destroyed_context, open_world, close_world) {
    struct gpumem_resource *resource = create("statistics(cache(native))");
    struct gpumem_statistics counts = {.struct_size = sizeof counts};
    struct world second;
    world_open(&second);
    void *cached = must_get(resource, 65536), *live = must_get(resource, 65536);
    must_put(resource, cached, 65536);
    gm_pipeline_empty_context(second.origin.context_id);
    end_context(second.context);
    CU(cuCtxSetCurrent(world.context));
    OK(gpumem_resource_get_statistics(resource, &counts));
    assert_int_equal(counts.live_count, 0);
    assert_int_equal(gpumem_resource_deallocate(resource, live, 65536, 16), GPUMEM_NOT_FOUND);
    must_put(resource, must_get(resource, 65536), 65536);
    OK(gpumem_resource_destroy(resource));
    assert_int_equal(simcuda_violations(), 0);
}

/* The streams of gpumem's own in a context end with it, and leave their places to others. */
TEST_WITH(test_any_number_of_contexts_in_turn, open_world, close_world) {
    struct gpumem_resource *resource = create("async");
    CUcontext context;
    for (int i = 0; i <= GM_INTERNAL_CONTEXTS; i++) {
        CU(cuCtxCreate_v2(&context, 0, 0));
        must_put(resource, must_get(resource, BYTES), BYTES);
        CU(cuCtxSynchronize());
        end_context(context);
    }
    CU(cuCtxSetCurrent(world.context));
    OK(gpumem_resource_destroy(resource));
}

/* Free memory of the device is what cuMemGetInfo says and what gpumem would release of it. */
TEST_WITH(test_free_host_memory_is_no_memory_of_the_device, open_world, close_world) {
    static const char *const stacks[] = {"cache(native)", "cache(pinned)"};
    for (int host = 0; host < 2; host++) {
        struct gpumem_resource *resource = create(stacks[host]);
        uint64_t held[GM_REASON_COUNT] = {0}, sum = 0;
        must_put(resource, must_get(resource, 4 << 20), 4 << 20);
        assert_int_equal(gm_pipeline_releasable(0), host || !gm_fence_supported() ? 0 : 4 << 20);
        void *small = must_get(resource, 65536);
        simcuda_set_streams("manual");
        struct gm_block block = {.address = (uint64_t)(uintptr_t)small, .size = 65536};
        world_fill(&world, world.one, &block, 1);
        must_put(resource, small, 65536);
        gm_pipeline_held(0, held);
        for (int reason = 0; reason < GM_REASON_COUNT; reason++)
            sum += held[reason];
        assert_int_equal(sum > 0, !host && gm_fence_supported());
        simcuda_set_streams("immediate");
        simcuda_run_all();
        OK(gpumem_resource_destroy(resource));
    }
}

TEST_WITH(test_the_new_structs_follow_the_convention, open_world, close_world) {
    struct gpumem_resource *resource = create("statistics(native)");
    struct gpumem_resource_info info = {.struct_size = 3};
    struct gpumem_statistics counts = {.struct_size = 0};
    struct gpumem_resource_author author = {.struct_size = 1};
    assert_int_equal(gpumem_resource_get_info(resource, &info), GPUMEM_INVALID_VALUE);
    assert_int_equal(gpumem_resource_get_statistics(resource, &counts), GPUMEM_INVALID_VALUE);
    assert_int_equal(gpumem_resource_create_own(&author, &resource), GPUMEM_INVALID_VALUE);
    counts.struct_size = offsetof(struct gpumem_statistics, failures);
    counts.failures = 77;
    OK(gpumem_resource_get_statistics(resource, &counts));
    assert_int_equal(counts.failures, 77);
    OK(gpumem_resource_destroy(resource));
}

int main(void) { return run_all(NULL, NULL); }

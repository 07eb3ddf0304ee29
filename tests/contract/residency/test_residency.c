/* Residency, rule by rule, on the simulated driver: what is found, placed, transferred, given back and evicted. */
#include "desk.h"
#include "shim/residency/parts.h"

#include <stdio.h>
#include <sys/mman.h>

enum { WORD = 0x1111 };

/* ---- memory: found, reused, allocated (memhc, 5.1) */

TEST_WITH(a_copy_is_found_without_allocation_or_transfer, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", MIB, 0);
    uint32_t *memory = pageable(64 * KIB, WORD);
    const uint64_t object = host_object(r, memory, 64 * KIB);
    void *first = begin(r, object, GPUMEM_READ, streams[0]);
    assert_ptr_equal(begin(r, object, GPUMEM_READ, streams[1]), first);
    end(r, object, streams[0], 0);
    end(r, object, streams[1], 0);
    assert_ptr_equal(begin(r, object, GPUMEM_READ, streams[2]), first);
    end(r, object, streams[2], 0);
    const struct gpumem_residency_stats s = stats_of(r);
    assert_int_equal(s.misses, 1);
    assert_int_equal(s.hits, 2);
    assert_int_equal(s.allocations, 1);
    assert_int_equal(s.transfers_to_device, 1);
    assert_int_equal(s.bytes_to_device, 64 * KIB);
    assert_int_equal(s.transfers_to_host, 0);
    assert_int_equal(simcuda_calls("cuMemAlloc_v2"), 1);
    OK(gpumem_residency_destroy(r));
    free(memory);
}

TEST_WITH(dropped_memory_serves_the_next_object_of_its_size, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", MIB, 0);
    const uint64_t one = gpu_object(r, 64 * KIB), same = gpu_object(r, 64 * KIB), other = gpu_object(r, 32 * KIB);
    void *first = begin(r, one, GPUMEM_WRITE, streams[0]);
    end(r, one, streams[0], GPUMEM_RELEASE_DROP);
    assert_int_equal(stats_of(r).pool_bytes, 64 * KIB);
    assert_ptr_not_equal(begin(r, other, GPUMEM_WRITE, streams[0]), first);
    assert_ptr_equal(begin(r, same, GPUMEM_WRITE, streams[0]), first);
    const struct gpumem_residency_stats s = stats_of(r);
    assert_int_equal(s.allocations, 2);
    assert_int_equal(s.reused, 1);
    assert_int_equal(s.pool_bytes, 0);
    assert_int_equal(simcuda_calls("cuMemFree_v2"), 0);
    OK(gpumem_residency_destroy(r));
}

/* Over the budget: first the free pool, its largest block first, then copies. */
TEST_WITH(the_free_pool_is_given_back_before_an_eviction, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 100 * KIB, 0);
    const uint64_t small = gpu_object(r, 8 * KIB), large = gpu_object(r, 32 * KIB), kept = gpu_object(r, 40 * KIB),
                   next = gpu_object(r, 44 * KIB), last = gpu_object(r, 52 * KIB);
    write_words(r, kept, 40 * KIB, 5, streams[0]);
    begin(r, small, GPUMEM_WRITE, streams[0]);
    begin(r, large, GPUMEM_WRITE, streams[0]);
    end(r, small, streams[0], GPUMEM_RELEASE_DROP);
    end(r, large, streams[0], GPUMEM_RELEASE_DROP);
    begin(r, next, GPUMEM_WRITE, streams[0]);
    end(r, next, streams[0], 0);
    struct gpumem_residency_stats s = stats_of(r);
    assert_int_equal(s.given_back, 1);
    assert_int_equal(s.given_back_bytes, 32 * KIB);
    assert_int_equal(s.pool_bytes, 8 * KIB);
    assert_int_equal(s.evictions, 0);

    begin(r, last, GPUMEM_WRITE, streams[0]); /* the small block, and then the copies that were used first */
    end(r, last, streams[0], 0);
    s = stats_of(r);
    assert_int_equal(s.given_back, 2);
    assert_int_equal(s.given_back_bytes, 40 * KIB);
    assert_int_equal(s.pool_bytes, 0);
    assert_int_equal(s.evictions, 1);
    assert_int_equal(s.written_back, 1);
    assert_int_equal(s.resident_bytes, 96 * KIB);
    assert_in_range(s.peak_bytes, 1, 100 * KIB);
    OK(gpumem_residency_destroy(r));
}

TEST_WITH(an_evicted_objects_memory_is_overwritten, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    const uint64_t one = gpu_object(r, 64 * KIB), two = gpu_object(r, 64 * KIB);
    void *host = NULL;
    write_words(r, one, 64 * KIB, 1, streams[0]);
    write_words(r, two, 64 * KIB, 2, streams[1]);
    const struct gpumem_residency_stats s = stats_of(r);
    assert_int_equal(s.evictions, 1);
    assert_int_equal(s.reused_evicted, 1);
    assert_int_equal(s.allocations, 1);
    assert_int_equal(s.given_back, 0);
    OK(gpumem_residency_sync(r, one, &host));
    assert_int_equal(differing(host, 64 * KIB, 1), 0);
    OK(gpumem_residency_sync(r, two, &host));
    assert_int_equal(differing(host, 64 * KIB, 2), 0);
    OK(gpumem_residency_destroy(r));
}

TEST_WITH(the_oldest_block_of_a_size_is_reused_first, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", MIB, 0);
    uint64_t object[4];
    void *address[4];
    for (int i = 0; i < 4; i++)
        object[i] = gpu_object(r, 64 * KIB);
    for (int i = 0; i < 2; i++)
        address[i] = begin(r, object[i], GPUMEM_WRITE, streams[0]);
    end(r, object[1], streams[0], GPUMEM_RELEASE_DROP);
    end(r, object[0], streams[0], GPUMEM_RELEASE_DROP);
    assert_ptr_equal(begin(r, object[2], GPUMEM_WRITE, streams[0]), address[1]);
    assert_ptr_equal(begin(r, object[3], GPUMEM_WRITE, streams[0]), address[0]);
    OK(gpumem_residency_destroy(r));
}

/* By events, one for the writer and one for each reader, before the driver's free. */
TEST_WITH(a_free_is_behind_the_work, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, GPUMEM_RESIDENCY_NO_LAZY_RELEASE);
    const uint64_t object = gpu_object(r, 64 * KIB);
    write_words(r, object, 64 * KIB, 1, streams[0]);
    touch(r, object, streams[1]);
    begin(r, object, GPUMEM_READ, streams[2]);
    const uint64_t waits = simcuda_calls("cuEventSynchronize");
    end(r, object, streams[2], GPUMEM_RELEASE_DROP);
    assert_int_equal(simcuda_calls("cuEventSynchronize"), waits + 3);
    assert_int_equal(simcuda_calls("cuMemFree_v2"), 1);
    OK(gpumem_residency_destroy(r));
}

/* ---- one operation: all its objects or none */

TEST_WITH(an_operand_named_twice_counts_once, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 100 * KIB, 0);
    uint32_t *memory = pageable(64 * KIB, WORD);
    const uint64_t object = host_object(r, memory, 64 * KIB);
    struct gpumem_use uses[] = {{object, GPUMEM_READ, NULL}, {object, GPUMEM_READ, NULL}};
    OK(gpumem_residency_acquire(r, uses, 2, streams[0]));
    assert_ptr_equal(uses[0].address, uses[1].address);
    assert_int_equal(stats_of(r).hits, 1);
    OK(gpumem_residency_release(r, uses, 2, streams[0], 0));
    OK(gpumem_residency_destroy(r));
    free(memory);
}

TEST_WITH(operands_are_not_evicted_for_each_other, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 96 * KIB, 0);
    uint32_t *memory = pageable(128 * KIB, WORD);
    uint64_t object[4];
    for (int i = 0; i < 4; i++)
        object[i] = host_object(r, memory + i * 8 * KIB, 32 * KIB);
    touch(r, object[0], streams[0]); /* the oldest, and an operand below */
    touch(r, object[1], streams[0]);
    struct gpumem_use uses[] = {
        {object[2], GPUMEM_READ, NULL}, {object[3], GPUMEM_READ, NULL}, {object[0], GPUMEM_READ, NULL}};
    OK(gpumem_residency_acquire(r, uses, 3, streams[0]));
    const struct gpumem_residency_stats s = stats_of(r);
    assert_int_equal(s.evictions, 1);
    assert_int_equal(s.hits, 1);
    assert_ptr_not_equal(uses[0].address, uses[1].address);
    OK(gpumem_residency_release(r, uses, 3, streams[0], 0));
    OK(gpumem_residency_destroy(r));
    free(memory);
}

/* Otherwise its copy could be evicted under the work of the other borrower. */
TEST_WITH(a_second_release_ends_no_other_use, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    const uint64_t object = gpu_object(r, 64 * KIB), other = gpu_object(r, 64 * KIB);
    write_words(r, object, 64 * KIB, 1, streams[0]);
    struct gpumem_use one = {object, GPUMEM_READ, NULL}, two = one, three = one, more = {other, GPUMEM_WRITE, NULL};
    OK(gpumem_residency_acquire(r, &one, 1, streams[0]));
    OK(gpumem_residency_acquire(r, &two, 1, streams[1]));
    OK(gpumem_residency_release(r, &one, 1, streams[0], 0));
    FAILS(gpumem_residency_release(r, &one, 1, streams[0], 0), GPUMEM_INVALID_VALUE, "released before");
    FAILS(gpumem_residency_acquire(r, &more, 1, streams[2]), GPUMEM_OUT_OF_MEMORY, "nothing can be evicted");
    OK(gpumem_residency_acquire(r, &three, 1, streams[0])); /* in the place of the first */
    FAILS(gpumem_residency_release(r, &one, 1, streams[0], 0), GPUMEM_INVALID_VALUE, "released before");
    OK(gpumem_residency_release(r, &three, 1, streams[0], 0));
    OK(gpumem_residency_release(r, &two, 1, streams[1], 0));
    FAILS(gpumem_residency_release(r, &two, 1, streams[1], 0), GPUMEM_INVALID_VALUE, "released before");
    OK(gpumem_residency_acquire(r, &more, 1, streams[2]));
    struct gpumem_use mixed = {object, GPUMEM_READ, NULL, more.number};
    FAILS(gpumem_residency_release(r, &mixed, 1, streams[2], 0), GPUMEM_INVALID_VALUE, "was not acquired");
    OK(gpumem_residency_release(r, &more, 1, streams[2], 0));
    OK(gpumem_residency_destroy(r));
}

/* More than the first table holds; each ends once, in any order. */
TEST_WITH(many_uses_have_a_number_each, desk_open, desk_close) {
    enum { USES = 300 };
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    const uint64_t object = gpu_object(r, 4 * KIB);
    static struct gpumem_use uses[USES];
    write_words(r, object, 4 * KIB, 1, streams[0]);
    for (int i = 0; i < USES; i++)
        uses[i] = (struct gpumem_use){object, GPUMEM_READ, NULL};
    OK(gpumem_residency_acquire(r, uses, 100, streams[0]));
    for (int i = 100; i < USES; i++)
        OK(gpumem_residency_acquire(r, &uses[i], 1, streams[0]));
    for (int step = 0, i = 0; step < USES; step++, i = (i + 7) % USES) {
        OK(gpumem_residency_release(r, &uses[i], 1, streams[0], 0));
        FAILS(gpumem_residency_release(r, &uses[i], 1, streams[0], 0), GPUMEM_INVALID_VALUE, "released before");
    }
    OK(gpumem_residency_unregister(r, object)); /* it is not in use any more */
    OK(gpumem_residency_destroy(r));
}

TEST_WITH(a_failed_acquire_leaves_nothing_in_use, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 96 * KIB, 0);
    const uint64_t held = gpu_object(r, 64 * KIB), found = gpu_object(r, 32 * KIB), more = gpu_object(r, 64 * KIB);
    write_words(r, found, 32 * KIB, 3, streams[0]);
    begin(r, held, GPUMEM_WRITE, streams[0]);
    struct gpumem_use uses[] = {{found, GPUMEM_READ, NULL}, {more, GPUMEM_WRITE, NULL}};
    FAILS(gpumem_residency_acquire(r, uses, 2, streams[0]), GPUMEM_OUT_OF_MEMORY, "nothing can be evicted");
    assert_null(uses[0].address);
    assert_int_equal(stats_of(r).misses, 2); /* what was not placed does not count */
    FAILS(gpumem_residency_release(r, uses, 1, streams[0], 0), GPUMEM_INVALID_VALUE, "released before");
    end(r, held, streams[0], 0);
    OK(gpumem_residency_acquire(r, uses, 2, streams[0]));
    OK(gpumem_residency_release(r, uses, 2, streams[0], 0));
    OK(gpumem_residency_destroy(r));
}

/* ---- synchronisation on demand (memhc, 5.3) */

TEST_WITH(a_gpu_only_object_moves_on_demand_only, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    const uint64_t object = gpu_object(r, 64 * KIB), other = gpu_object(r, 64 * KIB);
    void *host = NULL;
    write_words(r, object, 64 * KIB, 7, streams[0]);
    touch(r, object, streams[1]);
    assert_int_equal(stats_of(r).copies, 0);
    OK(gpumem_residency_sync(r, object, &host));
    assert_int_equal(differing(host, 64 * KIB, 7), 0);
    OK(gpumem_residency_sync(r, object, NULL));
    assert_int_equal(stats_of(r).transfers_to_host, 1);

    write_words(r, other, 64 * KIB, 8, streams[0]); /* evicts; the home is up to date */
    assert_int_equal(stats_of(r).written_back, 0);
    touch(r, object, streams[0]); /* evicts, and comes back from its home */
    const struct gpumem_residency_stats s = stats_of(r);
    assert_int_equal(s.written_back, 1);
    assert_int_equal(s.transfers_to_device, 1);
    assert_int_equal(s.transfers_to_host, 2);
    OK(gpumem_residency_destroy(r));
}

TEST_WITH(a_dropped_gpu_only_object_loses_its_bytes, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    const uint64_t object = gpu_object(r, 64 * KIB);
    struct gpumem_use use = {object, GPUMEM_READ, NULL};
    FAILS(gpumem_residency_acquire(r, &use, 1, streams[0]), GPUMEM_INVALID_VALUE, "never written");
    begin(r, object, GPUMEM_WRITE, streams[0]);
    end(r, object, streams[0], GPUMEM_RELEASE_DROP);
    assert_int_equal(stats_of(r).copies, 0);
    FAILS(gpumem_residency_acquire(r, &use, 1, streams[0]), GPUMEM_INVALID_VALUE, "never written");
    FAILS(gpumem_residency_sync(r, object, NULL), GPUMEM_INVALID_VALUE, "never written");
    write_words(r, object, 64 * KIB, 9, streams[0]);
    OK(gpumem_residency_destroy(r));
}

/* As the paper's release does it (5.3): the bytes of the dropped result are at home afterwards. */
TEST_WITH(a_dropped_gpu_only_object_keeps_its_bytes_on_request, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    const uint64_t object = gpu_object(r, 64 * KIB), other = gpu_object(r, 64 * KIB);
    void *host;
    write_words(r, object, 64 * KIB, 9, streams[0]);
    struct gpumem_use use = {object, GPUMEM_READ, NULL};
    OK(gpumem_residency_acquire(r, &use, 1, streams[0]));
    FAILS(gpumem_residency_release(r, &use, 1, streams[0], GPUMEM_RELEASE_KEEP), GPUMEM_INVALID_VALUE, "without");
    OK(gpumem_residency_release(r, &use, 1, streams[0], GPUMEM_RELEASE_DROP | GPUMEM_RELEASE_KEEP));
    assert_int_equal(stats_of(r).resident, 0);
    assert_int_equal(stats_of(r).transfers_to_host, 1);
    write_words(r, other, 64 * KIB, 3, streams[1]); /* in the memory of the first */
    assert_int_equal(stats_of(r).reused, 1);
    OK(gpumem_residency_sync(r, object, &host));
    assert_int_equal(differing(host, 64 * KIB, 9), 0);
    touch(r, object, streams[0]);
    OK(gpumem_residency_destroy(r));
}

/* A changed object of the host reaches the host at sync, at its drop and at its eviction, and not before. */
static void changed_host_objects(uint32_t *(*memory_of)(size_t, uint32_t)) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    uint32_t *memory = memory_of(64 * KIB, WORD), *other = memory_of(64 * KIB, 2);
    const uint64_t object = host_object(r, memory, 64 * KIB), evicts = host_object(r, other, 64 * KIB);
    write_words(r, object, 64 * KIB, 20, streams[0]);
    assert_int_equal(stats_of(r).transfers_to_host, 0);
    OK(gpumem_residency_sync(r, object, NULL));
    assert_int_equal(differing(memory, 64 * KIB, 20), 0);

    begin(r, object, GPUMEM_READ_WRITE, streams[0]);
    end(r, object, streams[0], GPUMEM_RELEASE_DROP);
    assert_int_equal(stats_of(r).transfers_to_host, 2);
    assert_int_equal(stats_of(r).resident, 0);
    OK(gpumem_residency_sync(r, object, NULL));

    write_words(r, object, 64 * KIB, 21, streams[0]);
    touch(r, evicts, streams[1]);
    assert_int_equal(stats_of(r).written_back, 1);
    OK(gpumem_residency_sync(r, object, NULL));
    assert_int_equal(differing(memory, 64 * KIB, 21), 0);
    assert_int_equal(stats_of(r).transfers_to_host, 3);
    OK(gpumem_residency_destroy(r));
}

TEST_WITH(a_changed_host_object_is_written_on_demand, desk_open, desk_close) {
    changed_host_objects(pageable);
    changed_host_objects(pinned);
}

TEST_WITH(a_new_version_is_transferred_again, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", MIB, 0);
    uint32_t *memory = pageable(64 * KIB, 1);
    const uint64_t object = host_object(r, memory, 64 * KIB);
    const uint64_t copy = gpu_object(r, 64 * KIB);
    void *host = NULL;
    touch(r, object, streams[0]);
    OK(gpumem_residency_update(r, object, 0)); /* the same version */
    touch(r, object, streams[0]);
    assert_int_equal(stats_of(r).transfers_to_device, 1);
    memset(memory, 0, 64 * KIB);
    memory[5] = 41;
    OK(gpumem_residency_update(r, object, 1));
    struct gpumem_use uses[] = {{object, GPUMEM_READ, NULL}, {copy, GPUMEM_WRITE, NULL}};
    OK(gpumem_residency_acquire(r, uses, 2, streams[0]));
    FAILS(gpumem_residency_update(r, object, 2), GPUMEM_INVALID_VALUE, "is in use");
    const struct words in = {uses[0].address, 16 * KIB}, out = {uses[1].address, 16 * KIB};
    CU(combine(streams[0], out, in, in, 0));
    OK(gpumem_residency_release(r, uses, 2, streams[0], 0));
    OK(gpumem_residency_sync(r, copy, &host));
    assert_int_equal(((uint32_t *)host)[5], 32 * 41);
    assert_int_equal(((uint32_t *)host)[6], 0);
    const struct gpumem_residency_stats s = stats_of(r);
    assert_int_equal(s.transfers_to_device, 2);
    assert_int_equal(s.hits, 2);
    FAILS(gpumem_residency_update(r, copy + 1, 2), GPUMEM_NOT_FOUND, "not registered");
    OK(gpumem_residency_destroy(r));
    free(memory);
}

/* Of a GPU-only object with a home of the program's: the host's bytes are the newer ones afterwards. */
TEST_WITH(a_new_version_of_a_gpu_only_object_is_transferred, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", MIB, 0);
    uint32_t *memory = pageable(64 * KIB, 0);
    const struct gpumem_object_options options = {
        .struct_size = sizeof options, .address = memory, .bytes = 64 * KIB, .flags = GPUMEM_OBJECT_GPU_ONLY};
    const uint64_t copy = gpu_object(r, 64 * KIB);
    uint64_t object;
    void *host;
    OK(gpumem_residency_register(r, &options, &object));
    write_words(r, object, 64 * KIB, 7, streams[0]);
    memory[5] = 41;
    OK(gpumem_residency_update(r, object, 1));
    struct gpumem_use uses[] = {{object, GPUMEM_READ, NULL}, {copy, GPUMEM_WRITE, NULL}};
    OK(gpumem_residency_acquire(r, uses, 2, streams[0]));
    const struct words in = {uses[0].address, 16 * KIB}, out = {uses[1].address, 16 * KIB};
    CU(combine(streams[0], out, in, in, 0));
    OK(gpumem_residency_release(r, uses, 2, streams[0], 0));
    OK(gpumem_residency_sync(r, copy, &host));
    assert_int_equal(((uint32_t *)host)[5], 32 * 41);
    assert_int_equal(((uint32_t *)host)[6], 0);
    OK(gpumem_residency_destroy(r));
    free(memory);
}

/* Nine tenths of what is free at the creation. */
TEST_WITH(the_default_budget, desk_open, desk_close) {
    size_t free_bytes, total;
    struct gpumem_residency *r;
    uint64_t object;
    CU(cuMemGetInfo_v2(&free_bytes, &total));
    OK(gpumem_residency_create(NULL, &r));
    struct gpumem_object_options options = {
        .struct_size = sizeof options, .bytes = free_bytes / 10 * 9 + 1, .flags = GPUMEM_OBJECT_GPU_ONLY};
    FAILS(gpumem_residency_register(r, &options, &object), GPUMEM_INVALID_VALUE, "budget");
    options.bytes--;
    OK(gpumem_residency_register(r, &options, &object));
    OK(gpumem_residency_destroy(r));
}

TEST_WITH(the_same_address_is_the_same_object, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", MIB, 0);
    uint32_t *memory = pageable(64 * KIB, 1);
    struct gpumem_object_options options = {.struct_size = sizeof options, .address = memory, .bytes = 64 * KIB};
    const uint64_t object = host_object(r, memory, 64 * KIB);
    uint64_t again = 0;
    touch(r, object, streams[0]);
    options.version = 1;
    OK(gpumem_residency_register(r, &options, &again));
    assert_int_equal(again, object);
    touch(r, object, streams[0]);
    assert_int_equal(stats_of(r).transfers_to_device, 2);
    assert_int_equal(stats_of(r).objects, 1);
    OK(gpumem_residency_unregister(r, object));
    touch(r, object, streams[0]);
    OK(gpumem_residency_unregister(r, object));
    FAILS(gpumem_residency_unregister(r, object), GPUMEM_NOT_FOUND, "was unregistered");
    assert_int_not_equal(host_object(r, memory, 64 * KIB), object);
    OK(gpumem_residency_destroy(r));
    free(memory);
}

/* ---- parts in one allocation (memhc, 5.2) */

static void parts(uint32_t *memory, size_t gap, uint64_t copies) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    const size_t step = 8 * KIB / 4 + gap;
    struct gpumem_part part[] = {{memory, 8 * KIB}, {memory + step, 8 * KIB}, {memory + 2 * step, 8 * KIB}};
    struct gpumem_object_options options = {.struct_size = sizeof options, .parts = part, .part_count = 3};
    const uint64_t other = gpu_object(r, 64 * KIB);
    uint64_t object = 0;
    void *address[3], *base;
    OK(gpumem_residency_register(r, &options, &object));
    FAILS(gpumem_residency_parts(r, object, address, 3), GPUMEM_INVALID_VALUE, "not in use");
    base = begin(r, object, GPUMEM_READ_WRITE, streams[0]);
    OK(gpumem_residency_parts(r, object, address, 3));
    FAILS(gpumem_residency_parts(r, object, address, 4), GPUMEM_INVALID_VALUE, "has 3 parts");
    for (int i = 0; i < 3; i++) {
        const struct words words = {address[i], 2 * KIB};
        assert_ptr_equal(address[i], (char *)base + (size_t)i * 8 * KIB);
        CU(combine(streams[0], words, words, words, (uint32_t)i));
    }
    end(r, object, streams[0], 0);
    struct gpumem_residency_stats s = stats_of(r);
    assert_int_equal(s.allocations, 1);
    assert_int_equal(s.transfers_to_device, 1);
    assert_int_equal(s.copies, copies);
    write_words(r, other, 64 * KIB, 0, streams[0]); /* evicts all parts together */
    s = stats_of(r);
    assert_int_equal(s.evictions, 1);
    assert_int_equal(s.transfers_to_host, 1);
    assert_int_equal(s.copies, 2 * copies);
    OK(gpumem_residency_sync(r, object, NULL));
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(differing(part[i].address, 8 * KIB, 32 * WORD + i), 0);
    for (size_t i = 0; i < gap; i++)
        assert_int_equal(memory[2 * KIB + i], WORD);
    OK(gpumem_residency_destroy(r));
}

TEST_WITH(parts_move_together, desk_open, desk_close) {
    parts(pinned(64 * KIB, WORD), 0, 1);   /* side by side and pinned: one copy */
    parts(pinned(64 * KIB, WORD), 100, 3); /* through three chunks of staging memory */
    parts(pageable(64 * KIB, WORD), 100, 3);
}

/* ---- transfers */

TEST_WITH(pageable_memory_passes_in_chunks, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", MIB, 0);
    const size_t bytes = 100 * KIB + 4; /* thirteen chunks of 8 KiB, through eight slots */
    uint32_t *memory = pageable(bytes, 3), *direct = pinned(bytes, 4);
    const uint64_t staged = host_object(r, memory, bytes), copied = host_object(r, direct, bytes);
    for (size_t i = 0; i < bytes / 4; i++)
        memory[i] = (uint32_t)i;
    struct gpumem_use uses[] = {{staged, GPUMEM_READ_WRITE, NULL}, {copied, GPUMEM_READ, NULL}};
    OK(gpumem_residency_acquire(r, uses, 2, streams[0]));
    const struct words a = {uses[0].address, bytes / 4}, b = {uses[1].address, bytes / 4};
    CU(combine(streams[0], a, a, b, 0));
    OK(gpumem_residency_release(r, uses, 2, streams[0], 0));
    assert_int_equal(stats_of(r).copies, 13 + 1);
    OK(gpumem_residency_sync(r, staged, NULL));
    for (size_t i = 0; i < bytes / 4; i++)
        assert_int_equal(memory[i], 31 * i + 4);
    assert_int_equal(stats_of(r).copies, 2 * 13 + 1);
    OK(gpumem_residency_destroy(r));
    free(memory);
}

/* With streams that run only when something waits: everything is submitted, nothing was waited for. */
TEST_WITH(nothing_waits_where_memory_is_pinned, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 128 * KIB, 0);
    uint32_t *memory = pinned(256 * KIB, WORD);
    const uint64_t one = host_object(r, memory, 64 * KIB), two = host_object(r, memory + 16 * KIB, 64 * KIB),
                   three = host_object(r, memory + 32 * KIB, 64 * KIB);
    assert_int_equal(simcuda_set_streams("manual"), 0);
    write_words(r, one, 64 * KIB, 5, streams[0]);
    struct gpumem_use uses[] = {{two, GPUMEM_READ, NULL}, {one, GPUMEM_READ_WRITE, NULL}};
    OK(gpumem_residency_acquire(r, uses, 2, streams[1]));
    const struct words a = {uses[1].address, 16 * KIB}, b = {uses[0].address, 16 * KIB};
    CU(combine(streams[1], a, a, b, 0));
    OK(gpumem_residency_release(r, uses, 2, streams[1], 0));
    touch(r, three, streams[2]); /* evicts `one`, behind all that */
    assert_int_equal(stats_of(r).written_back + stats_of(r).evictions, 1);
    touch(r, two, streams[2]);
    touch(r, one, streams[2]);
    assert_in_range(simcuda_pending(), 4, 1000);
    assert_int_equal(differing(memory, 64 * KIB, WORD), 0);
    OK(gpumem_residency_sync(r, one, NULL));
    assert_int_equal(differing(memory, 64 * KIB, 31 * 5 + WORD), 0);
    OK(gpumem_residency_destroy(r));
}

/* The memory of an object that slow work still reads and writes serves another one: only the fences keep them apart. */
TEST_WITH(eviction_is_behind_the_work, desk_open, desk_close) {
    enum { OBJECTS = 6 };
    struct gpumem_residency *r = residency_of("lru", 128 * KIB, 0);
    uint64_t object[OBJECTS];
    void *host;
    assert_int_equal(simcuda_set_streams("manual"), 0);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        object[i] = gpu_object(r, 64 * KIB);
        write_words(r, object[i], 64 * KIB, 100 + i, streams[i % STREAMS]);
    }
    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct gpumem_use uses[] = {{object[(i + 1) % OBJECTS], GPUMEM_READ, NULL},
                                    {object[i], GPUMEM_READ_WRITE, NULL}};
        OK(gpumem_residency_acquire(r, uses, 2, streams[i % STREAMS]));
        const struct words a = {uses[0].address, 16 * KIB}, out = {uses[1].address, 16 * KIB};
        CU(combine(streams[i % STREAMS], out, out, a, 0));
        OK(gpumem_residency_release(r, uses, 2, streams[i % STREAMS], 0));
    }
    assert_in_range(simcuda_pending(), 10, 1000);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        const uint32_t first = 31 * 100 + 101, next = i + 1 < OBJECTS ? 101 + i : first;
        OK(gpumem_residency_sync(r, object[i], &host));
        assert_int_equal(differing(host, 64 * KIB, 31 * (100 + i) + next), 0);
    }
    assert_int_equal(simcuda_violations(), 0);
    OK(gpumem_residency_destroy(r));
}

/* A dropped object's memory goes to a writer in another stream, whose work waits for the work of the one before. */
TEST_WITH(reuse_is_behind_the_work, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", MIB, 0);
    uint32_t *memory = pinned(64 * KIB, 6);
    const uint64_t one = gpu_object(r, 64 * KIB), two = host_object(r, memory, 64 * KIB), sum = gpu_object(r, 64 * KIB);
    void *host;
    assert_int_equal(simcuda_set_streams("manual"), 0);
    write_words(r, one, 64 * KIB, 1, streams[0]);
    struct gpumem_use uses[] = {{one, GPUMEM_READ, NULL}, {sum, GPUMEM_WRITE, NULL}};
    OK(gpumem_residency_acquire(r, uses, 2, streams[1]));
    const struct words a = {uses[0].address, 16 * KIB}, out = {uses[1].address, 16 * KIB};
    CU(combine(streams[1], out, a, a, 0));
    OK(gpumem_residency_release(r, &uses[0], 1, streams[1], GPUMEM_RELEASE_DROP));
    OK(gpumem_residency_release(r, &uses[1], 1, streams[1], 0));
    begin(r, two, GPUMEM_READ, streams[2]); /* a transfer into the memory that the sum still reads */
    end(r, two, streams[2], 0);
    assert_int_equal(stats_of(r).reused, 1);
    CU(cuStreamSynchronize(streams[2]));
    OK(gpumem_residency_sync(r, sum, &host));
    assert_int_equal(differing(host, 64 * KIB, 32), 0);
    OK(gpumem_residency_destroy(r));
}

static void run_stream(CUstream stream) {
    while (simcuda_step(stream))
        ;
}

/* More readers than a copy first has room for: the writer waits for each of them. */
TEST_WITH(a_writer_is_behind_all_readers, desk_open, desk_close) {
    enum { READERS = 21, FIRST = 8 };
    struct gpumem_residency *r = residency_of("lru", 4 * MIB, 0);
    const uint64_t object = gpu_object(r, 4 * KIB);
    uint64_t sums[READERS];
    void *host;
    assert_int_equal(simcuda_set_streams("manual"), 0);
    write_words(r, object, 4 * KIB, 1, streams[0]);
    for (uint32_t i = 0; i < READERS; i++) {
        CUstream stream = streams[i < FIRST ? 1 : 2];
        sums[i] = gpu_object(r, 4 * KIB);
        struct gpumem_use uses[] = {{object, GPUMEM_READ, NULL}, {sums[i], GPUMEM_WRITE, NULL}};
        OK(gpumem_residency_acquire(r, uses, 2, stream));
        const struct words a = {uses[0].address, KIB}, out = {uses[1].address, KIB};
        CU(combine(stream, out, a, a, i));
        OK(gpumem_residency_release(r, uses, 2, stream, 0));
    }
    write_words(r, object, 4 * KIB, 9, streams[0]);
    run_stream(streams[0]);
    run_stream(streams[2]);
    run_stream(streams[0]); /* the other readers did not run yet */
    for (uint32_t i = 0; i < READERS; i++) {
        OK(gpumem_residency_sync(r, sums[i], &host));
        assert_int_equal(differing(host, 4 * KIB, 32 + i), 0);
    }
    OK(gpumem_residency_destroy(r));
}

/* The two directions run in two streams. What uses one object's home, or what is pinned, goes one after the other. */
TEST_WITH(transfers_of_the_same_host_memory_keep_their_order, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 128 * KIB, 0);
    const uint64_t one = gpu_object(r, 64 * KIB), two = gpu_object(r, 64 * KIB), sum = gpu_object(r, 64 * KIB);
    void *host;
    assert_int_equal(simcuda_set_streams("manual"), 0);
    write_words(r, one, 64 * KIB, 1, streams[0]);
    write_words(r, two, 64 * KIB, 2, streams[0]);
    write_words(r, sum, 64 * KIB, 3, streams[0]); /* `one` goes home */
    struct gpumem_use uses[] = {{one, GPUMEM_READ, NULL}, {sum, GPUMEM_WRITE, NULL}};
    OK(gpumem_residency_acquire(r, uses, 2, streams[1])); /* and comes back, `two` goes home */
    run_stream(r->to_device.stream);
    const struct words a = {uses[0].address, 16 * KIB}, out = {uses[1].address, 16 * KIB};
    CU(combine(streams[1], out, a, a, 0));
    OK(gpumem_residency_release(r, &uses[0], 1, streams[1], GPUMEM_RELEASE_DROP)); /* its home is free */
    OK(gpumem_residency_release(r, &uses[1], 1, streams[1], 0));
    const uint64_t pinned_bytes = stats_of(r).host_bytes;
    const uint64_t next = gpu_object(r, 128 * KIB);
    begin(r, next, GPUMEM_WRITE, streams[2]); /* evicts `sum` into that home */
    end(r, next, streams[2], GPUMEM_RELEASE_DROP);
    assert_int_equal(stats_of(r).host_bytes, pinned_bytes);
    run_stream(r->to_host.stream);
    OK(gpumem_residency_sync(r, sum, &host));
    assert_int_equal(differing(host, 64 * KIB, 32), 0);
    OK(gpumem_residency_sync(r, two, &host));
    assert_int_equal(differing(host, 64 * KIB, 2), 0);
    OK(gpumem_residency_destroy(r));
}

/* The memory of a home that is read is not written before, without a wait in between. */
TEST_WITH(a_home_is_not_overwritten_while_it_is_read, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 192 * KIB, 0);
    const uint64_t one = gpu_object(r, 64 * KIB), two = gpu_object(r, 64 * KIB), sum = gpu_object(r, 64 * KIB);
    void *host;
    assert_int_equal(simcuda_set_streams("manual"), 0);
    write_words(r, one, 64 * KIB, 1, streams[0]);
    OK(gpumem_residency_sync(r, one, NULL));
    write_words(r, two, 64 * KIB, 2, streams[0]);
    OK(gpumem_residency_update(r, one, 1)); /* its copy is stale: the next read transfers */
    struct gpumem_use uses[] = {{one, GPUMEM_READ, NULL}, {sum, GPUMEM_WRITE, NULL}};
    OK(gpumem_residency_acquire(r, uses, 2, streams[1]));
    const struct words a = {uses[0].address, 16 * KIB}, out = {uses[1].address, 16 * KIB};
    CU(combine(streams[1], out, a, a, 0));
    OK(gpumem_residency_release(r, &uses[0], 1, streams[1], GPUMEM_RELEASE_DROP));
    OK(gpumem_residency_release(r, &uses[1], 1, streams[1], 0));
    run_stream(streams[0]);
    OK(gpumem_residency_sync(r, two, &host)); /* into the home of `one` */
    assert_int_equal(differing(host, 64 * KIB, 2), 0);
    assert_int_equal(stats_of(r).host_bytes, 64 * KIB);
    OK(gpumem_residency_sync(r, sum, &host));
    assert_int_equal(differing(host, 64 * KIB, 32), 0);
    OK(gpumem_residency_destroy(r));
}

/* The homes that dropped objects left are given back before there is no pinned memory. */
TEST_WITH(homes_of_dropped_objects_make_room, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", MIB, 0);
    const uint64_t old = gpu_object(r, 64 * KIB), new = gpu_object(r, 32 * KIB);
    void *host = NULL;
    write_words(r, old, 64 * KIB, 1, streams[0]);
    OK(gpumem_residency_sync(r, old, NULL));
    assert_int_equal(stats_of(r).host_bytes, 64 * KIB);
    begin(r, old, GPUMEM_READ, streams[0]);
    end(r, old, streams[0], GPUMEM_RELEASE_DROP);
    write_words(r, new, 32 * KIB, 2, streams[0]);
    assert_int_equal(simcuda_set_failures("cuMemHostAlloc:1:2"), 0);
    OK(gpumem_residency_sync(r, new, &host));
    assert_int_equal(simcuda_set_failures(NULL), 0);
    assert_int_equal(differing(host, 32 * KIB, 2), 0);
    assert_int_equal(stats_of(r).host_bytes, 32 * KIB);
    OK(gpumem_residency_destroy(r));
}

TEST_WITH(unregister_waits_for_transfers_of_the_host_memory, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", MIB, 0);
    uint32_t *memory = pinned(64 * KIB, WORD);
    const uint64_t object = host_object(r, memory, 64 * KIB);
    assert_int_equal(simcuda_set_streams("manual"), 0);
    write_words(r, object, 64 * KIB, 5, streams[0]);
    begin(r, object, GPUMEM_READ, streams[0]);
    end(r, object, streams[0], GPUMEM_RELEASE_DROP);
    assert_int_equal(differing(memory, 64 * KIB, WORD), 0);
    OK(gpumem_residency_unregister(r, object));
    assert_int_equal(differing(memory, 64 * KIB, 5), 0);
    OK(gpumem_residency_destroy(r));
}

/* Only memory that is pinned to its last byte is copied directly. */
TEST_WITH(memory_pinned_in_part_is_staged, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", MIB, 0);
    uint32_t *memory = pageable(16 * KIB, WORD);
    const uint64_t object = host_object(r, memory, 16 * KIB);
    CU(cuMemHostRegister_v2(memory, 4 * KIB, 0));
    touch(r, object, streams[0]);
    assert_int_equal(stats_of(r).copies, 2);
    CU(cuMemHostUnregister(memory));
    OK(gpumem_residency_destroy(r));
    free(memory);
}

/* ---- the switches, each alone */

/* One input that two operations share, one output. */
static struct gpumem_residency_stats two_operations(uint64_t flags) {
    struct gpumem_residency *r = residency_of("lru", MIB, flags);
    uint32_t *memory = pinned(64 * KIB, 2);
    const uint64_t input = host_object(r, memory, 64 * KIB), output = gpu_object(r, 64 * KIB);
    void *host = NULL;
    for (uint32_t i = 0; i < 2; i++) {
        struct gpumem_use uses[] = {{input, GPUMEM_READ, NULL}, {output, i ? GPUMEM_READ_WRITE : GPUMEM_WRITE, NULL}};
        OK(gpumem_residency_acquire(r, uses, 2, streams[i]));
        const struct words in = {uses[0].address, 16 * KIB}, out = {uses[1].address, 16 * KIB};
        CU(combine(streams[i], out, in, i ? out : in, 0));
        OK(gpumem_residency_release(r, uses, 2, streams[i], 0));
    }
    const struct gpumem_residency_stats s = stats_of(r);
    OK(gpumem_residency_sync(r, output, &host));
    assert_int_equal(differing(host, 64 * KIB, 31 * 2 + 32 * 2), 0);
    OK(gpumem_residency_destroy(r));
    return s;
}

TEST_WITH(each_switch_can_be_off, desk_open, desk_close) {
    struct gpumem_residency_stats s = two_operations(0);
    assert_int_equal(s.hits, 2);
    assert_int_equal(s.transfers_to_device, 1);
    assert_int_equal(s.transfers_to_host, 0);

    s = two_operations(GPUMEM_RESIDENCY_NO_REUSE); /* of memory yes, of what lies in it no */
    assert_int_equal(s.hits, 0);
    assert_int_equal(s.misses, 4);
    assert_int_equal(s.allocations, 2);
    assert_int_equal(s.reused, 2);
    assert_int_equal(s.transfers_to_device, 3); /* the input twice, the output to be changed */
    assert_int_equal(s.transfers_to_host, 2);
    assert_int_equal(s.resident, 0);

    s = two_operations(GPUMEM_RESIDENCY_NO_LAZY_RELEASE | GPUMEM_RESIDENCY_NO_REUSE);
    assert_int_equal(s.allocations, 4);
    assert_int_equal(s.reused, 0);
    assert_int_equal(s.pool_bytes, 0);

    s = two_operations(GPUMEM_RESIDENCY_NO_ON_DEMAND); /* the output is written to the host at each release */
    assert_int_equal(s.hits, 2);
    assert_int_equal(s.transfers_to_device, 1);
    assert_int_equal(s.transfers_to_host, 2);
    assert_int_equal(s.resident, 2);
}

/* ---- announcements: figure 6, example (a) against (b) */

static uint64_t evictions_of(const char *policy, bool announced) {
    static const int uses[] = {0, 1, 2, 3, 4, 5, 0, 1};
    struct gpumem_residency *r = residency_of(policy, 4 * 16 * KIB, 0);
    uint32_t *memory = pinned(6 * 16 * KIB, 1);
    uint64_t object[6], vector[4];
    for (int i = 0; i < 6; i++)
        object[i] = host_object(r, memory + i * 4 * KIB, 16 * KIB);
    for (int i = 0; i < 8; i++) {
        if (announced && i % 4 == 0) {
            const uint64_t copies = stats_of(r).copies;
            for (int j = 0; j < 4; j++)
                vector[j] = object[uses[i + j]];
            OK(gpumem_residency_announce(r, vector, 4));
            assert_int_equal(stats_of(r).copies, copies);
        }
        touch(r, object[uses[i]], streams[0]);
    }
    const uint64_t evictions = stats_of(r).evictions;
    OK(gpumem_residency_destroy(r));
    return evictions;
}

TEST_WITH(an_announced_vector_is_protected, desk_open, desk_close) {
    assert_int_equal(evictions_of("lru", true), 4);
    assert_int_equal(evictions_of("preprotected_lru", true), 2);
    assert_int_equal(evictions_of("preprotected_lru", false), 4);
    assert_int_equal(evictions_of("window", true), 2);
}

/* ---- errors */

/* Two objects are brought ahead, the next two do not fit: the uses find the first two, and nothing is in use before. */
TEST_WITH(prefetched_objects_are_found, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of(NULL, 3 * 64 * KIB, 0);
    uint32_t *memory[4];
    uint64_t object[4];
    size_t started = 77;
    for (uint32_t i = 0; i < 4; i++) {
        memory[i] = i % 2 ? pinned(64 * KIB, i + 1) : pageable(64 * KIB, i + 1);
        object[i] = host_object(r, memory[i], 64 * KIB);
    }
    OK(gpumem_residency_announce(r, object, 4));
    OK(gpumem_residency_prefetch(r, object, 2, &started));
    assert_int_equal(started, 2);
    assert_int_equal(stats_of(r).transfers_to_device, 2);
    for (uint32_t i = 0; i < 4; i++) {
        const uint64_t copy = gpu_object(r, 4 * KIB);
        struct gpumem_use uses[] = {{object[i], GPUMEM_READ, NULL}, {copy, GPUMEM_WRITE, NULL}};
        void *host;
        if (i + 1 < 4)
            OK(gpumem_residency_prefetch(r, &object[i + 1], 1, NULL));
        OK(gpumem_residency_acquire(r, uses, 2, streams[i % STREAMS]));
        const struct words in = {uses[0].address, KIB}, out = {uses[1].address, KIB};
        CU(combine(streams[i % STREAMS], out, in, in, 0));
        OK(gpumem_residency_release(r, uses, 2, streams[i % STREAMS], 0));
        OK(gpumem_residency_sync(r, copy, &host));
        assert_int_equal(differing(host, 4 * KIB, 32 * (i + 1)), 0);
        OK(gpumem_residency_unregister(r, copy));
    }
    assert_int_equal(stats_of(r).transfers_to_device, 4);
    assert_int_equal(stats_of(r).hits, 4);
    FAILS(gpumem_residency_prefetch(r, (uint64_t[]){12345}, 1, NULL), GPUMEM_NOT_FOUND, "not registered");
    struct gpumem_use held[] = {
        {object[0], GPUMEM_READ, NULL}, {object[1], GPUMEM_READ, NULL}, {object[2], GPUMEM_READ, NULL}};
    OK(gpumem_residency_acquire(r, held, 3, streams[0]));
    OK(gpumem_residency_prefetch(r, &object[3], 1, &started)); /* no room: not an error */
    assert_int_equal(started, 0);
    OK(gpumem_residency_release(r, held, 3, streams[0], 0));
    OK(gpumem_residency_destroy(r));
    for (uint32_t i = 0; i < 4; i++) {
        if (i % 2)
            CU(cuMemFreeHost(memory[i]));
        else
            free(memory[i]);
    }
}

/* A model of 16 layers under a budget of 12, twenty passes, each told the next two: by default the vector is used. */
TEST_WITH(layers_beyond_the_budget, desk_open, desk_close) {
    enum { LAYERS = 16, PASSES = 20, BUDGET = 12 };
    uint64_t misses[2];
    for (int announces = 0; announces < 2; announces++) {
        struct gpumem_residency *r = residency_of(NULL, BUDGET * 4 * KIB, 0);
        uint32_t *memory = pinned(LAYERS * 4 * KIB, 1);
        uint64_t vector[2 * LAYERS];
        for (int i = 0; i < LAYERS; i++)
            vector[i] = vector[i + LAYERS] = host_object(r, memory + i * KIB, 4 * KIB);
        for (int pass = 0; pass < PASSES; pass++) {
            if (announces)
                OK(gpumem_residency_announce(r, vector, pass + 1 < PASSES ? 2 * LAYERS : LAYERS));
            for (int i = 0; i < LAYERS; i++)
                touch(r, vector[i], streams[0]);
        }
        misses[announces] = stats_of(r).misses;
        OK(gpumem_residency_destroy(r));
        CU(cuMemFreeHost(memory));
    }
    assert_int_equal(misses[0], LAYERS * PASSES); /* LRU */
    assert_in_range(misses[1], LAYERS, LAYERS + 5 * PASSES);
}

/* Copies lie in memory of a resource, whose limit acts as the size of the device. */
TEST_WITH(memory_of_a_resource, desk_open, desk_close) {
    struct gpumem_resource *resource;
    struct gpumem_residency_options options = {.struct_size = sizeof options, .budget = MIB};
    struct gpumem_resource_info info = {.struct_size = sizeof info};
    struct gpumem_residency *r;
    OK(gpumem_resource_create("limit(128KiB,native)", &resource));
    options.allocate = gpumem_residency_allocate_;
    FAILS(gpumem_residency_create(&options, &r), GPUMEM_INVALID_VALUE, "not both");
    gpumem_residency_use_resource(&options, resource);
    OK(gpumem_residency_create(&options, &r));
    for (uint32_t i = 0; i < 4; i++)
        write_words(r, gpu_object(r, 64 * KIB), 64 * KIB, i, streams[0]);
    assert_int_equal(stats_of(r).evictions, 2);
    OK(gpumem_resource_get_info(resource, &info));
    assert_int_equal(info.live_bytes, 128 * KIB);
    OK(gpumem_residency_destroy(r));
    OK(gpumem_resource_get_info(resource, &info));
    assert_int_equal(info.live_count, 0);
    assert_int_equal(info.mismatches, 0);
    OK(gpumem_resource_destroy(resource));
}

TEST_WITH(errors_of_creation, desk_open, desk_close) {
    struct gpumem_residency_options options = {.struct_size = sizeof options, .eviction = "fifo"};
    struct gpumem_residency *r = NULL;
    struct gpumem_residency_stats stats = {.struct_size = 3};
    CUcontext popped;
    FAILS(gpumem_residency_create(&options, &r), GPUMEM_INVALID_VALUE, "\"fifo\"");
    options = (struct gpumem_residency_options){.struct_size = sizeof options, .objects = (size_t)1 << 40};
    FAILS(gpumem_residency_create(&options, &r), GPUMEM_INVALID_VALUE, "at most");
    options = (struct gpumem_residency_options){.struct_size = sizeof options, .copy_threads = 65};
    FAILS(gpumem_residency_create(&options, &r), GPUMEM_INVALID_VALUE, "65 copying threads: at most 64");
    options = (struct gpumem_residency_options){.struct_size = sizeof options, .flags = 1u << 20};
    FAILS(gpumem_residency_create(&options, &r), GPUMEM_NOT_SUPPORTED, "0x100000");
    options = (struct gpumem_residency_options){.struct_size = 5};
    FAILS(gpumem_residency_create(&options, &r), GPUMEM_INVALID_VALUE, "sizeof(struct gpumem_residency_options)");
    CU(cuCtxPopCurrent_v2(&popped));
    assert_int_equal(simcuda_set_failures("cuDevicePrimaryCtxRetain:1:2"), 0);
    FAILS(gpumem_residency_create(NULL, &r), GPUMEM_OUT_OF_MEMORY, "no context");
    assert_int_equal(simcuda_set_failures(NULL), 0);
    assert_null(r);
    OK(gpumem_residency_create(NULL, &r)); /* in the primary context of device 0 */
    OK(gpumem_residency_destroy(r));
    CU(cuCtxPushCurrent_v2(popped));
    OK(gpumem_residency_create(NULL, &r));
    FAILS(gpumem_residency_get_stats(r, &stats), GPUMEM_INVALID_VALUE, "sizeof(struct gpumem_residency_stats)");
    OK(gpumem_residency_destroy(r));
    OK(gpumem_residency_destroy(NULL));
}

static void register_fails(struct gpumem_residency *r, struct gpumem_object_options options, enum gpumem_status status,
                           const char *words) {
    uint64_t object = 77;
    options.struct_size = options.struct_size ? options.struct_size : sizeof options;
    FAILS(gpumem_residency_register(r, &options, &object), status, words);
    assert_int_equal(object, 77);
}

TEST_WITH(errors_of_registration, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    uint32_t *memory = pageable(64 * KIB, 0);
    struct gpumem_object_options options = {.struct_size = sizeof options, .part_count = 2};
    uint64_t parts = 0;
    struct gpumem_part none[] = {{memory, 4}, {NULL, 4}}, two[] = {{memory, 4}, {memory + 1, 4}};
    CUdeviceptr device;
    CU(cuMemAlloc_v2(&device, 4096));
#define BAD(status, words, ...) register_fails(r, (struct gpumem_object_options){__VA_ARGS__}, status, words)
    BAD(GPUMEM_INVALID_VALUE, "larger than the budget of 65536", .address = memory, .bytes = 64 * KIB + 1);
    BAD(GPUMEM_INVALID_VALUE, "has no bytes", .address = memory);
    BAD(GPUMEM_INVALID_VALUE, "has no address", .bytes = 4);
    BAD(GPUMEM_INVALID_VALUE, "has no address", .parts = none, .part_count = 2);
    BAD(GPUMEM_INVALID_VALUE, "parts is NULL", .part_count = 2);
    BAD(GPUMEM_INVALID_VALUE, "of 9 bytes has parts of 8", .parts = two, .part_count = 2, .bytes = 9);
    BAD(GPUMEM_INVALID_VALUE, "is device memory", .address = (void *)device, .bytes = 4);
    BAD(GPUMEM_INVALID_VALUE, "sizeof(struct gpumem_object_options)", .struct_size = 2);
    BAD(GPUMEM_NOT_SUPPORTED, "0x80", .address = memory, .bytes = 4, .flags = 0x80);
    const uint64_t object = host_object(r, memory, 8);
    BAD(GPUMEM_INVALID_VALUE, "with 8 bytes, and now with 16", .address = memory, .bytes = 16);
    BAD(GPUMEM_INVALID_VALUE, "other flags or parts", .parts = two, .part_count = 2);
    struct gpumem_part known[] = {{memory + 64, 8}, {memory + 68, 8}}, moved[] = {known[0], {memory + 70, 8}},
                       split[] = {{memory + 64, 4}, {memory + 68, 12}};
    options.parts = known;
    OK(gpumem_residency_register(r, &options, &parts));
    BAD(GPUMEM_INVALID_VALUE, "another part 1", .parts = moved, .part_count = 2);
    BAD(GPUMEM_INVALID_VALUE, "another part 0", .parts = split, .part_count = 2);
    OK(gpumem_residency_unregister(r, parts));
    begin(r, object, GPUMEM_READ, streams[0]);
    BAD(GPUMEM_INVALID_VALUE, "is in use", .address = memory, .bytes = 8, .version = 1);
    end(r, object, streams[0], 0);
    for (int i = 1; i < 64; i++)
        gpu_object(r, 4);
    BAD(GPUMEM_OUT_OF_MEMORY, "64 objects are registered", .address = memory + 100, .bytes = 4);
#undef BAD
    OK(gpumem_residency_unregister(r, object));
    host_object(r, memory + 100, 4);
    OK(gpumem_residency_destroy(r));
    CU(cuMemFree_v2(device));
    free(memory);
}

TEST_WITH(errors_of_uses, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    const uint64_t object = gpu_object(r, 40 * KIB), other = gpu_object(r, 40 * KIB), ended = gpu_object(r, 4);
    struct gpumem_use uses[] = {{object, GPUMEM_WRITE, NULL}, {other, GPUMEM_WRITE, NULL}};
    uint64_t vector[33] = {0};
    OK(gpumem_residency_unregister(r, ended));
    FAILS(gpumem_residency_acquire(r, uses, 2, streams[0]), GPUMEM_INVALID_VALUE, "together larger than the budget");
    struct gpumem_use use = {ended, GPUMEM_READ, NULL};
    FAILS(gpumem_residency_acquire(r, &use, 1, streams[0]), GPUMEM_NOT_FOUND, "was unregistered");
    FAILS(gpumem_residency_release(r, &use, 1, streams[0], 0), GPUMEM_NOT_FOUND, "was unregistered");
    FAILS(gpumem_residency_sync(r, ended, NULL), GPUMEM_NOT_FOUND, "was unregistered");
    FAILS(gpumem_residency_update(r, ended, 5), GPUMEM_NOT_FOUND, "was unregistered");
    FAILS(gpumem_residency_update(r, other, 5), GPUMEM_INVALID_VALUE, "no host memory");
    FAILS(gpumem_residency_parts(r, 0, NULL, 0), GPUMEM_NOT_FOUND, "object 0 is not registered");
    use = (struct gpumem_use){object, 4, NULL};
    FAILS(gpumem_residency_acquire(r, &use, 1, streams[0]), GPUMEM_INVALID_VALUE, "access 4");

    begin(r, object, GPUMEM_WRITE, streams[0]);
    use = (struct gpumem_use){object, GPUMEM_READ, NULL};
    FAILS(gpumem_residency_acquire(r, &use, 1, streams[0]), GPUMEM_INVALID_VALUE, "in use for writing");
    FAILS(gpumem_residency_sync(r, object, NULL), GPUMEM_INVALID_VALUE, "in use for writing");
    FAILS(gpumem_residency_unregister(r, object), GPUMEM_INVALID_VALUE, "is in use");
    use = begun(r, object);
    struct gpumem_use twice[] = {use, use};
    FAILS(gpumem_residency_release(r, twice, 2, streams[0], 0), GPUMEM_INVALID_VALUE, "released before");
    FAILS(gpumem_residency_release(r, &use, 1, streams[0], 8), GPUMEM_NOT_SUPPORTED, "0x8");
    OK(gpumem_residency_release(r, &use, 1, streams[0], 0));
    FAILS(gpumem_residency_release(r, &use, 1, streams[0], 0), GPUMEM_INVALID_VALUE, "released before");
    begin(r, object, GPUMEM_READ, streams[0]);
    use.access = GPUMEM_READ_WRITE;
    FAILS(gpumem_residency_acquire(r, &use, 1, streams[0]), GPUMEM_INVALID_VALUE, "is to be written and is in use");
    end(r, object, streams[0], 0);

    FAILS(gpumem_residency_announce(r, vector, 33), GPUMEM_INVALID_VALUE, "options.window is 32");
    FAILS(gpumem_residency_announce(r, vector, 1), GPUMEM_NOT_FOUND, "object 0");
    OK(gpumem_residency_announce(r, NULL, 0));
    OK(gpumem_residency_destroy(r));
}

TEST_WITH(freed_host_memory_is_detected, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    uint32_t *memory = mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t *tail = pinned(64 * KIB, 1);
    const uint64_t object = host_object(r, memory, 64 * KIB), pinned_object = host_object(r, tail, 64 * KIB);
    struct gpumem_use use = {object, GPUMEM_READ, NULL};
    write_words(r, object, 64 * KIB, 1, streams[0]);
    munmap(memory + 8 * KIB, 32 * KIB);
    FAILS(gpumem_residency_sync(r, object, NULL), GPUMEM_NOT_FOUND, "was freed: 65536 bytes at");
    use.object = pinned_object; /* would evict the changed object: nothing is lost */
    FAILS(gpumem_residency_acquire(r, &use, 1, streams[0]), GPUMEM_NOT_FOUND, "was freed");
    touch(r, object, streams[0]);
    OK(gpumem_residency_unregister(r, object));
    CU(cuMemFreeHost(tail));
    FAILS(gpumem_residency_acquire(r, &use, 1, streams[0]), GPUMEM_NOT_FOUND, "was freed");
    OK(gpumem_residency_destroy(r));
    munmap(memory, 32 * KIB);
}

/* Host memory of a changed object was unmapped: its copy stays, and other objects take the next victim. */
TEST_WITH(a_victim_without_host_memory_is_passed_over, desk_open, desk_close) {
    for (unsigned policy = 0; policy < 2; policy++) {
        struct gpumem_residency *r = residency_of(policy ? "mru" : "lru", 64 * KIB, 0);
        uint32_t *memory = mmap(NULL, 16 * KIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        const uint64_t lost = host_object(r, memory, 16 * KIB);
        uint64_t others[8];
        write_words(r, lost, 16 * KIB, 1, streams[0]);
        munmap(memory, 16 * KIB);
        for (unsigned i = 0; i < 8; i++) {
            others[i] = gpu_object(r, 16 * KIB);
            write_words(r, others[i], 16 * KIB, i, streams[0]);
        }
        for (unsigned i = 0; i < 8; i++)
            touch(r, others[i], streams[0]);
        OK(gpumem_residency_unregister(r, lost));
        OK(gpumem_residency_destroy(r));
    }
}

TEST_WITH(null_is_refused, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0), *none = NULL;
    struct gpumem_residency_stats stats = {.struct_size = sizeof stats};
    const struct gpumem_object_options options = {.struct_size = sizeof options};
    struct gpumem_use use = {0};
    uint64_t object = 0;
    void *address;
    OK(gpumem_residency_create(NULL, &none)); /* the defaults */
    OK(gpumem_residency_destroy(none));
    FAILS(gpumem_residency_create(&(struct gpumem_residency_options){.struct_size = 8}, NULL), GPUMEM_INVALID_VALUE,
          "residency is NULL");
    FAILS(gpumem_residency_register(NULL, &options, &object), GPUMEM_INVALID_VALUE, "residency is NULL");
    FAILS(gpumem_residency_register(r, NULL, &object), GPUMEM_INVALID_VALUE, "gpumem_object_options is NULL");
    FAILS(gpumem_residency_register(r, &options, NULL), GPUMEM_INVALID_VALUE, "number is NULL");
    FAILS(gpumem_residency_unregister(NULL, 1), GPUMEM_INVALID_VALUE, "residency is NULL");
    FAILS(gpumem_residency_update(NULL, 1, 1), GPUMEM_INVALID_VALUE, "residency is NULL");
    FAILS(gpumem_residency_acquire(NULL, &use, 1, NULL), GPUMEM_INVALID_VALUE, "residency is NULL");
    FAILS(gpumem_residency_acquire(r, NULL, 1, NULL), GPUMEM_INVALID_VALUE, "uses is NULL");
    FAILS(gpumem_residency_parts(NULL, 1, &address, 1), GPUMEM_INVALID_VALUE, "residency is NULL");
    FAILS(gpumem_residency_parts(r, 1, NULL, 1), GPUMEM_INVALID_VALUE, "addresses is NULL");
    FAILS(gpumem_residency_release(NULL, &use, 1, NULL, 0), GPUMEM_INVALID_VALUE, "residency is NULL");
    FAILS(gpumem_residency_release(r, NULL, 1, NULL, 0), GPUMEM_INVALID_VALUE, "uses is NULL");
    FAILS(gpumem_residency_sync(NULL, 1, NULL), GPUMEM_INVALID_VALUE, "residency is NULL");
    FAILS(gpumem_residency_announce(NULL, &object, 1), GPUMEM_INVALID_VALUE, "residency is NULL");
    FAILS(gpumem_residency_announce(r, NULL, 1), GPUMEM_INVALID_VALUE, "objects is NULL");
    FAILS(gpumem_residency_get_stats(NULL, &stats), GPUMEM_INVALID_VALUE, "residency is NULL");
    FAILS(gpumem_residency_get_stats(r, NULL), GPUMEM_INVALID_VALUE, "stats is NULL");
    OK(gpumem_residency_destroy(NULL));
    OK(gpumem_residency_destroy(r));
}

TEST_WITH(a_captured_stream_is_refused, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    const uint64_t object = gpu_object(r, 4 * KIB), held = gpu_object(r, 4 * KIB);
    struct gpumem_use use = {object, GPUMEM_WRITE, NULL}, release = {held, GPUMEM_WRITE, NULL};
    CUgraph graph;
    OK(gpumem_residency_acquire(r, &release, 1, streams[0]));
    CU(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    FAILS(gpumem_residency_acquire(r, &use, 1, streams[0]), GPUMEM_STREAM_CAPTURE, "is being captured");
    FAILS(gpumem_residency_release(r, &release, 1, streams[0], 0), GPUMEM_STREAM_CAPTURE, "is being captured");
    touch(r, (write_words(r, object, 4 * KIB, 1, streams[1]), object), streams[1]); /* another stream may */
    CU(cuStreamEndCapture(streams[0], &graph));
    CU(cuGraphDestroy(graph));
    OK(gpumem_residency_release(r, &release, 1, streams[0], 0));
    OK(gpumem_residency_destroy(r));
}

/* Who cannot take an error ends its uses also then: the work before the capture is waited for by the next use. */
TEST_WITH(abandoned_uses_end_during_a_capture, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    const uint64_t object = gpu_object(r, 64 * KIB);
    struct gpumem_use use = {object, GPUMEM_WRITE, NULL}, next = {object, GPUMEM_READ, NULL};
    CUgraph graph;
    OK(gpumem_residency_acquire(r, &use, 1, streams[0]));
    uint64_t count = 64 * KIB;
    uint32_t word = 5;
    void *arguments[] = {&use.address, &count, &word};
    CU(cuLaunchKernel(bench.fill, 1, 1, 1, 1, 1, 1, 0, streams[0], arguments, NULL));
    CU(cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    gpumem_residency_abandon_uses(r, &use, 1, streams[0]);
    gpumem_residency_abandon_uses(r, &use, 1, streams[0]); /* says nothing of uses that have ended */
    OK(gpumem_residency_acquire(r, &next, 1, streams[1]));
    CU(cuStreamEndCapture(streams[0], &graph));
    CU(cuGraphDestroy(graph));
    FAILS(gpumem_residency_release(r, &use, 1, streams[0], 0), GPUMEM_INVALID_VALUE, "released before");
    gpumem_residency_abandon_uses(r, &next, 1, streams[1]);
    uint32_t *host = NULL;
    OK(gpumem_residency_sync(r, object, (void **)&host));
    assert_int_equal(differing(host, 64 * KIB, 5), 0);
    write_words(r, object, 64 * KIB, 6, streams[2]);
    OK(gpumem_residency_destroy(r));
}

/* The driver refuses work in the legacy stream then, and ends the capture. */
TEST_WITH(the_legacy_stream_is_refused_beside_a_capture, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    const uint64_t held = gpu_object(r, 4 * KIB);
    struct gpumem_use use = {gpu_object(r, 4 * KIB), GPUMEM_WRITE, NULL}, release = {held, GPUMEM_WRITE, NULL};
    CUstream blocking;
    CUgraph graph;
    CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(gpumem_residency_acquire(r, &release, 1, NULL));
    CU(cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(gpumem_residency_acquire(r, &use, 1, NULL), GPUMEM_STREAM_CAPTURE, "is being captured");
    FAILS(gpumem_residency_release(r, &release, 1, NULL, 0), GPUMEM_STREAM_CAPTURE, "is being captured");
    CU(cuStreamEndCapture(blocking, &graph));
    CU(cuGraphDestroy(graph));
    OK(gpumem_residency_release(r, &release, 1, NULL, 0));
    OK(gpumem_residency_destroy(r));
    CU(cuStreamDestroy_v2(blocking));
}

/* Work without an event is waited for with the whole context, but by no call that would invalidate a capture in it.
 * Nobody reports captures here, as in a program without the preloaded library. */
TEST_WITH(work_without_an_event_ends_no_capture, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    struct gpumem_use use = {gpu_object(r, 4 * KIB), GPUMEM_WRITE, NULL};
    CUgraph graph;
    OK(gpumem_residency_acquire(r, &use, 1, streams[0]));
    assert_int_equal(simcuda_set_failures("cuEventRecord:1:2"), 0);
    FAILS(gpumem_residency_release(r, &use, 1, streams[0], 0), GPUMEM_OUT_OF_MEMORY, "cannot be recorded");
    assert_int_equal(simcuda_set_failures(NULL), 0);
    CU(cuStreamBeginCapture_v2(streams[1], CU_STREAM_CAPTURE_MODE_RELAXED));
    touch(r, use.object, streams[0]);
    CU(cuStreamEndCapture(streams[1], &graph));
    CU(cuGraphDestroy(graph));
    OK(gpumem_residency_destroy(r));
}

TEST_WITH(managed_memory_is_host_memory, desk_open, desk_close) {
    struct gpumem_residency *r = residency_of("lru", 64 * KIB, 0);
    CUdeviceptr managed;
    CU(cuMemAllocManaged(&managed, 4 * KIB, CU_MEM_ATTACH_GLOBAL));
    const uint64_t object = host_object(r, (void *)(uintptr_t)managed, 4 * KIB);
    write_words(r, object, 4 * KIB, 7, streams[0]);
    OK(gpumem_residency_sync(r, object, NULL));
    assert_int_equal(differing((uint32_t *)(uintptr_t)managed, 4 * KIB, 7), 0);
    OK(gpumem_residency_destroy(r));
    CU(cuMemFree_v2(managed));
}

/* Of a stream of the same context, in each mode. */
TEST_WITH(destruction_disturbs_no_capture, desk_open, desk_close) {
    const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                         CU_STREAM_CAPTURE_MODE_RELAXED};
    for (int i = 0; i < 3; i++) {
        struct gpumem_residency *r = residency_of("lru", MIB, 0);
        CUgraph graph;
        write_words(r, gpu_object(r, 4 * KIB), 4 * KIB, 1, streams[0]);
        CU(cuStreamBeginCapture_v2(streams[1], modes[i]));
        OK(gpumem_residency_destroy(r));
        CU(cuStreamEndCapture(streams[1], &graph));
        CU(cuGraphDestroy(graph));
    }
}

int main(void) {
#undef TEST
    return run_all(NULL, NULL);
}

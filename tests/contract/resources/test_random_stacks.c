/* Random stacks of all rows, used by random calls of gpumem_resource.h: data survives, nothing is handed out too early,
 * and nothing leaks, also when driver calls fail and when several threads use one stack.
 *
 * test_random_stacks [FIRST-SEED COUNT] tries other seeds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "public.h"
#include "shim/base/base.h"
#include "shim/resource/guard_ranges.h"

enum { SLOTS = 8, STEPS = 60, THREADS = 4, TEXT = 400 };

static uint32_t first_seed = 1, seeds = 75;

static uint32_t next(uint32_t *random) {
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

/* ---- random texts */

static const char *const makers[] = {"native", "async",     "managed",    "managed-pool", "pinned",
                                     "vmm",    "host-numa", "new-delete", "guard",        "split"};
static const char *const adaptors[] = {
    "log(",
    "limit(64GiB,",
    "track(",
    "statistics(",
    "cache(",
    "cache(1,",
    "aligned(4096,",
    "aligned(1MiB,",
    "fail-nth(5,",
    "prefetch(",
    "fill(zero,",
    "fill(poison,",
    "stream-bound(legacy,",
};
enum { MAKERS = sizeof makers / sizeof *makers, ADAPTORS = sizeof adaptors / sizeof *adaptors };

static void write_stack(uint32_t *random, int depth, char *text) {
    uint32_t which = next(random) % 8;
    if (depth == 0 || which == 0) {
        strcat(text, makers[next(random) % MAKERS]);
        return;
    }
    if (which == 1) {
        strcat(text, "fallback(");
        write_stack(random, depth - 1, text);
        strcat(text, ",");
    } else {
        strcat(text, adaptors[next(random) % ADAPTORS]);
    }
    write_stack(random, depth - 1, text);
    strcat(text, ")");
}

/* NULL: the text makes no sense, and the error says why in one line. */
static struct gpumem_resource *random_resource(uint32_t *random) {
    char text[TEXT] = "";
    struct gpumem_resource *resource = NULL;
    write_stack(random, (int)(next(random) % 5), text);
    enum gpumem_status status = gpumem_resource_create(text, &resource);
    if (status == GPUMEM_OK) {
        assert_string_equal(gpumem_resource_text(resource), text);
        return resource;
    }
    assert_int_equal(status, GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(gpumem_last_error(), "cannot wrap"));
    assert_null(strchr(gpumem_last_error(), '\n'));
    return NULL;
}

/* ---- random calls */

struct slot {
    void *memory;
    size_t bytes, alignment;
    uint32_t pattern;
    CUstream stream; /* that wrote it */
};

struct user {
    const struct world *world;
    struct gpumem_resource *resource;
    uint64_t properties;
    uint32_t random;
    bool may_fail; /* driver calls fail */
    struct slot slots[SLOTS];
};

static CUstream stream_of(struct user *user) {
    struct gpumem_resource_context context = gpumem_resource_get_context(user->resource);
    if (!context.any)
        return (CUstream)context.stream.stream;
    return next(&user->random) % 2 ? user->world->one : user->world->two;
}

static bool on_device(const struct user *user) { return user->properties & GPUMEM_DEVICE_ACCESSIBLE; }

/* Under SIMCUDA_STRICT the host cannot touch managed memory either. */
static bool on_host(const struct user *user) { return !on_device(user) && !getenv("SIMCUDA_STRICT"); }

static void write_slot(struct user *user, struct slot *slot) {
    struct gm_block block = {.address = (uint64_t)(uintptr_t)slot->memory, .size = slot->bytes};
    if (on_device(user) && !user->may_fail)
        world_fill(user->world, slot->stream, &block, slot->pattern);
    else if (on_host(user))
        memset(slot->memory, (int)slot->pattern, slot->bytes);
}

static void check_slot(struct user *user, const struct slot *slot) {
    struct gm_block block = {.address = (uint64_t)(uintptr_t)slot->memory, .size = slot->bytes};
    if (on_device(user) && !user->may_fail)
        world_check(user->world, slot->stream, &block, slot->pattern);
    for (size_t i = 0; on_host(user) && i < slot->bytes; i += 97)
        assert_int_equal(((unsigned char *)slot->memory)[i], slot->pattern & 0xff);
}

static void fill_slot(struct user *user, struct slot *slot) {
    bool ordered = user->properties & GPUMEM_STREAM_ORDERED && next(&user->random) % 2;
    slot->bytes = 4 + next(&user->random) % 300000;
    slot->alignment = (size_t)1 << next(&user->random) % 17;
    slot->pattern = next(&user->random);
    slot->stream = stream_of(user);
    enum gpumem_status status =
        ordered ? gpumem_resource_allocate_async_aligned(user->resource, slot->bytes, slot->alignment,
                                                         gpumem_stream(slot->stream), &slot->memory)
                : gpumem_resource_allocate(user->resource, slot->bytes, slot->alignment, &slot->memory);
    if (status) {
        if (!user->may_fail && status != GPUMEM_OUT_OF_MEMORY && status != GPUMEM_NOT_SUPPORTED)
            fail_msg("%s: %s", gpumem_resource_text(user->resource), gpumem_last_error());
        slot->memory = NULL;
        return;
    }
    assert_int_equal((uintptr_t)slot->memory % slot->alignment, 0);
    write_slot(user, slot);
}

static void empty_slot(struct user *user, struct slot *slot) {
    bool ordered = user->properties & GPUMEM_STREAM_ORDERED && next(&user->random) % 2;
    check_slot(user, slot);
    enum gpumem_status status =
        ordered ? gpumem_resource_deallocate_async_aligned(user->resource, slot->memory, slot->bytes, slot->alignment,
                                                           gpumem_stream(slot->stream))
                : gpumem_resource_deallocate(user->resource, slot->memory, slot->bytes, slot->alignment);
    if (!status)
        slot->memory = NULL;
    else if (!user->may_fail)
        fail_msg("%s: %s", gpumem_resource_text(user->resource), gpumem_last_error());
}

static void use(struct user *user, int steps) {
    for (int step = 0; step < steps; step++) {
        struct slot *slot = &user->slots[next(&user->random) % SLOTS];
        if (slot->memory)
            empty_slot(user, slot);
        else
            fill_slot(user, slot);
    }
}

static void empty_all(struct user *user) {
    for (int i = 0; i < SLOTS; i++)
        if (user->slots[i].memory)
            empty_slot(user, &user->slots[i]);
}

static void assert_nothing_live(struct gpumem_resource *resource) {
    struct gpumem_statistics counts = {.struct_size = sizeof counts};
    struct gpumem_resource_info info = info_of(resource);
    size_t tracked;
    if (info.live_count || info.mismatches)
        fail_msg("%s: %d blocks live, %d mismatches", gpumem_resource_text(resource), (int)info.live_count,
                 (int)info.mismatches);
    OK(gpumem_resource_trim(resource, SIZE_MAX, NULL)); /* "statistics" inside a cache sees its free blocks */
    if (gpumem_resource_get_statistics(resource, &counts) == GPUMEM_OK) {
        assert_int_equal(counts.live_count, 0);
        assert_int_equal(counts.live_bytes, 0);
        assert_int_equal(counts.allocations, counts.deallocations);
    }
    if (gpumem_resource_tracked(resource, NULL, NULL, &tracked) == GPUMEM_OK)
        assert_int_equal(tracked, 0);
}

/* Releases what the makers still hold, among it deferred frees. */
static void trim_makers(void) {
    CU(cuCtxSynchronize());
    for (int i = 0; i < MAKERS; i++) {
        struct gpumem_resource *maker = create(makers[i]);
        void *memory;
        if (gpumem_resource_allocate(maker, 1, 16, &memory) == GPUMEM_OK)
            must_put(maker, memory, 1);
        OK(gpumem_resource_trim(maker, SIZE_MAX, NULL));
        OK(gpumem_resource_destroy(maker));
    }
}

static struct user user_of(const struct world *world, struct gpumem_resource *resource, uint32_t seed) {
    return (struct user){
        .world = world,
        .resource = resource,
        .properties = gpumem_resource_properties(resource),
        .random = seed,
    };
}

#define EACH_RANDOM_STACK(resource, seed)                                                                       \
    for (uint32_t seed = first_seed, random_ = seed; seed < first_seed + seeds; random_ = ++seed * 2654435761u) \
        for (struct gpumem_resource *resource = random_resource(&random_); resource; resource = NULL)

TEST(test_random_calls) {
    struct world world;
    char mode[32];
    unsigned tried = 0;
    world_open(&world);
    trim_makers();
    size_t live = simcuda_live_blocks();
    EACH_RANDOM_STACK(resource, seed) {
        struct user user = user_of(&world, resource, seed);
        snprintf(mode, sizeof mode, "random:%u", seed);
        simcuda_set_streams(mode);
        use(&user, STEPS);
        empty_all(&user);
        simcuda_run_all();
        simcuda_set_streams("immediate");
        assert_nothing_live(resource);
        if (simcuda_check_mismatches() || simcuda_violations())
            fail_msg("seed %u, %s: %d words differ; %s", seed, gpumem_resource_text(resource),
                     (int)simcuda_check_mismatches(), simcuda_last_violation());
        OK(gpumem_resource_destroy(resource));
        tried++;
    }
    trim_makers();
    assert_int_equal(simcuda_live_blocks(), live);
    assert_true(tried >= seeds / 3);
    world_close(&world, build("async"));
}

TEST(test_driver_calls_fail) {
    struct world world;
    char script[32];
    world_open(&world);
    trim_makers();
    size_t live = simcuda_live_blocks(), handles = simcuda_live_handles(),
           reserved = simcuda_live_reservations() - gm_guard_arenas();
    EACH_RANDOM_STACK(resource, seed) {
        for (unsigned n = 1; n < 40; n += 1 + seed % 3) {
            struct user user = user_of(&world, resource, seed + n);
            user.may_fail = true;
            snprintf(script, sizeof script, "cu*:%u:2", n);
            assert_int_equal(simcuda_set_failures(script), 0);
            use(&user, 12);
            simcuda_set_failures(NULL);
            empty_all(&user);
            assert_nothing_live(resource);
        }
        OK(gpumem_resource_destroy(resource));
        trim_makers();
        if (simcuda_live_blocks() != live || simcuda_live_handles() != handles ||
            simcuda_live_reservations() - gm_guard_arenas() != reserved)
            fail_msg("seed %u leaks", seed);
        assert_int_equal(simcuda_violations(), 0);
    }
    world_close(&world, build("async"));
}

static void *use_in_thread(void *arg) {
    struct user *user = arg;
    cuCtxSetCurrent(user->world->context);
    use(user, STEPS);
    empty_all(user);
    return NULL;
}

TEST(test_threads_share_a_stack) {
    struct world world;
    world_open(&world);
    EACH_RANDOM_STACK(resource, seed) {
        struct user users[THREADS];
        pthread_t threads[THREADS];
        for (uint32_t i = 0; i < THREADS; i++) {
            users[i] = user_of(&world, resource, seed * 100 + i);
            assert_int_equal(pthread_create(&threads[i], NULL, use_in_thread, &users[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_nothing_live(resource);
        if (simcuda_check_mismatches() || simcuda_violations())
            fail_msg("seed %u, %s: %d words differ; %s", seed, gpumem_resource_text(resource),
                     (int)simcuda_check_mismatches(), simcuda_last_violation());
        OK(gpumem_resource_destroy(resource));
    }
    trim_makers();
    world_close(&world, build("async"));
}

int main(int argc, char **argv) {
    if (argc > 2) {
        first_seed = (uint32_t)strtoul(argv[1], NULL, 0);
        seeds = (uint32_t)strtoul(argv[2], NULL, 0);
    }
    gm_log_set(GM_LOG_OFF);
    return run_all(NULL, NULL);
}

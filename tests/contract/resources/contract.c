/* The checks of contract.h. */
#include "contract.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const size_t sizes[] = {1,    2,     255,     256,         511,     512,         257,
                               4095, 65536, 1000000, 1024 * 1024, 2097153, 8 * 1048576, 33554433};
enum { SIZES = sizeof sizes / sizeof *sizes, MANY = 24 };

struct gm_request plain_request(const struct origin *origin, size_t size) {
    return (struct gm_request){
        .call = GM_CALL_ALLOC,
        .promises = GM_PROMISE_READY_ANYWHERE | GM_PROMISE_DEVICE_ACCESS,
        .size = size,
        .device = origin->device,
        .context = origin->context,
        .context_id = origin->context_id,
    };
}

struct gm_request ordered_request(const struct origin *origin, size_t size, uint64_t stream) {
    struct gm_request request = plain_request(origin, size);
    request.call = GM_CALL_ALLOC_ASYNC;
    request.promises = GM_PROMISE_STREAM_ORDER | GM_PROMISE_DEVICE_ACCESS;
    request.stream = stream;
    return request;
}

struct gm_request pitched_request(const struct origin *origin, size_t width, size_t height) {
    struct gm_request request = plain_request(origin, width * height);
    request.call = GM_CALL_ALLOC_PITCH;
    request.width = width;
    request.height = height;
    request.element_size = 4;
    return request;
}

struct gm_free_request plain_free(void) {
    return (struct gm_free_request){.call = GM_CALL_FREE};
}

struct gm_free_request ordered_free(uint64_t stream) {
    return (struct gm_free_request){.call = GM_CALL_FREE_ASYNC, .stream = stream};
}

struct gm_resource *build(const char *text) {
    char error[320] = "";
    struct gm_resource *resource = gm_resource_build(text, error, sizeof error);
    if (!resource)
        fail_msg("%s: %s", text, error);
    return resource;
}

/* For stacks with the router. */
static const struct gm_decision as_requested = {.kind = GM_KIND_NATIVE};

gm_status allocate(struct gm_resource *resource, const struct gm_request *request, struct gm_block *block) {
    struct gm_block untouched;
    memset(block, 0x5a, sizeof *block);
    memcpy(&untouched, block, sizeof untouched);
    gm_status status = gm_resource_alloc(resource, request, &as_requested, block);
    if (status != GM_OK)
        assert_memory_equal(block, &untouched, sizeof untouched);
    return status;
}

gm_status release(struct gm_resource *resource, const struct gm_block *block, const struct gm_free_request *how) {
    assert_ptr_equal(block->owner, resource);
    return gm_resource_free(resource, block, how);
}

static struct gm_block must_allocate(struct gm_resource *resource, const struct gm_request *request) {
    struct gm_block block;
    assert_int_equal(allocate(resource, request, &block), GM_OK);
    assert_true(block.address != 0);
    assert_true(block.address % 256 == 0);
    if (!(resource->properties & GM_PROP_HOST_ACCESSIBLE))
        assert_true(block.address % 512 == 0);
    assert_int_equal(block.size, request->size);
    assert_true(block.reserved >= block.size);
    assert_ptr_equal(block.owner, resource);
    assert_true(block.context == request->context && block.context_id == request->context_id);
    assert_int_equal(block.device, request->device);
    return block;
}

static void must_release(struct gm_resource *resource, const struct gm_block *block) {
    struct gm_free_request how = plain_free();
    assert_int_equal(release(resource, block, &how), GM_OK);
}

static bool overlap(const struct gm_block *a, const struct gm_block *b) {
    return a->address < b->address + b->reserved && b->address < a->address + a->reserved;
}

static void assert_distinct(const struct gm_block *blocks, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            assert_false(overlap(&blocks[i], &blocks[j]));
}

void check_sizes(struct gm_resource *resource, const struct origin *origin) {
    struct gm_block blocks[SIZES];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < SIZES; i++) {
            struct gm_request request = plain_request(origin, sizes[i]);
            blocks[i] = must_allocate(resource, &request);
        }
        assert_distinct(blocks, SIZES);
        for (size_t i = 0; i < SIZES; i++)
            must_release(resource, &blocks[i]);
    }
}

void check_free_orders(struct gm_resource *resource, const struct origin *origin) {
    struct gm_block blocks[MANY];
    for (int order = 0; order < 3; order++) {
        struct gm_request request = plain_request(origin, 4096);
        for (size_t i = 0; i < MANY; i++)
            blocks[i] = must_allocate(resource, &request);
        assert_distinct(blocks, MANY);
        for (size_t i = 0; i < MANY;
             i++) /* forwards, backwards, and in steps of 7, which reach each of the 24 blocks */
            must_release(resource, &blocks[order == 0 ? i : order == 1 ? MANY - 1 - i : i * 7 % MANY]);
    }
}

void check_reuse_of_many(struct gm_resource *resource, const struct origin *origin) {
    struct gm_block blocks[MANY] = {0};
    uint32_t random = 12345;
    for (int step = 0; step < 600; step++) {
        random = random * 1664525u + 1013904223u;
        size_t i = (random >> 8) % MANY;
        if (blocks[i].address) {
            must_release(resource, &blocks[i]);
            blocks[i].address = 0;
            continue;
        }
        struct gm_request request = plain_request(origin, 1 + (random >> 12) % 300000);
        struct gm_block block = must_allocate(resource, &request);
        for (size_t j = 0; j < MANY; j++)
            assert_false(blocks[j].address && overlap(&block, &blocks[j]));
        blocks[i] = block;
    }
    for (size_t i = 0; i < MANY; i++)
        if (blocks[i].address)
            must_release(resource, &blocks[i]);
}

void check_pitch(struct gm_resource *resource, const struct origin *origin) {
    static const size_t widths[] = {1, 4, 100, 512, 513, 1000, 4096, 70000};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        struct gm_request request = pitched_request(origin, widths[i], 17);
        struct gm_block block = must_allocate(resource, &request);
        assert_true(block.pitch >= widths[i]);
        assert_true(block.reserved >= block.pitch * 17);
        assert_true(block.pitch % 32 == 0);
        must_release(resource, &block);
    }
    struct gm_request request = plain_request(origin, 100);
    struct gm_block block = must_allocate(resource, &request);
    assert_int_equal(block.pitch, 0);
    must_release(resource, &block);
}

void check_refusals(struct gm_resource *resource, const struct origin *origin) {
    struct gm_block block;
    struct gm_request request = plain_request(origin, 4096);
    request.call = GM_CALL_HOST_ALLOC;
    assert_int_equal(allocate(resource, &request, &block), GM_NOT_SUPPORTED);
    request = plain_request(origin, 0);
    assert_int_not_equal(allocate(resource, &request, &block), GM_OK);
    request = plain_request(origin, (size_t)1 << 60);
    assert_int_not_equal(allocate(resource, &request, &block), GM_OK);
    request = pitched_request(origin, 1000, 10);
    request.height = SIZE_MAX / 8;
    request.size = SIZE_MAX / 2;
    assert_int_not_equal(allocate(resource, &request, &block), GM_OK);
}

/* ---- threads: two threads never get the same block at one time */

enum { THREADS = 4, STEPS = 300, HELD = 6 };

static struct shared {
    pthread_mutex_t lock;
    struct gm_resource *resource;
    const struct origin *origin;
    struct gm_block held[THREADS][HELD];
    int overlaps, failures;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_held(const struct gm_block *block, struct gm_block *slot) {
    pthread_mutex_lock(&shared.lock);
    for (int thread = 0; thread < THREADS; thread++)
        for (int i = 0; i < HELD; i++)
            shared.overlaps += shared.held[thread][i].address && overlap(block, &shared.held[thread][i]);
    *slot = *block;
    pthread_mutex_unlock(&shared.lock);
}

static struct gm_block take_held(struct gm_block *slot) {
    pthread_mutex_lock(&shared.lock);
    struct gm_block block = *slot;
    slot->address = 0;
    pthread_mutex_unlock(&shared.lock);
    return block;
}

static void *hold_and_let_go(void *arg) {
    struct gm_block *mine = arg;
    struct gm_free_request how = plain_free();
    uint32_t random = (uint32_t)(mine - shared.held[0]) + 1;
    if (shared.origin->enter)
        shared.origin->enter(shared.origin);
    for (int step = 0; step < STEPS + HELD; step++) {
        random = random * 1664525u + 1013904223u;
        struct gm_block *slot = &mine[step < STEPS ? (random >> 16) % HELD : (unsigned)(step - STEPS)];
        struct gm_block block = {0};
        int failed;
        if (slot->address) {
            block = take_held(slot);
            failed = gm_resource_free(shared.resource, &block, &how) != GM_OK;
        } else if (step < STEPS) {
            struct gm_request request = plain_request(shared.origin, 1 + (random >> 10) % 200000);
            failed = gm_resource_alloc(shared.resource, &request, &as_requested, &block) != GM_OK;
            if (!failed)
                note_held(&block, slot);
        } else {
            failed = 0;
        }
        if (failed)
            __atomic_add_fetch(&shared.failures, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

void check_threads(struct gm_resource *resource, const struct origin *origin) {
    pthread_t threads[THREADS];
    memset(shared.held, 0, sizeof shared.held);
    shared.overlaps = shared.failures = 0;
    shared.resource = resource;
    shared.origin = origin;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hold_and_let_go, shared.held[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(shared.overlaps, 0);
    assert_int_equal(shared.failures, 0);
}

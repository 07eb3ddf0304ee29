/* Programs whose kernels wait for the program itself. Such a program ends natively, so it must end with gpumem too. If
 * it hangs, SIGALRM ends the test. */
#include <pthread.h>
#include <unistd.h>

#include "stacks.h"

/* Leaves out adaptors that work on the memory: they would wait for it. */
static bool is_cache_itself(const struct gm_resource *resource) {
    return is_cache(resource) && resource->ops != &gm_resource_fill;
}

struct two_threads {
    struct world world;
    struct gm_resource *resource;
    CUdeviceptr flag;
    size_t size;
};

static void wait_for_flag(const struct two_threads *shared, CUstream stream, uint32_t value) {
    CU(cuStreamWaitValue32_v2(stream, shared->flag, value, CU_STREAM_WAIT_VALUE_GEQ));
}

/* Work on the first words of a block. */
static void touch(const struct two_threads *shared, CUstream stream, const struct gm_block *block) {
    world_fill(&shared->world, stream, &(struct gm_block){.address = block->address, .size = 4096}, 1);
}

/* The other thread, for which the kernel of thread one waits: it allocates, works, and signals. */
static void *answer(void *argument) {
    struct two_threads *shared = argument;
    struct gm_request request = plain_request(&shared->world.origin, shared->size);
    struct gm_block blocks[3];
    cuCtxSetCurrent(shared->world.context);
    for (int i = 0; i < 3; i++)
        if (gm_resource_alloc(shared->resource, &request, NULL, &blocks[i]) != GM_OK)
            return NULL;
    touch(shared, shared->world.two, &blocks[0]);
    cuStreamWriteValue32_v2(shared->world.two, shared->flag, 1, 0);
    for (int i = 0; i < 3; i++) {
        struct gm_free_request how = plain_free();
        gm_resource_free(shared->resource, &blocks[i], &how);
    }
    return shared;
}

enum { BLOCKS = 5 };
static const size_t sizes[] = {BYTES, (size_t)20 << 20, (size_t)40 << 20, (size_t)100 << 20};

/* Resets the flag and allocates the blocks. Returns the request for one more block. */
static struct gm_request begin(struct two_threads *shared, struct gm_block *blocks) {
    world_open(&shared->world);
    CU(cuMemAlloc_v2(&shared->flag, 4));
    CU(cuMemsetD32_v2(shared->flag, 0, 1));
    struct gm_request request = plain_request(&shared->world.origin, shared->size);
    for (int j = 0; j < BLOCKS; j++)
        blocks[j] = get(shared->resource, &request);
    return request;
}

static void end(struct two_threads *shared) {
    CU(cuCtxSynchronize());
    assert_int_equal(simcuda_violations(), 0);
    CU(cuMemFree_v2(shared->flag));
    trim(shared->resource);
    world_close(&shared->world, shared->resource);
}

/* Thread one frees while its kernel waits for a kernel that thread two submits after an allocation. With small blocks,
 * and with blocks so large that more bytes wait for their fences than allowed. */
TEST(test_a_collective_does_not_hang) {
    alarm(100);
    for (int stack = 0; stack < STACKS; stack++)
        for (size_t i = 0; is_cache_itself(built[stack]) && i < sizeof sizes / sizeof *sizes; i++) {
            struct two_threads shared = {.resource = built[stack], .size = sizes[i]};
            struct gm_block blocks[BLOCKS];
            pthread_t thread;
            void *finished;
            begin(&shared, blocks);
            wait_for_flag(&shared, shared.world.one, 1);
            touch(&shared, shared.world.one, &blocks[0]);
            assert_int_equal(pthread_create(&thread, NULL, answer, &shared), 0);
            for (int j = 0; j < BLOCKS; j++)
                give(shared.resource, &blocks[j]);
            pthread_join(thread, &finished);
            assert_non_null(finished);
            end(&shared);
        }
    alarm(0);
}

/* After some frees a kernel is launched that runs until the host signals it. The host allocates before it signals. */
TEST(test_a_persistent_kernel_does_not_hang) {
    alarm(100);
    for (int stack = 0; stack < STACKS; stack++)
        for (size_t i = 0; is_cache_itself(built[stack]) && i < sizeof sizes / sizeof *sizes; i++) {
            struct two_threads shared = {.resource = built[stack], .size = sizes[i]};
            struct gm_block blocks[BLOCKS];
            struct gm_request request = begin(&shared, blocks);
            for (int j = 0; j < BLOCKS; j++) {
                touch(&shared, shared.world.two, &blocks[j]);
                give(shared.resource, &blocks[j]);
            }
            wait_for_flag(&shared, shared.world.one, 1);
            for (int j = 0; j < BLOCKS; j++) {
                blocks[j] = get(shared.resource, &request);
                touch(&shared, shared.world.two, &blocks[j]);
            }
            CU(cuStreamWriteValue32_v2(shared.world.two, shared.flag, 1, 0));
            for (int j = 0; j < BLOCKS; j++)
                give(shared.resource, &blocks[j]);
            end(&shared);
        }
    alarm(0);
}

int main(void) { return run_all(build_stacks, NULL); }

/* A program that links the core library queries blocks that the preloaded library knows: both share one registry.
 * The program's marks appear in the one trace. */
#include <cuda_runtime_api.h>

#include "program.h"
#include "shim/gpumem.h"

int main(void) {
    const char *preloaded = getenv("LD_PRELOAD");
    int known = preloaded && strstr(preloaded, "libgpumem.so") != NULL;
    enum { BLOCKS = 40, SIZE = 70000 };
    unsigned char *blocks[BLOCKS];
    struct gpumem_block block = {.struct_size = sizeof block};
    size_t released = 1;

    EXPECT(gpumem_version()[0] != '\0');
    EXPECT(gpumem_live_count() == 0);
    EXPECT(gpumem_trim(SIZE_MAX, &released) == (known ? GPUMEM_INVALID_CONTEXT : GPUMEM_OK));
    EXPECT(released == (known ? 1 : 0));
    MUST(cudaFree(NULL)); /* the trace begins with CUDA */
    gpumem_mark("before the blocks");
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = device_alloc(SIZE);
    EXPECT(gpumem_live_count() == (known ? BLOCKS : 0));
    for (int i = 0; i < BLOCKS; i++) {
        if (!known) {
            EXPECT(gpumem_block_of(blocks[i], &block) == GPUMEM_NOT_FOUND);
            continue;
        }
        EXPECT(gpumem_block_of(blocks[i] + SIZE - 1, &block) == GPUMEM_OK);
        EXPECT(block.address == (uint64_t)(uintptr_t)blocks[i] && block.size == SIZE && block.device == 0);
        EXPECT(strcmp(block.call, "cuMemAlloc") == 0 && block.kind[0] != '\0');
    }
    gpumem_mark("after the blocks");
    for (int i = 0; i < BLOCKS; i++)
        device_free(blocks[i]);
    EXPECT(gpumem_live_count() == 0);
    EXPECT(gpumem_block_of(blocks[0], &block) == GPUMEM_NOT_FOUND);
    EXPECT(gpumem_trim(SIZE_MAX, &released) == GPUMEM_OK);
    const char *policy = getenv("GPUMEM_POLICY");
    int cached = known && policy && strcmp(policy, "cache") == 0;
    EXPECT(cached ? released >= BLOCKS * SIZE : known || released == 0);
    EXPECT(gpumem_trim(SIZE_MAX, &released) == GPUMEM_OK && released == 0);
    printf("ok shared_registry %d\n", BLOCKS);
    return 0;
}

/* Needs more memory than the device has: many live blocks that are written, compared and freed out of order.
 *
 * usage: oversubscribe BLOCKS MIB [CHURN_MIB [ROUNDS]]
 *
 * CHURN_MIB: a block of this size is allocated and freed first, so that a cache has a free block. ROUNDS: the last
 * block is freed and allocated again so many times. Exit status 3: out of memory, after all blocks were freed. */
#include <cuda_runtime_api.h>

#include "program.h"

enum { MOST = 4096, PROBE = 1 << 16 };

/* Both ends and the middle: enough to notice two blocks at one address, or a missing block. */
static void places(size_t size, size_t *at) {
    at[0] = 0;
    at[1] = size / 2;
    at[2] = size - PROBE;
}

static void write_block(char *block, size_t size, unsigned number) {
    static unsigned words[PROBE / 4];
    size_t at[3];
    places(size, at);
    for (int i = 0; i < 3; i++) {
        for (unsigned w = 0; w < PROBE / 4; w++)
            words[w] = number * 2654435761u + (unsigned)i * 40503u + w;
        MUST(cudaMemcpy(block + at[i], words, PROBE, cudaMemcpyHostToDevice));
    }
}

static unsigned wrong_words(const char *block, size_t size, unsigned number) {
    static unsigned words[PROBE / 4];
    unsigned wrong = 0;
    size_t at[3];
    places(size, at);
    for (int i = 0; i < 3; i++) {
        MUST(cudaMemcpy(words, block + at[i], PROBE, cudaMemcpyDeviceToHost));
        for (unsigned w = 0; w < PROBE / 4; w++)
            wrong += words[w] != number * 2654435761u + (unsigned)i * 40503u + w;
    }
    return wrong;
}

int main(int count, char **arguments) {
    static void *blocks[MOST];
    unsigned wanted = count > 1 ? (unsigned)atoi(arguments[1]) : 0, got = 0, wrong = 0;
    unsigned rounds = count > 4 ? (unsigned)atoi(arguments[4]) : 0;
    size_t size = count > 2 ? (size_t)atoi(arguments[2]) << 20 : 0,
           churn = count > 3 ? (size_t)atoi(arguments[3]) << 20 : 0;
    EXPECT(wanted && wanted <= MOST && size);
    for (int i = 0; churn && i < 14; i++)
        device_free(device_alloc(churn));
    for (; got < wanted; got++) {
        cudaError_t error = cudaMalloc(&blocks[got], size);
        if (error != cudaSuccess) {
            note("fail", "cuMemAlloc", (long long)size, NULL);
            EXPECT(error == cudaErrorMemoryAllocation);
            EXPECT(cudaGetLastError() == cudaErrorMemoryAllocation);
            break;
        }
        note_alloc("cuMemAlloc", (long long)size, blocks[got]);
        write_block((char *)blocks[got], size, got);
    }
    for (unsigned i = 0; got == wanted && i < rounds; i++) {
        device_free(blocks[got - 1]);
        blocks[got - 1] = device_alloc(size);
        write_block((char *)blocks[got - 1], size, got - 1);
    }
    for (unsigned i = 0; i < got; i++)
        wrong += wrong_words((const char *)blocks[i], size, i);
    for (unsigned i = 0; i < got; i++) /* from both ends */
        device_free(blocks[i % 2 ? got - 1 - i / 2 : i / 2]);
    EXPECT(!wrong);
    if (got < wanted) {
        printf("out of memory after %u\n", got);
        return 3;
    }
    printf("ok %u blocks\n", got);
    return 0;
}

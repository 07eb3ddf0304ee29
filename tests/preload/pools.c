/* A pool of the program and the device's default pool: gpumem moves the memory of neither. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(void) {
    enum { SIZE = 1 << 18, BLOCKS = 6 };
    static unsigned char host[SIZE];
    struct cudaMemPoolProps properties = {.allocType = cudaMemAllocationTypePinned,
                                          .location = {.type = cudaMemLocationTypeDevice, .id = 0}};
    cudaMemPool_t pool, standard;
    cudaStream_t stream;
    void *blocks[BLOCKS];
    uint64_t keep = UINT64_MAX, read_back = 0;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMemPoolCreate(&pool, &properties));
    MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cudaMallocFromPoolAsync(&blocks[i], SIZE, pool, stream));
        note_alloc("cuMemAllocFromPoolAsync", SIZE, blocks[i]);
        MUST(cudaMemsetAsync(blocks[i], i + 1, SIZE, stream));
    }
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cudaMemcpyAsync(host, blocks[i], SIZE, cudaMemcpyDeviceToHost, stream));
        MUST(cudaStreamSynchronize(stream));
        EXPECT(all_bytes_are(host, (unsigned char)(i + 1), SIZE));
        note_free("cuMemFreeAsync", blocks[i]);
        MUST(cudaFreeAsync(blocks[i], stream));
    }
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemPoolTrimTo(pool, 0));
    MUST(cudaMemPoolDestroy(pool));
    MUST(cudaDeviceGetDefaultMemPool(&standard, 0));
    MUST(cudaMemPoolGetAttribute(standard, cudaMemPoolAttrReleaseThreshold, &read_back));
    EXPECT(read_back == 0);
    MUST(cudaStreamDestroy(stream));
    printf("ok pools %d blocks\n", BLOCKS);
    return 0;
}

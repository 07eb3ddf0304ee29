/* Rows that the device pads: the pitch is the device's choice, and the program's data stays in its columns. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(void) {
    enum { WIDTH = 1000, HEIGHT = 37 };
    static unsigned char host[HEIGHT][WIDTH], back[HEIGHT][WIDTH];
    void *memory = NULL;
    size_t pitch = 0;
    MUST(cudaMallocPitch(&memory, &pitch, WIDTH, HEIGHT));
    note_alloc("cuMemAllocPitch", ANY_BYTES, memory);
    EXPECT(pitch >= WIDTH && pitch % 32 == 0);
    for (int y = 0; y < HEIGHT; y++)
        memset(host[y], y + 1, WIDTH);
    MUST(cudaMemcpy2D(memory, pitch, host, WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy2D(back, WIDTH, memory, pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost));
    EXPECT(memcmp(host, back, sizeof host) == 0);
    device_free(memory);
    for (int i = 0; i < 40; i++) { /* between blocks that may be kept */
        device_free(device_alloc(WIDTH));
        MUST(cudaMallocPitch(&memory, &pitch, WIDTH, HEIGHT));
        note_alloc("cuMemAllocPitch", ANY_BYTES, memory);
        device_free(memory);
    }
    printf("ok pitch %d rows\n", HEIGHT);
    return 0;
}

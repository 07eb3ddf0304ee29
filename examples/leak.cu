// Leaks device memory from two functions: one forgets each result, one forgets its workspace on an early return.
// The report names both places; the buffer that main frees is not among them.
#include "check.h"

__attribute__((noinline)) static float *load_frame(int frame, size_t size) {
    float *data;
    CHECK(cudaMalloc(&data, size));
    CHECK(cudaMemset(data, frame, size));
    return data;
}

__attribute__((noinline)) static int find_peak(const float *data, size_t size, bool quick) {
    float *workspace;
    CHECK(cudaMalloc(&workspace, size / 2));
    CHECK(cudaMemcpy(workspace, data, size / 2, cudaMemcpyDeviceToDevice));
    if (quick)
        return 0; // the leak: workspace is lost
    CHECK(cudaFree(workspace));
    return 1;
}

int main(void) {
    const size_t size = 1 << 20;
    float *kept = load_frame(0, size);
    int peaks = 0;
    for (int frame = 1; frame <= 4; frame++) {
        const float *data = load_frame(frame, size); // the leak: nobody frees a frame
        peaks += find_peak(data, size, frame % 2 == 0);
    }
    CHECK(cudaFree(kept));
    CHECK(cudaDeviceSynchronize());
    printf("leak: 4 frames of 1 MiB and 2 workspaces of 512 KiB are not freed\n");
    return peaks != 2;
}

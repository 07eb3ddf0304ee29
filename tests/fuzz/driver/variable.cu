// A managed variable, and the kernel that writes it.
#include <cstdint>

extern "C" {
__managed__ uint32_t fuzz_variable[64];
}

extern "C" __global__ void fuzz_publish(const uint32_t *from, uint32_t value) {
    fuzz_variable[threadIdx.x] = from[threadIdx.x] * 31 + value + threadIdx.x;
}

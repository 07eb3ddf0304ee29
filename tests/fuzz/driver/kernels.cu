// The kernels of random programs on a card: each lets a kernel with programmatic stream serialization begin at once.
#include <cstdint>

static __device__ void let_others_begin() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

extern "C" __global__ void fuzz_spin(uint64_t ns) {
    uint64_t begin, now;
    let_others_begin();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < ns);
}

extern "C" __global__ void fuzz_mix(uint32_t *to, const uint32_t *from, uint32_t value) {
    let_others_begin();
    to[threadIdx.x] = from[threadIdx.x] * 31 + value + threadIdx.x;
}

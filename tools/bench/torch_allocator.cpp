// PyTorch's caching allocator by its C++ interface, as a library for tools/bench/alloc --allocator. Built by alloc.py
// where PyTorch is.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace torch_cache = c10::cuda::CUDACachingAllocator;

namespace {
c10::cuda::CUDACachingAllocator::CUDAAllocator *allocator() {
    static auto *found = [] {
        torch_cache::init(c10::cuda::device_count());
        return torch_cache::get();
    }();
    return found;
}
} // namespace

extern "C" void *bench_allocate(size_t bytes) {
    try {
        return allocator()->raw_alloc(bytes);
    } catch (const std::exception &error) {
        std::string words = error.what(); // a stack trace follows the first line
        std::fprintf(stderr, "bench: PyTorch's allocator: %s\n", words.substr(0, words.find('\n')).c_str());
        std::exit(1);
    }
}

extern "C" void bench_release(void *block) { allocator()->raw_delete(block); }

extern "C" void bench_trim() {
    cudaDeviceSynchronize();
    allocator()->emptyCache();
}

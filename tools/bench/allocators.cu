// The contenders that one process can hold.
#include "bench.h"

#include <dlfcn.h>

#include <cstdint>

namespace {

void *allocate_plain(size_t bytes) {
    void *block;
    CHECK(cudaMalloc(&block, bytes));
    return block;
}

void release_plain(void *block) { CHECK(cudaFree(block)); }

// Natively nothing is kept; under the preloaded library its own door empties what it keeps.
void trim_plain() {
    static auto trim = (int (*)(size_t, size_t *))dlsym(RTLD_DEFAULT, "gpumem_trim");
    CHECK(cudaDeviceSynchronize());
    if (trim)
        trim(SIZE_MAX, nullptr);
}

void *allocate_async(size_t bytes) {
    void *block;
    CHECK(cudaMallocAsync(&block, bytes, 0));
    return block;
}

void release_async(void *block) { CHECK(cudaFreeAsync(block, 0)); }

cudaMemPool_t default_pool() {
    cudaMemPool_t pool;
    int device;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetDefaultMemPool(&pool, device));
    return pool;
}

void trim_async() {
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemPoolTrimTo(default_pool(), 0));
}

template <class Function> void find(void *library, const char *name, Function *function) {
    *function = (Function)dlsym(library, name);
    if (!*function) {
        std::fprintf(stderr, "bench: the allocator library has no %s\n", name);
        std::exit(1);
    }
}

} // namespace

allocator find_allocator(const std::string &name) {
    if (name == "native")
        return {allocate_plain, release_plain, trim_plain, true};
    if (name == "async") {
        // As programs tune it that are written for it: freed memory stays in the pool.
        uint64_t keep = UINT64_MAX;
        CHECK(cudaMemPoolSetAttribute(default_pool(), cudaMemPoolAttrReleaseThreshold, &keep));
        return {allocate_async, release_async, trim_async, false};
    }
    // Lazily: PyTorch's library names much of the runtime that its allocator never calls.
    void *library = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (!library) {
        std::fprintf(stderr, "bench: allocator native, async or a library: %s\n", dlerror());
        std::exit(1);
    }
    allocator found = {};
    find(library, "bench_allocate", &found.allocate);
    find(library, "bench_release", &found.release);
    find(library, "bench_trim", &found.trim);
    return found;
}

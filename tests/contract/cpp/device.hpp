// A context and a stream for the tests of this folder, without CUDA's headers, and what those that check need.
#ifndef CPP_DEVICE_HPP
#define CPP_DEVICE_HPP

#include <cstdio>
#include <dlfcn.h>

#include "gpumem_error.hpp"

struct CUstream_st;

// Makes the first device's primary context current. Returns a stream in it; NULL: there is no device.
inline CUstream_st *begin_cuda() {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        return nullptr;
    auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    auto retain = reinterpret_cast<int (*)(void **, int)>(dlsym(driver, "cuDevicePrimaryCtxRetain"));
    auto set = reinterpret_cast<int (*)(void *)>(dlsym(driver, "cuCtxSetCurrent"));
    auto create = reinterpret_cast<int (*)(CUstream_st **, unsigned)>(dlsym(driver, "cuStreamCreate"));
    void *context = nullptr;
    CUstream_st *stream = nullptr;
    return init(0) || retain(&context, 0) || set(context) || create(&stream, 1) ? nullptr : stream;
}

inline int failed;
#define EXPECT(good) ((good) ? void() : (failed++, void(std::printf("FAILED %s:%d %s\n", __FILE__, __LINE__, #good))))

// Runs tests(stream). Returns the exit status: 77 without a device.
template <typename Tests> int run(const char *name, Tests tests) {
    CUstream_st *stream = begin_cuda();
    if (!stream) {
        std::printf("no device\n");
        return 77;
    }
    try {
        tests(stream);
    } catch (const gpumem::error &error) {
        std::printf("FAILED %s\n", error.text());
        failed++;
    }
    if (!failed)
        std::printf("ok %s\n", name);
    return failed != 0;
}

#endif

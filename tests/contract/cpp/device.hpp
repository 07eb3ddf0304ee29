// A context and a stream for the tests of this folder, without CUDA's headers.
#ifndef CPP_DEVICE_HPP
#define CPP_DEVICE_HPP

#include <dlfcn.h>

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

#endif

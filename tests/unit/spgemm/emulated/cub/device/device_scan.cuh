/* CUB's two algorithms that spgemm uses, on the host. */
#pragma once
#include <cstdint>
#include <cuda_runtime_api.h>

namespace cuda::std {
template <typename T> struct plus {
    T operator()(T a, T b) const { return a + b; }
};
} // namespace cuda::std

namespace cub {

struct DeviceScan {
    template <typename In, typename Out, typename F, typename T>
    static cudaError_t ExclusiveScan(void *space, size_t &bytes, const In *in, Out *out, F add, T begin, int64_t count,
                                     cudaStream_t stream) {
        bytes = 256;
        if (!space)
            return cudaSuccess;
        emulated_submit(stream, [=] {
            T sum = begin;
            for (int64_t i = 0; i < count; i++) {
                T next = add(sum, in[i]);
                out[i] = sum;
                sum = next;
            }
        });
        return cudaSuccess;
    }
};

struct DeviceSelect {
    template <typename T, typename F>
    static cudaError_t If(void *space, size_t &bytes, const T *in, T *out, int32_t *number, int count, F chosen,
                          cudaStream_t stream) {
        bytes = 256;
        if (!space)
            return cudaSuccess;
        emulated_submit(stream, [=] {
            int32_t found = 0;
            for (int i = 0; i < count; i++)
                if (chosen(in[i]))
                    out[found++] = in[i];
            *number = found;
        });
        return cudaSuccess;
    }
};

} // namespace cub

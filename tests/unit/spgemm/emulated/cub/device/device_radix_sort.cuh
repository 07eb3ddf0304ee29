/* CUB's radix sort, on the host: stable, by the given bits of the key. */
#pragma once
#include <algorithm>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <numeric>
#include <vector>

namespace cub {

template <typename T> struct DoubleBuffer {
    T *buffers[2];
    int selector = 0;

    DoubleBuffer(T *now, T *other) : buffers{now, other} {}
};

struct DeviceRadixSort {
    template <typename K, typename V>
    static cudaError_t SortPairs(void *space, size_t &bytes, DoubleBuffer<K> &keys, DoubleBuffer<V> &values, int count,
                                 int low, int high, cudaStream_t stream) {
        bytes = 256;
        if (!space)
            return cudaSuccess;
        DoubleBuffer<K> now = keys;
        DoubleBuffer<V> taken = values;
        emulated_submit(stream, [=]() mutable {
            std::vector<int> order = sorted(now, count, low, high);
            for (int i = 0; i < count; i++)
                taken.buffers[1 - taken.selector][i] = taken.buffers[taken.selector][order[i]];
            move(now, order);
        });
        values.selector = 1 - values.selector;
        keys.selector = 1 - keys.selector;
        return cudaSuccess;
    }

    template <typename K>
    static cudaError_t SortKeys(void *space, size_t &bytes, DoubleBuffer<K> &keys, int count, int low, int high,
                                cudaStream_t stream) {
        bytes = 256;
        if (!space)
            return cudaSuccess;
        DoubleBuffer<K> now = keys;
        emulated_submit(stream, [=]() mutable { move(now, sorted(now, count, low, high)); });
        keys.selector = 1 - keys.selector;
        return cudaSuccess;
    }

  private:
    template <typename K> static std::vector<int> sorted(const DoubleBuffer<K> &keys, int count, int low, int high) {
        std::vector<int> order(static_cast<size_t>(count));
        const K *key = keys.buffers[keys.selector];
        auto digits = [=](int i) { return key[i] >> low & ((K{1} << (high - low)) - 1); };
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [=](int x, int y) { return digits(x) < digits(y); });
        return order;
    }

    template <typename K> static void move(const DoubleBuffer<K> &keys, const std::vector<int> &order) {
        for (size_t i = 0; i < order.size(); i++)
            keys.buffers[1 - keys.selector][i] = keys.buffers[keys.selector][order[i]];
    }
};

} // namespace cub

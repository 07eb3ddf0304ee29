// A program of Thrust algorithms on vectors of changing length: histograms of random keys by sort and reduction,
// duplicates removed, sets merged. Every vector and every temporary is a cudaMalloc. Checks its own results.
#include <cstdio>
#include <cstdlib>

#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/reduce.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/tabulate.h>
#include <thrust/unique.h>

struct scatter {
    unsigned seed, limit;
    __host__ __device__ unsigned operator()(unsigned i) const {
        unsigned x = (i + seed) * 2654435761u;
        x ^= x >> 16;
        x *= 2246822519u;
        return (x ^ x >> 13) % limit;
    }
};

static thrust::device_vector<unsigned> keys(unsigned count, unsigned seed, unsigned limit) {
    thrust::device_vector<unsigned> made(count);
    thrust::tabulate(made.begin(), made.end(), scatter{seed, limit});
    thrust::sort(made.begin(), made.end());
    return made;
}

int main() {
    unsigned random = 12345;
    thrust::device_vector<unsigned> all; // grows over the rounds
    for (int round = 0; round < 120; round++) {
        random = random * 1664525u + 1013904223u;
        unsigned count = 1000u << random % 12, limit = count / 2;
        thrust::device_vector<unsigned> key = keys(count, random, limit), other = keys(count / 3 + 1, ~random, limit);
        thrust::device_vector<unsigned> bins(count), amounts(count);
        auto ends = thrust::reduce_by_key(key.begin(), key.end(), thrust::make_constant_iterator(1u), bins.begin(),
                                          amounts.begin());
        bins.erase(ends.first, bins.end());
        amounts.erase(ends.second, amounts.end());
        if (thrust::reduce(amounts.begin(), amounts.end()) != count) {
            std::printf("wrong: amounts of round %d\n", round);
            return 1;
        }
        thrust::device_vector<unsigned> both(count);
        other.erase(thrust::unique(other.begin(), other.end()), other.end());
        both.erase(thrust::set_intersection(bins.begin(), bins.end(), other.begin(), other.end(), both.begin()),
                   both.end());
        thrust::device_vector<unsigned> merged(all.size() + both.size());
        merged.erase(thrust::set_union(all.begin(), all.end(), both.begin(), both.end(), merged.begin()), merged.end());
        all.swap(merged);
    }
    if (!thrust::is_sorted(all.begin(), all.end())) {
        std::printf("wrong: the union is not sorted\n");
        return 1;
    }
    std::printf("ok thrust_mix %zu keys\n", all.size());
    return 0;
}

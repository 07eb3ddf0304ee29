// Thrust's sequence and sort of a million integers: its temporary storage is allocated and freed in every call.
#include "bench.h"

#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

namespace {

// How a program hands Thrust an allocator other than cudaMalloc.
struct temporaries {
    using value_type = char;
    char *allocate(std::ptrdiff_t bytes) { return (char *)bench.contender.allocate((size_t)bytes); }
    void deallocate(char *block, size_t) { bench.contender.release(block); }
};

template <class Policy> void fill_and_sort(const Policy &policy, thrust::device_ptr<int> data, int count) {
    thrust::sequence(policy, data, data + count, count, -1);
    thrust::sort(policy, data, data + count);
}

} // namespace

void thrust_rows() {
    if (!wanted("thrust-sort"))
        return;
    const int count = 1000000;
    int *data;
    CHECK(cudaMalloc((void **)&data, count * sizeof(int)));
    thrust::device_ptr<int> begin(data);
    temporaries own;
    measure({{"thrust-sort", 0, [&](int n) {
                  for (int i = 0; i < n; i++)
                      if (bench.contender.plain)
                          fill_and_sort(thrust::device, begin, count);
                      else
                          fill_and_sort(thrust::cuda::par(own), begin, count);
                  CHECK(cudaDeviceSynchronize());
              }}});
    int ends[2];
    CHECK(cudaMemcpy(&ends[0], data, sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&ends[1], data + count - 1, sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(data));
    if (ends[0] != 1 || ends[1] != count) {
        std::fprintf(stderr, "bench: thrust-sort: not sorted\n");
        std::exit(1);
    }
}

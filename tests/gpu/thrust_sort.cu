// Sorts descending sequences of growing length; every vector allocates and frees.
#include <cstdio>
#include <thrust/device_vector.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

int main() {
    for (int n = 1000; n <= 4000000; n *= 4) {
        thrust::device_vector<int> v(n);
        thrust::sequence(v.rbegin(), v.rend());
        thrust::sort(v.begin(), v.end());
        if (v[0] != 0 || v[n / 2] != n / 2 || v[n - 1] != n - 1) {
            std::printf("wrong at %d\n", n);
            return 1;
        }
    }
    std::printf("ok thrust_sort\n");
    return 0;
}

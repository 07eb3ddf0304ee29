// thrust::device_vector<T, thrust::virtual_allocator<T>> beside another vector, operation by operation: each is made on
// both and all elements are compared. The other is thrust::device_vector on a GPU; with --host it is std::vector, and
// no kernel runs.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include "gpumem.hpp"

struct wide { // 20 bytes, not a power of two
    int v[5];
    bool operator==(const wide &other) const { return memcmp(v, other.v, sizeof v) == 0; }
};

static int wrong;

#define EXPECT(condition)                                  \
    do {                                                   \
        if (!(condition)) {                                \
            printf("line %d: %s\n", __LINE__, #condition); \
            wrong++;                                       \
        }                                                  \
    } while (0)

template <typename T> T value_of(int seed);
template <> int value_of<int>(int seed) { return (int)(seed * 2654435u); }
template <> double value_of<double>(int seed) { return seed / 7.0; }
template <> char value_of<char>(int seed) { return (char)(seed * 31); }
template <> wide value_of<wide>(int seed) { return wide{{seed, seed + 1, -seed, 5, seed * 3}}; }

template <typename T> std::vector<T> all_of(const std::vector<T> &vector) { return vector; }
template <typename T, typename A> std::vector<T> all_of(const thrust::device_vector<T, A> &vector) {
    std::vector<T> host(vector.size());
    if (!host.empty() && cudaMemcpy(host.data(), thrust::raw_pointer_cast(vector.data()), host.size() * sizeof(T),
                                    cudaMemcpyDeviceToHost) != cudaSuccess)
        host.clear();
    return host;
}

template <typename Ours, typename Other> bool same(const char *what, const Ours &ours, const Other &other) {
    bool equal = ours.size() == other.size() && ours.empty() == other.empty() && all_of(ours) == all_of(other) &&
                 ours.capacity() >= ours.size();
    if (!equal) {
        printf("%s, elements of %zu bytes: differ (%zu and %zu elements)\n", what, sizeof(typename Ours::value_type),
               (size_t)ours.size(), (size_t)other.size());
        wrong++;
    }
    return equal;
}

// The same statement on both, then compared.
#define BOTH(...)                        \
    do {                                 \
        {                                \
            auto &v = ours;              \
            (void)v;                     \
            __VA_ARGS__;                 \
        }                                \
        {                                \
            auto &v = other;             \
            (void)v;                     \
            __VA_ARGS__;                 \
        }                                \
        same(#__VA_ARGS__, ours, other); \
    } while (0)

template <typename T, typename Other> void operations(gpumem_region_options options) {
    using Ours = thrust::device_vector<T, thrust::virtual_allocator<T>>;
    thrust::virtual_allocator<T> where(nullptr, options);
    std::vector<T> source;
    for (int i = 0; i < 5000; i++)
        source.push_back(value_of<T>(i));
    Ours ours(where);
    Other other;
    same("default", ours, other);
    same("count", Ours(1000), Other(1000));
    same("count and value", Ours(1000, value_of<T>(3)), Other(1000, value_of<T>(3)));
    same("list", Ours({value_of<T>(1), value_of<T>(2)}), Other({value_of<T>(1), value_of<T>(2)}));
    BOTH(v.assign(source.begin(), source.end()));
    BOTH(v.reserve(20000));
    BOTH(v.resize(7000));
    BOTH(v.resize(9000, value_of<T>(8)));
    BOTH(v.insert(v.begin() + 17, value_of<T>(99)));
    BOTH(v.insert(v.begin(), 300, value_of<T>(98)));
    BOTH(v.insert(v.begin() + 5000, 1, value_of<T>(97)));
    BOTH(v.insert(v.end(), 70000, value_of<T>(96)));
    BOTH(v.insert(v.begin() + 100, source.begin(), source.end()));
    BOTH(v.insert(v.end(), source.begin(), source.begin() + 33));
    BOTH(v.insert(v.begin() + 3, source.begin(), source.begin()));
    BOTH(v.erase(v.begin() + 4));
    BOTH(v.erase(v.begin() + 10, v.begin() + 11));
    BOTH(v.erase(v.begin(), v.begin() + 40000));
    BOTH(v.erase(v.end() - 5, v.end()));
    BOTH(v.push_back(value_of<T>(7)));
    BOTH(v.push_back(v[3]));
    BOTH(v.push_back(v.front()));
    BOTH(v.insert(v.begin() + 2, 50, v.back()));
    BOTH(v.pop_back());
    BOTH(v[0] = value_of<T>(55));
    EXPECT((T)ours[0] == value_of<T>(55) && (T)ours.front() == value_of<T>(55) &&
           (T)ours.back() == (T)ours[ours.size() - 1]);
    EXPECT(ours.end() - ours.begin() == (ptrdiff_t)ours.size());
    EXPECT((T)*ours.rbegin() == (T)ours.back());
    BOTH(v.shrink_to_fit());

    Ours copied(ours), moved(std::move(copied)), assigned;
    same("copied", moved, other);
    EXPECT(copied.empty());
    assigned = moved;
    same("assigned", assigned, other);
    assigned.push_back(value_of<T>(1));
    same("a copy is its own", moved, other);
    swap(assigned, moved);
    same("swapped", assigned, other);
    Ours from_other(source);
    same("from a vector of the host", from_other, source);
    thrust::host_vector<T> host = from_other;
    EXPECT(std::vector<T>(host.begin(), host.end()) == source);
    from_other = host;
    same("from a Thrust vector of the host", from_other, source);
    BOTH(v.assign(123, value_of<T>(44)));
    BOTH(v.assign(0, value_of<T>(44)));
    BOTH(v.clear());
    BOTH(v.shrink_to_fit());
}

// Of the error that every failure throws.
template <typename Call> gpumem_status status_of(Call call) {
    try {
        call();
    } catch (const gpumem::error &error) {
        EXPECT(*error.text() != '\0');
        return error.status();
    }
    return GPUMEM_OK;
}

// Moving takes no addresses and no memory, and leaves an empty vector that can be used.
static void moves() {
    using Ours = thrust::device_vector<int, thrust::virtual_allocator<int>>;
    static_assert(std::is_nothrow_default_constructible<Ours>::value, "reserves nothing");
    static_assert(std::is_nothrow_move_constructible<Ours>::value, "reserves nothing");
    static_assert(std::is_nothrow_move_assignable<Ours>::value, "reserves nothing");
    Ours empty, from_empty(std::move(empty)), full(1000, 5);
    EXPECT(from_empty.data().get() == nullptr && from_empty.capacity() == 0);
    int *place = thrust::raw_pointer_cast(full.data());
    Ours moved(std::move(full));
    EXPECT(thrust::raw_pointer_cast(moved.data()) == place && moved.size() == 1000);
    EXPECT(full.empty() && full.data().get() == nullptr && full.begin() == full.end());
    full.clear();
    full.shrink_to_fit();
    EXPECT(full.data().get() == nullptr);
    Ours copy_of_empty(full);
    EXPECT(copy_of_empty.empty());
    full.insert(full.begin(), 3, 7);
    EXPECT(all_of(full) == std::vector<int>(3, 7));
    full = std::move(moved);
    EXPECT(thrust::raw_pointer_cast(full.data()) == place && full.size() == 1000);
    EXPECT(moved.empty() && moved.data().get() == nullptr);
    full = moved;
    EXPECT(full.empty());
}

static void errors() {
    gpumem_region_options unset = {};
    thrust::virtual_allocator<int> where(nullptr, unset);
    EXPECT(status_of([&] { thrust::device_vector<int, thrust::virtual_allocator<int>>(1, where); }) ==
           GPUMEM_INVALID_VALUE);
    try {
        thrust::device_vector<int, thrust::virtual_allocator<int>> vector(1, where);
        EXPECT(!"refused");
    } catch (const std::runtime_error &error) {
        EXPECT(strstr(error.what(), "struct_size") != nullptr);
    }
}

// The thesis' example, listing 3.2, and a growth that keeps its place.
static void listing() {
    size_t vector_size = 10;
    thrust::device_vector<int, thrust::virtual_allocator<int>> vector_d(vector_size, 15);
    vector_d.reserve(2 * vector_size);
    vector_d.insert(vector_d.begin(), vector_size, 0);
    std::vector<int> expected(10, 0);
    expected.insert(expected.end(), 10, 15);
    EXPECT(all_of(vector_d) == expected);
    int *before = thrust::raw_pointer_cast(vector_d.data());
    for (int i = 0; i < 20; i++)
        vector_d.append(1 << 20);
    EXPECT(thrust::raw_pointer_cast(vector_d.data()) == before && vector_d.size() == 20 + (20 << 20));
    try {
        vector_d.reserve((size_t)1 << 44);
        EXPECT(!"out of memory");
    } catch (const std::bad_alloc &error) {
        EXPECT(strstr(error.what(), "70368744177664 bytes") != nullptr);
    }
    EXPECT(status_of([&] { vector_d.reserve((size_t)1 << 44); }) == GPUMEM_OUT_OF_MEMORY);
}

// Kernels of Thrust on our iterators.
static void algorithms() {
    const int count = 3 << 20;
    thrust::device_vector<int, thrust::virtual_allocator<int>> ours(count);
    thrust::device_vector<int> other(count);
    thrust::sequence(ours.rbegin(), ours.rend());
    thrust::sequence(other.rbegin(), other.rend());
    thrust::sort(ours.begin(), ours.end());
    thrust::sort(other.begin(), other.end());
    EXPECT(ours == other);
    ours.resize(2 * count, 1);
    other.resize(2 * count, 1);
    thrust::exclusive_scan(ours.begin(), ours.end(), ours.begin());
    thrust::exclusive_scan(other.begin(), other.end(), other.begin());
    EXPECT(ours == other);
    EXPECT(thrust::reduce(ours.begin(), ours.begin() + 1000) == 166167000);
    ours[5] = -1;
    EXPECT(ours != other);
}

template <template <typename...> class Vector> void everything() {
    gpumem_region_options plain = {}, little;
    plain.struct_size = sizeof plain;
    little = plain;
    little.reserve = 2 << 20; // addresses run out: pages move
    little.flags = GPUMEM_REGION_EXACT;
    operations<int, Vector<int>>(plain);
    operations<double, Vector<double>>(little);
    operations<char, Vector<char>>(plain);
    operations<wide, Vector<wide>>(little);
    listing();
    moves();
    errors();
}

int main(int count, char **arguments) {
    bool on_host = count > 1 && strcmp(arguments[1], "--host") == 0;
    if (cudaFree(nullptr) != cudaSuccess)
        return 77;
    if (on_host) {
        everything<std::vector>();
    } else {
        everything<thrust::device_vector>();
        algorithms();
    }
    printf("%s vector\n", wrong ? "wrong" : "ok");
    return wrong != 0;
}

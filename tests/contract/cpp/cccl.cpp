// gpumem's resources as those of CCCL's cuda::mr: the concepts hold, cuda::mr::resource_ref takes them, and Thrust
// allocates by them. As CUDA C++ Thrust runs on the device, else on the host. Its memory is managed in both cases.
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#ifdef __CUDACC__
#define SYSTEM cuda
#else
#define SYSTEM               cpp
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#endif

#include <cstdio>

#include <cuda/memory_resource>
#include <cuda_runtime_api.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include "gpumem.hpp"

#ifndef REFUSED
#define REFUSED 0
#endif

namespace mr = cuda::mr;
using gpumem::property;
using device_view = gpumem::resource_view<property::device_accessible>;
using ordered_view = gpumem::resource_view<property::device_accessible | property::stream_ordered>;

#if CCCL_VERSION < 3001000
template <typename T> constexpr bool plain = mr::resource<T>;
template <typename T> constexpr bool ordered = mr::async_resource<T>;
using device_reference = mr::resource_ref<mr::device_accessible>;
using ordered_reference = mr::async_resource_ref<mr::device_accessible>;
using host_reference = mr::resource_ref<mr::host_accessible>;
#else // allocate_sync, and allocate with a stream
template <typename T> constexpr bool plain = mr::synchronous_resource<T>;
template <typename T> constexpr bool ordered = mr::resource<T>;
using device_reference = mr::synchronous_resource_ref<mr::device_accessible>;
using ordered_reference = mr::resource_ref<mr::device_accessible>;
using host_reference = mr::synchronous_resource_ref<mr::host_accessible>;
#endif
template <typename T> constexpr bool device = cuda::has_property<T, mr::device_accessible>;
template <typename T> constexpr bool host = cuda::has_property<T, mr::host_accessible>;

static_assert(plain<gpumem::device_resource> && !ordered<gpumem::device_resource>);
static_assert(plain<device_view> && !ordered<device_view>);
static_assert(ordered<gpumem::async_device_resource> && ordered<ordered_view>);
static_assert(device<gpumem::device_resource> && !host<gpumem::device_resource>);
static_assert(device<gpumem::managed_resource> && host<gpumem::managed_resource>);
static_assert(device<gpumem::pinned_resource> && host<gpumem::pinned_resource>);
static_assert(!device<gpumem::new_delete_resource> && host<gpumem::new_delete_resource>);
static_assert(device<gpumem::async_device_resource> && device<ordered_view>);
// What cuda::mr::any_resource holds can be copied, compared, and is a resource. CCCL 3.0 has no any_resource.
using shared = gpumem::shared_resource<gpumem::device_properties | property::stream_ordered | property::any_context>;
static_assert(ordered<shared> && device<shared> && std::is_nothrow_copy_constructible_v<shared> &&
              std::is_copy_assignable_v<shared> && std::is_nothrow_move_constructible_v<shared>);
#if __has_include(<cuda/__memory_resource/any_resource.h>)
static_assert(std::is_constructible_v<mr::any_resource<mr::device_accessible>, shared>);
#endif

static int failed = 0;
static void expect(bool good, const char *what) {
    if (!good)
        failed++, std::printf("FAILED %s\n", what);
}

// A library that knows cuda::mr and not gpumem.
static void takes(device_reference memory) {
#if CCCL_VERSION < 3001000
    void *block = memory.allocate(1000, 256);
    memory.deallocate(block, 1000, 256);
#else
    void *block = memory.allocate_sync(1000, 256);
    memory.deallocate_sync(block, 1000, 256);
#endif
    expect(block, "an address");
}
static void takes_async(ordered_reference memory, cuda::stream_ref stream) {
#if CCCL_VERSION < 3001000
    memory.deallocate_async(memory.allocate_async(1000, 256, stream), 1000, 256, stream);
    memory.deallocate_async(memory.allocate_async(1000, stream), 1000, stream);
#else
    memory.deallocate(stream, memory.allocate(stream, 1000, 256), 1000, 256);
#endif
    takes(memory);
}

static void references() {
    gpumem::device_resource device;
    gpumem::async_device_resource async;
    device_view view = device;
    takes(device);
    takes(view);
    takes_async(async, cudaStreamPerThread);
    ordered_view ordered = async;
    takes_async(ordered, cudaStreamPerThread);
    device_reference one = device, other = view, same = device;
    expect(one == same && !(one == other), "references are equal as their resources are");
#if REFUSED == 1 // conversion: host memory of a device resource
    host_reference wrong = device;
#elif REFUSED == 2 // conversion: stream order of a resource that has none
    ordered_reference wrong = device;
#endif
}

static void thrust_containers() {
    gpumem::managed_resource managed("statistics(managed)");
    {
        using allocator = gpumem::device_allocator<int>;
        thrust::device_vector<int, allocator> numbers(1000, 7, allocator(managed));
        thrust::sequence(numbers.rbegin(), numbers.rend());
        gpumem::polymorphic_allocator<char, property::device_accessible> temporary(managed);
        thrust::sort(thrust::SYSTEM::par(temporary), numbers.begin(), numbers.end());
        expect(numbers[0] == 0 && numbers[999] == 999, "sorted");
        expect(thrust::reduce(numbers.begin(), numbers.end()) == 999 * 500, "the sum");
        auto copy = numbers;
        copy.push_back(1);
        expect(copy.size() == 1001 && copy != numbers, "a copy that grew");
    }
    gpumem_statistics counted = {};
    counted.struct_size = sizeof counted;
    gpumem::check(gpumem_resource_get_statistics(managed.handle(), &counted));
    expect(counted.allocations >= 3 && counted.live_count == 0, "all memory came from the resource and went back");
}

// What a program does with a plain vector it can do with this one, too. The first statement of CUDA is the listing 3.2
// of the thesis.
template <typename Vector> static void vector_uses() {
    Vector v(5, 7);
    v.reserve(10);
    v.push_back(8);
    const std::vector<int> numbers{7, 7, 7, 7, 7, 8};
    thrust::host_vector<int> host(numbers.begin(), numbers.end());
    thrust::device_vector<int> plain(v), implicit = v, assigned;
    assigned = v;
    expect(plain == v && v == plain && implicit == v && v == assigned, "a plain vector of it");
    expect(v == host && host == v && v == numbers && numbers == v, "vectors of the host");
    thrust::host_vector<int> back = v, again(v);
    back = v;
    expect(back == host && again == host, "a vector of the host of it");
    thrust::device_vector<long> wide(v);
    wide = v;
    expect(wide == v && v == wide && wide.size() == 6, "another type of elements");
    Vector same(v), from_plain(plain), from_host(host), from_numbers(numbers);
    expect(same == v && from_plain == v && from_host == v && from_numbers == v, "made of others");
    v[2] = 1;
    host.push_back(9);
    expect(v != plain && plain != v && v != host && host != v && v != numbers && numbers != v && v != same, "differ");
}

template <typename Allocator> static void allocator_uses() {
    Allocator allocator, copy(allocator);
    typename std::allocator_traits<Allocator>::template rebind_alloc<double> other(allocator);
    auto memory = std::allocator_traits<Allocator>::allocate(allocator, 100);
    thrust::fill(memory, memory + 100, 3);
    expect(thrust::reduce(memory, memory + 100) == 300 && copy == allocator && !(copy != allocator), "an allocator");
    std::allocator_traits<Allocator>::deallocate(copy, memory, 100);
    other.deallocate(other.allocate(10), 10);
}

int main() {
    using virtual_vector = thrust::device_vector<int, thrust::virtual_allocator<int>>;
    vector_uses<virtual_vector>();
    vector_uses<thrust::device_vector<int>>();
    allocator_uses<thrust::device_vector<int>::allocator_type>();
    allocator_uses<virtual_vector::allocator_type>();
    expect(cudaFree(nullptr) == cudaSuccess, "a context");
    try {
        references();
        thrust_containers();
    } catch (const gpumem::error &error) {
        std::printf("FAILED %s\n", error.text());
        return 1;
    }
    if (!failed)
        std::printf("ok cccl\n");
    return failed != 0;
}

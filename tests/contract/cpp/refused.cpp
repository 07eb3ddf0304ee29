// Each case is code that must not compile, because the memory cannot do what is asked of it. Without REFUSED the file
// compiles. A case names in its comment what the compiler says.
#include <string>
#include <vector>

#include "gpumem.hpp"

using gpumem::property;
using gpumem::resource_view;

#ifndef REFUSED
#define REFUSED 0
#endif

inline void use(gpumem::device_resource &device, gpumem::async_device_resource &async, CUstream_st *stream) {
    resource_view<property::device_accessible> view = async;
    void *memory = device.allocate(64);
    (void)stream, (void)view, (void)memory;
#if REFUSED == 1 // conversion: a view to one that asks for more, though the resource could do it
    resource_view<property::device_accessible | property::stream_ordered> more = view;
#elif REFUSED == 2  // conversion: host memory of a device resource
    resource_view<property::host_accessible> host = device;
#elif REFUSED == 3  // no matching: the standard library's containers on device memory
    gpumem::pmr_adaptor pmr(device);
#elif REFUSED == 4  // no matching: the same by an allocator
    std::vector<int, gpumem::polymorphic_allocator<int>> numbers(device);
#elif REFUSED == 5  // no matching: an allocator that widens
    gpumem::polymorphic_allocator<char, property::device_accessible> narrow(device);
    gpumem::polymorphic_allocator<char, property::device_accessible | property::stream_ordered> wide(narrow);
#elif REFUSED == 6  // no matching: stream order of a resource that has none
    device.allocate_async(64, stream);
#elif REFUSED == 7  // no matching: the same, freed
    device.deallocate_async(memory, 64, 16, stream);
#elif REFUSED == 8  // no matching: growth of a resource that cannot grow
    async.grow(memory, 64, 128);
#elif REFUSED == 9  // upstream is not stream-ordered: a binding to a stream
    auto bound = gpumem::bind(device, stream);
#elif REFUSED == 10 // deleted: a number is no stream
    async.allocate_async(64, gpumem::stream_view(1));
#elif REFUSED == 11 // no matching: another pointer is no stream
    async.allocate_async(64, memory);
#elif REFUSED == 12 // nothing is constructed in device memory: objects with constructors in a device buffer
    gpumem::device_buffer<std::string> texts(device, 4);
#elif REFUSED == 13 // no matching: a device buffer in stream order without a stream-ordered resource
    gpumem::device_buffer<float> numbers(device, 4, gpumem::stream_view(stream));
#elif REFUSED == 14 // conversion: memory that is bound to a stream, where any stream is asked for
    auto bound = gpumem::bind(async, stream);
    resource_view<property::device_accessible | property::any_context> anywhere = bound;
#elif REFUSED == 15 // no matching: a stream named to memory that is bound to one
    gpumem::bind(async, stream).allocate_async(64, stream);
#elif REFUSED == 16 // no matching: the same, freed
    gpumem::bind(async, stream).deallocate_async(memory, 64, stream);
#elif REFUSED == 17 // conversion: a view that names streams, of memory that is bound to one
    auto bound = gpumem::bind(async, stream);
    resource_view<property::device_accessible | property::stream_ordered> ordered = bound;
#elif REFUSED == 18 // no matching: a device buffer in the order of another stream than that of its memory
    gpumem::device_buffer<float> numbers(gpumem::bind(async, stream), 4, gpumem::stream_view(stream));
#elif REFUSED == 19 // not stream-ordered: a binding of what is bound
    auto twice = gpumem::bind(gpumem::bind(async, stream), stream);
#elif REFUSED == 20 // abstract: an own resource without do_deallocate
    struct half : gpumem::memory_resource<gpumem::memory_kind::host> {
        void *do_allocate(std::size_t, std::size_t) override { return nullptr; }
    } own;
#endif
}

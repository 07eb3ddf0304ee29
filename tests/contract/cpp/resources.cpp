// The C++ resources at work: what their types say is what the library says, failures are exceptions, and every block
// goes back to where it came from. Runs on the simulated CUDA; on a card, too.
#include <cstdio>
#include <cstring>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../said.h"
#include "device.hpp"
#include "gpumem.hpp"

using gpumem::property;
using gpumem::resource_view;
using ordered_view = resource_view<property::device_accessible | property::stream_ordered>;

template <typename Call> gpumem_status status_of(Call call) {
    try {
        call();
        return GPUMEM_OK;
    } catch (const gpumem::error &error) {
        return error.status();
    }
}
template <typename Resource> uint64_t live(const Resource &resource) {
    gpumem_resource_info info = {};
    info.struct_size = sizeof info;
    gpumem::check(gpumem_resource_get_info(resource.handle(), &info));
    return info.live_count;
}
template <typename Resource> uint64_t mismatches(const Resource &resource) {
    gpumem_resource_info info = {};
    info.struct_size = sizeof info;
    gpumem::check(gpumem_resource_get_info(resource.handle(), &info));
    return info.mismatches;
}

static bool aligned(void *memory, std::size_t alignment) {
    return memory && reinterpret_cast<std::uintptr_t>(memory) % alignment == 0;
}

// ---- kinds and properties

static void kinds() {
    for (auto kind : {gpumem::memory_kind::host, gpumem::memory_kind::pinned, gpumem::memory_kind::device,
                      gpumem::memory_kind::managed})
        EXPECT(gpumem_kind_properties(gpumem_kind(kind)) == std::uint64_t(gpumem::properties_of(kind)));
    static_assert(gpumem::device_resource::default_alignment == alignof(std::max_align_t));
    static_assert(std::is_same_v<gpumem::device_resource::context,
                                 decltype(std::declval<gpumem::device_resource>().get_context())>);
    EXPECT(gpumem::memory_kind::unified == gpumem::memory_kind::managed);
}

// A resource of this type exists, has what its type says, and gives memory by default and by a large alignment.
template <typename Resource> void concrete(gpumem_kind kind, const char *text) {
    Resource resource;
    auto has = property(gpumem_resource_properties(resource.handle()));
    EXPECT(gpumem_resource_kind(resource.handle()) == kind);
    EXPECT(std::string(resource.text()) == text);
    EXPECT(gpumem::includes(has, Resource::properties));
    EXPECT(resource.get_context().any == 1);
    for (std::size_t alignment : {std::size_t(1), gpumem::default_alignment, std::size_t(4096)}) {
        void *memory = resource.allocate(1000, alignment);
        EXPECT(aligned(memory, alignment));
        EXPECT(live(resource) == 1);
        resource.deallocate(memory, 1000, alignment);
    }
    EXPECT(aligned(resource.allocate(0, 1), 1) == false);
    EXPECT(live(resource) == 0 && mismatches(resource) == 0);
}

static void all_concrete() {
    concrete<gpumem::new_delete_resource>(GPUMEM_KIND_HOST, "new-delete");
    concrete<gpumem::device_resource>(GPUMEM_KIND_DEVICE, "native");
    concrete<gpumem::managed_resource>(GPUMEM_KIND_MANAGED, "managed");
    concrete<gpumem::unified_resource>(GPUMEM_KIND_MANAGED, "managed");
    concrete<gpumem::pinned_resource>(GPUMEM_KIND_PINNED, "pinned");
    concrete<gpumem::async_device_resource>(GPUMEM_KIND_DEVICE, "async");
    concrete<gpumem::vmm_resource>(GPUMEM_KIND_DEVICE, "vmm");
}

static void failures() {
    EXPECT(status_of([] { gpumem::device_resource wrong("no-such-name"); }) == GPUMEM_INVALID_VALUE);
    try {
        gpumem::resource<property::host_accessible> wrong("native");
        EXPECT(!"a device resource as host-accessible");
    } catch (const gpumem::runtime_error &error) {
        EXPECT(error.status() == GPUMEM_INVALID_VALUE && std::strstr(error.what(), "host-accessible"));
        EXPECT(std::strcmp(static_cast<const gpumem::error &>(error).what(), error.what()) == 0);
    }
    gpumem::resource<gpumem::device_properties> small("limit(1MiB,native)");
    try {
        small.allocate(2 << 20);
        EXPECT(!"more than the limit");
    } catch (const std::bad_alloc &) {
    }
    EXPECT(status_of([&] { small.allocate(64, 48); }) == GPUMEM_INVALID_VALUE);
    EXPECT(status_of([&] { (void)resource_view<property::host_accessible>::of(small.handle()); }) ==
           GPUMEM_INVALID_VALUE);
    EXPECT(live(small) == 0);
}

// ---- streams

static void stream_order(CUstream_st *stream) {
    gpumem::async_device_resource async;
    void *memory = async.allocate_async(1000, stream);
    EXPECT(aligned(memory, gpumem::default_alignment));
    async.deallocate_async(memory, 1000, stream);
    memory = async.allocate_async(1000, 512, stream);
    EXPECT(aligned(memory, 512));
    async.deallocate_async(memory, 1000, 512, stream);
    async.deallocate(stream, async.allocate(stream, 1000, 512), 1000, 512); // names of CCCL 3.1
    async.deallocate_sync(async.allocate_sync(1000), 1000);
    // It is a resource, too, and memory of one call may be freed by the other.
    resource_view<property::device_accessible> plain = async;
    memory = plain.allocate(1000);
    async.deallocate_async(memory, 1000, stream);
    plain.deallocate(async.allocate_async(1000, stream), 1000);
    EXPECT(live(async) == 0 && mismatches(async) == 0);

    auto bound = gpumem::bind(async, stream);
    EXPECT(bound.get_context().any == 0 && bound.get_context().stream.stream == stream);
    static_assert(!gpumem::includes(decltype(bound)::properties, property::any_context));
    EXPECT(gpumem::includes(property(gpumem_resource_properties(bound.handle())), decltype(bound)::properties));
    bound.deallocate(bound.allocate(1000), 1000);
    { gpumem::device_buffer<int> buffer(bound, 100); }
    EXPECT(live(bound) == 0 && mismatches(bound) == 0);
}

static void equality() {
    gpumem::async_device_resource one, other;
    ordered_view view = one;
    resource_view<property::device_accessible> narrow = view;
    EXPECT(view == one && narrow == view && one == narrow && !(one != view));
    EXPECT(one != other && narrow != other);
    auto moved = std::move(one);
    EXPECT(moved == view);
}

// ---- allocators

static void standard_containers() {
    gpumem::new_delete_resource host;
    gpumem::managed_resource managed;
    {
        gpumem::pmr_adaptor of_host(host), same(host), of_managed(managed);
        EXPECT(of_host == same && of_host != of_managed && of_host != *std::pmr::new_delete_resource());
        std::pmr::vector<int> numbers(&of_managed);
        for (int i = 0; i < 1000; i++)
            numbers.push_back(i);
        std::pmr::vector<std::pmr::string> texts(10, "a text too long for the place inside of a string", &of_host);
        EXPECT(numbers[999] == 999 && texts[9].size() == texts[0].size());
        EXPECT(live(managed) == 1 && live(host) == 11);
        of_host.deallocate(of_host.allocate(0), 0);

        std::vector<double, gpumem::polymorphic_allocator<double>> values(100, 1.5, managed);
        std::vector<double, gpumem::polymorphic_allocator<double>> more(values);
        more.push_back(2.5);
        EXPECT(more.size() == 101 && more[0] == 1.5 && more.get_allocator() == values.get_allocator());
        gpumem::polymorphic_allocator<char> bytes(values.get_allocator());
        EXPECT(status_of([&] {
                   try {
                       gpumem::polymorphic_allocator<double>(bytes).allocate(SIZE_MAX / 4);
                   } catch (const std::bad_array_new_length &) {
                       throw gpumem::bad_alloc(GPUMEM_OUT_OF_MEMORY, "");
                   }
               }) == GPUMEM_OUT_OF_MEMORY);
    }
    EXPECT(live(host) == 0 && live(managed) == 0 && mismatches(host) == 0 && mismatches(managed) == 0);
}

static void buffers(CUstream_st *stream) {
    gpumem::async_device_resource async;
    gpumem::device_resource device;
    {
        gpumem::device_buffer<float> ordered(async, 100, stream), plain(device, 50), empty(device, 0);
        EXPECT(ordered.size() == 100 && ordered.size_bytes() == 400 && ordered.end() - ordered.begin() == 100);
        EXPECT(aligned(ordered.data(), 256) && aligned(plain.data(), 256) && empty.empty() && !empty.data());
        EXPECT(ordered.stream() == gpumem::stream_view(stream) && ordered.resource() == async);
        float *data = ordered.data();
        gpumem::device_buffer<float> moved(std::move(ordered));
        EXPECT(moved.data() == data && !ordered.data() && ordered.empty());
        plain = std::move(moved);
        EXPECT(plain.data() == data && plain.size() == 100 && moved.size() == 50);
    }
    EXPECT(live(async) == 0 && live(device) == 0 && mismatches(async) == 0 && mismatches(device) == 0);
}

// A device resource of the program, on host memory: it notes how each block is freed.
struct noting : gpumem::stream_ordered_memory_resource<gpumem::memory_kind::device> {
    CUstream_st *freed_on = nullptr;
    int plain = 0, ordered = 0;
    std::size_t alignment = 0;

  private:
    void *do_allocate(std::size_t bytes, std::size_t wanted) override {
        alignment = wanted;
        return ::operator new(bytes, std::align_val_t(wanted));
    }
    void do_deallocate(void *memory, std::size_t, std::size_t wanted) override {
        plain++;
        ::operator delete(memory, std::align_val_t(wanted));
    }
    void *do_allocate_async(std::size_t bytes, std::size_t wanted, gpumem::stream_view) override {
        return do_allocate(bytes, wanted);
    }
    void do_deallocate_async(void *memory, std::size_t, std::size_t wanted, gpumem::stream_view stream) override {
        ordered++;
        freed_on = stream.get();
        ::operator delete(memory, std::align_val_t(wanted));
    }
};

struct alignas(1024) wide {
    char bytes[1024];
};

static void buffers_end_in_their_stream(CUstream_st *stream) {
    noting device;
    auto other = reinterpret_cast<CUstream_st *>(2); // the per-thread default stream
    { gpumem::device_buffer<int> buffer(device, 10, stream); }
    EXPECT(device.ordered == 1 && device.freed_on == stream);
    {
        gpumem::device_buffer<int> buffer(device, 10, stream);
        buffer.set_stream(other);
    }
    EXPECT(device.ordered == 2 && device.freed_on == other);
    { gpumem::device_buffer<int> buffer(device, 10); }
    EXPECT(device.ordered == 2 && device.plain == 1);
    {
        gpumem::device_buffer<int> one(device, 10, stream), two(device, 20);
        two = std::move(one);
    }
    EXPECT(device.ordered == 3 && device.plain == 2 && live(device) == 0);
    { gpumem::device_buffer<wide> buffer(device, 2); }
    EXPECT(device.alignment == alignof(wide));
    EXPECT(mismatches(device) == 0);
}

template <typename Call> bool overflows(Call call) {
    try {
        call();
    } catch (const std::bad_array_new_length &) {
        return true;
    }
    return false;
}

static void types_and_counts() {
    gpumem::device_resource device;
    gpumem::new_delete_resource host;
    EXPECT(overflows([&] { gpumem::device_buffer<double>(device, SIZE_MAX / 8 + 2); }));
    EXPECT(overflows([&] { gpumem::polymorphic_allocator<double>(host).allocate(SIZE_MAX / 8 + 2); }));
    gpumem::polymorphic_allocator<wide> wides(host);
    wide *one = wides.allocate(3);
    EXPECT(aligned(one, alignof(wide)));
    wides.deallocate(one, 3);
    gpumem::pmr_adaptor adaptor(host);
    void *nothing = adaptor.allocate(0), *more = adaptor.allocate(0);
    EXPECT(nothing && more && nothing != more);
    adaptor.deallocate(nothing, 0);
    adaptor.deallocate(more, 0);
    EXPECT(live(host) == 0 && mismatches(host) == 0);
}

// An assignment ends what was held before: there can be 1024 resources.
static void assignments_leak_nothing() {
    gpumem::resource<gpumem::host_properties> host("new-delete");
    for (int i = 0; i < 1100; i++)
        host = gpumem::resource<gpumem::host_properties>("new-delete");
    host.deallocate(host.allocate(10), 10);
}

// ---- own resources

struct counting : gpumem::memory_resource<gpumem::memory_kind::host> {
    counting() : memory_resource("counting") {}
    int blocks = 0;
    gpumem_status failure = GPUMEM_OK;

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        gpumem::check(failure);
        if (bytes > 1 << 20)
            throw std::bad_alloc();
        if (bytes == 13)
            throw 13;
        if (bytes == 14)
            throw std::invalid_argument("fourteen is refused");
        blocks++;
        return ::operator new(bytes, std::align_val_t(alignment));
    }
    void do_deallocate(void *memory, std::size_t, std::size_t alignment) override {
        blocks--;
        ::operator delete(memory, std::align_val_t(alignment));
    }
};

struct on_stream : gpumem::stream_ordered_memory_resource<gpumem::memory_kind::host> {
    CUstream_st *seen = nullptr;

  private:
    void *do_allocate(std::size_t bytes, std::size_t) override { return std::malloc(bytes); }
    void do_deallocate(void *memory, std::size_t, std::size_t) override { std::free(memory); }
    void *do_allocate_async(std::size_t bytes, std::size_t, gpumem::stream_view stream) override {
        seen = stream.get();
        return std::malloc(bytes);
    }
    void do_deallocate_async(void *memory, std::size_t, std::size_t, gpumem::stream_view stream) override {
        seen = stream.get();
        std::free(memory);
    }
};

static void own_resources() {
    counting own;
    gpumem_resource *composed = nullptr, *given[] = {own.handle()};
    gpumem::check(gpumem_resource_compose("limit(64KiB,$1)", given, 1, &composed));
    {
        gpumem::resource<gpumem::host_properties> limited(composed);
        std::vector<int, gpumem::polymorphic_allocator<int>> numbers(limited);
        numbers.resize(100);
        EXPECT(own.blocks == 1);
        EXPECT(status_of([&] { limited.allocate(128 << 10); }) == GPUMEM_OUT_OF_MEMORY);
    }
    EXPECT(own.blocks == 0);
    EXPECT(status_of([&] { own.allocate(2 << 20); }) == GPUMEM_OUT_OF_MEMORY);
    EXPECT(status_of([&] { own.allocate(13); }) == GPUMEM_UNKNOWN);
    try {
        own.allocate(14);
        EXPECT(!"the author threw");
    } catch (const gpumem::error &error) {
        EXPECT(error.status() == GPUMEM_UNKNOWN && std::strstr(error.text(), ": fourteen is refused"));
    }
    EXPECT(status_of([&] { own.allocate(13); }) == GPUMEM_UNKNOWN && !std::strstr(gpumem_last_error(), "fourteen"));
    own.failure = GPUMEM_NOT_SUPPORTED;
    EXPECT(status_of([&] { own.allocate(64); }) == GPUMEM_NOT_SUPPORTED);

    on_stream ordered;
    auto stream = reinterpret_cast<CUstream_st *>(0x100);
    resource_view<property::host_accessible | property::stream_ordered> view = ordered;
    void *memory = view.allocate_async(64, stream);
    EXPECT(ordered.seen == stream);
    ordered.seen = nullptr;
    view.deallocate_async(memory, 64, stream);
    EXPECT(ordered.seen == stream);
    view.deallocate(view.allocate(64), 64);
}

// ---- ownership

// Standard error of a call.
template <typename Call> std::string logged(Call call) {
    char text[2000];
    struct said said = said_begin();
    call();
    said_end(said, text, sizeof text);
    return text;
}

static bool contains(const std::string &text, const char *words) { return text.find(words) != std::string::npos; }

// What a deallocation finds wrong cannot be thrown: it is logged and counted.
static void wrong_frees() {
    gpumem::new_delete_resource host, other;
    void *memory = host.allocate(100), *foreign = other.allocate(100);
    std::string text = logged([&] {
        host.deallocate(memory, 100);
        host.deallocate(memory, 100);
        host.deallocate(foreign, 100);
        host.deallocate(&text, 100);
    });
    EXPECT(mismatches(host) == 3 && contains(text, "no live block of the resource new-delete begins at"));
    other.deallocate(foreign, 100);
}

static void a_leak_is_logged() {
    void *memory = nullptr;
    std::string text = logged([&] {
        gpumem::new_delete_resource host;
        memory = host.allocate(100);
    });
    EXPECT(contains(text, "new-delete has 1 live blocks of 100 bytes"));
}

static void current_and_pool() {
    gpumem::pool_resource pool(1 << 20, 4 << 20);
    EXPECT(std::string(pool.text()) == "limit(4194304,prime(1048576,async))");
    EXPECT(gpumem::current_resource() != pool);
    gpumem::check(gpumem_resource_set_current(pool.handle()));
    EXPECT(gpumem::current_resource() == pool);
    { gpumem::device_buffer<int> buffer(gpumem::current_resource(), 100); }
    EXPECT(status_of([] { gpumem::current_resource<property::host_accessible>(); }) == GPUMEM_INVALID_VALUE);
    EXPECT(status_of([&] { pool.allocate(8 << 20); }) == GPUMEM_OUT_OF_MEMORY && live(pool) == 0);
    auto owned = gpumem::shared_current_resource();
    EXPECT(owned == pool &&
           status_of([] { gpumem::shared_current_resource<property::host_accessible>(); }) == GPUMEM_INVALID_VALUE);
    gpumem::check(gpumem_resource_set_current(nullptr));
    owned.deallocate(owned.allocate(100), 100);
    EXPECT(status_of([] { gpumem::pool_resource(4 << 20, 1 << 20); }) == GPUMEM_INVALID_VALUE);
    gpumem::pool_resource large(std::size_t(1) << 45, std::size_t(1) << 46);
    std::string text = logged([&] { large.deallocate(large.allocate(100), 100); });
    EXPECT(contains(text, "prime: 35184372088832 bytes cannot be allocated"));
}

static void shared_ownership() {
    using shared = gpumem::shared_resource<gpumem::host_properties>;
    uint64_t before = 0;
    std::string text = logged([&] {
        shared first("new-delete"), second(first), third(std::move(first));
        EXPECT(second == third && !first.handle());
        void *memory = second.allocate(100);
        third = shared("new-delete");
        EXPECT(third != second && live(second) == 1);
        second.deallocate(memory, 100);
        first = second;
        second = third;
        before = live(first);
    });
    EXPECT(before == 0 && text.empty());
}

int main() {
    return run("resources", [](CUstream_st *stream) {
        kinds();
        all_concrete();
        failures();
        stream_order(stream);
        equality();
        standard_containers();
        buffers(stream);
        buffers_end_in_their_stream(stream);
        types_and_counts();
        assignments_leak_nothing();
        own_resources();
        wrong_frees();
        a_leak_is_logged();
        shared_ownership();
        current_and_pool();
    });
}

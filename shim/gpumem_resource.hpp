// Memory resources for C++17: gpumem_resource.h with types. What a resource can do is part of its type, so a wrong
// conversion does not compile.
//
//     void train(gpumem::resource_view<gpumem::property::device_accessible> memory);
//
//     gpumem::managed_resource managed;
//     gpumem::resource<gpumem::device_properties> device("log(limit(2GiB,cache(async)))");
//     train(managed);
//     train(device);
//
// The author of a resource states its kind (memory_resource<kind>), which has properties. A function that uses a
// resource asks for properties by a resource_view. A view converts to a view of a subset of its properties only.
//
// Resources and views model the concepts of cuda::mr (CCCL): resource and async_resource of version 3.0, which are
// called synchronous_resource and resource from 3.1 on. For the properties cuda::mr::host_accessible and
// device_accessible define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE before the first header of CCCL. Neither CCCL
// nor the CUDA headers are needed otherwise.
//
// Errors: every failure throws gpumem::error. Deallocation throws nothing: the resource logs its failures, and counts
// those that are the program's mistakes. Threads: as in gpumem_resource.h.
#ifndef GPUMEM_RESOURCE_HPP
#define GPUMEM_RESOURCE_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory_resource>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#if defined(LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE) && __has_include(<cuda/memory_resource>)
#include <cuda/memory_resource>
#define GPUMEM_HAS_CUDA_MR 1
#endif

#include "gpumem_error.hpp"
#include "gpumem_resource.h"

namespace gpumem {

// ---- kinds and properties

enum class property : std::uint64_t {
    none = 0,
    host_accessible = GPUMEM_HOST_ACCESSIBLE,
    device_accessible = GPUMEM_DEVICE_ACCESSIBLE,
    cross_device_accessible = GPUMEM_CROSS_DEVICE_ACCESSIBLE,
    oversubscribable = GPUMEM_OVERSUBSCRIBABLE,
    resident = GPUMEM_RESIDENT,
    host_storage = GPUMEM_HOST_STORAGE,
    device_storage = GPUMEM_DEVICE_STORAGE,
    stream_ordered = GPUMEM_STREAM_ORDERED,
    ipc_exportable = GPUMEM_IPC_EXPORTABLE,
    growable = GPUMEM_GROWABLE,
    any_context = GPUMEM_ANY_CONTEXT,
};
constexpr property operator|(property a, property b) { return property(std::uint64_t(a) | std::uint64_t(b)); }
constexpr property operator&(property a, property b) { return property(std::uint64_t(a) & std::uint64_t(b)); }
constexpr bool includes(property all, property some) { return (all & some) == some; }

enum class memory_kind {
    host = GPUMEM_KIND_HOST,
    pinned = GPUMEM_KIND_PINNED,
    device = GPUMEM_KIND_DEVICE,
    managed = GPUMEM_KIND_MANAGED,
    unified = managed,
};
constexpr property host_properties = property::host_accessible | property::oversubscribable | property::host_storage;
constexpr property pinned_properties =
    property::host_accessible | property::device_accessible | property::resident | property::host_storage;
constexpr property device_properties = property::device_accessible | property::resident | property::device_storage;
constexpr property managed_properties = property::host_accessible | property::device_accessible |
                                        property::oversubscribable | property::host_storage | property::device_storage;
constexpr property properties_of(memory_kind kind) {
    return kind == memory_kind::host     ? host_properties
           : kind == memory_kind::pinned ? pinned_properties
           : kind == memory_kind::device ? device_properties
                                         : managed_properties;
}

// ---- streams

// A stream that somebody else owns. Made from a CUstream or cudaStream_t, and from what wraps one in a member get(), as
// cuda::stream_ref does; from no number and no other pointer.
class stream_view {
  public:
    constexpr stream_view(CUstream_st *stream) noexcept : stream_{stream} {}
    template <typename Stream, typename = std::enable_if_t<
                                   std::is_same_v<decltype(std::declval<const Stream &>().get()), CUstream_st *>>>
    constexpr stream_view(const Stream &stream) noexcept : stream_{stream.get()} {}
    stream_view(int) = delete;
    stream_view(std::nullptr_t) = delete;
    constexpr CUstream_st *get() const noexcept { return stream_; }
    constexpr operator gpumem_stream_view() const noexcept { return {stream_}; }
    friend constexpr bool operator==(stream_view a, stream_view b) noexcept { return a.stream_ == b.stream_; }
    friend constexpr bool operator!=(stream_view a, stream_view b) noexcept { return a.stream_ != b.stream_; }

  private:
    CUstream_st *stream_;
};

constexpr std::size_t default_alignment = alignof(std::max_align_t);

template <property Properties> class resource_view;

namespace detail {

// The calls that owners and views of a resource share. Derived has handle(), the C resource.
template <typename Derived, property Properties> class calls {
  public:
    static constexpr property properties = Properties;
    static constexpr std::size_t default_alignment = gpumem::default_alignment;
    using context = gpumem_resource_context; // of get_context()

    void *allocate(std::size_t bytes, std::size_t alignment = default_alignment) const {
        void *memory = nullptr;
        check(gpumem_resource_allocate(handle(), bytes, alignment, &memory));
        return memory;
    }
    void deallocate(void *memory, std::size_t bytes, std::size_t alignment = default_alignment) const noexcept {
        gpumem_resource_deallocate(handle(), memory, bytes, alignment);
    }
    template <property Has = Properties, typename = std::enable_if_t<includes(Has, property::stream_ordered)>>
    void *allocate_async(std::size_t bytes, stream_view stream) const {
        return allocate_async(bytes, default_alignment, stream);
    }
    template <property Has = Properties, typename = std::enable_if_t<includes(Has, property::stream_ordered)>>
    void *allocate_async(std::size_t bytes, std::size_t alignment, stream_view stream) const {
        void *memory = nullptr;
        check(gpumem_resource_allocate_async_aligned(handle(), bytes, alignment, stream, &memory));
        return memory;
    }
    template <property Has = Properties, typename = std::enable_if_t<includes(Has, property::stream_ordered)>>
    void deallocate_async(void *memory, std::size_t bytes, stream_view stream) const noexcept {
        deallocate_async(memory, bytes, default_alignment, stream);
    }
    template <property Has = Properties, typename = std::enable_if_t<includes(Has, property::stream_ordered)>>
    void deallocate_async(void *memory, std::size_t bytes, std::size_t alignment, stream_view stream) const noexcept {
        gpumem_resource_deallocate_async_aligned(handle(), memory, bytes, alignment, stream);
    }
    // The same calls by their names in CCCL 3.1.
    void *allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment) const {
        return allocate(bytes, alignment);
    }
    void deallocate_sync(void *memory, std::size_t bytes, std::size_t alignment = default_alignment) const noexcept {
        deallocate(memory, bytes, alignment);
    }
    template <property Has = Properties, typename = std::enable_if_t<includes(Has, property::stream_ordered)>>
    void *allocate(stream_view stream, std::size_t bytes, std::size_t alignment = default_alignment) const {
        return allocate_async(bytes, alignment, stream);
    }
    template <property Has = Properties, typename = std::enable_if_t<includes(Has, property::stream_ordered)>>
    void deallocate(stream_view stream, void *memory, std::size_t bytes,
                    std::size_t alignment = default_alignment) const noexcept {
        deallocate_async(memory, bytes, alignment, stream);
    }
    // Makes a block at least `wanted` bytes long, at its place.
    template <property Has = Properties, typename = std::enable_if_t<includes(Has, property::growable)>>
    void grow(void *memory, std::size_t bytes, std::size_t wanted) const {
        check(gpumem_resource_grow(handle(), memory, bytes, wanted));
    }
    gpumem_resource_context get_context() const noexcept { return gpumem_resource_get_context(handle()); }
    const char *text() const noexcept { return gpumem_resource_text(handle()); }

#ifdef GPUMEM_HAS_CUDA_MR
    template <property Has = Properties, typename = std::enable_if_t<includes(Has, property::host_accessible)>>
    friend constexpr void get_property(const Derived &, cuda::mr::host_accessible) noexcept {}
    template <property Has = Properties, typename = std::enable_if_t<includes(Has, property::device_accessible)>>
    friend constexpr void get_property(const Derived &, cuda::mr::device_accessible) noexcept {}
#endif

  private:
    gpumem_resource *handle() const noexcept { return static_cast<const Derived &>(*this).handle(); }
};

} // namespace detail

// ---- resources

// A resource that this object holds, of whose memory at least these properties are known. Blocks are freed before it
// ends: a resource with live blocks is logged, and stays until the process ends.
template <property Properties> class resource : public detail::calls<resource<Properties>, Properties> {
  public:
    // Builds it from text, as gpumem_resource_create(). Also throws where the memory lacks one of the properties.
    explicit resource(const char *text) {
        check(gpumem_resource_create(text, &handle_));
        gpumem_resource_view view;
        gpumem_status status = gpumem_resource_view_of(handle_, std::uint64_t(Properties), &view);
        if (status != GPUMEM_OK)
            gpumem_resource_destroy(handle_);
        check(status);
    }
    // Takes over a handle of the C interface, which is known to have the properties.
    explicit resource(gpumem_resource *taken) noexcept : handle_(taken) {}
    resource(resource &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    resource &operator=(resource &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    // Gives the handle to the caller, who destroys it.
    gpumem_resource *release() noexcept { return std::exchange(handle_, nullptr); }
    ~resource() { gpumem_resource_abandon(handle_); }
    gpumem_resource *handle() const noexcept { return handle_; }

  private:
    gpumem_resource *handle_ = nullptr;
};

// Shared ownership: each copy owns the resource, and the last one destroys it. It models cuda::mr's copyable resources,
// so that cuda::mr::any_resource can hold it.
template <property Properties> class shared_resource : public detail::calls<shared_resource<Properties>, Properties> {
  public:
    explicit shared_resource(const char *text) : shared_resource(resource<Properties>(text)) {}
    // Takes the resource over.
    shared_resource(resource<Properties> &&taken) noexcept : handle_(taken.release()) {}
    shared_resource(const shared_resource &other) noexcept : handle_(other.handle_) {
        if (handle_)
            gpumem_resource_share(handle_);
    }
    shared_resource(shared_resource &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    shared_resource &operator=(shared_resource other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~shared_resource() { gpumem_resource_abandon(handle_); }
    gpumem_resource *handle() const noexcept { return handle_; }

  private:
    gpumem_resource *handle_;
};

// The concrete ones. Text adds adaptors that keep the properties: device_resource("log(limit(2GiB,native))").
template <property Properties, typename Name> struct named_resource : resource<Properties> {
    explicit named_resource(const char *text = Name::text) : resource<Properties>(text) {}
};
namespace detail {
struct new_delete {
    static constexpr const char *text = "new-delete";
};
struct native {
    static constexpr const char *text = "native";
};
struct async {
    static constexpr const char *text = "async";
};
struct vmm {
    static constexpr const char *text = "vmm";
};
struct managed {
    static constexpr const char *text = "managed";
};
struct pinned {
    static constexpr const char *text = "pinned";
};
} // namespace detail
using new_delete_resource = named_resource<host_properties | property::any_context, detail::new_delete>;
using device_resource = named_resource<device_properties | property::any_context, detail::native>;
using managed_resource = named_resource<managed_properties | property::any_context, detail::managed>;
using unified_resource = managed_resource;
using pinned_resource = named_resource<pinned_properties | property::any_context, detail::pinned>;
using async_device_resource =
    named_resource<device_properties | property::stream_ordered | property::any_context, detail::async>;
// A private pool of the driver that begins with `initial` bytes and holds at most `maximal`.
struct pool_resource : resource<device_properties | property::stream_ordered | property::any_context> {
    pool_resource(std::size_t initial, std::size_t maximal) : resource(text_of(initial, maximal).c_str()) {}

  private:
    static std::string text_of(std::size_t initial, std::size_t maximal) {
        std::string first = std::to_string(initial), most = std::to_string(maximal);
        if (initial > maximal)
            throw runtime_error(GPUMEM_INVALID_VALUE,
                                ("a pool of at most " + most + " bytes cannot begin with " + first).c_str());
        return "limit(" + most + ",prime(" + first + ",async))";
    }
};
using vmm_resource = named_resource<device_properties | property::growable | property::any_context, detail::vmm>;

namespace detail {

struct author {
    virtual void *do_allocate(std::size_t bytes, std::size_t alignment) = 0;
    virtual void do_deallocate(void *memory, std::size_t bytes, std::size_t alignment) = 0;

  protected:
    virtual ~author() = default;
};
struct stream_ordered_author : author {
    virtual void *do_allocate_async(std::size_t bytes, std::size_t alignment, stream_view stream) = 0;
    virtual void do_deallocate_async(void *memory, std::size_t bytes, std::size_t alignment, stream_view stream) = 0;
};

// Calls into C++ from C: no exception may leave it.
template <typename Call> gpumem_status guarded(Call call) noexcept {
    try {
        call();
        return GPUMEM_OK;
    } catch (const error &failure) {
        return gpumem_resource_fail(failure.status(), failure.text());
    } catch (const std::bad_alloc &) {
        return GPUMEM_OUT_OF_MEMORY;
    } catch (const std::exception &failure) {
        return gpumem_resource_fail(GPUMEM_UNKNOWN, failure.what());
    } catch (...) {
        return GPUMEM_UNKNOWN;
    }
}

inline void connect(gpumem_resource_author &c, author *self) {
    c.self = self;
    c.allocate = [](void *own, std::size_t bytes, std::size_t alignment, void **memory) {
        return guarded([&] { *memory = static_cast<author *>(own)->do_allocate(bytes, alignment); });
    };
    c.deallocate = [](void *own, void *memory, std::size_t bytes, std::size_t alignment) {
        return guarded([&] { static_cast<author *>(own)->do_deallocate(memory, bytes, alignment); });
    };
}
inline void connect(gpumem_resource_author &c, stream_ordered_author *self) {
    connect(c, static_cast<author *>(self));
    c.allocate_async = [](void *own, std::size_t bytes, std::size_t alignment, gpumem_stream_view stream,
                          void **memory) {
        auto ours = static_cast<stream_ordered_author *>(static_cast<author *>(own));
        return guarded([&] { *memory = ours->do_allocate_async(bytes, alignment, stream.stream); });
    };
    c.deallocate_async = [](void *own, void *memory, std::size_t bytes, std::size_t alignment,
                            gpumem_stream_view stream) {
        auto ours = static_cast<stream_ordered_author *>(static_cast<author *>(own));
        return guarded([&] { ours->do_deallocate_async(memory, bytes, alignment, stream.stream); });
    };
}

template <property Further>
using author_for = std::conditional_t<includes(Further, property::stream_ordered), stream_ordered_author, author>;

} // namespace detail

// Base of a resource that the program writes: it states the kind of its memory, and what the memory can do beyond that.
// It defines do_allocate and do_deallocate, and with property::stream_ordered also do_allocate_async and
// do_deallocate_async. Any thread may call them. What they throw reaches the caller as a gpumem::error, with its text,
// and with its status where it is one. The object outlives its blocks and the resources composed of it.
template <memory_kind Kind, property Further = property::any_context>
class memory_resource : public detail::calls<memory_resource<Kind, Further>, properties_of(Kind) | Further>,
                        private detail::author_for<Further> {
  public:
    static constexpr memory_kind kind = Kind;
    memory_resource(const memory_resource &) = delete;
    memory_resource &operator=(const memory_resource &) = delete;
    gpumem_resource *handle() const noexcept { return handle_; }

  protected:
    explicit memory_resource(const char *name = "own", stream_view bound_to = static_cast<CUstream_st *>(nullptr)) {
        gpumem_resource_author about = {};
        about.struct_size = sizeof about;
        about.name = name;
        about.kind = gpumem_kind(Kind);
        about.properties = std::uint64_t(Further);
        about.stream = bound_to;
        detail::connect(about, static_cast<detail::author_for<Further> *>(this));
        check(gpumem_resource_create_own(&about, &handle_));
    }
    ~memory_resource() override { gpumem_resource_abandon(handle_); }

  private:
    gpumem_resource *handle_ = nullptr;
};
template <memory_kind Kind>
using stream_ordered_memory_resource = memory_resource<Kind, property::stream_ordered | property::any_context>;

// ---- views

namespace detail {
template <property Requested, property Has> using if_includes = std::enable_if_t<includes(Has, Requested)>;
// The properties of a resource or view; what is neither has no such function.
template <typename Derived, property Has>
std::integral_constant<property, Has> known_properties(const calls<Derived, Has> &);
template <typename Resource> using known = decltype(known_properties(std::declval<const Resource &>()));
} // namespace detail

// A resource that somebody else owns, known by the properties that its user requested. Made from a resource or a view
// whose known properties include them; otherwise it does not compile. From a resource of which more is true than its
// type says: resource_view<...>::of(handle), which throws where a property is missing.
template <property Properties> class resource_view : public detail::calls<resource_view<Properties>, Properties> {
  public:
    template <typename Resource, typename = detail::if_includes<Properties, detail::known<Resource>::value>>
    resource_view(const Resource &other) noexcept : handle_(other.handle()) {}
    template <typename Resource, typename = detail::if_includes<Properties, detail::known<Resource>::value>>
    resource_view(const Resource *other) noexcept : handle_(other->handle()) {}
    static resource_view of(gpumem_resource *handle) {
        gpumem_resource_view view;
        check(gpumem_resource_view_of(handle, std::uint64_t(Properties), &view));
        return resource_view(view.resource);
    }
    gpumem_resource *handle() const noexcept { return handle_; }

  private:
    explicit resource_view(gpumem_resource *handle) noexcept : handle_(handle) {}
    gpumem_resource *handle_;
};

// Equal: memory of one may be freed by the other.
template <typename A, typename B, property = detail::known<A>::value, property = detail::known<B>::value>
bool operator==(const A &a, const B &b) noexcept {
    return a.handle() == b.handle();
}
template <typename A, typename B, property = detail::known<A>::value, property = detail::known<B>::value>
bool operator!=(const A &a, const B &b) noexcept {
    return a.handle() != b.handle();
}

// A resource that allocates on `upstream` and on this stream only, and whose memory is used on that stream: by the
// calls that name no stream. So it has no others, and it cannot grow a block.
template <typename Upstream> auto bind(const Upstream &upstream, stream_view stream) {
    constexpr property has = detail::known<Upstream>::value;
    static_assert(includes(has, property::stream_ordered), "upstream is not stream-ordered");
    constexpr property lost = property::any_context | property::stream_ordered | property::growable;
    gpumem_resource *bound = nullptr;
    check(gpumem_resource_bind(upstream.handle(), stream, &bound));
    return resource<property(std::uint64_t(has) & ~std::uint64_t(lost))>(bound);
}

// ---- allocators

// A resource as a std::pmr::memory_resource, for containers of the standard library. The host uses their memory, so
// memory that the host cannot access does not compile.
class pmr_adaptor final : public std::pmr::memory_resource {
  public:
    explicit pmr_adaptor(resource_view<property::host_accessible> upstream) noexcept : upstream_(upstream) {}
    resource_view<property::host_accessible> upstream() const noexcept { return upstream_; }

  private:
    // A null pointer stands for no bytes in gpumem; the standard wants an address.
    static std::size_t at_least_one(std::size_t bytes) noexcept { return bytes ? bytes : 1; }
    void *do_allocate(std::size_t bytes, std::size_t alignment) override {
        return upstream_.allocate(at_least_one(bytes), alignment);
    }
    void do_deallocate(void *memory, std::size_t bytes, std::size_t alignment) override {
        upstream_.deallocate(memory, at_least_one(bytes), alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
#ifdef __cpp_rtti
        auto same = dynamic_cast<const pmr_adaptor *>(&other);
        return same && same->upstream_ == upstream_;
#else
        return this == &other; // memory of equal adaptors is then copied where it could be moved
#endif
    }

    resource_view<property::host_accessible> upstream_;
};

// The current resource of the current context's device, as one more owner of it. Throws where it lacks a property.
template <property Properties = property::device_accessible> shared_resource<Properties> shared_current_resource() {
    gpumem_resource *found = nullptr;
    check(gpumem_resource_share_current(&found));
    resource<Properties> owned(found); // ends it where the view throws
    (void)resource_view<Properties>::of(found);
    return owned;
}

// The current resource of the current context's device, as a view: "native" until another one is set, which ends the
// view. Throws where the resource set lacks a property.
template <property Properties = property::device_accessible> resource_view<Properties> current_resource() {
    gpumem_resource *found = nullptr;
    check(gpumem_resource_current(&found));
    return resource_view<Properties>::of(found);
}

// An allocator on a view, with plain pointers: polymorphic_allocator<T> for containers of the host;
// polymorphic_allocator<char, property::device_accessible> for the temporary memory of thrust::cuda::par(allocator).
template <typename T, property Properties = property::host_accessible> class polymorphic_allocator {
  public:
    using value_type = T;
    template <typename Other> struct rebind { using other = polymorphic_allocator<Other, Properties>; };
    polymorphic_allocator(resource_view<Properties> resource) noexcept : resource_(resource) {}
    template <typename Resource, typename = detail::if_includes<Properties, detail::known<Resource>::value>>
    polymorphic_allocator(const Resource &resource) noexcept : resource_(resource) {}
    template <typename Other, property Has, typename = detail::if_includes<Properties, Has>>
    polymorphic_allocator(const polymorphic_allocator<Other, Has> &other) noexcept : resource_(other.resource()) {}

    T *allocate(std::size_t count) {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
            throw std::bad_array_new_length();
        return static_cast<T *>(resource_.allocate(count * sizeof(T), alignment));
    }
    void deallocate(T *memory, std::size_t count) noexcept {
        resource_.deallocate(memory, count * sizeof(T), alignment);
    }
    resource_view<Properties> resource() const noexcept { return resource_; }

  private:
    static constexpr std::size_t alignment = alignof(T) > default_alignment ? alignof(T) : default_alignment;
    resource_view<Properties> resource_;
};
template <typename A, typename B, property P>
bool operator==(const polymorphic_allocator<A, P> &a, const polymorphic_allocator<B, P> &b) noexcept {
    return a.resource() == b.resource();
}
template <typename A, typename B, property P>
bool operator!=(const polymorphic_allocator<A, P> &a, const polymorphic_allocator<B, P> &b) noexcept {
    return !(a == b);
}

// `count` uninitialised elements of device memory, freed with the object: in the order of its stream where it was made
// with one, after all earlier work otherwise.
template <typename T> class device_buffer {
    static_assert(std::is_trivially_copyable_v<T>, "nothing is constructed in device memory");

  public:
    device_buffer(resource_view<property::device_accessible> resource, std::size_t count)
        : resource_(resource), count_(count),
          data_(allocated([&](std::size_t bytes) { return resource.allocate(bytes, alignment); })) {}
    device_buffer(resource_view<property::device_accessible | property::stream_ordered> resource, std::size_t count,
                  stream_view stream)
        : resource_(resource), stream_(stream), ordered_(true), count_(count),
          data_(allocated([&](std::size_t bytes) { return resource.allocate_async(bytes, alignment, stream); })) {}
    device_buffer(device_buffer &&other) noexcept
        : resource_(other.resource_), stream_(other.stream_), ordered_(other.ordered_),
          count_(std::exchange(other.count_, 0)), data_(std::exchange(other.data_, nullptr)) {}
    device_buffer &operator=(device_buffer &&other) noexcept {
        std::swap(resource_, other.resource_);
        std::swap(stream_, other.stream_);
        std::swap(ordered_, other.ordered_);
        std::swap(count_, other.count_);
        std::swap(data_, other.data_);
        return *this;
    }
    ~device_buffer() {
        if (ordered_)
            gpumem_resource_deallocate_async_aligned(resource_.handle(), data_, size_bytes(), alignment, stream_);
        else
            resource_.deallocate(data_, size_bytes(), alignment);
    }

    T *data() const noexcept { return data_; }
    T *begin() const noexcept { return data_; }
    T *end() const noexcept { return data_ + count_; }
    std::size_t size() const noexcept { return count_; }
    std::size_t size_bytes() const noexcept { return count_ * sizeof(T); }
    bool empty() const noexcept { return count_ == 0; }
    resource_view<property::device_accessible> resource() const noexcept { return resource_; }
    // The stream that the free is ordered in; later, when the last work on the buffer is on another one.
    stream_view stream() const noexcept { return stream_; }
    void set_stream(stream_view stream) noexcept { stream_ = stream; }

  private:
    static constexpr std::size_t alignment = alignof(T) > 256 ? alignof(T) : 256; // of cudaMalloc
    template <typename Allocate> T *allocated(Allocate allocate) const {
        if (count_ > std::numeric_limits<std::size_t>::max() / sizeof(T))
            throw std::bad_array_new_length();
        return static_cast<T *>(allocate(size_bytes()));
    }

    resource_view<property::device_accessible> resource_;
    stream_view stream_ = static_cast<CUstream_st *>(nullptr);
    bool ordered_ = false;
    std::size_t count_;
    T *data_;
};

} // namespace gpumem

#endif

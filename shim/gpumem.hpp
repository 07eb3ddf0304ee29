// gpumem for C++17. The parts stand in headers of their own:
//
//     gpumem_error.hpp      exceptions
//     gpumem_resource.hpp   memory resources, allocators, a device buffer
//     this header           for Thrust: a vector that grows in place, an allocator on a resource
//
// Without Thrust's headers the last part is left out, as in files for the host's compiler alone (nvcc a.cpp): it cannot
// read Thrust for CUDA. Define THRUST_DEVICE_SYSTEM to have the part there for another system of Thrust.
//
// thrust::device_vector<T, thrust::virtual_allocator<T>>: Thrust's vector in memory that grows in place (dynamic SpGEMM
// thesis, 3.1.2 to 3.1.4, listing 3.2). Compile with Thrust's headers, link with -lgpumem-core.
//
// Thrust's own vector asks its allocator for new storage whenever it grows, so an allocator alone cannot grow anything.
// The thesis changed Thrust. Here the class template is specialised for the allocator, and Thrust stays as it is.
//
// T has to be trivially copyable. The vector's operations on elements are ordered in its stream, the legacy default
// stream unless the allocator names another. Operations with names of std::vector mean the same as there. append() and
// region() mean the same as gpumem_vector_append() and gpumem_vector_region() of gpumem.h, whose rules for threads and
// errors hold here too.
//
// A vector reserves addresses with its first operation that needs them, in the context that is current then. So an
// empty vector costs nothing, and moving reserves nothing and throws nothing. A vector that was moved from is empty and
// can be used again. Moving to a vector and ending it destroy its elements, which waits for the device. While a stream
// is captured that is refused, and the memory stays until the process ends.
#ifndef GPUMEM_HPP
#define GPUMEM_HPP

#include "gpumem.h"
#include "gpumem_error.hpp"
#include "gpumem_resource.hpp"

#if defined(__CUDACC__) || defined(_NVHPC_CUDA) || defined(THRUST_DEVICE_SYSTEM)
#if __has_include(<thrust/device_vector.h>)
#define GPUMEM_HAS_THRUST 1
#endif
#endif

#ifdef GPUMEM_HAS_THRUST

#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <thrust/copy.h>
#include <thrust/device_ptr.h>
#include <thrust/device_reference.h>
#include <thrust/device_vector.h>
#include <thrust/distance.h>
#include <thrust/equal.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/reverse_iterator.h>

namespace gpumem {

// An allocator of device memory on a resource, for thrust::device_vector<T, gpumem::device_allocator<T>>. That vector
// copies its elements when it grows, as with any allocator.
template <typename T> class device_allocator {
  public:
    using value_type = T;
    using pointer = thrust::device_ptr<T>;
    using const_pointer = thrust::device_ptr<const T>;
    using reference = thrust::device_reference<T>;
    using const_reference = thrust::device_reference<const T>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    template <typename Other> struct rebind { using other = device_allocator<Other>; };

    device_allocator(resource_view<property::device_accessible> resource) noexcept : memory_(resource) {}
    template <typename Resource,
              typename = detail::if_includes<property::device_accessible, detail::known<Resource>::value>>
    device_allocator(const Resource &resource) noexcept : memory_(resource) {}
    template <typename Other>
    device_allocator(const device_allocator<Other> &other) noexcept : memory_(other.resource()) {}
    pointer allocate(size_type count) { return pointer(memory_.allocate(count)); }
    void deallocate(pointer memory, size_type count) noexcept { memory_.deallocate(memory.get(), count); }
    resource_view<property::device_accessible> resource() const noexcept { return memory_.resource(); }

  private:
    polymorphic_allocator<T, property::device_accessible> memory_;
};
template <typename A, typename B> bool operator==(const device_allocator<A> &a, const device_allocator<B> &b) noexcept {
    return a.resource() == b.resource();
}
template <typename A, typename B> bool operator!=(const device_allocator<A> &a, const device_allocator<B> &b) noexcept {
    return !(a == b);
}

namespace detail {
// Never destroyed: vectors with static storage may end after it.
inline const vmm_resource &virtual_memory() {
    static const vmm_resource *const memory = new vmm_resource;
    return *memory;
}
} // namespace detail

// Says where the memory of a device_vector lies and which stream its operations are ordered in. Other containers take
// it as an allocator of blocks of the resource "vmm", which says nothing of options and stream.
template <typename T> class virtual_allocator {
  public:
    using value_type = T;
    using pointer = thrust::device_ptr<T>;
    using const_pointer = thrust::device_ptr<const T>;
    using reference = thrust::device_reference<T>;
    using const_reference = thrust::device_reference<const T>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    template <typename Other> struct rebind { using other = virtual_allocator<Other>; };

    virtual_allocator() noexcept : virtual_allocator(nullptr) {}
    // `options` has its struct_size set.
    explicit virtual_allocator(CUstream_st *stream,
                               const gpumem_region_options &options = {sizeof(gpumem_region_options), 0, 0, 0}) noexcept
        : options_(options), stream_(stream) {}
    template <typename Other>
    virtual_allocator(const virtual_allocator<Other> &other) noexcept
        : options_(other.options()), stream_(other.stream()) {}
    pointer allocate(size_type count) { return device_allocator<T>(detail::virtual_memory()).allocate(count); }
    void deallocate(pointer memory, size_type count) noexcept {
        device_allocator<T>(detail::virtual_memory()).deallocate(memory, count);
    }
    const gpumem_region_options &options() const noexcept { return options_; }
    CUstream_st *stream() const noexcept { return stream_; }

  private:
    gpumem_region_options options_;
    CUstream_st *stream_;
};

// Equal: blocks of one are freed by the other.
template <typename A, typename B> bool operator==(const virtual_allocator<A> &, const virtual_allocator<B> &) noexcept {
    return true;
}
template <typename A, typename B> bool operator!=(const virtual_allocator<A> &, const virtual_allocator<B> &) noexcept {
    return false;
}

} // namespace gpumem

THRUST_NAMESPACE_BEGIN

template <typename T> using virtual_allocator = ::gpumem::virtual_allocator<T>;

namespace detail {
// Vectors of Thrust and of the standard library, but not this one.
template <typename Vector> struct is_other_vector : std::false_type {};
template <typename T, typename Allocator> struct is_other_vector<device_vector<T, Allocator>> : std::true_type {};
template <typename T> struct is_other_vector<device_vector<T, ::gpumem::virtual_allocator<T>>> : std::false_type {};
template <typename T, typename Allocator> struct is_other_vector<host_vector<T, Allocator>> : std::true_type {};
template <typename T, typename Allocator> struct is_other_vector<std::vector<T, Allocator>> : std::true_type {};
template <typename Vector> using if_other_vector = typename std::enable_if<is_other_vector<Vector>::value>::type;

} // namespace detail

template <typename T> class device_vector<T, ::gpumem::virtual_allocator<T>> {
    static_assert(std::is_trivially_copyable<T>::value, "elements are moved by copies of their bytes");

  public:
    using value_type = T;
    using allocator_type = ::gpumem::virtual_allocator<T>;
    using pointer = device_ptr<T>;
    using const_pointer = device_ptr<const T>;
    using reference = device_reference<T>;
    using const_reference = device_reference<const T>;
    using iterator = pointer;
    using const_iterator = const_pointer;
    using reverse_iterator = ::thrust::reverse_iterator<iterator>;
    using const_reverse_iterator = ::thrust::reverse_iterator<const_iterator>;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;

    device_vector() noexcept : device_vector(allocator_type()) {}
    explicit device_vector(const allocator_type &allocator) noexcept : allocator_(allocator) {}
    explicit device_vector(size_type count, const allocator_type &allocator = allocator_type())
        : device_vector(allocator) {
        resize(count);
    }
    device_vector(size_type count, const T &value, const allocator_type &allocator = allocator_type())
        : device_vector(allocator) {
        assign(count, value);
    }
    template <typename Iterator, typename = typename std::enable_if<!std::is_integral<Iterator>::value>::type>
    device_vector(Iterator first, Iterator last, const allocator_type &allocator = allocator_type())
        : device_vector(allocator) {
        assign(first, last);
    }
    device_vector(std::initializer_list<T> list, const allocator_type &allocator = allocator_type())
        : device_vector(allocator) {
        assign(list);
    }
    device_vector(const device_vector &other) : device_vector(other.allocator_) { *this = other; }
    device_vector(device_vector &&other) noexcept : allocator_(other.allocator_), vector_(other.vector_) {
        other.vector_ = nullptr;
    }
    template <typename Other, typename Allocator>
    explicit device_vector(const device_vector<Other, Allocator> &other) : device_vector(other.begin(), other.end()) {}
    template <typename Other, typename Allocator>
    device_vector(const host_vector<Other, Allocator> &other) : device_vector(other.begin(), other.end()) {}
    template <typename Other, typename Allocator>
    device_vector(const std::vector<Other, Allocator> &other) : device_vector(other.begin(), other.end()) {}
    ~device_vector() { gpumem_vector_destroy(vector_); }

    device_vector &operator=(const device_vector &other) {
        if (other.vector_)
            ::gpumem::check(gpumem_vector_copy(made(), other.vector_));
        else
            clear();
        return *this;
    }
    device_vector &operator=(device_vector &&other) noexcept {
        device_vector taken(std::move(other));
        swap(taken);
        return *this;
    }
    device_vector &operator=(std::initializer_list<T> list) {
        assign(list);
        return *this;
    }
    template <typename Other, typename Allocator>
    device_vector &operator=(const device_vector<Other, Allocator> &other) {
        assign(other.begin(), other.end());
        return *this;
    }
    template <typename Other, typename Allocator> device_vector &operator=(const host_vector<Other, Allocator> &other) {
        assign(other.begin(), other.end());
        return *this;
    }
    template <typename Other, typename Allocator> device_vector &operator=(const std::vector<Other, Allocator> &other) {
        assign(other.begin(), other.end());
        return *this;
    }
    // What other vectors of Thrust are initialised, constructed and assigned from.
    template <typename Other, typename Allocator,
              typename = detail::if_other_vector<::thrust::device_vector<Other, Allocator>>>
    operator ::thrust::device_vector<Other, Allocator>() const {
        return ::thrust::device_vector<Other, Allocator>(begin(), end());
    }
    template <typename Other, typename Allocator> operator host_vector<Other, Allocator>() const {
        return host_vector<Other, Allocator>(begin(), end());
    }
    template <typename Other, typename Allocator> operator detail::vector_base<Other, Allocator>() const {
        return detail::vector_base<Other, Allocator>(begin(), end());
    }

    // ---- size
    size_type size() const noexcept { return vector_ ? gpumem_vector_count(vector_) : 0; }
    size_type max_size() const noexcept { return static_cast<size_type>(PTRDIFF_MAX) / sizeof(T); }
    size_type capacity() const noexcept { return vector_ ? gpumem_vector_capacity(vector_) : 0; }
    bool empty() const noexcept { return size() == 0; }
    void reserve(size_type count) {
        if (count > capacity())
            ::gpumem::check(gpumem_vector_reserve(made(), count));
    }
    void resize(size_type count) {
        if (std::is_trivially_default_constructible<T>::value)
            ::gpumem::check(gpumem_vector_resize(made(), count, nullptr));
        else
            resize(count, T());
    }
    void resize(size_type count, const T &value) {
        ::gpumem::check(gpumem_vector_resize(made(), count, std::addressof(value)));
    }
    void shrink_to_fit() {
        if (vector_)
            ::gpumem::check(gpumem_vector_shrink(vector_));
    }
    void clear() {
        if (vector_)
            ::gpumem::check(gpumem_vector_resize(vector_, 0, nullptr));
    }
    // `count` more elements, uninitialised.
    void append(size_type count) { ::gpumem::check(gpumem_vector_append(made(), count)); }

    // ---- elements
    pointer data() { return pointer(raw()); }
    const_pointer data() const { return const_pointer(raw()); }
    iterator begin() { return data(); }
    const_iterator begin() const { return data(); }
    const_iterator cbegin() const { return data(); }
    iterator end() { return data() + size(); }
    const_iterator end() const { return data() + size(); }
    const_iterator cend() const { return end(); }
    reverse_iterator rbegin() { return reverse_iterator(end()); }
    const_reverse_iterator rbegin() const { return const_reverse_iterator(end()); }
    const_reverse_iterator crbegin() const { return rbegin(); }
    reverse_iterator rend() { return reverse_iterator(begin()); }
    const_reverse_iterator rend() const { return const_reverse_iterator(begin()); }
    const_reverse_iterator crend() const { return rend(); }
    reference operator[](size_type at) { return *(begin() + at); }
    const_reference operator[](size_type at) const { return *(begin() + at); }
    reference front() { return *begin(); }
    const_reference front() const { return *begin(); }
    reference back() { return (*this)[size() - 1]; }
    const_reference back() const { return (*this)[size() - 1]; }

    // ---- changes
    void push_back(const T &value) { ::gpumem::check(gpumem_vector_push_back(made(), std::addressof(value))); }
    void pop_back() { ::gpumem::check(gpumem_vector_resize(made(), size() - 1, nullptr)); }
    iterator erase(iterator position) { return erase(position, position + 1); }
    iterator erase(iterator first, iterator last) {
        size_type at = index(first);
        ::gpumem::check(gpumem_vector_erase(made(), at, last - first));
        return begin() + at;
    }
    iterator insert(iterator position, const T &value) {
        size_type at = index(position);
        insert(position, size_type(1), value);
        return begin() + at;
    }
    void insert(iterator position, size_type count, const T &value) {
        size_type at = index(position); // before the elements may get an address
        ::gpumem::check(gpumem_vector_insert(made(), at, count, std::addressof(value)));
    }
    template <typename Iterator, typename = typename std::enable_if<!std::is_integral<Iterator>::value>::type>
    void insert(iterator position, Iterator first, Iterator last) {
        size_type at = index(position), before = size();
        if (at == before) {
            append(::thrust::distance(first, last));
            ::thrust::copy(first, last, begin() + before);
        } else {
            device_vector between(first, last, allocator_);
            ::gpumem::check(gpumem_vector_insert_from(made(), at, between.raw(), between.size()));
        }
    }
    void assign(size_type count, const T &value) {
        ::gpumem::check(gpumem_vector_assign(made(), count, std::addressof(value)));
    }
    template <typename Iterator, typename = typename std::enable_if<!std::is_integral<Iterator>::value>::type>
    void assign(Iterator first, Iterator last) {
        clear();
        insert(end(), first, last);
    }
    void assign(std::initializer_list<T> list) {
        ::gpumem::check(gpumem_vector_assign_from(made(), list.begin(), list.size()));
    }
    void swap(device_vector &other) noexcept {
        std::swap(vector_, other.vector_);
        std::swap(allocator_, other.allocator_);
    }

    allocator_type get_allocator() const { return allocator_; }
    gpumem_region *region() { return gpumem_vector_region(made()); } // the vector's own; not to be resized

  private:
    gpumem_vector *made() {
        if (!vector_)
            ::gpumem::check(gpumem_vector_create(&allocator_.options(), sizeof(T), allocator_.stream(), &vector_));
        return vector_;
    }
    T *raw() const { return vector_ ? static_cast<T *>(gpumem_vector_data(vector_)) : nullptr; }
    size_type index(iterator position) const { return static_cast<size_type>(position.get() - raw()); }

    allocator_type allocator_;
    gpumem_vector *vector_ = nullptr; // NULL: empty
};

template <typename T>
void swap(device_vector<T, ::gpumem::virtual_allocator<T>> &one,
          device_vector<T, ::gpumem::virtual_allocator<T>> &other) noexcept {
    one.swap(other);
}

namespace detail {
// A vector whose elements are on the device. Others are copied to one.
template <typename T, typename Allocator>
const device_vector<T, Allocator> &on_device(const device_vector<T, Allocator> &vector) {
    return vector;
}
template <typename Vector, typename = if_other_vector<Vector>>
device_vector<typename Vector::value_type> on_device(const Vector &vector) {
    return device_vector<typename Vector::value_type>(vector.begin(), vector.end());
}
template <typename One, typename Other> bool equal_vectors(const One &one, const Other &other) {
    return one.size() == other.size() && ::thrust::equal(one.begin(), one.end(), on_device(other).begin());
}
} // namespace detail

template <typename A, typename B>
bool operator==(const device_vector<A, ::gpumem::virtual_allocator<A>> &one,
                const device_vector<B, ::gpumem::virtual_allocator<B>> &other) {
    return detail::equal_vectors(one, other);
}
template <typename T, typename Other, typename = detail::if_other_vector<Other>>
bool operator==(const device_vector<T, ::gpumem::virtual_allocator<T>> &one, const Other &other) {
    return detail::equal_vectors(one, other);
}
template <typename Other, typename T, typename = detail::if_other_vector<Other>>
bool operator==(const Other &other, const device_vector<T, ::gpumem::virtual_allocator<T>> &one) {
    return detail::equal_vectors(one, other);
}
template <typename A, typename B>
bool operator!=(const device_vector<A, ::gpumem::virtual_allocator<A>> &one,
                const device_vector<B, ::gpumem::virtual_allocator<B>> &other) {
    return !(one == other);
}
template <typename T, typename Other, typename = detail::if_other_vector<Other>>
bool operator!=(const device_vector<T, ::gpumem::virtual_allocator<T>> &one, const Other &other) {
    return !(one == other);
}
template <typename Other, typename T, typename = detail::if_other_vector<Other>>
bool operator!=(const Other &other, const device_vector<T, ::gpumem::virtual_allocator<T>> &one) {
    return !(one == other);
}

THRUST_NAMESPACE_END

#endif // GPUMEM_HAS_THRUST

#endif

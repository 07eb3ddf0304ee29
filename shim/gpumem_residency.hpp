// gpumem_residency.h for C++17: a residency that ends with its object, and uses that end with their scope.
//
//     gpumem::residency residency(gpumem::residency::with_budget(8ull << 30));
//     auto weights = residency.add(host, bytes), result = residency.add_result(bytes);
//     residency.announce({next, weights});
//     {
//         auto uses = residency.use(stream, gpumem::read(weights), gpumem::write(result));
//         multiply<<<grid, block, 0, stream>>>(uses.at<float>(0), uses.at<float>(1));
//     } // released behind the work submitted so far
//
// Errors: every failure throws gpumem::error, but in destructors. Threads: as in gpumem_residency.h.
#ifndef GPUMEM_RESIDENCY_HPP
#define GPUMEM_RESIDENCY_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>

#include "gpumem_error.hpp"
#include "gpumem_residency.h"

namespace gpumem {

// How an operation uses an object.
inline gpumem_use read(std::uint64_t object) { return {object, GPUMEM_READ, nullptr, 0}; }
inline gpumem_use write(std::uint64_t object) { return {object, GPUMEM_WRITE, nullptr, 0}; }
inline gpumem_use read_write(std::uint64_t object) { return {object, GPUMEM_READ_WRITE, nullptr, 0}; }

// Objects in use. They are released in the order of the stream when this ends, also while the stream is being captured
// (gpumem_residency_abandon_uses).
template <std::size_t Count> class resident_uses {
  public:
    resident_uses(gpumem_residency *residency, CUstream_st *stream, const std::array<gpumem_use, Count> &uses)
        : uses_(uses), stream_(stream) {
        check(gpumem_residency_acquire(residency, uses_.data(), Count, stream));
        residency_ = residency;
    }
    resident_uses(resident_uses &&other) noexcept
        : uses_(other.uses_), stream_(other.stream_), residency_(std::exchange(other.residency_, nullptr)) {}
    resident_uses &operator=(resident_uses &&) = delete;
    ~resident_uses() { gpumem_residency_abandon_uses(residency_, uses_.data(), Count, stream_); }
    // Ends the uses now: enum gpumem_release_flags. After an error of which gpumem_residency.h says that no use has
    // ended, it can be called again.
    void release(std::uint64_t flags = 0) {
        check(gpumem_residency_release(residency_, uses_.data(), Count, stream_, flags));
        residency_ = nullptr;
    }
    // The device address of use number `index`.
    template <typename T = void> T *at(std::size_t index) const { return static_cast<T *>(uses_.at(index).address); }

  private:
    std::array<gpumem_use, Count> uses_;
    CUstream_st *stream_;
    gpumem_residency *residency_ = nullptr;
};

// A residency of the context that is current when it is made (gpumem.h).
class residency {
  public:
    static gpumem_residency_options with_budget(std::size_t bytes) {
        gpumem_residency_options options = {};
        options.struct_size = sizeof options;
        options.budget = bytes;
        return options;
    }
    explicit residency(const gpumem_residency_options &options = with_budget(0)) {
        gpumem_residency *made = nullptr;
        check(gpumem_residency_create(&options, &made));
        handle_.reset(made);
    }
    gpumem_residency *handle() const noexcept { return handle_.get(); }

    // Host memory as an object. The caller keeps it until remove().
    std::uint64_t add(void *host, std::size_t bytes, std::uint64_t version = 0) { return add(host, bytes, version, 0); }
    // What the device writes first, and the host perhaps never reads.
    std::uint64_t add_result(std::size_t bytes) { return add(nullptr, bytes, 0, GPUMEM_OBJECT_GPU_ONLY); }
    void remove(std::uint64_t object) { check(gpumem_residency_unregister(handle(), object)); }
    // The host has changed the object's memory.
    void update(std::uint64_t object, std::uint64_t version) {
        check(gpumem_residency_update(handle(), object, version));
    }
    void announce(std::initializer_list<std::uint64_t> objects) { announce(objects.begin(), objects.size()); }
    void announce(const std::uint64_t *objects, std::size_t count) {
        check(gpumem_residency_announce(handle(), objects, count));
    }
    // Returns how many of the objects are on the device or on their way.
    std::size_t prefetch(std::initializer_list<std::uint64_t> objects) {
        return prefetch(objects.begin(), objects.size());
    }
    std::size_t prefetch(const std::uint64_t *objects, std::size_t count) {
        std::size_t started = 0;
        check(gpumem_residency_prefetch(handle(), objects, count, &started));
        return started;
    }
    template <typename... Uses> [[nodiscard]] resident_uses<sizeof...(Uses)> use(CUstream_st *stream, Uses... uses) {
        return {handle(), stream, std::array<gpumem_use, sizeof...(Uses)>{uses...}};
    }
    // The host's memory, with the object's latest bytes.
    void *sync(std::uint64_t object) {
        void *host = nullptr;
        check(gpumem_residency_sync(handle(), object, &host));
        return host;
    }
    struct gpumem_residency_stats stats() const {
        struct gpumem_residency_stats counted = {};
        counted.struct_size = sizeof counted;
        check(gpumem_residency_get_stats(handle(), &counted));
        return counted;
    }

  private:
    std::uint64_t add(void *host, std::size_t bytes, std::uint64_t version, std::uint64_t flags) {
        gpumem_object_options options = {};
        options.struct_size = sizeof options;
        options.address = host;
        options.bytes = bytes;
        options.version = version;
        options.flags = flags;
        std::uint64_t object = 0;
        check(gpumem_residency_register(handle(), &options, &object));
        return object;
    }

    struct destroyer {
        void operator()(gpumem_residency *handle) const noexcept { (void)gpumem_residency_destroy(handle); }
    };
    std::unique_ptr<gpumem_residency, destroyer> handle_;
};

} // namespace gpumem

#endif

#include "../check.h"
#include "../managed_bound.h"
#include "buffer.h"

#include <algorithm>
#include <chrono>
#include <utility>

static scheme chosen_scheme = scheme::malloc;
static bool chosen_advice;
static allocation_counts counts;
static managed_bound bound;

static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static bool is_async(lifetime kind) {
    return chosen_scheme == scheme::async || (chosen_scheme == scheme::hybrid && kind == lifetime::temporary);
}

static bool is_managed(lifetime kind) { return chosen_scheme != scheme::malloc && !is_async(kind); }

void set_allocation(scheme chosen, bool advice) {
    chosen_scheme = chosen;
    chosen_advice = advice;
    if (chosen == scheme::async || chosen == scheme::hybrid) {
        cudaMemPool_t pool;
        unsigned long long all = ~0ull;
        CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
        CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    }
}

const allocation_counts &allocations() { return counts; }

#if CUDART_VERSION >= 13000
static cudaMemLocation device_location() {
    cudaMemLocation location = {};
    location.type = cudaMemLocationTypeDevice;
    CHECK(cudaGetDevice(&location.id));
    return location;
}

static cudaError_t move_to_device(void *block, std::size_t size) {
    return cudaMemPrefetchAsync(block, size, device_location(), 0, 0);
}
#else
static int device_location() {
    int device;
    CHECK(cudaGetDevice(&device));
    return device;
}

static cudaError_t move_to_device(void *block, std::size_t size) {
    return cudaMemPrefetchAsync(block, size, device_location(), 0);
}
#endif

buffer::buffer(std::size_t words, lifetime its_kind) : count(words), kind(its_kind), born(seconds()) {
    const std::size_t size = words * sizeof(word);
    void *block;
    if (is_async(kind)) {
        CHECK(cudaMallocAsync(&block, size, 0));
    } else if (is_managed(kind)) {
        if (!bound.take(size)) {
            std::fprintf(
                stderr,
                "he_ops: refused: %zu more bytes of managed memory would not stay below the card's free memory\n",
                size);
            std::exit(1);
        }
        CHECK(cudaMallocManaged(&block, size));
        if (chosen_advice && kind != lifetime::temporary) {
            CHECK(cudaMemAdvise(block, size, cudaMemAdviseSetPreferredLocation, device_location()));
            CHECK(move_to_device(block, size));
        }
    } else {
        CHECK(cudaMalloc(&block, size));
    }
    at = static_cast<word *>(block);
    (kind == lifetime::temporary ? counts.temporary : counts.lasting)++;
    counts.live += size;
    counts.peak = std::max(counts.peak, counts.live);
    counts.lasting_live += kind == lifetime::temporary ? 0 : size;
}

buffer::buffer(const std::vector<word> &values, lifetime its_kind) : buffer(values.size(), its_kind) {
    CHECK(cudaMemcpy(at, values.data(), count * sizeof(word), cudaMemcpyHostToDevice));
    settle();
}

buffer::buffer(buffer &&other) noexcept
    : at(std::exchange(other.at, nullptr)), count(std::exchange(other.count, 0)), kind(other.kind), born(other.born) {}

buffer &buffer::operator=(buffer &&other) noexcept {
    if (this != &other) {
        release();
        at = std::exchange(other.at, nullptr);
        count = std::exchange(other.count, 0);
        kind = other.kind;
        born = other.born;
    }
    return *this;
}

void buffer::release() {
    if (!at)
        return;
    const std::size_t size = count * sizeof(word);
    if (is_async(kind)) {
        CHECK(cudaFreeAsync(at, 0));
    } else {
        CHECK(cudaFree(at));
        if (is_managed(kind))
            bound.give_back(size);
    }
    counts.freed++;
    counts.short_lived += seconds() - born < 1;
    counts.live -= size;
    counts.lasting_live -= kind == lifetime::temporary ? 0 : size;
    at = nullptr;
}

std::vector<word> buffer::download() const {
    std::vector<word> values(count);
    CHECK(cudaMemcpy(values.data(), at, count * sizeof(word), cudaMemcpyDeviceToHost));
    return values;
}

void buffer::settle() const {
    if (chosen_advice && kind == lifetime::constant && is_managed(kind))
        CHECK(cudaMemAdvise(at, count * sizeof(word), cudaMemAdviseSetReadMostly, device_location()));
}

// An array that grows to its full size step by step, each way there is. Run by growth.py.
//
// usage: growth --way WAY,... --steps double|half|BYTES [--from BYTES] [--top BYTES] [--samples N] [--beside]
//
// Ways are malloc, async, thrust, driver, region, exact; several take turns, sample by sample, and have a line each.
// Between samples is a rest of 50 ms.
//
// malloc: cudaMalloc, copy, cudaFree, as a program writes it (this is also the unchanged program for GPUMEM_GROW);
// async: the same by cudaMallocAsync from a pool that keeps all; thrust: reserve and resize of thrust::device_vector;
// driver: the bare calls, one handle a step; region: gpumem_region_grow; exact: the same, nothing mapped ahead. A line
// has: name, steps, least, median and most nanoseconds of the whole growth, copied= bytes, peak= bytes of the card in
// use beyond the start, release= ns, first= and last= ns: the median step of the first and the last quarter. --beside:
// the steps are made while a memory-bound kernel runs; kernel= and alone= are then its nanoseconds a pass with (over
// 100 ms at least) and without.
#include <cuda.h>
#include <cuda_runtime.h>
#include <thrust/device_vector.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gpumem.h"

#define CHECK(call)                                                                                     \
    do {                                                                                                \
        int status_ = (int)(call);                                                                      \
        if (status_ != 0) {                                                                             \
            std::fprintf(stderr, "growth: %s: %d %s\n", #call, status_, gpumem_last_error());           \
            std::exit(status_ == cudaErrorNoDevice || status_ == cudaErrorInsufficientDriver ? 77 : 1); \
        }                                                                                               \
    } while (0)

namespace {

double now() {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
    if (values.empty())
        return 0;
    std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
    return values[values.size() / 2];
}

size_t used() {
    size_t unused, total;
    CHECK(cudaMemGetInfo(&unused, &total));
    return total - unused;
}

// An array of one way: grows, counts what it copied, ends.
struct array {
    size_t size = 0, copied = 0;
    std::function<void()> probe = [] {}; // where memory is at its highest
    virtual ~array() = default;
    virtual void grow(size_t to) = 0;
};

struct by_malloc : array {
    char *base = nullptr;
    void grow(size_t to) override {
        char *larger;
        CHECK(cudaMalloc(&larger, to));
        if (size)
            CHECK(cudaMemcpy(larger, base, size, cudaMemcpyDeviceToDevice));
        probe();
        CHECK(cudaFree(base));
        copied += size;
        base = larger;
        size = to;
    }
    ~by_malloc() override { CHECK(cudaFree(base)); }
};

struct by_async : array {
    char *base = nullptr;
    by_async() {
        cudaMemPool_t pool;
        unsigned long long all = ~0ull;
        CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
        CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    }
    void grow(size_t to) override {
        char *larger;
        CHECK(cudaMallocAsync(&larger, to, nullptr));
        if (size) {
            CHECK(cudaMemcpyAsync(larger, base, size, cudaMemcpyDeviceToDevice, nullptr));
            CHECK(cudaFreeAsync(base, nullptr));
        }
        probe();
        copied += size;
        base = larger;
        size = to;
    }
    ~by_async() override {
        CHECK(cudaFreeAsync(base, nullptr));
        CHECK(cudaDeviceSynchronize());
    }
};

struct by_thrust : array {
    thrust::device_vector<unsigned> vector;
    void grow(size_t to) override {
        if (to / sizeof(unsigned) > vector.capacity())
            copied += size;
        vector.reserve(to / sizeof(unsigned));
        vector.resize(to / sizeof(unsigned));
        size = to;
    }
};

// The driver's functions by the runtime, so that this program is not linked with it.
template <typename Function> void find(Function &function, const char *name) {
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion(name, (void **)&function, 12000, cudaEnableDefault, &found));
}

struct by_driver : array {
    decltype(&cuMemAddressReserve) reserve;
    decltype(&cuMemAddressFree) unreserve;
    decltype(&cuMemCreate) create;
    decltype(&cuMemRelease) release;
    decltype(&cuMemMap) map;
    decltype(&cuMemUnmap) unmap;
    decltype(&cuMemSetAccess) open;
    CUdeviceptr base;
    const size_t addresses = (size_t)64 << 30;
    struct piece {
        CUmemGenericAllocationHandle handle;
        size_t size;
    };
    std::vector<piece> pieces;
    by_driver() {
        find(reserve, "cuMemAddressReserve");
        find(unreserve, "cuMemAddressFree");
        find(create, "cuMemCreate");
        find(release, "cuMemRelease");
        find(map, "cuMemMap");
        find(unmap, "cuMemUnmap");
        find(open, "cuMemSetAccess");
        CHECK(reserve(&base, addresses, 0, 0, 0));
    }
    void grow(size_t to) override {
        CUmemAllocationProp properties = {};
        CUmemAccessDesc access = {};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type = access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        piece more = {0, (to + (2 << 20) - 1) / (2 << 20) * (2 << 20) - size};
        if (!more.size)
            return;
        CHECK(create(&more.handle, more.size, &properties, 0));
        CHECK(map(base + size, more.size, 0, more.handle, 0));
        CHECK(open(base + size, more.size, &access, 1));
        pieces.push_back(more);
        size += more.size;
        probe();
    }
    ~by_driver() override {
        size_t offset = 0;
        for (const piece &one : pieces) {
            CHECK(unmap(base + offset, one.size));
            CHECK(release(one.handle));
            offset += one.size;
        }
        CHECK(unreserve(base, addresses));
    }
};

struct by_region : array {
    gpumem_region *region = nullptr;
    explicit by_region(unsigned flags) {
        gpumem_region_options options = {};
        options.struct_size = sizeof options;
        options.flags = flags;
        CHECK(gpumem_region_create(&options, &region));
    }
    void grow(size_t to) override {
        CHECK(gpumem_region_grow(region, to));
        size = to;
        probe();
    }
    ~by_region() override { CHECK(gpumem_region_destroy(region)); }
};

array *make(const std::string &way) {
    if (way == "malloc")
        return new by_malloc;
    if (way == "async")
        return new by_async;
    if (way == "thrust")
        return new by_thrust;
    if (way == "driver")
        return new by_driver;
    if (way == "region" || way == "exact")
        return new by_region(way == "exact" ? (unsigned)GPUMEM_REGION_EXACT : 0u);
    std::fprintf(stderr, "growth: --way %s: accepted are malloc, async, thrust, driver, region, exact\n", way.c_str());
    std::exit(2);
}

std::vector<size_t> sizes_of(const std::string &steps, size_t from, size_t top) {
    std::vector<size_t> sizes;
    size_t fixed = steps == "double" || steps == "half" ? 0 : std::strtoull(steps.c_str(), nullptr, 10);
    if (steps != "double" && steps != "half" && !fixed) {
        std::fprintf(stderr, "growth: --steps %s: accepted are double, half, a number of bytes\n", steps.c_str());
        std::exit(2);
    }
    for (size_t size = from; size < top; size += fixed ? fixed : steps == "double" ? size : size / 2)
        sizes.push_back(size);
    sizes.push_back(top);
    return sizes;
}

// Reads and writes all of a buffer, pass after pass, until it is stopped.
__global__ void stream_memory(uint4 *data, size_t count, const volatile int *stop, unsigned long long *passes) {
    size_t stride = (size_t)gridDim.x * blockDim.x;
    while (!*stop) {
        for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += stride) {
            uint4 value = data[i];
            value.x += 1;
            data[i] = value;
        }
        if (threadIdx.x == 0)
            atomicAdd(passes, 1ull);
    }
}

struct load {
    uint4 *data;
    int *stop;
    unsigned long long *passes, *host_passes;
    cudaStream_t stream, reader;
    int blocks = 0;
    double begin = 0;
    unsigned long long before = 0;
    static const size_t bytes = (size_t)1 << 30;
    load() {
        int device, processors;
        CHECK(cudaGetDevice(&device));
        CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
        blocks = processors * 2;
        CHECK(cudaMalloc(&data, bytes));
        CHECK(cudaMemset(data, 0, bytes));
        CHECK(cudaHostAlloc(&stop, sizeof *stop, cudaHostAllocMapped));
        CHECK(cudaHostAlloc(&host_passes, sizeof *host_passes, cudaHostAllocDefault));
        CHECK(cudaMalloc(&passes, sizeof *passes));
        CHECK(cudaMemset(passes, 0, sizeof *passes));
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaStreamCreateWithFlags(&reader, cudaStreamNonBlocking));
        *stop = 0;
        stream_memory<<<blocks, 1024, 0, stream>>>(data, bytes / sizeof(uint4), stop, passes);
        CHECK(cudaGetLastError());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    unsigned long long done() {
        CHECK(cudaMemcpyAsync(host_passes, passes, sizeof *passes, cudaMemcpyDeviceToHost, reader));
        CHECK(cudaStreamSynchronize(reader));
        return *host_passes;
    }
    void start() {
        before = done();
        begin = now();
    }
    double pass_ns() { // of a pass over all memory since start()
        double spent = now() - begin;
        unsigned long long passed = done() - before;
        return passed ? spent * blocks / passed : 0;
    }
    ~load() {
        *stop = 1;
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaFree(data));
        CHECK(cudaFree(passes));
        CHECK(cudaFreeHost(stop));
        CHECK(cudaFreeHost(host_passes));
        CHECK(cudaStreamDestroy(stream));
        CHECK(cudaStreamDestroy(reader));
    }
};

struct outcome {
    double whole, release, first, last;
    size_t copied;
};

const std::chrono::milliseconds rest(50);

// The array step by step to its full size; what each step took.
std::vector<double> grow_all(array *grown, const std::vector<size_t> &sizes) {
    std::vector<double> steps;
    double before = now();
    for (size_t size : sizes) {
        grown->grow(size);
        double after = now();
        steps.push_back(after - before);
        before = after;
    }
    return steps;
}

outcome outcome_of(double whole, double release, const std::vector<double> &steps, size_t copied) {
    size_t quarter = std::max<size_t>(1, steps.size() / 4);
    return {whole, release, median({steps.begin(), steps.begin() + quarter}),
            median({steps.end() - quarter, steps.end()}), copied};
}

outcome grow_once(const std::string &way, const std::vector<size_t> &sizes) {
    array *grown = make(way);
    double begin = now();
    std::vector<double> steps = grow_all(grown, sizes);
    CHECK(cudaDeviceSynchronize());
    double end = now();
    size_t copied = grown->copied;
    delete grown;
    return outcome_of(end - begin, now() - end, steps, copied);
}

// Untimed: the most of the card in use. A thread looks, too, for ways that show no moment.
size_t peak_of(const std::string &way, const std::vector<size_t> &sizes) {
    size_t before = used();
    std::atomic<size_t> most{before};
    std::atomic<bool> stop{false};
    auto look = [&] {
        size_t seen = used(), known = most;
        while (seen > known && !most.compare_exchange_weak(known, seen))
            ;
    };
    std::thread watcher([&] {
        while (way == "thrust" && !stop)
            look();
    });
    array *grown = make(way);
    grown->probe = look;
    for (size_t size : sizes)
        grown->grow(size);
    look();
    stop = true;
    watcher.join();
    delete grown;
    if (way != "async")
        return most - before;
    cudaMemPool_t pool; // kept from the passes before: what it ever took
    unsigned long long reserved;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &reserved));
    return reserved;
}

// What a way's growths took, ns.
struct figures {
    std::string way;
    std::vector<double> whole, release, first, last;
    size_t copied = 0;
    void add(const outcome &one) {
        whole.push_back(one.whole);
        release.push_back(one.release);
        first.push_back(one.first);
        last.push_back(one.last);
        copied = one.copied;
    }
};

std::vector<figures> named(const std::string &ways) {
    std::vector<figures> found;
    for (size_t at = 0, end; at <= ways.size(); at = end + 1) {
        end = std::min(ways.find(',', at), ways.size());
        found.push_back({ways.substr(at, end - at), {}, {}, {}, {}});
    }
    return found;
}

void print(const char *row, const std::string &steps, size_t count, figures &f, size_t peak, size_t top, double kernel,
           double alone) {
    std::sort(f.whole.begin(), f.whole.end());
    std::printf("%s:%s %zu %.0f %.0f %.0f copied=%zu peak=%zu size=%zu release=%.0f first=%.0f last=%.0f kernel=%.0f "
                "alone=%.0f\n",
                row, steps.c_str(), count, f.whole.front(), median(f.whole), f.whole.back(), f.copied, peak, top,
                median(f.release), median(f.first), median(f.last), kernel, alone);
}

// Growths beside a kernel that reads and writes memory all the time.
void grow_beside(const std::string &steps, size_t top, const std::vector<size_t> &sizes, figures &f) {
    if (f.way == "malloc" || f.way == "thrust") {
        std::fprintf(stderr, "growth: --beside: cudaFree waits for the kernel\n");
        std::exit(2);
    }
    array *grown = make(f.way);
    double kernel, alone;
    {
        load busy;
        busy.start();
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        alone = busy.pass_ns();
        busy.start();
        double begin = now();
        std::vector<double> steps = grow_all(grown, sizes);
        double whole = now() - begin;
        if (whole < 1e8) // passes are counted over a while at least
            std::this_thread::sleep_for(std::chrono::nanoseconds((long)(1e8 - whole)));
        kernel = busy.pass_ns();
        f.add(outcome_of(whole, 0, steps, grown->copied));
    }
    delete grown; // waits for the kernel, which has ended
    print("beside", steps, sizes.size(), f, 0, top, kernel, alone);
}

} // namespace

int main(int count, char **arguments) {
    std::string way = "region", steps = "double";
    size_t from = (size_t)64 << 20, top = (size_t)8 << 30;
    int samples = 3;
    bool beside = false;
    for (int i = 1; i < count; i++) {
        std::string option = arguments[i], value = i + 1 < count ? arguments[i + 1] : "";
        if (option == "--beside") {
            beside = true;
            continue;
        }
        if (option == "--way")
            way = value;
        else if (option == "--steps")
            steps = value;
        else if (option == "--from")
            from = std::strtoull(value.c_str(), nullptr, 10);
        else if (option == "--top")
            top = std::strtoull(value.c_str(), nullptr, 10);
        else if (option == "--samples")
            samples = std::atoi(value.c_str());
        else {
            std::fprintf(stderr, "growth: %s is no option\n", option.c_str());
            return 2;
        }
        i++;
    }
    if (samples < 1 || !from || top < from) {
        std::fprintf(stderr, "growth: nothing to do\n");
        return 2;
    }
    std::vector<size_t> sizes = sizes_of(steps, from, top);
    std::vector<figures> ways = named(way);
    CHECK(cudaFree(nullptr));
    for (figures &one : ways)
        delete make(one.way); // what is found or made once
    if (beside) {
        for (figures &one : ways)
            grow_beside(steps, top, sizes, one);
        return 0;
    }
    for (int i = 0; i < samples + 1; i++)
        for (figures &one : ways) {
            // The driver wipes memory that came back before it gives it out again.
            std::this_thread::sleep_for(rest);
            outcome grown = grow_once(one.way, sizes);
            if (i > 0) // behind a warm-up
                one.add(grown);
        }
    for (figures &one : ways)
        print("grow", steps, sizes.size(), one, peak_of(one.way, sizes), top, 0, 0);
    return 0;
}

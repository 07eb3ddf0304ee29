// Regions on a real device: growth in place under kernels, pages that move, memory given back behind work under way,
// views to read only, the host tier, exported handles, the limit of memory.
#include <cstring>
#include <unistd.h>

#include <cuda.h>
#include <cuda_runtime.h>

#include "../check.h"
#include "gpumem.h"

static const size_t MIB = (size_t)1 << 20;
static int wrong;

#define OK(call)                                                                                               \
    do {                                                                                                       \
        gpumem_status status = (call);                                                                         \
        if (status) {                                                                                          \
            std::fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, gpumem_status_name(status), \
                         gpumem_last_error());                                                                 \
            std::exit(1);                                                                                      \
        }                                                                                                      \
    } while (0)
#define EXPECT(condition)                                                        \
    do {                                                                         \
        if (!(condition)) {                                                      \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            wrong++;                                                             \
        }                                                                        \
    } while (0)

__global__ void write(unsigned *words, size_t first, size_t count, unsigned salt) {
    for (size_t i = first + blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        words[i] = (unsigned)i * 2654435761u + salt;
}

__global__ void check(const unsigned *words, size_t count, unsigned salt, unsigned long long *differing) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        if (words[i] != (unsigned)i * 2654435761u + salt)
            atomicAdd(differing, 1ull);
}

// Writes and keeps the device busy for a while, so that what follows on the host finds it at work.
__global__ void write_slowly(unsigned *words, size_t count, unsigned salt, long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles)
        ;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        words[i] = (unsigned)i * 2654435761u + salt;
}

static unsigned long long *differing;
static cudaStream_t stream;

static gpumem_view view_of(gpumem_region *region) {
    gpumem_view view = {};
    view.struct_size = sizeof view;
    OK(gpumem_region_view(region, &view));
    return view;
}

static void expect_all(const void *base, size_t size, unsigned salt) {
    check<<<256, 256, 0, stream>>>((const unsigned *)base, size / 4, salt, differing);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(*differing == 0);
    *differing = 0;
}

static gpumem_region *create(size_t reserve, unsigned flags) {
    gpumem_region_options options = {};
    options.struct_size = sizeof options;
    gpumem_region *region = nullptr;
    options.reserve = reserve;
    options.flags = flags;
    OK(gpumem_region_create(&options, &region));
    return region;
}

static void grows_under_kernels() {
    gpumem_region *region = create(0, 0);
    void *base = view_of(region).base;
    size_t filled = 0;
    for (size_t size = 3 * MIB; size < 1500 * MIB; size += size / 3) {
        OK(gpumem_region_grow(region, size)); // the kernel of the step before still runs
        EXPECT(view_of(region).base == base && view_of(region).mapped >= size);
        write<<<256, 256, 0, stream>>>((unsigned *)base, filled, size / 4, 1);
        filled = size / 4;
    }
    expect_all(base, filled * 4, 1);
    OK(gpumem_region_shrink(region, 100 * MIB));
    expect_all(base, 100 * MIB, 1);
    OK(gpumem_region_destroy(region));
}

static void gives_back_behind_work() {
    size_t before, after, total;
    gpumem_region *region = create(0, GPUMEM_REGION_EXACT);
    for (int step = 1; step <= 16; step++)
        OK(gpumem_region_grow(region, step * 32 * MIB));
    for (int round = 0; round < 5; round++) {
        write_slowly<<<256, 256, 0, stream>>>((unsigned *)view_of(region).base, 512 * MIB / 4, round, 20000000);
        CHECK(cudaGetLastError());
        OK(gpumem_region_shrink(region, 32 * MIB)); // an illegal access if it did not wait
        expect_all(view_of(region).base, 32 * MIB, round);
        OK(gpumem_region_grow(region, 512 * MIB));
    }
    CHECK(cudaMemGetInfo(&before, &total));
    OK(gpumem_region_destroy(region));
    CHECK(cudaMemGetInfo(&after, &total));
    EXPECT(after >= before + 512 * MIB);
}

static void moves_its_pages() {
    gpumem_region *region = create(64 * MIB, GPUMEM_REGION_EXACT);
    gpumem_view alias = {};
    alias.struct_size = sizeof alias;
    unsigned salt = 0;
    int moved = 0;
    OK(gpumem_region_grow(region, 64 * MIB));
    bool read_only = gpumem_region_view_read_only(region, &alias) == 0;
    if (!read_only)
        std::fprintf(stderr, "no view to read only: %s\n", gpumem_last_error());
    for (size_t size = 96 * MIB; size <= 1200 * MIB; size += size / 2) {
        void *before = view_of(region).base;
        size_t filled = view_of(region).size;
        write_slowly<<<64, 256, 0, stream>>>((unsigned *)before, filled / 4, ++salt, 5000000);
        OK(gpumem_region_grow(region, size));
        moved += view_of(region).base != before;
        expect_all(view_of(region).base, filled, salt);
        if (read_only) {
            OK(gpumem_region_view_read_only(region, &alias));
            EXPECT(alias.base != view_of(region).base && alias.mapped == view_of(region).mapped);
            expect_all(alias.base, filled, salt);
        }
    }
    std::fprintf(stderr, "base changed %d times, read only: %s\n", moved, read_only ? "yes" : "no");
    OK(gpumem_region_destroy(region));
}

static void lies_on_the_host() {
    gpumem_region_options options = {};
    options.struct_size = sizeof options;
    gpumem_region *region = nullptr;
    options.flags = GPUMEM_REGION_HOST;
    gpumem_status status = gpumem_region_create(&options, &region);
    if (status) {
        std::fprintf(stderr, "no host tier: %s\n", gpumem_last_error());
        EXPECT(status == 801);
        return;
    }
    OK(gpumem_region_grow(region, 10 * MIB));
    OK(gpumem_region_grow(region, 40 * MIB));
    write<<<64, 256, 0, stream>>>((unsigned *)view_of(region).base, 0, 10 * MIB, 9);
    expect_all(view_of(region).base, 40 * MIB, 9);
    EXPECT(((unsigned *)view_of(region).base)[12345] == 12345u * 2654435761u + 9); // the host reaches it, too
    OK(gpumem_region_destroy(region));
}

static void exports() {
    gpumem_region *region = create(0, GPUMEM_REGION_EXPORTABLE | GPUMEM_REGION_EXACT);
    CUmemGenericAllocationHandle handle;
    size_t size;
    int descriptor;
    OK(gpumem_region_grow(region, 4 * MIB));
    write<<<64, 256, 0, stream>>>((unsigned *)view_of(region).base, 0, MIB, 4);
    OK(gpumem_region_export(region, 0, &descriptor, &size));
    EXPECT(size == 4 * MIB);
    EXPECT(cuMemImportFromShareableHandle(&handle, (void *)(uintptr_t)descriptor,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == 0);
    CUdeviceptr other;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    EXPECT(cuMemAddressReserve(&other, size, 0, 0, 0) == 0 && cuMemMap(other, size, 0, handle, 0) == 0 &&
           cuMemSetAccess(other, size, &access, 1) == 0);
    expect_all((void *)other, size, 4);
    EXPECT(cuMemUnmap(other, size) == 0 && cuMemAddressFree(other, size) == 0 && cuMemRelease(handle) == 0);
    close(descriptor);
    OK(gpumem_region_destroy(region));
}

static void is_refused_beyond_the_card() {
    gpumem_region *region = create(0, 0);
    OK(gpumem_region_grow(region, 20 * MIB));
    gpumem_view before = view_of(region);
    EXPECT(gpumem_region_grow(region, (size_t)1 << 42) == GPUMEM_OUT_OF_MEMORY);
    EXPECT(std::strstr(gpumem_last_error(), "4398046511104 bytes") && std::strstr(gpumem_last_error(), "free"));
    gpumem_view after = view_of(region);
    EXPECT(before.base == after.base && before.size == after.size && before.mapped == after.mapped &&
           before.handles == after.handles);
    write<<<64, 256, 0, stream>>>((unsigned *)after.base, 0, 20 * MIB / 4, 3);
    expect_all(after.base, 20 * MIB, 3);
    OK(gpumem_region_destroy(region));
}

static void grows_during_a_capture() {
    gpumem_region *region = create(0, GPUMEM_REGION_EXACT);
    cudaGraph_t graph;
    OK(gpumem_region_grow(region, 2 * MIB));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    OK(gpumem_region_grow(region, 8 * MIB));
    write<<<64, 256, 0, stream>>>((unsigned *)view_of(region).base, 0, 2 * MIB, 6);
    CHECK(cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    expect_all(view_of(region).base, 8 * MIB, 6);
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    OK(gpumem_region_destroy(region));
}

int main() {
    if (cudaFree(nullptr) != cudaSuccess)
        return 77;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMallocManaged(&differing, sizeof *differing));
    *differing = 0;
    grows_under_kernels();
    gives_back_behind_work();
    moves_its_pages();
    lies_on_the_host();
    exports();
    is_refused_beyond_the_card();
    grows_during_a_capture();
    CHECK(cudaDeviceSynchronize());
    std::printf("%s region\n", wrong ? "wrong" : "ok");
    return wrong != 0;
}

/* Programs with one memory error each, planted. Arguments: the error, and how many blocks are allocated and freed
 * before it. Prints the results of the calls that may fail. On the simulated driver twins stand for the kernels
 * (planted.h). */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>

#include "planted.h"
#include "program.h"

static CUfunction words, byte, view, word;
static CUstream one, two;
static CUdeviceptr block;

static void launch_words(CUdeviceptr to, int64_t first, uint32_t count, CUstream stream) {
    void *arguments[] = {&to, &first, &count};
    printf(" launch %d", cuLaunchKernel(words, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static void launch_byte(CUdeviceptr to, int64_t at) {
    void *arguments[] = {&to, &at};
    printf(" launch %d", cuLaunchKernel(byte, 1, 1, 1, 1, 1, 1, 0, one, arguments, NULL));
}

static CUdeviceptr allocate_block(size_t bytes) {
    MUST(cuMemAlloc(&block, bytes));
    return block;
}

static void free_block(CUdeviceptr address) { printf(" free %d", cuMemFree(address)); }

/* ---- the errors */

static void none(void) {
    launch_words(allocate_block(1000), 0, 250, one);
    MUST(cuMemsetD8(block, 1, 1000));
    MUST(cuCtxSynchronize());
    free_block(block);
}

static void behind_byte(void) {
    launch_byte(allocate_block(1000), 1000);
    free_block(block);
}

static void behind_element(void) {
    launch_words(allocate_block(4096), 0, 1025, one);
    printf(" wait %d", cuCtxSynchronize());
}

static void behind_stride(void) {
    launch_words(allocate_block(4096), 1 << 19, 1, one);
    printf(" wait %d", cuStreamSynchronize(one));
}

static void before_byte(void) {
    launch_byte(allocate_block(1000), -1);
    free_block(block);
}

static void before_stride(void) {
    launch_byte(allocate_block(1000), -(2 << 20));
    printf(" wait %d", cuStreamSynchronize(one));
}

/* The kernel does not use the last member. */
static void launch_view(CUdeviceptr data, int64_t at, CUdeviceptr unused) {
    struct {
        CUdeviceptr data;
        int64_t at;
        CUdeviceptr unused;
    } argument = {data, at, unused};
    void *arguments[] = {&argument};
    printf(" launch %d", cuLaunchKernel(view, 1, 1, 1, 1, 1, 1, 0, one, arguments, NULL));
    printf(" wait %d", cuStreamSynchronize(one));
}

static void in_a_struct(void) { launch_view(allocate_block(4096), 4096, 0); }

static void after_free_in_a_struct(void) {
    free_block(allocate_block(4096));
    launch_view(block, 0, 0);
}

static void stale_member(void) {
    CUdeviceptr stale = allocate_block(4096);
    free_block(stale);
    launch_view(allocate_block(4096), 0, stale);
}

static void after_free(void) {
    launch_words(allocate_block(4096), 0, 8, one);
    free_block(block);
    launch_words(block, 0, 8, one);
    printf(" wait %d", cuStreamSynchronize(one));
}

static void after_free_other_stream(void) {
    launch_words(allocate_block(4096), 0, 8, one);
    free_block(block);
    launch_words(block, 0, 8, two);
    printf(" wait %d", cuStreamSynchronize(two));
}

static void *other_thread(void *context) {
    MUST(cuCtxSetCurrent(context));
    launch_words(block, 0, 8, two);
    printf(" wait %d", cuStreamSynchronize(two));
    return NULL;
}

static void after_free_other_thread(void) {
    CUcontext context;
    pthread_t thread;
    MUST(cuCtxGetCurrent(&context));
    allocate_block(4096);
    free_block(block);
    pthread_create(&thread, NULL, other_thread, context);
    pthread_join(thread, NULL);
}

static void after_free_in_order(void) {
    MUST(cuMemAllocAsync(&block, 4096, one));
    launch_words(block, 0, 8, one);
    MUST(cuMemFreeAsync(block, one));
    MUST(cuStreamSynchronize(one));
    launch_words(block, 0, 8, two);
    printf(" wait %d", cuStreamSynchronize(two));
}

static void freed_twice(void) {
    allocate_block(4096);
    free_block(block);
    free_block(block);
}

static void freed_inside(void) { free_block(allocate_block(4096) + 256); }

static void freed_as_host(void) { printf(" free %d", cuMemFreeHost((void *)(uintptr_t)allocate_block(4096))); }

static void copy_behind(void) {
    char bytes[2000];
    printf(" copy %d", cuMemcpyDtoH(bytes, allocate_block(1000), sizeof bytes));
}

static void copy_to_behind(void) {
    char bytes[1100] = {0};
    printf(" copy %d", cuMemcpyHtoDAsync(allocate_block(1000), bytes, sizeof bytes, one));
    printf(" wait %d", cuStreamSynchronize(one));
}

static void copy_rows_behind(void) {
    char bytes[64 * 20];
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = allocate_block(64 * 16),
                          .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = bytes,
                          .dstPitch = 64,
                          .WidthInBytes = 64,
                          .Height = 17};
    printf(" copy %d", cuMemcpy2D(&copy));
}

static void copy_freed(void) {
    char bytes[100];
    allocate_block(1000);
    free_block(block);
    printf(" copy %d", cuMemcpyDtoH(bytes, block, sizeof bytes));
}

static void fill_behind(void) {
    printf(" fill %d", cuMemsetD32Async(allocate_block(1000), 5, 251, one));
    printf(" wait %d", cuStreamSynchronize(one));
}

static void never_freed(void) { launch_byte(allocate_block(1000), 1001); }

static void one_of_many(void) {
    launch_words(allocate_block(4096), 0, 8, one);
    launch_byte(allocate_block(1000), 4);
    launch_words(allocate_block(8192), 0, 2049, one);
    launch_byte(allocate_block(512), 4);
    printf(" wait %d", cuCtxSynchronize());
}

/* Captures a kernel that uses the block. */
static CUgraph graph_of(CUdeviceptr used) {
    CUgraph graph;
    MUST(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_RELAXED));
    launch_words(used, 0, 8, one);
    MUST(cuStreamEndCapture(one, &graph));
    return graph;
}

static void launch_graph(CUgraphExec instance) {
    printf(" graph %d", cuGraphLaunch(instance, one));
    printf(" wait %d", cuStreamSynchronize(one));
}

static void graph_freed(void) {
    CUgraphExec instance;
    MUST(cuGraphInstantiateWithFlags(&instance, graph_of(allocate_block(4096)), 0));
    launch_graph(instance);
    free_block(block);
    launch_graph(instance);
}

static void before_ready(void) {
    MUST(cuMemAllocAsync(&block, 4096, one));
    launch_words(block, 0, 8, two);
    printf(" wait %d", cuStreamSynchronize(two));
}

static void freed_in_use(void) {
    MUST(cuMemAllocAsync(&block, 4096, one));
    MUST(cuStreamSynchronize(one));
    launch_words(block, 0, 8, two);
    MUST(cuMemFreeAsync(block, one));
    MUST(cuStreamSynchronize(two));
}

static void host_pointer(void) {
    CUdevice device;
    int reaches;
    void *host = malloc(4096);
    MUST(cuCtxGetDevice(&device));
    MUST(cuDeviceGetAttribute(&reaches, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device));
    if (reaches) {
        printf(" the device reaches all host memory");
        return;
    }
    launch_words((CUdeviceptr)(uintptr_t)host, 0, 8, one);
    printf(" wait %d", cuStreamSynchronize(one));
}

/* A kernel runs for the new size, before the array has its memory. */
static void behind_grown(void) {
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const size_t step = 2 << 20;
    CUmemGenericAllocationHandle handle;
    MUST(cuMemAddressReserve(&block, 16 * step, 0, 0, 0));
    for (int i = 0; i < 2; i++) {
        MUST(cuMemCreate(&handle, step, &properties, 0));
        MUST(cuMemMap(block + (size_t)i * step, step, 0, handle, 0));
        MUST(cuMemSetAccess(block + (size_t)i * step, step, &access, 1));
        launch_words(block, i * (int64_t)step / 4, 8, one);
        MUST(cuStreamSynchronize(one));
    }
    launch_words(block, 2 * (int64_t)step / 4, 8, one);
    printf(" wait %d", cuStreamSynchronize(one));
}

static void never_written(void) {
    CUdeviceptr result;
    uint32_t value;
    void *arguments[] = {&result, &block};
    allocate_block(4096);
    MUST(cuMemAlloc(&result, 4));
    MUST(cuLaunchKernel(word, 1, 1, 1, 1, 1, 1, 0, one, arguments, NULL));
    MUST(cuStreamSynchronize(one));
    MUST(cuMemcpyDtoH(&value, result, 4));
    printf(" read %#x", value);
}

static void leaked(void) { allocate_block(1000); }

/* ---- no errors */

static void ready_by_event(void) {
    CUevent allocated, used;
    MUST(cuEventCreate(&allocated, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventCreate(&used, CU_EVENT_DISABLE_TIMING));
    MUST(cuMemAllocAsync(&block, 4096, one));
    MUST(cuEventRecord(allocated, one));
    MUST(cuStreamWaitEvent(two, allocated, 0));
    launch_words(block, 0, 8, two);
    MUST(cuEventRecord(used, two));
    MUST(cuStreamWaitEvent(one, used, 0));
    MUST(cuMemFreeAsync(block, one));
    MUST(cuCtxSynchronize());
}

/* The instance is updated before the block that it used is freed. */
static void graph_updated(void) {
    CUgraphExecUpdateResultInfo info;
    CUgraphExec instance;
    CUdeviceptr old = allocate_block(4096);
    MUST(cuGraphInstantiateWithFlags(&instance, graph_of(old), 0));
    launch_graph(instance);
    MUST(cuGraphExecUpdate(instance, graph_of(allocate_block(4096)), &info));
    free_block(old);
    launch_graph(instance);
    MUST(cuGraphExecDestroy(instance));
}

/* 200 small blocks live, and one that takes half of what a card of 256 MiB has. */
static void many_live(void) {
    CUdeviceptr blocks[200], large;
    for (int i = 0; i < 200; i++)
        blocks[i] = allocate_block(4000);
    MUST(cuMemAlloc(&large, 128 << 20));
    MUST(cuMemFree(large));
    for (int i = 0; i < 200; i++)
        MUST(cuMemFree(blocks[i]));
}

static void free_many(int count) {
    for (int i = 0; i < count; i++)
        MUST(cuMemFree(allocate_block(1000)));
}

static void many_freed(void) { free_many(300); }

/* One of the next 16 blocks that ends where its mapping ends. */
static CUdeviceptr next_sample(void) {
    for (int i = 0; i < 16; i++)
        if ((allocate_block(4096) + 4096) % (2 << 20) == 0)
            return block;
    printf(" none is guarded");
    return block;
}

/* In blocks that are guarded where not all are. */
static void sampled(void) {
    CUdeviceptr used = next_sample(), freed = next_sample();
    free_block(freed);
    launch_words(used, 0, 8, one);
    launch_words(freed, 0, 0, one);
    printf(" wait %d", cuStreamSynchronize(one));
    launch_view(used, 0, 0);
    launch_words(used, 0, 1025, one);
    printf(" wait %d", cuStreamSynchronize(one));
}

#define ERROR(name) \
    { #name, name }
static const struct {
    const char *name;
    void (*make)(void);
} errors[] = {
    ERROR(none),
    ERROR(sampled),
    ERROR(behind_byte),
    ERROR(behind_element),
    ERROR(behind_stride),
    ERROR(before_byte),
    ERROR(before_stride),
    ERROR(in_a_struct),
    ERROR(after_free),
    ERROR(after_free_other_stream),
    ERROR(after_free_other_thread),
    ERROR(after_free_in_order),
    ERROR(after_free_in_a_struct),
    ERROR(stale_member),
    ERROR(freed_twice),
    ERROR(freed_inside),
    ERROR(freed_as_host),
    ERROR(copy_behind),
    ERROR(copy_to_behind),
    ERROR(copy_rows_behind),
    ERROR(copy_freed),
    ERROR(fill_behind),
    ERROR(never_freed),
    ERROR(one_of_many),
    ERROR(graph_freed),
    ERROR(before_ready),
    ERROR(freed_in_use),
    ERROR(host_pointer),
    ERROR(behind_grown),
    ERROR(never_written),
    ERROR(leaked),
    ERROR(ready_by_event),
    ERROR(graph_updated),
    ERROR(many_live),
    ERROR(many_freed),
};

int main(int count, char **arguments) {
    CUmodule module;
    void (*make)(void) = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors && count > 1; i++)
        if (strcmp(arguments[1], errors[i].name) == 0)
            make = errors[i].make;
    EXPECT(make != NULL);
    start_driver();
    MUST(cuModuleLoadData(&module, image));
    MUST(cuModuleGetFunction(&words, module, "write_words"));
    MUST(cuModuleGetFunction(&byte, module, "write_byte"));
    MUST(cuModuleGetFunction(&view, module, "write_view"));
    MUST(cuModuleGetFunction(&word, module, "copy_word"));
    MUST(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    free_many(count > 2 ? atoi(arguments[2]) : 0);
    printf("%s:", arguments[1]);
    make();
    printf("\nok planted\n");
    return 0;
}

/* Programs with one memory error each, planted. */
#include <pthread.h>
#include <signal.h>

#include "planted.h"

/* ---- the errors */

CASE(none) {
    launch_words(make(1000), 0, 250, one);
    MUST(cuMemsetD8(block, 1, 1000));
    MUST(cuCtxSynchronize());
    drop(block);
}

CASE(behind_byte) {
    launch_byte(make(1000), 1000);
    drop(block);
}

CASE(behind_byte_done) {
    launch_byte(make(1000), 1000);
    wait_for(one);
    drop(block);
}

CASE(behind_element) {
    launch_words(make(4096), 0, 1025, one);
    printf(" wait %d", cuCtxSynchronize());
}

CASE(behind_stride) {
    launch_words(make(4096), 1 << 19, 1, one);
    wait_for(one);
}

CASE(before_byte) {
    launch_byte(make(1000), -1);
    drop(block);
}

CASE(before_stride) {
    launch_byte(make(1000), -(2 << 20));
    wait_for(one);
}

CASE(in_a_struct) { launch_view(make(4096), 4096, 0); }

CASE(after_free_in_a_struct) {
    drop(make(4096));
    launch_view(block, 0, 0);
}

CASE(stale_member) {
    CUdeviceptr stale = make(4096);
    drop(stale);
    launch_view(make(4096), 0, stale);
}

CASE(after_free) {
    launch_words(make(4096), 0, 8, one);
    drop(block);
    launch_words(block, 0, 8, one);
    wait_for(one);
}

CASE(after_free_other_stream) {
    launch_words(make(4096), 0, 8, one);
    drop(block);
    launch_words(block, 0, 8, two);
    wait_for(two);
}

static void *other_thread(void *context) {
    MUST(cuCtxSetCurrent(context));
    launch_words(block, 0, 8, two);
    wait_for(two);
    return NULL;
}

CASE(after_free_other_thread) {
    CUcontext context;
    pthread_t thread;
    MUST(cuCtxGetCurrent(&context));
    make(4096);
    drop(block);
    pthread_create(&thread, NULL, other_thread, context);
    pthread_join(thread, NULL);
}

CASE(after_free_in_order) {
    MUST(cuMemAllocAsync(&block, 4096, one));
    launch_words(block, 0, 8, one);
    MUST(cuMemFreeAsync(block, one));
    MUST(cuStreamSynchronize(one));
    launch_words(block, 0, 8, two);
    wait_for(two);
}

/* The kernel of the last of many modules. */
CASE(after_free_many_kernels) {
    CUmodule module;
    make(4096);
    for (int i = 0; i < 1100; i++) {
        MUST(cuModuleLoadData(&module, image));
        MUST(cuModuleGetFunction(&words, module, "write_words"));
        MUST(cuLaunchKernel(words, 1, 1, 1, 1, 1, 1, 0, one, (void *[]){&block, &(int64_t){0}, &(uint32_t){1}}, NULL));
    }
    drop(block);
    launch_words(block, 0, 8, one);
    wait_for(one);
}

/* Argument 19 of 20, which the kernel uses alone. */
CASE(after_free_late_argument) {
    CUdeviceptr blocks[20];
    void *arguments[20];
    for (int i = 0; i < 20; i++) {
        blocks[i] = make(4096);
        arguments[i] = &blocks[i];
    }
    drop(blocks[18]);
    launch(twenty, arguments, one);
    wait_for(one);
}

/* The kernels of a loop, then many different ones. */
CASE(many_launches) {
    CUdeviceptr right = make(4096), small = make(1000);
    for (int i = 0; i < 50; i++) {
        launch_words(right, 0, 8, one);
        launch_byte(small, i);
    }
    launch_words(small, 0, 4096, one);
    wait_for(one);
}

CASE(many_different) {
    for (int i = 0; i < 40; i++)
        launch_words(make(4096), 0, i < 39 ? 8 : 4096, one);
    wait_for(one);
}

CASE(freed_twice) {
    make(4096);
    drop(block);
    drop(block);
}

CASE(freed_inside) { drop(make(4096) + 256); }

CASE(freed_as_host) { printf(" free %d", cuMemFreeHost((void *)(uintptr_t)make(4096))); }

CASE(host_freed) {
    void *host;
    MUST(cuMemAllocHost(&host, 4096));
    drop((CUdeviceptr)(uintptr_t)host);
}

CASE(exits_by_five) {
    drop(make(1000));
    drop(block);
    exit(5);
}

/* The block is damaged, and the process ends without a word. */
static void damage(void) {
    launch_byte(make(1000), 1000);
    wait_for(one);
    fflush(stdout);
}

CASE(ends_by_abort) {
    damage();
    abort();
}

CASE(ends_by_exit) {
    damage();
    _exit(0);
}

CASE(ends_by_kill) {
    damage();
    kill(getpid(), SIGKILL);
}

CASE(ends_by_exec) {
    damage();
    execl("/bin/true", "true", (char *)NULL);
}

CASE(copy_behind) {
    char bytes[2000];
    printf(" copy %d", cuMemcpyDtoH(bytes, make(1000), sizeof bytes));
}

CASE(copy_to_behind) {
    char bytes[1100] = {0};
    printf(" copy %d", cuMemcpyHtoDAsync(make(1000), bytes, sizeof bytes, one));
    wait_for(one);
}

CASE(copy_rows_behind) {
    char bytes[64 * 20];
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = make(64 * 16),
                          .srcPitch = 64,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = bytes,
                          .dstPitch = 64,
                          .WidthInBytes = 64,
                          .Height = 17};
    printf(" copy %d", cuMemcpy2D(&copy));
}

CASE(copy_freed) {
    char bytes[100];
    make(1000);
    drop(block);
    printf(" copy %d", cuMemcpyDtoH(bytes, block, sizeof bytes));
}

CASE(fill_behind) {
    printf(" fill %d", cuMemsetD32Async(make(1000), 5, 251, one));
    wait_for(one);
}

CASE(far_before) {
    launch_words(make(4096), -1000, 1000, one);
    drop(block);
}

CASE(long_before) {
    launch_words(make(4096), -20000, 20000, one);
    drop(block);
}

/* In front of and behind the bytes that are compared for every block. */
CASE(megabyte_before) {
    launch_byte(make(1000), -(1 << 20));
    drop(block);
}

CASE(megabyte_behind) {
    launch_byte(make(1000), 1 << 20);
    drop(block);
}

/* Reads one element. */
static void read_at(CUdeviceptr from, int64_t at) {
    CUdeviceptr to;
    MUST(cuMemAlloc(&to, 4));
    from += (CUdeviceptr)at;
    launch(word, (void *[]){&to, &from}, one);
    wait_for(one);
}

CASE(read_behind) { read_at(make(1000), 1000); }

CASE(read_behind_sixteen) { read_at(make(1000), 1008); }

CASE(read_last) {
    read_at(make(1000), 996);
    drop(block);
}

/* The second kernel is right. */
CASE(beside_by_first) {
    launch_byte(make(1000), 1000);
    launch_words(block, 0, 250, one);
    launch_byte(block, -5);
    drop(block);
}

CASE(null_argument) {
    launch_words(0, 1, 8, one);
    wait_for(one);
}

CASE(never_freed) { launch_byte(make(1000), 1001); }

CASE(one_of_many) {
    launch_words(make(4096), 0, 8, one);
    launch_byte(make(1000), 4);
    launch_words(make(8192), 0, 2049, one);
    launch_byte(make(512), 4);
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

CASE(graph_freed) {
    CUgraphExec instance;
    MUST(cuGraphInstantiateWithFlags(&instance, graph_of(make(4096)), 0));
    launch_graph(instance);
    drop(block);
    launch_graph(instance);
}

CASE(before_ready) {
    MUST(cuMemAllocAsync(&block, 4096, one));
    launch_words(block, 0, 8, two);
    wait_for(two);
}

/* By a kernel that is loaded in between, as CUDA's runtime does at the first launch. */
CASE(loaded_before_ready) {
    CUlibrary library;
    CUkernel kernel;
    MUST(cuMemAllocAsync(&block, 4096, one));
    MUST(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&kernel, library, "write_words"));
    MUST(cuKernelGetFunction(&words, kernel));
    launch_words(block, 0, 8, two);
    wait_for(two);
}

CASE(copied_before_ready) {
    char bytes[100] = {0};
    MUST(cuMemAllocAsync(&block, 4096, one));
    MUST(cuMemcpyHtoDAsync(block, bytes, sizeof bytes, two));
    wait_for(two);
}

/* The host polls a flag that the first stream sets behind the allocation. */
CASE(ready_by_flag) {
    volatile uint32_t *flag;
    MUST(cuMemAllocHost((void **)&flag, 4));
    *flag = 0;
    MUST(cuMemAllocAsync(&block, 4096, one));
    launch_words((CUdeviceptr)(uintptr_t)flag, 0, 1, one);
    while (!*flag)
        ;
    launch_words(block, 0, 8, two);
    wait_for(two);
}

CASE(freed_in_use) {
    MUST(cuMemAllocAsync(&block, 4096, one));
    MUST(cuStreamSynchronize(one));
    launch_words(block, 0, 8, two);
    MUST(cuMemFreeAsync(block, one));
    MUST(cuStreamSynchronize(two));
}

CASE(host_pointer) {
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
    wait_for(one);
}

/* A kernel runs for the new size, before the array has its memory. */
CASE(behind_grown) {
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
    wait_for(one);
}

CASE(never_written) {
    CUdeviceptr result;
    uint32_t value;
    void *arguments[] = {&result, &block};
    make(4096);
    MUST(cuMemAlloc(&result, 4));
    MUST(cuLaunchKernel(word, 1, 1, 1, 1, 1, 1, 0, one, arguments, NULL));
    MUST(cuStreamSynchronize(one));
    MUST(cuMemcpyDtoH(&value, result, 4));
    printf(" read %#x", value);
}

CASE(leaked) { make(1000); }

/* ---- no errors */

CASE(ready_by_event) {
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
CASE(graph_updated) {
    CUgraphExecUpdateResultInfo info;
    CUgraphExec instance;
    CUdeviceptr old = make(4096);
    MUST(cuGraphInstantiateWithFlags(&instance, graph_of(old), 0));
    launch_graph(instance);
    MUST(cuGraphExecUpdate(instance, graph_of(make(4096)), &info));
    drop(old);
    launch_graph(instance);
    MUST(cuGraphExecDestroy(instance));
}

/* 200 small blocks live, and one that takes half of what a card of 256 MiB has. */
CASE(many_live) {
    CUdeviceptr blocks[200], large;
    for (int i = 0; i < 200; i++)
        blocks[i] = make(4000);
    MUST(cuMemAlloc(&large, 128 << 20));
    MUST(cuMemFree(large));
    for (int i = 0; i < 200; i++)
        MUST(cuMemFree(blocks[i]));
}

CASE(many_freed) { drop_many(300); }

/* One of the next 64 blocks that ends where its mapping ends. */
static CUdeviceptr next_sample(void) {
    for (int i = 0; i < 64; i++)
        if ((make(4096) + 4096) % (2 << 20) == 0)
            return block;
    printf(" none is guarded");
    return block;
}

/* In blocks that are guarded where not all are. */
CASE(sampled) {
    CUdeviceptr used = next_sample(), freed = next_sample();
    drop(freed);
    launch_words(used, 0, 8, one);
    launch_words(freed, 0, 0, one);
    wait_for(one);
    launch_view(used, 0, 0);
    launch_words(used, 0, 1025, one);
    wait_for(one);
}

/* Where guarded blocks lie in their mappings. */
CASE(sides) {
    for (int i = 0; i < 64; i++)
        printf(" %lld", (long long)(make(4001) % (2 << 20)));
}

int main(int count, char **arguments) { return run_planted("planted", count, arguments); }

/* Grows an array by hand in four steps and compares its contents at the end. Arguments: how it grows (run_grow.py
 * lists the ways); "whole": each size is a multiple of the granularity. LINKED: it calls the driver for its copies, by
 * the names that the linker bound. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#ifdef LINKED
#include <cuda.h>
#endif

#include "program.h"

enum { STEPS = 4 };
static const size_t GRANULE = 2u << 20, ODD = 12345;

static cudaStream_t stream, captured;
static const char *way;

static int is(const char *name) { return strcmp(way, name) == 0; }

/* The bytes that a step adds have the number of the step as value. */
static void write_step(unsigned char *array, size_t from, size_t to, int step) {
    MUST(cudaMemset(array + from, step + 1, to - from));
    MUST(cudaDeviceSynchronize());
}

/* Creates a context beside the primary one; it is not current afterwards. */
static void second_context(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*create)(void **, unsigned, int) =
        driver ? (int (*)(void **, unsigned, int))dlsym(driver, "cuCtxCreate_v2") : NULL;
    int (*pop)(void **) = driver ? (int (*)(void **))dlsym(driver, "cuCtxPopCurrent_v2") : NULL;
    void *context;
    EXPECT(create && pop && create(&context, 0, 0) == 0 && pop(&context) == 0);
}

static void begin_capture(void) { MUST(cudaStreamBeginCapture(captured, cudaStreamCaptureModeRelaxed)); }

static void end_capture(int launch) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    MUST(cudaStreamEndCapture(captured, &graph));
    if (launch) {
        MUST(cudaGraphInstantiateWithFlags(&executable, graph, 0));
        MUST(cudaGraphLaunch(executable, captured));
        MUST(cudaStreamSynchronize(captured));
        MUST(cudaGraphExecDestroy(executable));
    }
    MUST(cudaGraphDestroy(graph));
}

static void *enter_driver(void *memory) {
#ifdef LINKED
    MUST(cudaFree(NULL)); /* the thread has a context */
    MUST(cuMemsetD8((CUdeviceptr)(uintptr_t)memory, 0x77, 64));
#else
    MUST(cudaMemset(memory, 0x77, 64));
#endif
    return NULL;
}

static void export(void *memory) {
    cudaIpcMemHandle_t handle;
    MUST(cudaIpcGetMemHandle(&handle, memory));
}

static void before_copy(unsigned char *grown, unsigned char *old, size_t size, unsigned char *other_block) {
    if (is("written_before")) {
        MUST(cudaMemset(grown, 0xee, size)); /* the bytes after the copied ones must stay */
        MUST(cudaDeviceSynchronize());
    }
    if (is("busy"))
        MUST(cudaMemsetAsync(other_block, 1, 1 << 20, stream));
    if (is("exported_each"))
        export(grown);
    if (is("exported_other")) {
        void *other;
        MUST(cudaMalloc(&other, size));
        export(other);
        MUST(cudaFree(other));
    }
    if (is("exported") || is("exported_grown")) {
        cudaIpcMemHandle_t handle;
        cudaIpcGetMemHandle(&handle, is("exported") ? old : grown);
        cudaGetLastError();
    }
    if (is("capturing") || is("captured_copy"))
        begin_capture();
    if (is("queried")) {
        struct cudaPointerAttributes attributes;
        MUST(cudaPointerGetAttributes(&attributes, grown));
        EXPECT(attributes.devicePointer == grown);
    }
}

static void copy(unsigned char *grown, const unsigned char *old, size_t size) {
    if (is("interior"))
        size -= 4096, MUST(cudaMemcpy(grown + size, old + size, 4096, cudaMemcpyDeviceToDevice));
    if (is("asynchronous") || is("busy")) {
        MUST(cudaMemcpyAsync(grown, old, size, cudaMemcpyDeviceToDevice, stream));
        if (is("asynchronous"))
            MUST(cudaStreamSynchronize(stream));
    } else if (is("capturing")) {
        MUST(cudaMemcpyAsync(grown, old, size, cudaMemcpyDeviceToDevice, stream));
        end_capture(0);
        MUST(cudaStreamSynchronize(stream));
    } else if (is("captured_copy")) {
        MUST(cudaMemcpyAsync(grown, old, size, cudaMemcpyDeviceToDevice, captured));
        end_capture(1);
    } else if (is("per_thread")) {
        MUST(cudaMemcpyAsync(grown, old, size, cudaMemcpyDeviceToDevice, cudaStreamPerThread));
        MUST(cudaStreamSynchronize(cudaStreamPerThread));
    } else if (is("default_kind")) {
        MUST(cudaMemcpy(grown, old, size, cudaMemcpyDefault));
    } else {
#ifdef LINKED
        MUST(cuMemcpyDtoD((CUdeviceptr)(uintptr_t)grown, (CUdeviceptr)(uintptr_t)old, size));
#else
        MUST(cudaMemcpy(grown, old, size, cudaMemcpyDeviceToDevice));
#endif
    }
}

static void before_free(unsigned char *grown, unsigned char *old, size_t size, unsigned char *other_block) {
    unsigned char byte;
    pthread_t thread;
    if (is("synchronised"))
        MUST(cudaDeviceSynchronize());
    if (is("read")) {
        MUST(cudaDeviceSynchronize());
        MUST(cudaMemcpyAsync(&byte, grown, 1, cudaMemcpyDeviceToHost,
                             stream)); /* only the wait orders it behind the copy */
        MUST(cudaStreamSynchronize(stream));
        EXPECT(byte == 1);
    }
    if (is("old_changed"))
        MUST(cudaMemset(old, 0x55, size)); /* the copy comes before this write */
    if (is("other_block"))
        enter_driver(other_block);
    if (is("other_thread")) {
        EXPECT(pthread_create(&thread, NULL, enter_driver, other_block) == 0);
        pthread_join(thread, NULL);
    }
    if (is("twice")) {
        unsigned char *third;
        MUST(cudaMalloc((void **)&third, 2 * size));
        MUST(cudaMemcpy(third, old, size, cudaMemcpyDeviceToDevice));
        MUST(cudaFree(third));
    }
}

static void check(const unsigned char *array, const size_t *ends) {
    size_t size = ends[STEPS];
    unsigned char *host = malloc(size);
    EXPECT(host != NULL);
    MUST(cudaMemcpy(host, array, size, cudaMemcpyDeviceToHost));
    for (int step = 0; step <= STEPS; step++)
        for (size_t at = step ? ends[step - 1] : 0; at < ends[step]; at++)
            EXPECT(host[at] == step + 1);
    free(host);
}

int main(int count, char **arguments) {
    unsigned char *array, *other_block, tail = 0;
    int whole = count > 2 && strcmp(arguments[2], "whole") == 0;
    size_t ends[STEPS + 1], size = 2 * GRANULE + (whole ? 0 : ODD);
    int devices = 0;
    way = count > 1 ? arguments[1] : "plain";
    MUST(cudaFree(NULL));
    MUST(cudaGetDeviceCount(&devices));
    if (is("peers")) {
        if (devices < 2)
            return 77;
        MUST(cudaSetDevice(1));
        MUST(cudaFree(NULL));
        MUST(cudaDeviceEnablePeerAccess(0, 0));
        MUST(cudaSetDevice(0));
    }
    if (is("second_context"))
        second_context();
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
    MUST(cudaMalloc((void **)&other_block, 1 << 20));
    MUST(cudaMalloc((void **)&array, size));
    write_step(array, 0, ends[0] = size, 0);
    for (int step = 1; step <= STEPS; step++) {
        unsigned char *grown;
        size_t larger = size + (whole ? GRANULE : size / 2);
        MUST(cudaMalloc((void **)&grown, larger));
        before_copy(grown, array, larger, other_block);
        copy(grown, array, size);
        before_free(grown, array, size, other_block);
        if (is("busy"))
            MUST(cudaStreamSynchronize(stream));
        MUST(cudaFree(array));
        if (is("written_before")) {
            MUST(cudaMemcpy(&tail, grown + larger - 1, 1, cudaMemcpyDeviceToHost));
            EXPECT(tail == 0xee);
            MUST(cudaMemcpy(&tail, grown + size, 1, cudaMemcpyDeviceToHost));
            EXPECT(tail == 0xee);
        }
        array = grown;
        write_step(array, size, larger, step);
        ends[step] = size = larger;
    }
    check(array, ends);
    MUST(cudaFree(array));
    MUST(cudaFree(other_block));
    printf("ok grow %s\n", way);
    return 0;
}

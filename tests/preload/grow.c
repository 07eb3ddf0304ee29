/* An array grown by hand, in the ways that programs do it; its contents are compared at the end. Arguments: which way;
 * "whole" when its size is always one of whole granules, "large" when it is large, and the card so full that its last
 * old and new do not fit. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#ifdef LINKED
#include <cuda.h>
#endif

#include "program.h"

enum { STEPS = 4 };
static const size_t ODD = 12345, LEFT_FREE = 800u << 20;

static size_t granule = 2u << 20;

static cudaStream_t stream, captured;
static const char *way;

static int is(const char *name) { return strcmp(way, name) == 0; }

/* The last bytes of each step's array tell the step. */
static void write_step(unsigned char *array, size_t from, size_t to, int step) {
    MUST(cudaMemset(array + from, step + 1, to - from));
    MUST(cudaDeviceSynchronize());
}

/* A context of the program's own, which it leaves at once. */
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
    MUST(cudaMemset(memory, 0x77, 64));
    return NULL;
}

static void export(void *memory) {
    cudaIpcMemHandle_t handle;
    MUST(cudaIpcGetMemHandle(&handle, memory));
}

static void before_copy(unsigned char *young, unsigned char *old, size_t size, unsigned char *aside) {
    if (is("written_before")) {
        MUST(cudaMemset(young, 0xee, size)); /* behind the copied bytes this stays */
        MUST(cudaDeviceSynchronize());
    }
    if (is("busy"))
        MUST(cudaMemsetAsync(aside, 1, 1 << 20, stream));
    if (is("exported_each"))
        export(young);
    if (is("exported_other")) {
        void *other;
        MUST(cudaMalloc(&other, size));
        export(other);
        MUST(cudaFree(other));
    }
    if (is("exported") || is("exported_young")) {
        cudaIpcMemHandle_t handle;
        cudaIpcGetMemHandle(&handle, is("exported") ? old : young);
        cudaGetLastError();
    }
    if (is("capturing") || is("captured_copy"))
        begin_capture();
    if (is("asked")) {
        struct cudaPointerAttributes attributes;
        MUST(cudaPointerGetAttributes(&attributes, young));
        EXPECT(attributes.devicePointer == young);
    }
}

static void copy(unsigned char *young, const unsigned char *old, size_t size) {
    if (is("interior"))
        size -= 4096, MUST(cudaMemcpy(young + size, old + size, 4096, cudaMemcpyDeviceToDevice));
    if (is("asynchronous") || is("busy")) {
        MUST(cudaMemcpyAsync(young, old, size, cudaMemcpyDeviceToDevice, stream));
        if (is("asynchronous"))
            MUST(cudaStreamSynchronize(stream));
    } else if (is("capturing")) {
        MUST(cudaMemcpyAsync(young, old, size, cudaMemcpyDeviceToDevice, stream));
        end_capture(0);
        MUST(cudaStreamSynchronize(stream));
    } else if (is("captured_copy")) {
        MUST(cudaMemcpyAsync(young, old, size, cudaMemcpyDeviceToDevice, captured));
        end_capture(1);
    } else if (is("per_thread")) {
        MUST(cudaMemcpyAsync(young, old, size, cudaMemcpyDeviceToDevice, cudaStreamPerThread));
        MUST(cudaStreamSynchronize(cudaStreamPerThread));
    } else if (is("default_kind")) {
        MUST(cudaMemcpy(young, old, size, cudaMemcpyDefault));
    } else {
        MUST(cudaMemcpy(young, old, size, cudaMemcpyDeviceToDevice));
    }
}

static void before_free(unsigned char *young, unsigned char *old, size_t size, unsigned char *aside) {
    unsigned char byte;
    pthread_t thread;
    if (is("synchronised"))
        MUST(cudaDeviceSynchronize());
    if (is("read")) {
        MUST(cudaDeviceSynchronize());
        MUST(cudaMemcpyAsync(&byte, young, 1, cudaMemcpyDeviceToHost, stream)); /* ordered by the wait alone */
        MUST(cudaStreamSynchronize(stream));
        EXPECT(byte == 1);
    }
    if (is("old_changed"))
        MUST(cudaMemset(old, 0x55, size)); /* the copy was made before, as far as anyone can tell */
    if (is("aside"))
        enter_driver(aside);
    if (is("other_thread")) {
        EXPECT(pthread_create(&thread, NULL, enter_driver, aside) == 0);
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

static void *fill_card(void) {
    size_t unused, total;
    void *ballast;
    MUST(cudaMemGetInfo(&unused, &total));
    EXPECT(unused > LEFT_FREE);
    MUST(cudaMalloc(&ballast, unused - LEFT_FREE));
    return ballast;
}

int main(int count, char **arguments) {
    unsigned char *array, *aside, tail = 0;
    int whole = count > 2 && strcmp(arguments[2], "whole") == 0,
        large = count > 2 && strcmp(arguments[2], "large") == 0;
    void *ballast = NULL;
    granule *= large ? 32 : 1;
    size_t ends[STEPS + 1], size = 2 * granule + (whole ? 0 : ODD);
    int devices = 0;
    way = count > 1 ? arguments[1] : "plain";
#ifdef LINKED
    MUST(cuInit(0));
#endif
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
    MUST(cudaMalloc((void **)&aside, 1 << 20));
    if (large)
        ballast = fill_card();
    MUST(cudaMalloc((void **)&array, size));
    write_step(array, 0, ends[0] = size, 0);
    for (int step = 1; step <= STEPS; step++) {
        unsigned char *young;
        size_t larger = size + (whole ? granule : size / 2);
        MUST(cudaMalloc((void **)&young, larger));
        before_copy(young, array, larger, aside);
        copy(young, array, size);
        before_free(young, array, size, aside);
        if (is("busy"))
            MUST(cudaStreamSynchronize(stream));
        MUST(cudaFree(array));
        if (is("written_before")) {
            MUST(cudaMemcpy(&tail, young + larger - 1, 1, cudaMemcpyDeviceToHost));
            EXPECT(tail == 0xee);
            MUST(cudaMemcpy(&tail, young + size, 1, cudaMemcpyDeviceToHost));
            EXPECT(tail == 0xee);
        }
        array = young;
        write_step(array, size, larger, step);
        ends[step] = size = larger;
    }
    check(array, ends);
    MUST(cudaFree(array));
    MUST(cudaFree(aside));
    MUST(cudaFree(ballast));
    printf("ok grow %s\n", way);
    return 0;
}

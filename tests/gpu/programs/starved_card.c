/* A call that takes most of the memory that is free, after as much came and went: what was freed must be there for it.
 * The card is filled with plain memory up to a fifth and 2 GiB.
 *
 * usage: starved_card kernel|kernel_ex|cooperative|graph|array
 *   kernel...  a kernel with local memory
 *   graph      a graph with an allocation
 *   array      an array
 * Prints the result of the call. Ends with 77 where the card is in use by others. */
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                              \
    do {                                                                         \
        CUresult checked = (call);                                               \
        if (checked) {                                                           \
            fprintf(stderr, "line %d: %s: %d\n", __LINE__, #call, (int)checked); \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

enum { BLOCKS = 9, SKIP = 77, MOST_LOCAL = 500 << 10 };
static const size_t GIB = (size_t)1 << 30;

static int attribute(CUdevice_attribute name) {
    int value;
    CHECK(cuDeviceGetAttribute(&value, name, 0));
    return value;
}

/* Each thread writes its local array at an index that only the launch knows, so that the array is memory. */
static CUfunction kernel_with(size_t local) {
    static const char text[] =
        ".version 6.3\n.target sm_70\n.address_size 64\n.visible .entry deep(.param .u64 result, .param .u32 at) {\n"
        ".local .align 4 .b8 stack[%zu];\n.reg .u64 %%a<4>;\n.reg .u32 %%r<4>;\n"
        "ld.param.u64 %%a0, [result];\nld.param.u32 %%r0, [at];\nmov.u64 %%a1, stack;\ncvt.u64.u32 %%a2, %%r0;\n"
        "add.u64 %%a1, %%a1, %%a2;\nmov.u32 %%r1, 42;\nst.local.u32 [%%a1], %%r1;\nld.local.u32 %%r2, [%%a1];\n"
        "cvta.to.global.u64 %%a0, %%a0;\nst.global.u32 [%%a0], %%r2;\nret;\n}\n";
    char image[2048];
    CUmodule module;
    CUfunction kernel;
    snprintf(image, sizeof image, text, local);
    CHECK(cuModuleLoadData(&module, image));
    CHECK(cuModuleGetFunction(&kernel, module, "deep"));
    return kernel;
}

/* Takes plain memory in pieces until only `rest` bytes are free. */
static void take_all_but(size_t rest) {
    size_t free_bytes, total;
    CUdeviceptr ballast;
    for (;;) {
        CHECK(cuMemGetInfo(&free_bytes, &total));
        if (free_bytes <= rest + GIB / 8)
            return;
        size_t piece = free_bytes - rest > 8 * GIB ? 8 * GIB : free_bytes - rest;
        CHECK(cuMemAlloc(&ballast, piece));
    }
}

static void come_and_go(size_t bytes) {
    CUdeviceptr blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemAlloc(&blocks[i], bytes / BLOCKS));
    for (int i = 0; i < BLOCKS; i++)
        CHECK(cuMemFree(blocks[i]));
    CHECK(cuCtxSynchronize());
}

static CUresult launch(const char *how, CUfunction kernel, CUdeviceptr result) {
    uint32_t at = 64;
    void *arguments[] = {&result, &at};
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, NULL, NULL, 0};
    if (!strcmp(how, "kernel_ex"))
        return cuLaunchKernelEx(&config, kernel, arguments, NULL);
    if (!strcmp(how, "cooperative"))
        return cuLaunchCooperativeKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments);
    return cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL);
}

static CUgraphExec graph_with(size_t bytes) {
    CUDA_MEM_ALLOC_NODE_PARAMS node = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
        .bytesize = bytes};
    CUDA_MEMSET_NODE_PARAMS fill = {.value = 42, .elementSize = 4, .width = 1, .height = 1};
    CUgraph graph;
    CUgraphNode made, filled, freed;
    CUgraphExec instance;
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddMemAllocNode(&made, graph, NULL, 0, &node));
    fill.dst = node.dptr;
    CHECK(cuGraphAddMemsetNode(&filled, graph, &made, 1, &fill, context));
    CHECK(cuGraphAddMemFreeNode(&freed, graph, &filled, 1, node.dptr));
    CHECK(cuGraphInstantiateWithFlags(&instance, graph, 0));
    return instance;
}

int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "kernel";
    size_t free_bytes, total;
    CUcontext context;
    CUdeviceptr result;
    CUarray array;
    uint32_t word = 0;
    CHECK(cuInit(0));
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&result, sizeof word));
    CHECK(cuMemGetInfo(&free_bytes, &total));
    if (free_bytes < total / 10 * 9) {
        fprintf(stderr, "others use the card\n");
        return SKIP;
    }
    size_t kept = total / 5, need = kept / 5 * 4;
    size_t threads = (size_t)attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *
                     (size_t)attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    size_t local = need / threads / 16 * 16;
    CUfunction kernel = kernel_with(local < MOST_LOCAL ? local : MOST_LOCAL);
    CUgraphExec instance = !strcmp(how, "graph") ? graph_with(need) : NULL;
    CUDA_ARRAY3D_DESCRIPTOR shape = {
        .Width = 1024, .Height = 1024, .Depth = need >> 24, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    take_all_but(kept + 2 * GIB);
    come_and_go(kept);
    CUresult called = instance                ? cuGraphLaunch(instance, NULL)
                      : !strcmp(how, "array") ? cuArray3DCreate(&array, &shape)
                                              : launch(how, kernel, result);
    CUresult done = cuCtxSynchronize();
    if (!instance && strcmp(how, "array") && !called)
        CHECK(cuMemcpyDtoH(&word, result, sizeof word));
    printf("%s of %zu MiB: %d, then %d, word %u\n", how, need >> 20, (int)called, (int)done, word);
    return called || done ? 3 : 0;
}

/* Programs with one memory error each, planted. Argument: the error. Prints the results of the calls that may fail. On
 * the simulated driver the twins below stand for the kernels. */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>

#include "program.h"

static const char image[] = ".version 7.0\n"
                            ".target sm_75\n"
                            ".address_size 64\n"
                            ".visible .entry write_words(.param .u64 block, .param .s64 first, .param .u32 count)\n"
                            "{\n"
                            "    .reg .b32 %r<3>;\n"
                            "    .reg .b64 %rd<4>;\n"
                            "    .reg .pred %p;\n"
                            "    ld.param.u64 %rd1, [block];\n"
                            "    ld.param.s64 %rd2, [first];\n"
                            "    ld.param.u32 %r1, [count];\n"
                            "    mov.u32 %r2, 7;\n"
                            "    shl.b64 %rd2, %rd2, 2;\n"
                            "    add.s64 %rd1, %rd1, %rd2;\n"
                            "next:\n"
                            "    setp.eq.u32 %p, %r1, 0;\n"
                            "    @%p bra done;\n"
                            "    st.global.u32 [%rd1], %r2;\n"
                            "    add.s64 %rd1, %rd1, 4;\n"
                            "    sub.u32 %r1, %r1, 1;\n"
                            "    bra next;\n"
                            "done:\n"
                            "    ret;\n"
                            "}\n"
                            ".visible .entry write_byte(.param .u64 block, .param .s64 at)\n"
                            "{\n"
                            "    .reg .b32 %r<2>;\n"
                            "    .reg .b64 %rd<3>;\n"
                            "    ld.param.u64 %rd1, [block];\n"
                            "    ld.param.s64 %rd2, [at];\n"
                            "    add.s64 %rd1, %rd1, %rd2;\n"
                            "    mov.u32 %r1, 7;\n"
                            "    st.global.u8 [%rd1], %r1;\n"
                            "    ret;\n"
                            "}\n"
                            ".visible .entry write_view(.param .align 8 .b8 view[24])\n"
                            "{\n"
                            "    .reg .b32 %r<2>;\n"
                            "    .reg .b64 %rd<3>;\n"
                            "    ld.param.u64 %rd1, [view];\n"
                            "    ld.param.u64 %rd2, [view+8];\n"
                            "    add.s64 %rd1, %rd1, %rd2;\n"
                            "    mov.u32 %r1, 7;\n"
                            "    st.global.u32 [%rd1], %r1;\n"
                            "    ret;\n"
                            "}\n";

#ifdef SIM_TWINS
#include "simcuda.h"
static void write_words(const struct simcuda_launch *l) {
    char *at = *(char **)l->args[0] + 4 * *(int64_t *)l->args[1];
    for (uint32_t left = *(uint32_t *)l->args[2]; left && l->touch(at, 4, 1); left--, at += 4)
        *(uint32_t *)l->touch(at, 4, 1) = 7;
}
static void write_byte(const struct simcuda_launch *l) {
    char *byte = l->touch(*(char **)l->args[0] + *(int64_t *)l->args[1], 1, 1);
    if (byte)
        *byte = 7;
}
static void write_view(const struct simcuda_launch *l) {
    const uint64_t *view = l->args[0];
    uint32_t *word = l->touch((void *)(uintptr_t)(view[0] + view[1]), 4, 1);
    if (word)
        *word = 7;
}
SIMCUDA_TWIN(write_words, "q84", write_words);
SIMCUDA_TWIN(write_byte, "q8", write_byte);
SIMCUDA_TWIN(write_view, "[24]", write_view);
#endif

static CUfunction words, byte, view;
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

/* ---- no errors */

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

static void many_freed(void) {
    for (int i = 0; i < 300; i++)
        MUST(cuMemFree(allocate_block(1000)));
}

#define ERROR(name) \
    { #name, name }
static const struct {
    const char *name;
    void (*make)(void);
} errors[] = {
    ERROR(none),
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
    ERROR(many_live),
    ERROR(many_freed),
};

int main(int count, char **arguments) {
    CUcontext context;
    CUmodule module;
    void (*make)(void) = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors && count > 1; i++)
        if (strcmp(arguments[1], errors[i].name) == 0)
            make = errors[i].make;
    EXPECT(make != NULL);
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, image));
    MUST(cuModuleGetFunction(&words, module, "write_words"));
    MUST(cuModuleGetFunction(&byte, module, "write_byte"));
    MUST(cuModuleGetFunction(&view, module, "write_view"));
    MUST(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    printf("%s:", arguments[1]);
    make();
    printf("\nok planted\n");
    return 0;
}

/* What planted.c and guard_uses.c share: kernels, as code and as twins that do the same on the simulated driver
 * (SIM_TWINS), and calls that print their results. Arguments of the programs: the case, and how many blocks are
 * allocated and freed before it. */
#ifndef PRELOAD_PLANTED_H
#define PRELOAD_PLANTED_H

#include <cuda.h>
#include <stdint.h>

#include "cases.h"

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
                            "}\n"
                            ".visible .entry copy_word(.param .u64 to, .param .u64 from)\n"
                            "{\n"
                            "    .reg .b32 %r<2>;\n"
                            "    .reg .b64 %rd<3>;\n"
                            "    ld.param.u64 %rd1, [to];\n"
                            "    ld.param.u64 %rd2, [from];\n"
                            "    ld.global.u32 %r1, [%rd2];\n"
                            "    st.global.u32 [%rd1], %r1;\n"
                            "    ret;\n"
                            "}\n"
                            ".visible .entry write_each(.param .u64 table, .param .u32 count)\n"
                            "{\n"
                            "    .reg .b32 %r<3>;\n"
                            "    .reg .b64 %rd<3>;\n"
                            "    .reg .pred %p;\n"
                            "    ld.param.u64 %rd1, [table];\n"
                            "    ld.param.u32 %r1, [count];\n"
                            "    mov.u32 %r2, 7;\n"
                            "next:\n"
                            "    setp.eq.u32 %p, %r1, 0;\n"
                            "    @%p bra done;\n"
                            "    ld.global.u64 %rd2, [%rd1];\n"
                            "    st.global.u32 [%rd2], %r2;\n"
                            "    add.s64 %rd1, %rd1, 8;\n"
                            "    sub.u32 %r1, %r1, 1;\n"
                            "    bra next;\n"
                            "done:\n"
                            "    ret;\n"
                            "}\n"
                            ".visible .entry last_but_one("
                            "    .param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u64 p4,\n"
                            "    .param .u64 p5, .param .u64 p6, .param .u64 p7, .param .u64 p8, .param .u64 p9,\n"
                            "    .param .u64 p10, .param .u64 p11, .param .u64 p12, .param .u64 p13, .param .u64 p14,\n"
                            "    .param .u64 p15, .param .u64 p16, .param .u64 p17, .param .u64 p18, .param .u64 p19)\n"
                            "{\n"
                            "    .reg .b32 %r<2>;\n"
                            "    .reg .b64 %rd<2>;\n"
                            "    ld.param.u64 %rd1, [p18];\n"
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
static void copy_word(const struct simcuda_launch *l) {
    const uint32_t *from = l->touch(*(void **)l->args[1], 4, 0);
    uint32_t *to = l->touch(*(void **)l->args[0], 4, 1);
    if (from && to)
        *to = *from;
}
static void write_each(const struct simcuda_launch *l) {
    const uint32_t count = *(uint32_t *)l->args[1];
    const uint64_t *table = l->touch(*(void **)l->args[0], 8 * (size_t)count, 0);
    for (uint32_t i = 0; table && i < count; i++) {
        uint32_t *word = l->touch((void *)(uintptr_t)table[i], 4, 1);
        if (!word)
            return;
        *word = 7;
    }
}
static void last_but_one(const struct simcuda_launch *l) {
    uint32_t *word = l->touch(*(void **)l->args[18], 4, 1);
    if (word)
        *word = 7;
}
SIMCUDA_TWIN(last_but_one, "qqqqqqqqqqqqqqqqqqqq", last_but_one);
SIMCUDA_TWIN(write_each, "q4", write_each);
SIMCUDA_TWIN(copy_word, "qq", copy_word);
SIMCUDA_TWIN(write_words, "q84", write_words);
SIMCUDA_TWIN(write_byte, "q8", write_byte);
SIMCUDA_TWIN(write_view, "[24]", write_view);
#endif

static CUfunction words, byte, view, word, each, twenty;
static CUstream one, two;
static CUdeviceptr block; /* the latest */

static inline void launch(CUfunction kernel, void **arguments, CUstream stream) {
    printf(" launch %d", cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static inline void launch_words(CUdeviceptr to, int64_t first, uint32_t count, CUstream stream) {
    launch(words, (void *[]){&to, &first, &count}, stream);
}

static inline void launch_byte(CUdeviceptr to, int64_t at) { launch(byte, (void *[]){&to, &at}, one); }

static inline void wait_for(CUstream stream) { printf(" wait %d", cuStreamSynchronize(stream)); }

/* The kernel does not use the last member. Reports name this function, so it is not inlined. */
static __attribute__((noinline)) void launch_view(CUdeviceptr data, int64_t at, CUdeviceptr unused) {
    uint64_t argument[3] = {data, (uint64_t)at, unused};
    launch(view, (void *[]){argument}, one);
    wait_for(one);
}

static inline CUdeviceptr make(size_t bytes) {
    MUST(cuMemAlloc(&block, bytes));
    return block;
}

static inline void drop(CUdeviceptr address) { printf(" free %d", cuMemFree(address)); }

static inline void drop_many(int count) {
    for (int i = 0; i < count; i++)
        MUST(cuMemFree(make(1000)));
}

static inline void launch_graph(CUgraphExec instance) {
    printf(" graph %d", cuGraphLaunch(instance, one));
    wait_for(one);
}

static inline int run_planted(const char *program, int count, char **arguments) {
    const struct program_case *chosen = case_named(count > 1 ? arguments[1] : NULL);
    CUmodule module;
    start_driver();
    MUST(cuModuleLoadData(&module, image));
    MUST(cuModuleGetFunction(&words, module, "write_words"));
    MUST(cuModuleGetFunction(&byte, module, "write_byte"));
    MUST(cuModuleGetFunction(&view, module, "write_view"));
    MUST(cuModuleGetFunction(&word, module, "copy_word"));
    MUST(cuModuleGetFunction(&each, module, "write_each"));
    MUST(cuModuleGetFunction(&twenty, module, "last_but_one"));
    MUST(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    drop_many(count > 2 ? atoi(arguments[2]) : 0);
    printf("%s:", chosen->name);
    chosen->run();
    printf("\nok %s\n", program);
    return 0;
}

#endif

/* A kernel writes to an address without memory after the program has continued: which calls return the error, and
 * does it persist? Argument: the synchronising call that follows. On the simulated driver the twin below stands for
 * the kernel. */
#include <cuda.h>

#include "program.h"

enum { SIZE = 1 << 20, HELD = 70 };

static const char image[] = ".version 7.0\n"
                            ".target sm_75\n"
                            ".address_size 64\n"
                            ".visible .entry write_there(.param .u64 place)\n"
                            "{\n"
                            "    .reg .b32 %r<2>;\n"
                            "    .reg .b64 %rd<2>;\n"
                            "    ld.param.u64 %rd1, [place];\n"
                            "    mov.u32 %r1, 1;\n"
                            "    nanosleep.u32 1000000;\n"
                            "    nanosleep.u32 1000000;\n"
                            "    nanosleep.u32 1000000;\n"
                            "    nanosleep.u32 1000000;\n"
                            "    st.global.u32 [%rd1], %r1;\n"
                            "    ret;\n"
                            "}\n";

#ifdef SIM_TWINS
#include "simcuda.h"
static void write_there(const struct simcuda_launch *launch) { launch->touch(*(void **)launch->args[0], 4, 1); }
SIMCUDA_TWIN(write_there, "q", write_there);
#endif

static CUstream stream;
static CUevent event;
static CUdeviceptr read_from;

static CUresult wait_for_context(void) { return cuCtxSynchronize(); }
static CUresult wait_for_stream(void) { return cuStreamSynchronize(stream); }
static CUresult wait_for_event(void) { return cuEventSynchronize(event); }
static CUresult copy_back(void) {
    char bytes[16];
    return cuMemcpyDtoH(bytes, read_from, sizeof bytes);
}

static const struct {
    const char *name;
    CUresult (*call)(void);
} synchronising[] = {
    {"context", wait_for_context}, {"stream", wait_for_stream}, {"event", wait_for_event}, {"copy", copy_back}};

int main(int count, char **words) {
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr first, second, blocks[HELD], place = 0x10;
    void *arguments[] = {&place};
    CUresult (*next)(void) = NULL;
    for (int i = 0; i < 4 && count > 1; i++)
        if (strcmp(words[1], synchronising[i].name) == 0)
            next = synchronising[i].call;
    EXPECT(next != NULL);
    start_driver();
    MUST(cuModuleLoadData(&module, image));
    MUST(cuModuleGetFunction(&kernel, module, "write_there"));
    MUST(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuMemAlloc(&read_from, SIZE));
    MUST(cuMemAlloc(&first, SIZE));
    for (int i = 0; i < HELD; i++)
        MUST(cuMemAlloc(&blocks[i], SIZE));
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    MUST(cuEventRecord(event, stream));
    printf("free %d", cuMemFree(first));
    printf(" alloc %d", cuMemAlloc(&second, SIZE));
    printf(" next %d", next());
    printf(" then %d %d", cuCtxSynchronize(), next());
    printf(" frees");
    for (int i = 0; i < HELD; i++)
        printf(" %d", cuMemFree(blocks[i]));
    printf(" allocs");
    for (int i = 0; i < HELD; i++)
        printf(" %d", cuMemAlloc(&blocks[i], SIZE));
    printf(" last %d\nok late_error\n", cuCtxSynchronize());
    return 0;
}

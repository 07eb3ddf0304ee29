/* Measures how much stack calls use. Each step runs in its own thread, on a stack that was filled with a pattern.
 * Prints lines "STEP BYTES"; run_stack.py compares them with and without gpumem.
 *
 *   usage: small_stack                   the steps that one process can run in turn
 *          small_stack threads STEP ...  steps on the smallest stack of a thread: crashes, or ends with 0 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "program.h"

enum { STACK = 256 << 10, MIB = 1 << 20 };

/* Looked up, as a CUDA runtime does. */
/* clang-format off */
#define CALLS(X)                                                                                           \
    X(cuArrayCreate) X(cuArrayDestroy) X(cuCtxSetCurrent) X(cuDevicePrimaryCtxReset)                       \
    X(cuDevicePrimaryCtxRetain) X(cuGraphDestroy) X(cuInit) X(cuIpcGetMemHandle) X(cuMemAddressFree)       \
    X(cuMemAddressReserve) X(cuMemAlloc) X(cuMemAllocAsync) X(cuMemAllocManaged) X(cuMemAllocPitch)        \
    X(cuMemCreate) X(cuMemFree) X(cuMemFreeAsync) X(cuMemFreeHost) X(cuMemGetAddressRange) X(cuMemGetInfo) \
    X(cuMemHostAlloc) X(cuMemMap) X(cuMemRelease) X(cuMemUnmap) X(cuMemcpyDtoD) X(cuPointerGetAttribute)   \
    X(cuStreamBeginCapture) X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamEndCapture)
/* clang-format on */
#define MEMBER(name)  __typeof__(&name) name;
#define LOOK_UP(name) EXPECT((cu.name = (__typeof__(&name))dlsym(driver, NAME_OF(name))) != NULL);
#define NAME_OF(name) TEXT_OF(name)
#define TEXT_OF(name) #name
static struct { CALLS(MEMBER) } cu;

static CUcontext context;
static unsigned char *stack;
static uintptr_t entered;
static int *depth_of_child;

/* ---- steps; a call that the device does not support fails alike with and without gpumem */

static void first(void) {
    CUdeviceptr block;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    EXPECT(driver != NULL);
    CALLS(LOOK_UP)
    MUST(cu.cuInit(0));
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuCtxSetCurrent(context));
    MUST(cu.cuMemAlloc(&block, MIB));
    MUST(cu.cuMemFree(block));
}

static void pairs(void) {
    CUdeviceptr blocks[20];
    for (size_t round = 0; round < 4; round++) {
        for (size_t i = 0; i < 20; i++)
            MUST(cu.cuMemAlloc(&blocks[i], 4096 + i * (round % 2) * 512));
        for (size_t i = 0; i < 20; i++)
            MUST(cu.cuMemFree(blocks[i]));
    }
}

static void other_kinds(void) {
    CUdeviceptr block;
    CUarray array;
    size_t pitch;
    void *host;
    if (!cu.cuMemAllocManaged(&block, MIB, CU_MEM_ATTACH_GLOBAL))
        MUST(cu.cuMemFree(block));
    if (!cu.cuMemAllocAsync(&block, MIB, NULL))
        MUST(cu.cuMemFreeAsync(block, NULL));
    if (!cu.cuMemAllocPitch(&block, &pitch, 100, 100, 16))
        MUST(cu.cuMemFree(block));
    if (!cu.cuMemHostAlloc(&host, MIB, 0))
        MUST(cu.cuMemFreeHost(host));
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    if (!cu.cuArrayCreate(&array, &shape))
        cu.cuArrayDestroy(array);
}

static void vmm(void) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    if (cu.cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0))
        return;
    if (!cu.cuMemCreate(&handle, 2 * MIB, &properties, 0)) {
        if (!cu.cuMemMap(at, 2 * MIB, 0, handle, 0))
            cu.cuMemUnmap(at, 2 * MIB);
        cu.cuMemRelease(handle);
    }
    cu.cuMemAddressFree(at, 2 * MIB);
}

static void questions(void) {
    CUdeviceptr block, base;
    CUipcMemHandle handle;
    size_t size, total;
    unsigned kind;
    MUST(cu.cuMemAlloc(&block, MIB));
    cu.cuMemGetInfo(&size, &total);
    cu.cuMemGetAddressRange(&base, &size, block + 100);
    cu.cuPointerGetAttribute(&kind, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block);
    cu.cuIpcGetMemHandle(&handle, block);
    MUST(cu.cuMemFree(block));
    cu.cuMemFree(block);
    cu.cuMemFree(0x10);
}

/* More than the device has, and more than any device has. */
static void out_of_memory(void) {
    CUdeviceptr blocks[16], block;
    unsigned count = 0;
    while (count < 16 && !cu.cuMemAlloc(&blocks[count], 8 * MIB))
        count++;
    cu.cuMemAlloc(&block, (size_t)1 << 45);
    cu.cuMemAllocAsync(&block, (size_t)1 << 45, NULL);
    while (count)
        MUST(cu.cuMemFree(blocks[--count]));
}

static void growing(void) {
    CUdeviceptr block, larger;
    size_t size = 2 * MIB;
    MUST(cu.cuMemAlloc(&block, size));
    for (; size < 32 * MIB; size *= 2) {
        if (cu.cuMemAlloc(&larger, 2 * size))
            break;
        MUST(cu.cuMemcpyDtoD(larger, block, size));
        MUST(cu.cuMemFree(block));
        block = larger;
    }
    MUST(cu.cuMemFree(block));
}

static void capturing(void) {
    CUstream stream;
    CUgraph graph;
    CUdeviceptr block;
    MUST(cu.cuMemAlloc(&block, MIB));
    if (!cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)) {
        if (!cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)) {
            MUST(cu.cuMemFree(block));
            block = 0;
            cu.cuStreamEndCapture(stream, &graph);
            cu.cuGraphDestroy(graph);
        }
        cu.cuStreamDestroy(stream);
    }
    cu.cuMemFree(block);
    pairs();
}

static void reset(void) {
    CUdeviceptr block;
    for (int i = 0; i < 200; i++)
        MUST(cu.cuMemAlloc(&block, 4096));
    MUST(cu.cuDevicePrimaryCtxReset(0));
    MUST(cu.cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cu.cuCtxSetCurrent(context));
    pairs();
}

static int depth(void);

/* The child has no working driver, as natively. Only the stack that gpumem itself uses matters. */
static void forked(void) {
    pid_t child = fork();
    if (!child) {
        CUdeviceptr block;
        if (!cu.cuMemAlloc(&block, MIB))
            cu.cuMemFree(block);
        *depth_of_child = depth();
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static const struct step {
    const char *name;
    void (*run)(void);
} steps[] = {
    {"first", first},         {"pairs", pairs},     {"other_kinds", other_kinds},     {"vmm", vmm},
    {"questions", questions}, {"growing", growing}, {"out_of_memory", out_of_memory}, {"capturing", capturing},
    {"forked", forked},       {"reset", reset},
};
enum { STEPS = sizeof steps / sizeof *steps };

/* ---- stacks */

static int depth(void) {
    unsigned char *at = stack;
    while (*at == 0xa5)
        at++;
    return (int)(entered - (uintptr_t)at);
}

static void *enter(void *step) {
    entered = (uintptr_t)__builtin_frame_address(0);
    if (context)
        MUST(cu.cuCtxSetCurrent(context));
    ((const struct step *)step)->run();
    return NULL;
}

static int measure(const struct step *step) {
    pthread_attr_t attributes;
    pthread_t thread;
    memset(stack, 0xa5, STACK);
    *depth_of_child = 0;
    EXPECT(!pthread_attr_init(&attributes) && !pthread_attr_setstack(&attributes, stack, STACK));
    EXPECT(!pthread_create(&thread, &attributes, enter, (void *)step));
    EXPECT(!pthread_join(thread, NULL));
    return *depth_of_child > depth() ? *depth_of_child : depth();
}

static void run_small(const struct step *step) {
    pthread_attr_t attributes;
    pthread_t thread;
    EXPECT(!pthread_attr_init(&attributes));
    EXPECT(!pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)));
    EXPECT(!pthread_create(&thread, &attributes, enter, (void *)step));
    EXPECT(!pthread_join(thread, NULL));
}

int main(int count, char **words) {
    stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    depth_of_child = mmap(NULL, sizeof *depth_of_child, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(stack != MAP_FAILED && depth_of_child != MAP_FAILED);
    for (int i = 0; i < STEPS; i++) {
        bool small = false;
        for (int word = 2; word < count; word++)
            small |= !strcmp(words[word], steps[i].name);
        if (small)
            run_small(&steps[i]);
        else
            printf("%s %d\n", steps[i].name, measure(&steps[i]));
    }
    printf("ok small_stack\n");
    return 0;
}

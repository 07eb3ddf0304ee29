// Several contexts, dead contexts, contexts with a fault, and calls without one.
#include "order_rows.h"

#include <sys/wait.h>

typedef CUresult (*CreateContext)(CUcontext *context, unsigned flags, CUdevice device);
typedef CUresult (*Allocate)(CUdeviceptr *address, size_t size);
typedef CUresult (*Free)(CUdeviceptr address);
typedef CUresult (*Fill)(CUdeviceptr address, unsigned char value, size_t size);
typedef CUresult (*CopyDown)(void *to, CUdeviceptr from, size_t size);
typedef CUresult (*CopyDownAsync)(void *to, CUdeviceptr from, size_t size, CUstream stream);

static CUcontext create_context() {
    CUcontext context;
    MUST(DRIVER_AS(cuCtxCreate_v2, CreateContext)(&context, 0, 0));
    return context;
}

// ---- a second context that never allocates

struct Two {
    CUcontext own, idle;
    CUstream stream; // of the idle one
};

static Two with_idle_context() {
    Two two;
    set_up();
    MUST(DRIVER(cuCtxGetCurrent)(&two.own));
    two.idle = create_context();
    MUST(DRIVER(cuStreamCreate)(&two.stream, CU_STREAM_NON_BLOCKING));
    MUST(DRIVER(cuCtxSetCurrent)(two.own));
    return two;
}

// It copies what the other one computed.
static void idle_context_copies() {
    Two two = with_idle_context();
    for (int round = 0; round < ROUNDS; round++) {
        unsigned seen = 0;
        begin_round();
        void *memory = scratch();
        late_write(nullptr, order.word, order.ns);
        free_scratch(memory);
        MUST(DRIVER(cuCtxSetCurrent)(two.idle));
        auto copy = DRIVER_AS(cuMemcpyDtoHAsync_v2, CopyDownAsync);
        if (copy(&seen, (CUdeviceptr)(uintptr_t)order.word, 4, two.stream) != CUDA_SUCCESS)
            unsupported("a context does not copy another one's memory");
        MUST(DRIVER(cuStreamSynchronize)(two.stream));
        MUST(DRIVER(cuCtxSetCurrent)(two.own));
        if (seen != order.value)
            wrong("round %d: %u for %u", round, seen, order.value);
        end_round();
    }
}

static void idle_context_queries() {
    Two two = with_idle_context();
    cudaEvent_t event;
    MUST(cudaEventCreate(&event));
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        void *memory = scratch();
        late_write(nullptr, order.word, order.ns);
        MUST(cudaEventRecord(event, nullptr));
        free_scratch(memory);
        MUST(DRIVER(cuCtxSetCurrent)(two.idle));
        CUresult result = DRIVER(cuEventQuery)(event);
        MUST(DRIVER(cuCtxSetCurrent)(two.own));
        if (result != CUDA_SUCCESS)
            wrong("round %d: the event is %d", round, (int)result);
        end_round();
    }
}

// The context is made between the free and the look.
static void context_made_late() {
    set_up();
    cudaEvent_t event;
    MUST(cudaEventCreate(&event));
    CUcontext own;
    MUST(DRIVER(cuCtxGetCurrent)(&own));
    for (int round = 0; round < 2; round++) {
        begin_round();
        void *memory = scratch();
        unsigned seen = 0;
        late_write(nullptr, order.word, order.ns);
        free_scratch(memory);
        CUcontext late = create_context();
        CUstream stream;
        MUST(DRIVER(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
        if (DRIVER_AS(cuMemcpyDtoHAsync_v2, CopyDownAsync)(&seen, (CUdeviceptr)(uintptr_t)order.word, 4, stream) !=
            CUDA_SUCCESS)
            unsupported("a context does not copy another one's memory");
        MUST(DRIVER(cuStreamSynchronize)(stream));
        MUST(DRIVER_AS(cuCtxDestroy_v2, CUresult(*)(CUcontext))(late));
        MUST(DRIVER(cuCtxSetCurrent)(own));
        if (seen != order.value)
            wrong("round %d: %u for %u", round, seen, order.value);
        end_round();
    }
}

// A stream of another context ends; frees in the first one keep their order.
static void stream_of_other_context_ends() {
    Two two = with_idle_context();
    two_streams();
    MUST(DRIVER(cuCtxSetCurrent)(two.idle));
    MUST(DRIVER_AS(cuStreamDestroy_v2, CUresult(*)(CUstream))(two.stream));
    MUST(DRIVER(cuCtxSetCurrent)(two.own));
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        void *memory = scratch();
        late_write(order.first, order.word, order.ns);
        free_scratch(memory);
        if (round == 1)
            MUST(DRIVER_AS(cuCtxDestroy_v2, CUresult(*)(CUcontext))(two.idle));
        MUST(DRIVER(cuCtxSetCurrent)(two.own));
        read_now(order.second, order.word);
        end_round();
    }
}

// ---- dead contexts

// Blocks of a context that was destroyed by the named variant are not handed out in the next one.
static void destroyed_by(const char *name) {
    enum { MANY = 4, BLOCKS = 4 }; // a context takes half a second
    auto destroy = (CUresult(*)(CUcontext))driver_function(name);
    auto allocate = DRIVER_AS(cuMemAlloc_v2, Allocate);
    auto release = DRIVER_AS(cuMemFree_v2, Free);
    unsigned bad = 0;
    MUST(DRIVER(cuInit)(0));
    for (int round = 0; round < MANY; round++) {
        CUdeviceptr blocks[BLOCKS];
        CUcontext context = create_context();
        for (int again = 0; again < 10; again++) {
            for (CUdeviceptr &block : blocks)
                MUST(allocate(&block, SCRATCH));
            for (CUdeviceptr &block : blocks) {
                unsigned char seen = 0;
                bad += DRIVER_AS(cuMemsetD8_v2, Fill)(block, (unsigned char)(round + 1), SCRATCH) != CUDA_SUCCESS ||
                       DRIVER_AS(cuMemcpyDtoH_v2, CopyDown)(&seen, block + SCRATCH - 1, 1) != CUDA_SUCCESS ||
                       seen != round + 1;
            }
            for (CUdeviceptr &block : blocks)
                MUST(release(block));
        }
        MUST(destroy(context));
    }
    if (bad)
        wrong("%u blocks", bad);
}

static void context_destroyed() { destroyed_by("cuCtxDestroy_v2"); }
static void context_destroyed_first() { destroyed_by("cuCtxDestroy"); }

// ---- a fault, and what tells of it

// Nothing synchronises after the kernel; the fault is there when the host looks.
static void fault_after(unsigned allocations_first) {
    set_up();
    void *memory = scratch(), *next = nullptr;
    order_fault<<<1, 1>>>((unsigned *)16, 0);
    MUST(cudaGetLastError());
    usleep(500000);
    cudaError_t allocated = allocations_first ? cudaMalloc(&next, SCRATCH) : cudaSuccess;
    cudaError_t freed = cudaFree(memory);
    cudaError_t again = cudaMalloc(&next, SCRATCH);
    cudaError_t last = cudaGetLastError();
    cudaError_t ended = cudaDeviceSynchronize();
    if ((allocations_first && allocated != cudaErrorIllegalAddress) || freed != cudaErrorIllegalAddress ||
        again != cudaErrorIllegalAddress || last != cudaErrorIllegalAddress || ended != cudaErrorIllegalAddress)
        wrong("first cudaMalloc %d, cudaFree %d, cudaMalloc %d, cudaGetLastError %d, cudaDeviceSynchronize %d",
              (int)allocated, (int)freed, (int)again, (int)last, (int)ended);
}

static void fault_free() { fault_after(0); }
static void fault_malloc() { fault_after(1); }

// The same behind a free that found work in flight.
static void fault_behind_free() {
    set_up();
    void *one = scratch(), *two = scratch(), *next;
    order_fault<<<1, 1>>>((unsigned *)16, order.ns);
    MUST(cudaGetLastError());
    cudaError_t first = cudaFree(one);
    usleep(500000);
    cudaError_t freed = cudaFree(two), allocated = cudaMalloc(&next, SCRATCH), last = cudaGetLastError();
    cudaError_t ended = cudaDeviceSynchronize();
    // What the first free returns is not judged: gpumem does not wait in it.
    (void)first;
    if (freed != cudaErrorIllegalAddress || allocated != cudaErrorIllegalAddress || last != cudaErrorIllegalAddress ||
        ended != cudaErrorIllegalAddress)
        wrong("second cudaFree %d, cudaMalloc %d, cudaGetLastError %d, cudaDeviceSynchronize %d", (int)freed,
              (int)allocated, (int)last, (int)ended);
}

// A fault is noticed by whatever looks first behind a free.
static void fault_query() {
    set_up();
    void *memory = scratch();
    cudaEvent_t event;
    MUST(cudaEventCreate(&event));
    order_fault<<<1, 1>>>((unsigned *)16, order.ns);
    MUST(cudaEventRecord(event));
    (void)cudaFree(memory);
    cudaError_t query = cudaEventQuery(event), stream = cudaStreamQuery(nullptr), ended = cudaDeviceSynchronize();
    if (query != cudaErrorIllegalAddress || stream != cudaErrorIllegalAddress || ended != cudaErrorIllegalAddress)
        wrong("cudaEventQuery %d, cudaStreamQuery %d, cudaDeviceSynchronize %d", (int)query, (int)stream, (int)ended);
}

// ---- calls whose answer is the driver's, whatever it is: order_rows.py compares it with the native one

static void in_child(const char *name, int (*run)()) {
    std::fflush(stdout);
    pid_t child = fork();
    int status = 0;
    EXPECT(child >= 0);
    if (child == 0)
        _exit(run());
    EXPECT(waitpid(child, &status, 0) == child);
    std::printf("%s: %s %d\n", name, WIFSIGNALED(status) ? "signal" : "result",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static int result_code(int result) { return result == 0 ? 0 : result % 200 + 1; } // fits into an exit status

static int launch_nothing() {
    CUfunction function;
    set_up();
    MUST(cudaGetFuncBySymbol(&function, (const void *)order_spin));
    unsigned long long ns = 0;
    void *values[] = {&ns};
    return result_code((int)DRIVER(cuLaunchKernelEx)(nullptr, function, values, nullptr));
}

static int free_nowhere() {
    CUdeviceptr block;
    MUST(DRIVER(cuInit)(0));
    CUcontext context = create_context();
    MUST(DRIVER_AS(cuMemAlloc_v2, Allocate)(&block, SCRATCH));
    MUST(DRIVER(cuCtxSetCurrent)(nullptr));
    int result = (int)DRIVER_AS(cuMemFree_v2, Free)(block);
    (void)context;
    return result_code(result);
}

static int destroy_streams_by_null() {
    set_up();
    int result = 0;
    for (cudaStream_t stream : {(cudaStream_t) nullptr, cudaStreamLegacy})
        result = result * 3 + (int)cudaStreamDestroy(stream) % 7;
    return result_code(result);
}

static void null_launch() { in_child("cuLaunchKernelEx(NULL)", launch_nothing); }
static void free_without_context() { in_child("cuMemFree without a context", free_nowhere); }
static void null_streams() { in_child("cudaStreamDestroy(0), of the legacy stream", destroy_streams_by_null); }

const OrderCase context_cases[] = {
    {"idle_context_copies", idle_context_copies},
    {"idle_context_queries", idle_context_queries},
    {"context_made_late", context_made_late},
    {"stream_of_other_context_ends", stream_of_other_context_ends},
    {"context_destroyed", context_destroyed},
    {"context_destroyed_first", context_destroyed_first},
    {"fault_free", fault_free},
    {"fault_malloc", fault_malloc},
    {"fault_behind_free", fault_behind_free},
    {"fault_query", fault_query},
    {"null_launch", null_launch},
    {"free_without_context", free_without_context},
    {"null_streams", null_streams},
};
const size_t context_case_count = sizeof context_cases / sizeof *context_cases;

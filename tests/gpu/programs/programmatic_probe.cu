// What a kernel launched with programmatic stream serialization overtakes, asked of the driver without gpumem.
//
// A round: a kernel spins, then writes a word; something stands between; a kernel with the attribute reads the word.
// Without an order between the two the reader sees the old word. One line for each case: how many of ROUNDS readers saw
// the old word ("overtook"). The spinning kernel lets dependents start early ("triggers") or does not.
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

enum { ROUNDS = 100 };
static const unsigned long long SPIN_NS = 300000;

static void must(int result, const char *what, int line) {
    if (result != 0) {
        std::printf("line %d: %s: %d\n", line, what, result);
        std::exit(1);
    }
}
#define MUST(call) must((int)(call), #call, __LINE__)

__device__ static void spin(unsigned long long ns) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < ns);
}

__global__ void writer(volatile unsigned *word, unsigned salt, unsigned long long ns, int triggers) {
#if __CUDA_ARCH__ >= 900
    if (triggers)
        asm volatile("griddepcontrol.launch_dependents;");
#endif
    spin(ns);
    *word = salt;
    __threadfence_system();
}

__global__ void reader(volatile unsigned *word, unsigned *seen) { *seen = *word; }

__global__ void waiting_reader(volatile unsigned *word, unsigned *seen) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    *seen = *word;
}

__global__ void nothing(void) {}

static CUstream stream, second;
static CUevent event, complete;
static CUcontext context;
static unsigned *word, *seen, *other;

template <typename... Parameters, typename... Arguments>
static void launch(CUstream on, bool programmatic, void (*kernel)(Parameters...), Arguments... arguments) {
    CUfunction function;
    void *values[] = {(void *)&arguments..., nullptr};
    CUlaunchAttribute attribute = {};
    CUlaunchConfig config = {};
    MUST(cudaGetFuncBySymbol(&function, (const void *)kernel));
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = on;
    config.attrs = &attribute;
    config.numAttrs = programmatic;
    MUST(cuLaunchKernelEx(&config, function, values, nullptr));
}

static void none(void) {}
static void event_only(void) { MUST(cuEventRecord(event, stream)); }
static void stream_waits(void) {
    MUST(cuEventRecord(event, stream));
    MUST(cuStreamWaitEvent(stream, event, 0));
}
static void context_waits(void) {
    MUST(cuCtxRecordEvent(context, event));
    MUST(cuCtxWaitEvent(context, event));
}
static void context_event_stream_waits(void) {
    MUST(cuCtxRecordEvent(context, event));
    MUST(cuStreamWaitEvent(stream, event, 0));
}
static void stream_event_context_waits(void) {
    MUST(cuEventRecord(event, stream));
    MUST(cuCtxWaitEvent(context, event));
}
static void context_event_only(void) { MUST(cuCtxRecordEvent(context, event)); }
static void complete_event(void) { MUST(cuStreamWaitEvent(stream, complete, 0)); }
static void fill(void) { MUST(cuMemsetD32Async((CUdeviceptr)other, 7, 1, stream)); }
static void kernel_between(void) { launch(stream, false, nothing); }
static void programmatic_between(void) { launch(stream, true, nothing); }
static void query(void) { (void)cuStreamQuery(stream); }
static void write_value(void) { MUST(cuStreamWriteValue32(stream, (CUdeviceptr)other, 1, 0)); }
static void through_second(void) {
    MUST(cuEventRecord(event, stream));
    MUST(cuStreamWaitEvent(second, event, 0));
    MUST(cuEventRecord(event, second));
    MUST(cuStreamWaitEvent(stream, event, 0));
}

static const struct {
    const char *name;
    void (*between)(void);
} cases[] = {
    {"nothing between", none},
    {"cuEventRecord, cuStreamWaitEvent", stream_waits},
    {"cuCtxRecordEvent, cuCtxWaitEvent", context_waits},
    {"cuCtxRecordEvent, cuStreamWaitEvent", context_event_stream_waits},
    {"cuEventRecord, cuCtxWaitEvent", stream_event_context_waits},
    {"cuEventRecord alone", event_only},
    {"cuCtxRecordEvent alone", context_event_only},
    {"cuStreamWaitEvent of a complete event", complete_event},
    {"event through a second stream", through_second},
    {"4-byte fill", fill},
    {"ordinary kernel", kernel_between},
    {"programmatic kernel", programmatic_between},
    {"cuStreamWriteValue32", write_value},
    {"cuStreamQuery", query},
};

static unsigned round_of(void (*between)(void), bool programmatic, int triggers, unsigned salt, bool waits) {
    unsigned value;
    launch(stream, false, writer, word, salt, SPIN_NS, triggers);
    between();
    if (waits)
        launch(stream, programmatic, waiting_reader, word, seen);
    else
        launch(stream, programmatic, reader, word, seen);
    MUST(cuCtxSynchronize());
    MUST(cuMemcpyDtoH(&value, (CUdeviceptr)seen, 4));
    return value;
}

static unsigned salt;

static void line(const char *where, const char *name, void (*between)(void), bool programmatic, int triggers,
                 bool waits) {
    int overtook = 0;
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < ROUNDS; i++) {
        salt++;
        overtook += round_of(between, programmatic, triggers, salt, waits) != salt;
    }
    double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / ROUNDS;
    std::printf("%-10s %-8s %-42s overtook %3d of %d (%.0f us a round)\n", where, triggers ? "triggers" : "", name,
                overtook, ROUNDS, us);
    std::fflush(stdout);
}

// Work of a second stream, a wait between, the reader in the first: what an order over all streams has to do.
static void across(const char *where, const char *name, void (*order)(void)) {
    int overtook = 0;
    for (int i = 0; i < ROUNDS; i++) {
        unsigned value;
        salt++;
        launch(second, false, writer, word, salt, SPIN_NS, 1);
        launch(stream, false, nothing); // what the reader follows in its own stream
        order();
        launch(stream, true, reader, word, seen);
        MUST(cuCtxSynchronize());
        MUST(cuMemcpyDtoH(&value, (CUdeviceptr)seen, 4));
        overtook += value != salt;
    }
    std::printf("%-10s %-8s %-42s overtook %3d of %d\n", where, "across", name, overtook, ROUNDS);
}

static void second_event_waits(void) {
    MUST(cuEventRecord(event, second));
    MUST(cuStreamWaitEvent(stream, event, 0));
}

// An event recorded behind a programmatic kernel that has overtaken: is it complete before the overtaken kernel ends?
static void events_behind(const char *where, bool of_context, bool programmatic) {
    int early = 0;
    unsigned *host;
    MUST(cuMemHostAlloc((void **)&host, 4, 0));
    for (int i = 0; i < ROUNDS; i++) {
        salt++;
        *(volatile unsigned *)host = 0;
        launch(stream, false, writer, host, salt, SPIN_NS, 1);
        if (programmatic)
            launch(stream, true, nothing);
        MUST(of_context ? cuCtxRecordEvent(context, event) : cuEventRecord(event, stream));
        while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
            ;
        early += *(volatile unsigned *)host != salt;
        MUST(cuCtxSynchronize());
    }
    std::printf("%-10s %s behind %s: complete too early %d of %d\n", where,
                of_context ? "cuCtxRecordEvent" : "cuEventRecord",
                programmatic ? "a programmatic kernel behind a triggering one" : "a triggering kernel", early, ROUNDS);
    MUST(cuMemFreeHost(host));
}

// What the calls between cost the host, on an idle context.
static void costs(void) {
    static const struct {
        const char *name;
        void (*between)(void);
    } rows[] = {{"nothing", none},
                {"cuCtxRecordEvent", context_event_only},
                {"cuCtxRecordEvent, cuCtxWaitEvent", context_waits},
                {"cuCtxRecordEvent, cuStreamWaitEvent", context_event_stream_waits}};
    for (auto &row : rows)
        for (int programmatic = 0; programmatic < 2; programmatic++) {
            enum { CALLS = 2000 };
            MUST(cuCtxSynchronize());
            auto begin = std::chrono::steady_clock::now();
            for (int i = 0; i < CALLS; i++) {
                row.between();
                launch(stream, programmatic, nothing);
            }
            double call =
                std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / CALLS;
            MUST(cuCtxSynchronize());
            double all =
                std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / CALLS;
            std::printf("%s launch behind %s: host %.2f us, with the device %.2f us\n",
                        programmatic ? "programmatic" : "ordinary", row.name, call, all);
        }
}

int main(void) {
    int major;
    MUST(cudaFree(nullptr));
    MUST(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major < 9) {
        std::puts("skipped: programmatic launches need compute capability 9.0");
        return 77;
    }
    MUST(cuCtxGetCurrent(&context));
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventCreate(&complete, CU_EVENT_DISABLE_TIMING));
    MUST(cudaMalloc(&word, 4));
    MUST(cudaMalloc(&seen, 4));
    MUST(cudaMalloc(&other, 4));
    MUST(cudaMemset(word, 0, 4));
    MUST(cuEventRecord(complete, nullptr));
    MUST(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
    MUST(cuCtxSynchronize());
    CUstream created;
    MUST(cuStreamCreate(&created, CU_STREAM_NON_BLOCKING));
    const struct {
        const char *name;
        CUstream stream;
    } places[] = {{"legacy", nullptr}, {"created", created}, {"perthread", CU_STREAM_PER_THREAD}};
    for (auto &place : places) {
        stream = place.stream;
        for (int triggers = 1; triggers >= 0; triggers--) {
            line(place.name, "(control) ordinary launch, nothing between", none, false, triggers, false);
            for (auto &row : cases)
                line(place.name, row.name, row.between, true, triggers, false);
            line(place.name, "nothing between, reader waits", none, true, triggers, true);
        }
        across(place.name, "nothing", none);
        across(place.name, "cuEventRecord(other), cuStreamWaitEvent", second_event_waits);
        across(place.name, "cuCtxRecordEvent, cuCtxWaitEvent", context_waits);
        across(place.name, "cuCtxRecordEvent, cuStreamWaitEvent", context_event_stream_waits);
        for (int of_context = 0; of_context < 2; of_context++)
            for (int programmatic = 0; programmatic < 2; programmatic++)
                events_behind(place.name, of_context, programmatic);
    }
    stream = created;
    costs();
    return 0;
}

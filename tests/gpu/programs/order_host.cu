// What the host, the driver or another process notices of work behind a free: queries, memory that loses its mapping,
// other processes, variables, graphs, the end of the process.
#include "order_rows.h"

#include <atomic>
#include <ctime>
#include <sys/wait.h>
#include <thread>

static const unsigned long long LONG = 11500 * MS; // longer than any limit that a wait has
static const size_t PAGE = (size_t)2 << 20;

// ---- queries

static cudaEvent_t new_event(unsigned flags = cudaEventDefault) {
    cudaEvent_t event;
    MUST(cudaEventCreateWithFlags(&event, flags));
    return event;
}

static void expect_success(const char *what, cudaError_t result) {
    if (result != cudaSuccess)
        wrong("%s is %d behind the free", what, (int)result);
    (void)cudaGetLastError();
}

// Work of `ns` with an event behind it, then the free.
static void work_with_event(cudaEvent_t event, unsigned long long ns) {
    void *memory = scratch();
    late_write(nullptr, order.word, ns);
    MUST(cudaEventRecord(event, nullptr));
    free_scratch(memory);
}

static void event_query_of(unsigned long long ns, int rounds) {
    set_up();
    cudaEvent_t event = new_event();
    for (int round = 0; round < rounds; round++) {
        begin_round();
        work_with_event(event, ns);
        expect_success("cudaEventQuery", cudaEventQuery(event));
    }
}

static void event_query() { event_query_of(30 * MS, ROUNDS); }
static void event_query_long() { event_query_of(LONG, 1); }

static void stream_query_long() {
    set_up();
    begin_round();
    work_with_event(new_event(), LONG);
    expect_success("cudaStreamQuery", cudaStreamQuery(nullptr));
}

static void elapsed_time_long() {
    float ms = 0;
    set_up();
    begin_round();
    cudaEvent_t before = new_event(), after = new_event();
    MUST(cudaEventRecord(before, nullptr));
    work_with_event(after, LONG);
    expect_success("cudaEventElapsedTime", cudaEventElapsedTime(&ms, before, after));
    if (ms < LONG / MS)
        wrong("%f ms", ms);
}

static void query_behind_two_frees() {
    set_up();
    two_streams();
    cudaEvent_t first = new_event(), second = new_event();
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        void *one = scratch(), *two = scratch();
        late_write(order.first, order.word, order.ns);
        MUST(cudaEventRecord(first, order.first));
        free_scratch(one);
        late_write(order.second, order.other, order.ns * 2);
        MUST(cudaEventRecord(second, order.second));
        free_scratch(two);
        expect_success("the event of the first free", cudaEventQuery(first));
        expect_success("the event of the second free", cudaEventQuery(second));
        expect_success("the stream of the second free", cudaStreamQuery(order.second));
    }
}

// Polls while work runs that was submitted behind the free: it is not waited for.
static void poll_while_working(bool by_event) {
    static const unsigned long long LATER = 4000 * MS;
    set_up();
    cudaEvent_t event = new_event(), later = new_event();
    begin_round();
    work_with_event(event, order.ns);
    Clock work;
    spin(nullptr, LATER);
    MUST(cudaEventRecord(later, nullptr));
    for (int poll = 0; poll < 40; poll++) {
        Clock clock;
        cudaError_t result = by_event ? cudaEventQuery(later) : cudaStreamQuery(nullptr);
        double seconds = clock.seconds();
        if (result != cudaErrorNotReady)
            wrong("poll %d is %d after %.2f s", poll, (int)result, work.seconds());
        if (seconds > SOON_S)
            wrong("poll %d took %.2f s", poll, seconds);
        (void)cudaGetLastError();
        expect_success("the event in front of the free", cudaEventQuery(event));
        usleep(5000);
    }
    MUST(cudaDeviceSynchronize());
}

static void poll_stream() { poll_while_working(false); }
static void poll_event() { poll_while_working(true); }

// ---- mappings

struct Mapping {
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
};

static Mapping map() {
    CUmemAllocationProp kind = {};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    Mapping mapping;
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location = access.location;
    MUST(DRIVER(cuMemCreate)(&mapping.handle, PAGE, &kind, 0));
    MUST(DRIVER(cuMemAddressReserve)(&mapping.address, 2 * PAGE, 0, 0, 0)); // gpumem may keep a whole buffer mapped
    MUST(DRIVER(cuMemMap)(mapping.address, PAGE, 0, mapping.handle, 0));
    MUST(DRIVER(cuMemSetAccess)(mapping.address, PAGE, &access, 1));
    return mapping;
}

static void unmap(Mapping mapping) {
    MUST(DRIVER(cuMemUnmap)(mapping.address, PAGE));
    MUST(DRIVER(cuMemRelease)(mapping.handle));
    MUST(DRIVER(cuMemAddressFree)(mapping.address, 2 * PAGE));
}

static void write_mapped(Mapping mapping, unsigned long long ns) {
    void *memory = scratch();
    late_write(nullptr, (unsigned *)(uintptr_t)mapping.address, ns);
    free_scratch(memory);
}

static void expect_no_fault() {
    cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess)
        wrong("the device has lost memory that it used: %d", (int)error);
}

static void no_access_of(unsigned long long ns) {
    CUmemAccessDesc none = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    set_up();
    Mapping mapping = map();
    write_mapped(mapping, ns);
    int result = (int)DRIVER(cuMemSetAccess)(mapping.address, PAGE, &none, 1);
    if (result != 0)
        wrong("cuMemSetAccess is %d", result);
    expect_no_fault();
}

static void unmap_of(unsigned long long ns) {
    set_up();
    Mapping mapping = map();
    write_mapped(mapping, ns);
    unmap(mapping);
    expect_no_fault();
}

static void no_access() { no_access_of(30 * MS); }
static void no_access_long() { no_access_of(LONG); }
static void unmapped() { unmap_of(30 * MS); }
static void unmapped_long() { unmap_of(LONG); }

// ---- a capture begins elsewhere, and goes on

template <typename Look> static void beside_capture(Look look_at_it) {
    set_up();
    two_streams();
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        std::atomic<int> step{0};
        std::thread capturing([&] {
            cudaGraph_t graph;
            while (step.load() < 1)
                std::this_thread::yield();
            MUST(cudaStreamBeginCapture(order.second, cudaStreamCaptureModeRelaxed));
            step = 2;
            while (step.load() < 3)
                std::this_thread::yield();
            // It may be invalid by now: that is not what is asked here.
            if (cudaStreamEndCapture(order.second, &graph) == cudaSuccess)
                MUST(cudaGraphDestroy(graph));
            (void)cudaGetLastError();
        });
        auto begin = [&] {
            step = 1;
            while (step.load() < 2)
                std::this_thread::yield();
        };
        look_at_it(begin);
        step = 3;
        capturing.join();
        expect_no_fault();
        end_round();
    }
}

static void query_beside_capture() {
    cudaEvent_t event = nullptr;
    beside_capture([&](auto begin) {
        if (!event)
            event = new_event();
        void *memory = scratch();
        late_write(order.first, order.word, order.ns);
        MUST(cudaEventRecord(event, order.first));
        free_scratch(memory);
        begin();
        expect_success("cudaEventQuery", cudaEventQuery(event));
    });
}

static void unmap_beside_capture() {
    beside_capture([](auto begin) {
        Mapping mapping = map();
        write_mapped(mapping, order.ns);
        begin();
        unmap(mapping);
    });
}

static void free_beside_capture() {
    beside_capture([](auto begin) {
        void *memory = scratch();
        late_write(order.first, order.word, order.ns);
        begin();
        free_scratch(memory);
        read_now(nullptr, order.word);
    });
}

// ---- other processes

static void say(int file, const void *data, size_t size) { EXPECT(write(file, data, size) == (ssize_t)size); }
static void hear(int file, void *data, size_t size) { EXPECT(read(file, data, size) == (ssize_t)size); }

struct Message {
    int has_handle;
    cudaIpcEventHandle_t handle;
};

// The other process: opens the event when it gets one, answers each message with the result of a query.
static void event_ipc_child() {
    Message message;
    cudaEvent_t event = nullptr;
    MUST(cudaFree(nullptr));
    int ready = 1;
    say(STDOUT_FILENO, &ready, sizeof ready);
    while (read(STDIN_FILENO, &message, sizeof message) == (ssize_t)sizeof message) {
        if (message.has_handle == 2) { // the end
            _exit(0);
        }
        if (message.has_handle)
            MUST(cudaIpcOpenEventHandle(&event, message.handle));
        int result = (int)cudaEventQuery(event);
        say(STDOUT_FILENO, &result, sizeof result);
    }
    _exit(0);
}

struct Child {
    int to, from;
    pid_t pid;
};

static Child start_child(const char *name) {
    int to[2], from[2];
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    EXPECT(length > 0 && pipe(to) == 0 && pipe(from) == 0);
    path[length] = 0;
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        dup2(to[0], STDIN_FILENO);
        dup2(from[1], STDOUT_FILENO);
        close(to[1]);
        close(from[0]);
        execl(path, path, name, (char *)nullptr);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    int ready;
    if (read(from[0], &ready, sizeof ready) != (ssize_t)sizeof ready)
        unsupported("the other process did not start");
    return {to[1], from[0], pid};
}

// late: the handle is taken behind the free, else before the work.
static void event_ipc_of(bool late) {
    Child child = start_child("event_ipc_child");
    set_up();
    cudaEvent_t event = new_event(cudaEventInterprocess | cudaEventDisableTiming);
    Message message = {};
    MUST(cudaEventRecord(event, nullptr));
    MUST(cudaDeviceSynchronize());
    for (int round = 0; round < ROUNDS; round++) {
        int result = -1;
        begin_round();
        if (late && round > 0) {
            MUST(cudaEventDestroy(event));
            event = new_event(cudaEventInterprocess | cudaEventDisableTiming);
        }
        if (!late && round == 0) {
            message.has_handle = 1;
            MUST(cudaIpcGetEventHandle(&message.handle, event));
            say(child.to, &message, sizeof message);
            hear(child.from, &result, sizeof result);
            message.has_handle = 0;
        }
        work_with_event(event, order.ns);
        if (late) {
            message.has_handle = 1;
            MUST(cudaIpcGetEventHandle(&message.handle, event));
        }
        say(child.to, &message, sizeof message);
        hear(child.from, &result, sizeof result);
        if (result != 0)
            wrong("round %d: the other process sees %d", round, result);
    }
    message.has_handle = 2;
    say(child.to, &message, sizeof message);
    waitpid(child.pid, nullptr, 0);
}

static void event_ipc() { event_ipc_of(false); }
static void event_ipc_late() { event_ipc_of(true); }

// ---- a module's managed variable, looked up behind kernel and free

static const char module_text[] = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 variable;
.visible .entry set_later(.param .u64 ns, .param .u32 value)
{
    .reg .u64 %d<5>;
    .reg .u32 %r<2>;
    .reg .pred %p<2>;
    ld.param.u64 %d1, [ns];
    ld.param.u32 %r1, [value];
    mov.u64 %d2, %globaltimer;
AGAIN:
    mov.u64 %d3, %globaltimer;
    sub.u64 %d4, %d3, %d2;
    setp.lt.u64 %p1, %d4, %d1;
    @%p1 bra AGAIN;
    st.global.u32 [variable], %r1;
    ret;
}
)";

static void module_variable() {
    set_up();
    for (int round = 0; round < ROUNDS; round++) {
        CUmodule module;
        CUfunction function;
        CUdeviceptr address;
        size_t bytes;
        begin_round();
        unsigned value = order.value + 40;
        void *values[] = {&order.ns, &value};
        MUST(DRIVER(cuModuleLoadData)(&module, module_text));
        MUST(DRIVER(cuModuleGetFunction)(&function, module, "set_later"));
        void *memory = scratch();
        MUST(DRIVER(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, nullptr, values, nullptr));
        free_scratch(memory);
        auto look_up = DRIVER_AS(cuModuleGetGlobal_v2, CUresult(*)(CUdeviceptr *, size_t *, CUmodule, const char *));
        MUST(look_up(&address, &bytes, module, "variable"));
        unsigned seen = *(volatile unsigned *)(uintptr_t)address;
        if (seen != value)
            wrong("round %d: the host reads %u for %u", round, seen, value);
        MUST(cudaDeviceSynchronize());
        MUST(DRIVER(cuModuleUnload)(module));
    }
}

// ---- graphs

// Memory that a graph allocated goes back to the device when nothing uses it.
static void graph_trim() {
    set_up();
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    void *block;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    MUST(cudaMallocAsync(&block, (size_t)64 << 20, stream));
    spin(stream, order.ns);
    MUST(cudaMemsetAsync(block, 1, 4096, stream));
    MUST(cudaFreeAsync(block, stream));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiateWithFlags(&ready, graph, 0));
    for (int round = 0; round < ROUNDS; round++) {
        size_t reserved = 0;
        void *memory = scratch();
        MUST(cudaGraphLaunch(ready, stream));
        free_scratch(memory);
        MUST(cudaDeviceGraphMemTrim(0));
        MUST(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
        if (reserved)
            wrong("round %d: %zu bytes are still reserved", round, reserved);
        MUST(cudaDeviceSynchronize());
    }
}

static void graph_pageable() {
    set_up();
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    static unsigned seen;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    spin(stream, order.ns);
    MUST(cudaMemcpyAsync(&seen, order.word, 4, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiateWithFlags(&ready, graph, 0));
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        seen = 0;
        write_now(stream, order.word, order.value);
        void *memory = scratch();
        MUST(cudaGraphLaunch(ready, stream));
        free_scratch(memory);
        if (*(volatile unsigned *)&seen != order.value)
            wrong("round %d: the host reads %u for %u", round, seen, order.value);
        MUST(cudaDeviceSynchronize());
    }
}

// ---- the end of the process: order_rows.py compares its time with the native one

static void exit_spinning() {
    set_up();
    begin_round();
    void *memory = scratch();
    late_write(nullptr, order.word, order.ns);
    free_scratch(memory);
    spin(nullptr, 3000 * MS);
}

// ---- a stream of another thread writes the value that a kernel waits for, while a free waits for the kernel

static __global__ void await_value(const volatile unsigned *word, unsigned value, unsigned long long ns,
                                   unsigned *bad) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    while (*word != value) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (now - begin > ns) {
            atomicAdd(bad, 1u);
            return;
        }
    }
}

static void value_beside_free() {
    set_up();
    two_streams();
    auto write = DRIVER_AS(cuStreamWriteValue32_v2, CUresult(*)(CUstream, CUdeviceptr, cuuint32_t, unsigned));
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        void *memory = scratch();
        await_value<<<1, 1, 0, order.first>>>(order.word, order.value, 3000 * MS, order.bad);
        MUST(cudaGetLastError());
        std::thread freeing([&] { free_scratch(memory); });
        usleep(30000);
        MUST(write(order.second, (CUdeviceptr)order.word, order.value, 0));
        freeing.join();
        end_round("a kernel that waited in vain");
    }
}

// ---- a free that waits leaves the processor to others

static double processor_seconds() {
    timespec used;
    EXPECT(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

static void waits_blocked() {
    void *shared; // why frees wait
    set_up();
    two_streams();
    MUST(cudaMallocHost(&shared, 4096));
    double used = 0, waited = 0;
    for (int round = 0; round < 20; round++) {
        void *memory = scratch();
        spin(order.first, 20 * MS);
        double before = processor_seconds();
        Clock clock;
        free_scratch(memory);
        used += processor_seconds() - before;
        waited += clock.seconds();
    }
    if (waited < 0.2)
        unsupported("a kernel ends at once here");
    if (used > waited / 4)
        wrong("%.0f ms of the processor in waits of %.0f ms", used * 1e3, waited * 1e3);
}

const OrderCase host_cases[] = {
    {"event_query", event_query},
    {"event_query_long", event_query_long},
    {"stream_query_long", stream_query_long},
    {"elapsed_time_long", elapsed_time_long},
    {"query_behind_two_frees", query_behind_two_frees},
    {"poll_stream", poll_stream},
    {"poll_event", poll_event},
    {"no_access", no_access},
    {"no_access_long", no_access_long},
    {"unmapped", unmapped},
    {"unmapped_long", unmapped_long},
    {"query_beside_capture", query_beside_capture},
    {"unmap_beside_capture", unmap_beside_capture},
    {"free_beside_capture", free_beside_capture},
    {"event_ipc", event_ipc},
    {"event_ipc_late", event_ipc_late},
    {"event_ipc_child", event_ipc_child},
    {"module_variable", module_variable},
    {"graph_trim", graph_trim},
    {"graph_pageable", graph_pageable},
    {"exit_spinning", exit_spinning},
    {"value_beside_free", value_beside_free},
    {"waits_blocked", waits_blocked},
};
const size_t host_case_count = sizeof host_cases / sizeof *host_cases;

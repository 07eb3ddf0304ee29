// Order on the device that only a free gives: programmatic launches, streams that are not what they seem, threads,
// contexts that other threads release, objects that are linked with the driver.
#include "order_rows.h"

#include <atomic>
#include <thread>

// ---- a kernel that may begin before the one in front of it has ended

static void programmatic(cudaStream_t stream, const unsigned *word) {
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = config.blockDim = dim3(1);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    MUST(cudaLaunchKernelEx(&config, order_read, (const volatile unsigned *)word, order.value, order.bad));
}

static void needs_programmatic() {
    int major = 0;
    MUST(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    if (major < 9)
        unsupported("programmatic launches need compute capability 9.0");
}

// `between`: what stands between the free and the launch
template <typename Between> static void programmatic_rounds(cudaStream_t stream, Between between) {
    needs_programmatic();
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        void *memory = scratch();
        late_write(stream, order.word, order.ns, true);
        free_scratch(memory);
        between();
        programmatic(stream, order.word);
        end_round();
    }
}

static cudaStream_t created_stream() {
    cudaStream_t stream;
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static cudaEvent_t created_event(cudaStream_t recorded_in) {
    cudaEvent_t event;
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    MUST(cudaEventRecord(event, recorded_in));
    MUST(cudaDeviceSynchronize());
    return event;
}

static void pdl() {
    set_up();
    programmatic_rounds(nullptr, [] {});
}

static void pdl_created() {
    set_up();
    programmatic_rounds(created_stream(), [] {});
}

static void pdl_per_thread() {
    set_up();
    programmatic_rounds(cudaStreamPerThread, [] {});
}

// These order nothing by themselves, and are the first work behind the free.
static void pdl_behind_record() {
    set_up();
    cudaEvent_t event = created_event(nullptr);
    programmatic_rounds(nullptr, [=] { MUST(cudaEventRecord(event, nullptr)); });
}

static void pdl_behind_wait() {
    set_up();
    cudaEvent_t event = created_event(nullptr);
    programmatic_rounds(nullptr, [=] { MUST(cudaStreamWaitEvent(nullptr, event, 0)); });
}

static void pdl_behind_empty_copy() {
    set_up();
    programmatic_rounds(nullptr,
                        [] { MUST(cudaMemcpyAsync(order.other, order.word, 0, cudaMemcpyDeviceToDevice, nullptr)); });
}

static void pdl_behind_empty_graph() {
    set_up();
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    MUST(cudaGraphCreate(&graph, 0));
    MUST(cudaGraphInstantiateWithFlags(&ready, graph, 0));
    programmatic_rounds(nullptr, [=] { MUST(cudaGraphLaunch(ready, nullptr)); });
}

static void pdl_behind_pdl() {
    set_up();
    programmatic_rounds(nullptr, [] { programmatic(nullptr, order.word); });
}

static void pdl_behind_query() {
    set_up();
    programmatic_rounds(nullptr, [] { (void)cudaStreamQuery(nullptr); });
}

static void pdl_by_driver() {
    set_up();
    needs_programmatic();
    CUfunction function;
    MUST(cudaGetFuncBySymbol(&function, (const void *)order_read));
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        CUlaunchAttribute attribute = {};
        CUlaunchConfig config = {};
        void *values[] = {&order.word, &order.value, &order.bad, nullptr};
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
        config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ =
            1;
        config.attrs = &attribute;
        config.numAttrs = 1;
        void *memory = scratch();
        late_write(nullptr, order.word, order.ns, true);
        free_scratch(memory);
        MUST(DRIVER(cuLaunchKernelEx)(&config, function, values, nullptr));
        end_round();
    }
}

// The free's work is the programmatic kernel itself, behind another free.
static void pdl_two_frees() {
    set_up();
    needs_programmatic();
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        void *one = scratch(), *two = scratch();
        late_write(nullptr, order.word, order.ns, true);
        free_scratch(one);
        late_write(nullptr, order.other, order.ns, true);
        free_scratch(two);
        programmatic(nullptr, order.word);
        programmatic(nullptr, order.other);
        end_round();
    }
}

static void pdl_in_graph() {
    set_up();
    needs_programmatic();
    cudaStream_t stream = created_stream();
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        cudaGraph_t graph;
        cudaGraphExec_t ready;
        MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        programmatic(stream, order.word);
        MUST(cudaStreamEndCapture(stream, &graph));
        MUST(cudaGraphInstantiateWithFlags(&ready, graph, 0));
        MUST(cudaGraphUpload(ready, stream));
        MUST(cudaStreamSynchronize(stream));
        void *memory = scratch();
        late_write(stream, order.word, order.ns, true);
        free_scratch(memory);
        MUST(cudaGraphLaunch(ready, stream));
        end_round();
        MUST(cudaGraphExecDestroy(ready));
        MUST(cudaGraphDestroy(graph));
    }
}

// An event that a launch records before its kernel has ended: what waits for it may overtake the kernel.
static void event_of_launch(cudaLaunchAttributeID kind) {
    set_up();
    needs_programmatic();
    two_streams();
    cudaEvent_t event;
    MUST(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        cudaLaunchAttribute attribute = {};
        cudaLaunchConfig_t config = {};
        attribute.id = kind;
        if (kind == cudaLaunchAttributeProgrammaticEvent) {
            attribute.val.programmaticEvent.event = event;
            attribute.val.programmaticEvent.triggerAtBlockStart = 1;
        } else {
            attribute.val.launchCompletionEvent.event = event;
        }
        config.gridDim = config.blockDim = dim3(1);
        config.stream = order.first;
        config.attrs = &attribute;
        config.numAttrs = 1;
        void *memory = scratch();
        MUST(cudaLaunchKernelEx(&config, order_late_write, (volatile unsigned *)order.word, order.value, order.ns, 1));
        free_scratch(memory);
        MUST(cudaStreamWaitEvent(order.second, event, 0));
        read_now(order.second, order.word);
        end_round();
    }
}

static void programmatic_event() { event_of_launch(cudaLaunchAttributeProgrammaticEvent); }
static void launch_completion_event() { event_of_launch(cudaLaunchAttributeLaunchCompletionEvent); }

// ---- streams that live although something was called to destroy them

static void destroy_failed(cudaStream_t which) {
    set_up();
    cudaStream_t stream = created_stream();
    if (cudaStreamDestroy(which) == cudaSuccess)
        unsupported("that stream can be destroyed");
    (void)cudaGetLastError();
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        void *memory = scratch();
        late_write(stream, order.word, order.ns);
        free_scratch(memory);
        read_now(nullptr, order.word);
        end_round();
    }
}

static void destroy_null() { destroy_failed(nullptr); }
static void destroy_legacy() { destroy_failed(cudaStreamLegacy); }

// A stream is destroyed while its work runs: what it did stays behind the free.
static void destroyed_stream() {
    set_up();
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        cudaStream_t stream = created_stream();
        void *memory = scratch();
        late_write(stream, order.word, order.ns);
        MUST(cudaStreamDestroy(stream));
        free_scratch(memory);
        read_now(nullptr, order.word);
        end_round();
    }
}

// A second stream is made between the free and its first work.
static void stream_made_late() {
    set_up();
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        void *memory = scratch();
        late_write(nullptr, order.word, order.ns);
        free_scratch(memory);
        cudaStream_t stream = created_stream();
        read_now(stream, order.word);
        end_round();
        MUST(cudaStreamDestroy(stream));
    }
}

// ---- threads

// One thread frees; another, which only the host lets go on, submits to another stream.
static void handover() {
    enum { MANY = 40 };
    set_up();
    two_streams();
    for (int round = 0; round < MANY; round++) {
        begin_round();
        std::atomic<int> freed{0};
        std::thread reader([&] {
            while (!freed.load())
                std::this_thread::yield();
            unsigned seen = order.value;
            switch (round % 4) {
            case 0: read_now(order.second, order.word); break;
            case 1: MUST(cudaMemcpyAsync(&seen, order.word, 4, cudaMemcpyDeviceToHost, order.second)); break;
            case 2:
                MUST(cudaMemcpyAsync(order.other, order.word, 4, cudaMemcpyDeviceToDevice, order.second));
                read_now(order.second, order.other);
                break;
            case 3: write_now(order.second, order.word, 12345); break;
            }
            MUST(cudaStreamSynchronize(order.second));
            if (seen != order.value)
                wrong("round %d: a copy came too early: %u", round, seen);
        });
        void *memory = scratch();
        late_write(order.first, order.word, order.ns / 10);
        free_scratch(memory);
        freed = 1;
        reader.join();
        end_round("reader");
        if (round % 4 == 3 && look(order.word) != 12345)
            wrong("round %d: what was written behind the free was overwritten", round);
    }
}

// Work and frees take turns; one reader behind all of it.
static void several_frees() {
    set_up();
    two_streams();
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        void *one = scratch(), *two = scratch(), *three = scratch();
        late_write(order.first, order.word, order.ns);
        free_scratch(one);
        late_write(order.second, order.other, order.ns);
        free_scratch(two);
        read_now(nullptr, order.word);
        read_now(nullptr, order.other);
        free_scratch(three);
        end_round();
    }
}

// Two threads free behind work of their own, and a third stream reads both.
static void frees_of_two_threads() {
    set_up();
    two_streams();
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        void *one = scratch(), *two = scratch();
        std::thread first([&] {
            late_write(order.first, order.word, order.ns);
            free_scratch(one);
        });
        std::thread second([&] {
            late_write(order.second, order.other, order.ns);
            free_scratch(two);
        });
        first.join();
        second.join();
        read_now(nullptr, order.word);
        read_now(nullptr, order.other);
        end_round();
    }
}

// Another thread takes and drops references to the primary context, never the last one.
static void released_meanwhile() {
    enum { MANY = 300 };
    CUcontext same;
    set_up();
    two_streams();
    auto retain = DRIVER(cuDevicePrimaryCtxRetain);
    auto release = DRIVER_AS(cuDevicePrimaryCtxRelease_v2, CUresult(*)(CUdevice));
    MUST(retain(&same, 0));
    std::atomic<int> end{0};
    std::thread releasing([&] {
        CUcontext context;
        while (!end.load()) {
            MUST(retain(&context, 0));
            MUST(release(0));
        }
    });
    unsigned bad = 0;
    for (int round = 0; round < MANY; round++) {
        begin_round();
        void *memory = scratch();
        late_write(order.first, order.word, MS);
        free_scratch(memory);
        read_now(order.second, order.word);
        bad += look(order.bad) != 0;
    }
    end = 1;
    releasing.join();
    if (bad)
        wrong("%u of %d rounds", bad, (int)MANY);
}

// ---- objects that are linked with the driver: order_plugin.c, as a plugin or as a part of the program

typedef void (*Launch)(CUfunction function, CUstream stream, void **arguments);
typedef int (*Query)(CUevent event);

static void *plugin(const char *name) {
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) {
        const char *path = std::getenv("ORDER_PLUGIN");
        void *object = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
        found = object ? dlsym(object, name) : nullptr;
    }
    if (!found)
        unsupported("ORDER_PLUGIN names no plugin");
    return found;
}

// All work of the driver's own interface is on the calling thread's stream.
static void linked_launch() {
    set_up();
    Launch launch = (Launch)plugin("order_plugin_launch");
    CUfunction function;
    int triggers = 0;
    MUST(cudaGetFuncBySymbol(&function, (const void *)order_late_write));
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        std::atomic<int> freed{0};
        std::thread reader([&] {
            while (!freed.load())
                std::this_thread::yield();
            CUfunction reads;
            void *values[] = {&order.word, &order.value, &order.bad};
            MUST(cudaGetFuncBySymbol(&reads, (const void *)order_read));
            launch(reads, CU_STREAM_PER_THREAD, values);
            MUST(cudaStreamSynchronize(cudaStreamPerThread));
        });
        void *values[] = {&order.word, &order.value, &order.ns, &triggers};
        void *memory = scratch();
        launch(function, CU_STREAM_PER_THREAD, values);
        free_scratch(memory);
        freed = 1;
        reader.join();
        end_round();
    }
}

static void linked_query() {
    set_up();
    Query query = (Query)plugin("order_plugin_query");
    cudaEvent_t event = created_event(nullptr);
    for (int round = 0; round < ROUNDS; round++) {
        begin_round();
        void *memory = scratch();
        late_write(nullptr, order.word, order.ns);
        MUST(cudaEventRecord(event, nullptr));
        free_scratch(memory);
        int result = query(event);
        if (result != 0)
            wrong("round %d: the event is not complete: %d", round, result);
        end_round();
    }
}

const OrderCase device_cases[] = {
    {"pdl", pdl},
    {"pdl_created", pdl_created},
    {"pdl_per_thread", pdl_per_thread},
    {"pdl_behind_record", pdl_behind_record},
    {"pdl_behind_wait", pdl_behind_wait},
    {"pdl_behind_empty_copy", pdl_behind_empty_copy},
    {"pdl_behind_empty_graph", pdl_behind_empty_graph},
    {"pdl_behind_pdl", pdl_behind_pdl},
    {"pdl_behind_query", pdl_behind_query},
    {"pdl_by_driver", pdl_by_driver},
    {"pdl_two_frees", pdl_two_frees},
    {"pdl_in_graph", pdl_in_graph},
    {"programmatic_event", programmatic_event},
    {"launch_completion_event", launch_completion_event},
    {"destroy_null", destroy_null},
    {"destroy_legacy", destroy_legacy},
    {"destroyed_stream", destroyed_stream},
    {"stream_made_late", stream_made_late},
    {"handover", handover},
    {"several_frees", several_frees},
    {"frees_of_two_threads", frees_of_two_threads},
    {"released_meanwhile", released_meanwhile},
    {"linked_launch", linked_launch},
    {"linked_query", linked_query},
};
const size_t device_case_count = sizeof device_cases / sizeof *device_cases;

/* What native allocation calls wait for and order: measured, because no document says it in full. Each row puts a
 * kernel of SPIN_MS milliseconds in flight, makes one call, and prints how long the host was held up ("host ms"),
 * whether the kernel had ended when the call returned ("ended"), and whether a kernel submitted to another stream after
 * the call began before the first one ended
 * ("overtakes"). Options: none. Prints one line for each row. */
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t error_ = (call);                                                       \
        if (error_ != cudaSuccess) {                                                       \
            fprintf(stderr, "implicit_sync: %s: %s\n", #call, cudaGetErrorString(error_)); \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

/* Driver functions are looked up: nothing links against the driver. */
#define NAME_OF(function) #function
#define EXACT(function)   NAME_OF(function)
#define DRIVER(function)  ((decltype(&function))dlsym(driver(), EXACT(function)))
static void *driver() {
    static void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    return handle;
}

enum { SPIN_MS = 20 };

static double now_ms() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

__device__ unsigned long long global_ns() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

__global__ void spin(unsigned long long ns, unsigned long long *times) {
    unsigned long long begin = global_ns(), now;
    do
        now = global_ns();
    while (now - begin < ns);
    if (times) {
        times[0] = begin;
        times[1] = now;
    }
}
__global__ void stamp(unsigned long long *times) { times[2] = global_ns(); }
/* Ends when the flag is set, or after two seconds. */
__global__ void await_flag(volatile int *flag, int *outcome) {
    unsigned long long begin = global_ns();
    while (!*flag && global_ns() - begin < 2000000000ull)
        ;
    *outcome = *flag ? 1 : 2;
}
__global__ void set_flag(volatile int *flag) { *flag = 1; }

static unsigned long long *times;
static cudaStream_t busy, other, blocking;

struct outcome {
    double host_ms;
    bool ended, overtakes;
};

/* `in_flight` holds the spinning kernel; `call` is the call in question. */
static outcome observe(cudaStream_t in_flight, const std::function<void()> &call) {
    outcome seen;
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemset(times, 0, 3 * sizeof *times));
    CHECK(cudaDeviceSynchronize());
    spin<<<1, 1, 0, in_flight>>>(SPIN_MS * 1000000ull, times);
    double begin = now_ms();
    call();
    seen.host_ms = now_ms() - begin;
    seen.ended = cudaStreamQuery(in_flight) == cudaSuccess;
    stamp<<<1, 1, 0, other>>>(times);
    CHECK(cudaDeviceSynchronize());
    unsigned long long host[3];
    CHECK(cudaMemcpy(host, times, sizeof host, cudaMemcpyDeviceToHost));
    seen.overtakes = host[2] < host[1];
    return seen;
}

static void row(const char *name, cudaStream_t in_flight, const std::function<void()> &call) {
    double least = 1e9, most = 0;
    int ended = 0, overtakes = 0;
    const int runs = 5;
    for (int i = 0; i < runs; i++) {
        outcome seen = observe(in_flight, call);
        least = seen.host_ms < least ? seen.host_ms : least;
        most = seen.host_ms > most ? seen.host_ms : most;
        ended += seen.ended;
        overtakes += seen.overtakes;
    }
    printf("%-58s host %8.3f-%8.3f ms  ended %d/%d  overtakes %d/%d\n", name, least, most, ended, runs, overtakes,
           runs);
    fflush(stdout);
}

/* Does a free of one thread hold up another thread's calls, and can a kernel that waits for a later one end behind it?
 */
static void two_threads(const char *name, const std::function<void()> &call_of_second) {
    void *block;
    std::atomic<int> in_free{0};
    std::atomic<double> freed{0};
    CHECK(cudaMalloc(&block, 1 << 20));
    CHECK(cudaDeviceSynchronize());
    spin<<<1, 1, 0, busy>>>(SPIN_MS * 1000000ull, NULL);
    double begin = now_ms();
    std::thread first([&] {
        in_free = 1;
        CHECK(cudaFree(block));
        freed = now_ms() - begin;
    });
    while (!in_free)
        ;
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    double called = now_ms();
    call_of_second();
    double held = now_ms() - called;
    first.join();
    CHECK(cudaDeviceSynchronize());
    printf("%-58s held the second thread %8.3f ms, the free took %8.3f ms\n", name, held, freed.load());
    fflush(stdout);
}

static void flag_behind_free() {
    int *flag, *outcome;
    void *block;
    CHECK(cudaMalloc(&flag, 4));
    CHECK(cudaMalloc(&outcome, 4));
    CHECK(cudaMalloc(&block, 1 << 20));
    CHECK(cudaMemset(flag, 0, 4));
    set_flag<<<1, 1, 0, other>>>(outcome); /* loads the module's kernels: lazy loading would wait */
    await_flag<<<1, 1, 0, other>>>(outcome, outcome + 0);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemset(flag, 0, 4));
    CHECK(cudaDeviceSynchronize());
    await_flag<<<1, 1, 0, busy>>>(flag, outcome);
    std::thread first([&] { CHECK(cudaFree(block)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    set_flag<<<1, 1, 0, other>>>(flag);
    first.join();
    CHECK(cudaDeviceSynchronize());
    int host;
    CHECK(cudaMemcpy(&host, outcome, 4, cudaMemcpyDeviceToHost));
    printf("kernel that waits for another thread's later kernel, behind cudaFree: %s\n",
           host == 1 ? "ends" : "HANGS (ended by its time limit)");
}

template <typename call_type> static double cost_us(int count, call_type call) {
    for (int i = 0; i < 100; i++)
        call();
    double begin = now_ms();
    for (int i = 0; i < count; i++)
        call();
    return (now_ms() - begin) * 1000 / count;
}

int main() {
    int version, value;
    cudaDeviceProp properties;
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(0));
    CHECK(cudaGetDeviceProperties(&properties, 0));
    CHECK(cudaDriverGetVersion(&version));
    printf("# %s, driver API %d\n", properties.name, version);
    const struct {
        const char *name;
        cudaDeviceAttr attribute;
    } attributes[] = {{"pageableMemoryAccess", cudaDevAttrPageableMemoryAccess},
                      {"pageableMemoryAccessUsesHostPageTables", cudaDevAttrPageableMemoryAccessUsesHostPageTables},
                      {"concurrentManagedAccess", cudaDevAttrConcurrentManagedAccess},
                      {"directManagedMemAccessFromHost", cudaDevAttrDirectManagedMemAccessFromHost},
                      {"hostRegisterSupported", cudaDevAttrHostRegisterSupported}};
    for (auto &entry : attributes) {
        CHECK(cudaDeviceGetAttribute(&value, entry.attribute, 0));
        printf("# %s %d\n", entry.name, value);
    }
    CHECK(cudaMalloc(&times, 3 * sizeof *times));
    CHECK(cudaStreamCreateWithFlags(&busy, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaStreamCreate(&blocking));
    spin<<<1, 1, 0, busy>>>(1000, times);
    stamp<<<1, 1, 0, other>>>(times);
    CHECK(cudaDeviceSynchronize());

    const struct {
        const char *name;
        cudaStream_t stream;
    } streams[] = {{"non-blocking", busy},
                   {"blocking", blocking},
                   {"legacy", cudaStreamLegacy},
                   {"per-thread", cudaStreamPerThread}};
    const size_t sizes[] = {512, 65536, 1 << 20, 2 << 20, 64 << 20, 1ull << 30};
    row("no call, work on a non-blocking stream", busy, [] {});
    for (auto &stream : streams) {
        for (size_t size : sizes) {
            std::string name = "cudaMalloc " + std::to_string(size) + " (first of its size), " + stream.name;
            std::vector<void *> blocks;
            row(name.c_str(), stream.stream, [&] {
                void *block;
                CHECK(cudaMalloc(&block, size));
                blocks.push_back(block);
            });
            for (void *block : blocks)
                CHECK(cudaFree(block));
        }
        for (size_t size : sizes) {
            std::vector<void *> blocks;
            for (int i = 0; i < 5; i++) {
                void *block;
                CHECK(cudaMalloc(&block, size));
                blocks.push_back(block);
            }
            std::string name = "cudaFree " + std::to_string(size) + ", " + stream.name;
            row(name.c_str(), stream.stream, [&] {
                CHECK(cudaFree(blocks.back()));
                blocks.pop_back();
            });
        }
    }
    row("cudaFree(NULL), non-blocking", busy, [] { CHECK(cudaFree(0)); });
    {
        std::vector<void *> blocks;
        for (int i = 0; i < 5; i++) {
            void *block;
            CHECK(cudaMallocAsync(&block, 1 << 20, other));
            blocks.push_back(block);
        }
        row("cudaFree of a block of cudaMallocAsync, non-blocking", busy, [&] {
            CHECK(cudaFree(blocks.back()));
            blocks.pop_back();
        });
    }
    {
        std::vector<void *> blocks;
        for (int i = 0; i < 5; i++) {
            void *block;
            CHECK(cudaMallocManaged(&block, 1 << 20));
            blocks.push_back(block);
        }
        row("cudaFree of managed memory, non-blocking", busy, [&] {
            CHECK(cudaFree(blocks.back()));
            blocks.pop_back();
        });
    }
    row("cudaMallocHost 1 MiB, non-blocking", busy, [] {
        void *block;
        CHECK(cudaMallocHost(&block, 1 << 20));
    });
    {
        std::vector<void *> blocks;
        for (int i = 0; i < 5; i++) {
            void *block;
            CHECK(cudaMallocHost(&block, 1 << 20));
            blocks.push_back(block);
        }
        row("cudaFreeHost 1 MiB, non-blocking", busy, [&] {
            CHECK(cudaFreeHost(blocks.back()));
            blocks.pop_back();
        });
    }
    row("cudaMallocManaged 1 MiB, non-blocking", busy, [] {
        void *block;
        CHECK(cudaMallocManaged(&block, 1 << 20));
    });
    {
        CUcontext second, first;
        void *block;
        CUdevice device;
        DRIVER(cuCtxGetCurrent)(&first);
        DRIVER(cuCtxGetDevice)(&device);
        CUctxCreateParams parameters = {};
        if (DRIVER(cuCtxCreate)(&second, &parameters, 0, device) == CUDA_SUCCESS) {
            DRIVER(cuCtxSetCurrent)(first);
            row("cudaFree of a block of a second context, work in the first", busy, [&] {
                CUdeviceptr address;
                DRIVER(cuCtxPushCurrent)(second);
                if (DRIVER(cuMemAlloc)(&address, 1 << 20) == CUDA_SUCCESS) {
                    DRIVER(cuMemFree)(address);
                }
                DRIVER(cuCtxPopCurrent)(NULL);
            });
            std::vector<void *> blocks;
            for (int i = 0; i < 5; i++) {
                CHECK(cudaMalloc(&block, 1 << 20));
                blocks.push_back(block);
            }
            row("cudaFree of the first context's block, second current", busy, [&] {
                DRIVER(cuCtxPushCurrent)(second);
                DRIVER(cuMemFree)((CUdeviceptr)blocks.back());
                DRIVER(cuCtxPopCurrent)(NULL);
                blocks.pop_back();
            });
            DRIVER(cuCtxDestroy)(second);
        }
    }

    puts("# two threads: the first frees behind the spinning kernel, the second calls 3 ms later");
    two_threads("kernel launch", [] { stamp<<<1, 1, 0, other>>>(times); });
    two_threads("cudaMemsetAsync", [] { CHECK(cudaMemsetAsync(times, 0, 8, other)); });
    two_threads("cudaStreamQuery", [] { cudaStreamQuery(other); });
    two_threads("cudaEventCreate", [] {
        cudaEvent_t event;
        CHECK(cudaEventCreate(&event));
    });
    two_threads("cudaMalloc 1 MiB", [] {
        void *block;
        CHECK(cudaMalloc(&block, 1 << 20));
    });
    two_threads("kernel launch and stream synchronisation", [] {
        stamp<<<1, 1, 0, other>>>(times);
        CHECK(cudaStreamSynchronize(other));
    });
    flag_behind_free();

    puts("# costs on an idle device, microseconds");
    CUcontext context;
    CUevent event;
    DRIVER(cuCtxGetCurrent)(&context);
    DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING);
    const int count = 20000;
    printf("cuCtxRecordEvent                            %7.3f\n", cost_us(count, [&] {
               DRIVER(cuCtxRecordEvent)
               (context, event);
           }));
    printf("cuCtxRecordEvent + cuCtxWaitEvent           %7.3f\n", cost_us(count, [&] {
               DRIVER(cuCtxRecordEvent)(context, event);
               DRIVER(cuCtxWaitEvent)(context, event);
           }));
    printf("cuCtxRecordEvent + cuEventQuery             %7.3f\n", cost_us(count, [&] {
               DRIVER(cuCtxRecordEvent)(context, event);
               DRIVER(cuEventQuery)(event);
           }));
    printf("cuCtxRecordEvent + cuEventSynchronize       %7.3f\n", cost_us(count, [&] {
               DRIVER(cuCtxRecordEvent)(context, event);
               DRIVER(cuEventSynchronize)(event);
           }));
    printf("cuCtxSynchronize                            %7.3f\n", cost_us(count, [&] { DRIVER(cuCtxSynchronize)(); }));
    puts("# a kernel of 4 us, then, microseconds a round");
    auto kernel = [&] { spin<<<1, 1, 0, busy>>>(2000, NULL); };
    printf("nothing                                     %7.3f\n", cost_us(count, [&] { kernel(); }));
    CHECK(cudaDeviceSynchronize());
    printf("cuCtxRecordEvent                            %7.3f\n", cost_us(count, [&] {
               kernel();
               DRIVER(cuCtxRecordEvent)(context, event);
           }));
    CHECK(cudaDeviceSynchronize());
    printf("cuCtxRecordEvent + cuCtxWaitEvent           %7.3f\n", cost_us(count, [&] {
               kernel();
               DRIVER(cuCtxRecordEvent)(context, event);
               DRIVER(cuCtxWaitEvent)(context, event);
           }));
    CHECK(cudaDeviceSynchronize());
    printf("cuCtxRecordEvent + cuEventSynchronize       %7.3f\n", cost_us(count, [&] {
               kernel();
               DRIVER(cuCtxRecordEvent)(context, event);
               DRIVER(cuEventSynchronize)(event);
           }));
    printf("cuCtxRecordEvent + polling cuEventQuery     %7.3f\n", cost_us(count, [&] {
               kernel();
               DRIVER(cuCtxRecordEvent)(context, event);
               while (DRIVER(cuEventQuery)(event) == CUDA_ERROR_NOT_READY)
                   ;
           }));
    printf("cuStreamSynchronize                         %7.3f\n", cost_us(count, [&] {
               kernel();
               DRIVER(cuStreamSynchronize)(busy);
           }));
    printf("cuCtxSynchronize                            %7.3f\n", cost_us(count, [&] {
               kernel();
               DRIVER(cuCtxSynchronize)();
           }));
    return 0;
}

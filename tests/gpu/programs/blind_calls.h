// Calls of the driver that are taken to have nothing to do with work in flight: made on an idle device and behind a
// kernel that spins. The rows are in blind_*.cpp, the program is blind_calls.cpp.
#ifndef GPU_BLIND_CALLS_H
#define GPU_BLIND_CALLS_H

#define __CUDA_API_VERSION_INTERNAL // declares each variant under its own name
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

void *driver_symbol(const char *name); // null: the driver has none

// What rows use; made once. Work in flight is in `busy`, a stream that waits for the default stream and is waited for
// by it.
struct Things {
    CUdevice device;
    CUcontext context;
    CUstream busy, other;
    CUevent event, busy_event; // busy_event is recorded behind the kernel
    CUmodule module;
    CUlibrary library;
    CUkernel kernel;
    CUfunction spin, idle; // of the module
    CUdeviceptr block;     // 1 MiB
    CUarray array;
    CUmipmappedArray mipmap;
    CUtexObject texture;
    CUsurfObject surface;
    CUmemGenericAllocationHandle handle; // 2 MiB at `mapped`
    CUdeviceptr mapped;
    CUmemoryPool pool;
    CUgraph graph, child; // kernel -> fill -> empty; one empty node
    CUgraphNode kernel_node, fill_node, empty_node, child_node, record_node, wait_node;
    CUgraphExec exec;
};
extern Things things;
extern const char *module_text;

// One call of a row. The row prepares what it needs, then makes the call by `at`, notes what it got, and undoes the
// rest: with the kernel in flight, so by calls of its own kind only, or in `later`, which runs when the device is idle
// again.
struct Probe {
    bool busy;      // a kernel spins during the call
    bool frees;     // a block is freed behind the kernel, in front of the call
    bool in_flight; // the kernel still ran when the call began
    bool waited;    // the kernel had ended when the call returned
    std::string seen;
    std::vector<std::function<void()>> later;

    void at(const std::function<CUresult()> &call);
    void note(long long number) { seen += " " + std::to_string(number); }
    void text(const char *words) { seen += std::string(" ") + (words ? words : "(null)"); }
    void bytes(const void *data, size_t size);
};

struct BlindRow {
    const char *symbol;
    void (*run)(Probe &probe);
    bool shares; // needs what makes frees wait: not tried behind a free
};
std::vector<BlindRow> device_rows(), code_rows(), stream_rows(), graph_rows(), memory_rows();

[[noreturn]] void fails(const char *what, int line, int result);
#define MUST(call)                                    \
    do {                                              \
        CUresult must_result = (call);                \
        if (must_result != CUDA_SUCCESS)              \
            fails(#call, __LINE__, (int)must_result); \
    } while (0)

struct Missing { // what this driver lacks
    std::string what;
};
template <typename Function> Function driver_call(const char *name) {
    void *found = driver_symbol(name);
    if (!found)
        throw Missing{std::string("the driver has no ") + name};
    return (Function)found;
}
#define CALL(symbol) driver_call<decltype(&symbol)>(#symbol)
#define ROW_IF(shares, symbol, ...)                                  \
    BlindRow {                                                       \
#symbol, [](Probe &p) { auto f = CALL(symbol); __VA_ARGS__ }, shares \
    }
#define ROW(symbol, ...)         ROW_IF(false, symbol, __VA_ARGS__)
#define SHARING_ROW(symbol, ...) ROW_IF(true, symbol, __VA_ARGS__)

#endif

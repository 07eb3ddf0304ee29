// blind_calls [--free] | --list. For each row: the call on an idle device and behind a kernel of SPIN_MS. One line
// each:
//
//   ok SYMBOL [waits] [no work] [result N]   the same result and outputs; the call waited; the free had waited already
//   wrong SYMBOL: idle ... busy ...          another result or output
//   none SYMBOL: why                         not in this driver
//
// --free: a block is freed between the kernel and the call. Under a library that leaves work in flight there, the call
// must find it in flight and leave it so.
#include "blind_calls.h"

#include <chrono>
#include <dlfcn.h>

static const unsigned long long SPIN_MS = 25;
static const size_t SCRATCH = (size_t)1 << 20;

Things things;

const char *module_text = R"(
.version 7.0
.target sm_52
.address_size 64
.visible .global .align 4 .u32 variable;
.visible .entry spin(.param .u64 ns)
{
    .reg .u64 %d<5>;
    .reg .pred %p<2>;
    ld.param.u64 %d1, [ns];
    mov.u64 %d2, %globaltimer;
AGAIN:
    mov.u64 %d3, %globaltimer;
    sub.u64 %d4, %d3, %d2;
    setp.lt.u64 %p1, %d4, %d1;
    @%p1 bra AGAIN;
    ret;
}
.visible .entry idle(.param .u64 to, .param .u32 value)
{
    .reg .u64 %d<2>;
    .reg .u32 %r<2>;
    ld.param.u64 %d1, [to];
    ld.param.u32 %r1, [value];
    st.global.u32 [%d1], %r1;
    ret;
}
)";

void *driver_symbol(const char *name) {
    static void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) {
        std::fprintf(stderr, "no libcuda.so.1\n");
        std::exit(77);
    }
    return dlsym(driver, name);
}

void fails(const char *what, int line, int result) {
    throw Missing{"line " + std::to_string(line) + ": " + what + ": " + std::to_string(result)};
}

typedef std::chrono::steady_clock Clock;
static double ms_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void Probe::bytes(const void *data, size_t size) {
    char digits[3];
    seen += " ";
    for (size_t i = 0; i < size; i++) {
        std::snprintf(digits, sizeof digits, "%02x", ((const unsigned char *)data)[i]);
        seen += digits;
    }
}

static void launch_spin() {
    unsigned long long ns = SPIN_MS * 1000000;
    void *values[] = {&ns};
    MUST(CALL(cuLaunchKernel)(things.spin, 1, 1, 1, 1, 1, 1, 0, things.busy, values, nullptr));
    MUST(CALL(cuEventRecord)(things.busy_event, things.busy));
}

void Probe::at(const std::function<CUresult()> &call) {
    CUdeviceptr scratch = 0;
    Clock::time_point begin = Clock::now();
    if (busy) {
        if (frees)
            MUST(CALL(cuMemAlloc_v2)(&scratch, SCRATCH));
        MUST(CALL(cuCtxSynchronize)());
        begin = Clock::now();
        launch_spin();
        if (frees)
            MUST(CALL(cuMemFree_v2)(scratch));
    }
    in_flight = busy && ms_since(begin) < SPIN_MS * 0.5;
    int result = (int)call();
    waited = in_flight && ms_since(begin) >= SPIN_MS * 0.98;
    seen = "result " + std::to_string(result) + seen;
}

static Probe probe(const BlindRow &row, bool busy, bool frees) {
    Probe made = {};
    made.busy = busy;
    made.frees = frees;
    row.run(made);
    MUST(CALL(cuCtxSynchronize)());
    for (size_t i = made.later.size(); i-- > 0;)
        made.later[i]();
    MUST(CALL(cuCtxSetCurrent)(things.context));
    return made;
}

static bool show(const BlindRow &row, bool frees) {
    try {
        (void)probe(row, false, false); // loads what is loaded at first use
        Probe idle = probe(row, false, false), busy = probe(row, true, frees);
        if (idle.seen != busy.seen) {
            std::printf("wrong %s: idle: %s; busy: %s\n", row.symbol, idle.seen.c_str(), busy.seen.c_str());
            return false;
        }
        std::string code = idle.seen.substr(0, idle.seen.find(' ', 7));
        std::printf("ok %s%s%s%s\n", row.symbol, busy.waited ? " waits" : "", busy.in_flight ? "" : " no work",
                    code == "result 0" ? "" : (" " + code).c_str());
    } catch (const Missing &missing) {
        std::printf("none %s: %s\n", row.symbol, missing.what.c_str());
    }
    std::fflush(stdout);
    return true;
}

// What a driver may lack: rows that need it then have the same error twice.
static void may(CUresult result, const char *what) {
    if (result != CUDA_SUCCESS)
        std::fprintf(stderr, "%s: %d\n", what, (int)result);
}
#define MAY(call) may(call, #call)

static void make_graph() {
    CUDA_KERNEL_NODE_PARAMS kernel = {};
    CUDA_MEMSET_NODE_PARAMS fill = {};
    static CUdeviceptr to;
    static unsigned value = 1;
    static void *values[] = {&to, &value};
    to = things.block;
    kernel.func = things.idle;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimX = kernel.blockDimY = kernel.blockDimZ = 1;
    kernel.kernelParams = values;
    fill.dst = things.block;
    fill.elementSize = 1;
    fill.width = 64;
    fill.height = 1;
    MUST(CALL(cuGraphCreate)(&things.graph, 0));
    MUST(CALL(cuGraphCreate)(&things.child, 0));
    MAY(CALL(cuGraphAddEmptyNode)(&things.empty_node, things.child, nullptr, 0));
    MAY(CALL(cuGraphAddKernelNode_v2)(&things.kernel_node, things.graph, nullptr, 0, &kernel));
    MAY(CALL(cuGraphAddMemsetNode)(&things.fill_node, things.graph, &things.kernel_node, 1, &fill, things.context));
    MAY(CALL(cuGraphAddEmptyNode)(&things.empty_node, things.graph, &things.fill_node, 1));
    MAY(CALL(cuGraphAddChildGraphNode)(&things.child_node, things.graph, nullptr, 0, things.child));
    MAY(CALL(cuGraphAddEventRecordNode)(&things.record_node, things.graph, nullptr, 0, things.event));
    MAY(CALL(cuGraphAddEventWaitNode)(&things.wait_node, things.graph, &things.record_node, 1, things.event));
    MUST(CALL(cuGraphInstantiateWithFlags)(&things.exec, things.graph, 0));
}

static void make_arrays() {
    CUDA_ARRAY3D_DESCRIPTOR shape = {};
    CUDA_RESOURCE_DESC resource = {};
    CUDA_TEXTURE_DESC texture = {};
    shape.Width = shape.Height = 64;
    shape.Format = CU_AD_FORMAT_UNSIGNED_INT8;
    shape.NumChannels = 1;
    shape.Flags = CUDA_ARRAY3D_SURFACE_LDST;
    MAY(CALL(cuArray3DCreate_v2)(&things.array, &shape));
    MAY(CALL(cuMipmappedArrayCreate)(&things.mipmap, &shape, 3));
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = things.array;
    MAY(CALL(cuTexObjectCreate)(&things.texture, &resource, &texture, nullptr));
    MAY(CALL(cuSurfObjectCreate)(&things.surface, &resource));
}

static void make_mapping() {
    CUmemAllocationProp kind = {};
    CUmemAccessDesc access = {};
    size_t size = (size_t)2 << 20;
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location = kind.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    MAY(CALL(cuMemCreate)(&things.handle, size, &kind, 0));
    MAY(CALL(cuMemAddressReserve)(&things.mapped, size * 2, 0, 0, 0));
    MAY(CALL(cuMemMap)(things.mapped, size, 0, things.handle, 0));
    MAY(CALL(cuMemSetAccess)(things.mapped, size, &access, 1));
}

static void make_things() {
    MUST(CALL(cuInit)(0));
    MUST(CALL(cuDeviceGet)(&things.device, 0));
    MUST(CALL(cuDevicePrimaryCtxRetain)(&things.context, things.device));
    MUST(CALL(cuCtxSetCurrent)(things.context));
    MUST(CALL(cuModuleLoadData)(&things.module, module_text));
    MUST(CALL(cuModuleGetFunction)(&things.spin, things.module, "spin"));
    MUST(CALL(cuModuleGetFunction)(&things.idle, things.module, "idle"));
    MAY(CALL(cuLibraryLoadData)(&things.library, module_text, nullptr, nullptr, 0, nullptr, nullptr, 0));
    MAY(CALL(cuLibraryGetKernel)(&things.kernel, things.library, "idle"));
    MUST(CALL(cuStreamCreate)(&things.busy, CU_STREAM_DEFAULT));
    MUST(CALL(cuStreamCreate)(&things.other, CU_STREAM_NON_BLOCKING));
    MUST(CALL(cuEventCreate)(&things.event, CU_EVENT_DEFAULT));
    MUST(CALL(cuEventCreate)(&things.busy_event, CU_EVENT_DEFAULT));
    MUST(CALL(cuMemAlloc_v2)(&things.block, SCRATCH));
    for (int i = 0; i < 40; i++) { // after this, the size is known to gpumem
        CUdeviceptr scratch;
        MUST(CALL(cuMemAlloc_v2)(&scratch, SCRATCH));
        MUST(CALL(cuMemFree_v2)(scratch));
    }
    CUmemPoolProps kind = {};
    kind.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    MAY(CALL(cuMemPoolCreate)(&things.pool, &kind));
    make_arrays();
    make_mapping();
    make_graph();
    launch_spin();
    MUST(CALL(cuCtxSynchronize)());
}

int main(int count, char **words) {
    bool frees = count > 1 && std::strcmp(words[1], "--free") == 0,
         lists = count > 1 && std::strcmp(words[1], "--list") == 0;
    int bad = 0;
    std::vector<BlindRow> rows;
    for (auto some : {device_rows, code_rows, stream_rows, graph_rows, memory_rows})
        for (const BlindRow &row : some())
            rows.push_back(row);
    try {
        if (!lists)
            make_things();
    } catch (const Missing &missing) {
        std::fprintf(stderr, "%s\n", missing.what.c_str());
        return 77;
    }
    for (const BlindRow &row : rows)
        if (lists)
            std::puts(row.symbol);
        else if (!row.shares)
            bad += !show(row, frees);
    for (const BlindRow &row : rows) // what they make stays
        if (!lists && row.shares && !frees)
            bad += !show(row, false);
    return bad ? 9 : 0;
}

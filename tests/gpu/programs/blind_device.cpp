// Rows of blind_calls: the driver, devices, contexts; modules, libraries, functions, the linker, occupancy.
#include "blind_calls.h"

std::vector<BlindRow> device_rows() {
    return {
        ROW(cuInit, p.at([&] { return f(0); });),
            ROW(cuDriverGetVersion, int v = 0; p.at([&] { return f(&v); }); p.note(v);),
            ROW(cuGetProcAddress, void *v = nullptr; p.at([&] { return f("cuCtxSynchronize", &v, 12000, 0); });
                p.note((long long)v);),
            ROW(cuGetProcAddress_v2, void *v = nullptr; CUdriverProcAddressQueryResult found;
                p.at([&] { return f("cuMemFree", &v, 12000, 0, &found); }); p.note((long long)v); p.note(found);),
            ROW(cuGetErrorName, const char *v = nullptr; p.at([&] { return f(CUDA_ERROR_NOT_READY, &v); }); p.text(v);),
            ROW(cuGetErrorString, const char *v = nullptr; p.at([&] { return f(CUDA_ERROR_NOT_READY, &v); });
                p.text(v);),
            ROW(cuDeviceGet, CUdevice v = -1; p.at([&] { return f(&v, 0); }); p.note(v);),
            ROW(cuDeviceGetCount, int v = 0; p.at([&] { return f(&v); }); p.note(v);),
            ROW(cuDeviceGetName, char v[200] = ""; p.at([&] { return f(v, sizeof v, things.device); }); p.text(v);),
            ROW(cuDeviceGetUuid, CUuuid v = {}; p.at([&] { return f(&v, things.device); }); p.bytes(&v, sizeof v);),
            ROW(cuDeviceGetUuid_v2, CUuuid v = {}; p.at([&] { return f(&v, things.device); }); p.bytes(&v, sizeof v);),
            ROW(cuDeviceGetLuid, char v[8] = ""; unsigned mask = 0; p.at([&] { return f(v, &mask, things.device); });
                p.note(mask);),
            ROW(cuDeviceGetAttribute, int v = 0;
                p.at([&] { return f(&v, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, things.device); }); p.note(v);),
            ROW(cuDeviceGetProperties, CUdevprop v = {}; p.at([&] { return f(&v, things.device); });
                p.note(v.maxThreadsPerBlock);),
            ROW(cuDeviceComputeCapability, int a = 0; int b = 0; p.at([&] { return f(&a, &b, things.device); });
                p.note(a * 10 + b);),
            ROW(cuDeviceGetPCIBusId, char v[64] = ""; p.at([&] { return f(v, sizeof v, things.device); }); p.text(v);),
            ROW(cuDeviceGetByPCIBusId, char v[64] = ""; CUdevice device = -1;
                MUST(CALL(cuDeviceGetPCIBusId)(v, sizeof v, things.device)); p.at([&] { return f(&device, v); });
                p.note(device);),
            ROW(cuDeviceGetTexture1DLinearMaxWidth, size_t v = 0;
                p.at([&] { return f(&v, CU_AD_FORMAT_UNSIGNED_INT8, 1, things.device); }); p.note((long long)v);),
            ROW(cuDeviceGetExecAffinitySupport, int v = 0;
                p.at([&] { return f(&v, CU_EXEC_AFFINITY_TYPE_SM_COUNT, things.device); }); p.note(v);),
            ROW(cuDeviceTotalMem_v2, size_t v = 0; p.at([&] { return f(&v, things.device); }); p.note((long long)v);),
            ROW(cuDeviceCanAccessPeer, int v = -1; p.at([&] { return f(&v, things.device, things.device); });
                p.note(v);),
            ROW(cuDeviceGetP2PAttribute, int v = -1;
                p.at([&] { return f(&v, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, things.device, things.device); });
                p.note(v);),
            ROW(cuDevicePrimaryCtxGetState, unsigned flags = 0; int active = 0;
                p.at([&] { return f(things.device, &flags, &active); }); p.note(flags); p.note(active);),
            ROW(cuCtxPushCurrent_v2, p.at([&] { return f(things.context); }); CUcontext old;
                MUST(CALL(cuCtxPopCurrent_v2)(&old));),
            ROW(cuCtxPopCurrent_v2, CUcontext old = nullptr; p.at([&] { return f(&old); });
                p.note(old == things.context); MUST(CALL(cuCtxSetCurrent)(things.context));),
            ROW(cuCtxPushCurrent, p.at([&] { return f(things.context); }); CUcontext old;
                MUST(CALL(cuCtxPopCurrent_v2)(&old)); MUST(CALL(cuCtxSetCurrent)(things.context));),
            ROW(cuCtxSetCurrent, p.at([&] { return f(things.context); });),
            ROW(cuCtxGetCurrent, CUcontext v = nullptr; p.at([&] { return f(&v); }); p.note(v == things.context);),
            ROW(cuCtxGetDevice, CUdevice v = -1; p.at([&] { return f(&v); }); p.note(v);),
            ROW(cuCtxGetDevice_v2, CUdevice v = -1; p.at([&] { return f(&v, things.context); }); p.note(v);),
            ROW(cuCtxGetId, unsigned long long v = 0; p.at([&] { return f(things.context, &v); });
                p.note((long long)v);),
            ROW(cuCtxGetFlags, unsigned v = 0; p.at([&] { return f(&v); }); p.note(v);),
            ROW(cuCtxGetApiVersion, unsigned v = 0; p.at([&] { return f(things.context, &v); }); p.note(v);),
            ROW(cuCtxGetStreamPriorityRange, int a = 0; int b = 0; p.at([&] { return f(&a, &b); }); p.note(a);
                p.note(b);),
            ROW(cuCtxGetExecAffinity, CUexecAffinityParam v = {};
                p.at([&] { return f(&v, CU_EXEC_AFFINITY_TYPE_SM_COUNT); });),
            ROW(cuCtxGetLimit, size_t v = 0; p.at([&] { return f(&v, CU_LIMIT_PRINTF_FIFO_SIZE); });
                p.note((long long)v);),
            ROW(cuCtxGetCacheConfig, CUfunc_cache v = CU_FUNC_CACHE_PREFER_NONE; p.at([&] { return f(&v); });
                p.note(v);),
            ROW(cuCtxSetCacheConfig, p.at([&] { return f(CU_FUNC_CACHE_PREFER_NONE); });),
            ROW(cuCtxGetSharedMemConfig, CUsharedconfig v = CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE;
                p.at([&] { return f(&v); }); p.note(v);),
            ROW(cuCtxSetSharedMemConfig, p.at([&] { return f(CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE); });),
            ROW(cuCtxGetDevResource, CUdevResource v = {};
                p.at([&] { return f(things.context, &v, CU_DEV_RESOURCE_TYPE_SM); }); p.note(v.sm.smCount);),
            ROW(cuDeviceGetDevResource, CUdevResource v = {};
                p.at([&] { return f(things.device, &v, CU_DEV_RESOURCE_TYPE_SM); }); p.note(v.sm.smCount);),
            ROW(cuDevSmResourceSplitByCount, CUdevResource whole = {}; CUdevResource part = {}; CUdevResource rest = {};
                unsigned groups = 1; MUST(CALL(cuDeviceGetDevResource)(things.device, &whole, CU_DEV_RESOURCE_TYPE_SM));
                p.at([&] { return f(&part, &groups, &whole, &rest, 0, 8); }); p.note(part.sm.smCount);
                p.note(rest.sm.smCount);),
            ROW(cuDevResourceGenerateDesc, CUdevResource whole = {}; CUdevResourceDesc v = nullptr;
                MUST(CALL(cuDeviceGetDevResource)(things.device, &whole, CU_DEV_RESOURCE_TYPE_SM));
                p.at([&] { return f(&v, &whole, 1); });),
            ROW(cuCoredumpGetAttribute, bool v = false; size_t size = sizeof v;
                p.at([&] { return f(CU_COREDUMP_TRIGGER_HOST, &v, &size); }); p.note(v);),
            ROW(cuCoredumpGetAttributeGlobal, bool v = false; size_t size = sizeof v;
                p.at([&] { return f(CU_COREDUMP_TRIGGER_HOST, &v, &size); }); p.note(v);),
    };
}

static void link(Probe &p, int timed) {
    CUlinkState state = nullptr;
    void *image = nullptr;
    size_t size = 0;
    auto create = CALL(cuLinkCreate_v2);
    auto add = CALL(cuLinkAddData_v2);
    auto complete = CALL(cuLinkComplete);
    auto destroy = CALL(cuLinkDestroy);
    auto step = [&](int number, const std::function<CUresult()> &call) {
        if (number == timed)
            p.at(call);
        else
            MUST(call());
    };
    step(0, [&] { return create(0, nullptr, nullptr, &state); });
    step(1, [&] {
        return add(state, CU_JIT_INPUT_PTX, (void *)module_text, std::strlen(module_text) + 1, "text", 0, nullptr,
                   nullptr);
    });
    step(2, [&] { return complete(state, &image, &size); });
    step(3, [&] { return destroy(state); });
    p.note(size > 0);
}

static size_t no_memory(int) { return 0; }

std::vector<BlindRow> code_rows() {
    return {
        ROW(cuModuleGetFunction, CUfunction v = nullptr; p.at([&] { return f(&v, things.module, "idle"); });
            p.note(v == things.idle);),
            ROW(cuModuleGetFunctionCount, unsigned v = 0; p.at([&] { return f(&v, things.module); }); p.note(v);),
            ROW(cuModuleEnumerateFunctions, CUfunction v[2] = {}; p.at([&] { return f(v, 2, things.module); });
                p.note((v[0] == things.idle) + (v[1] == things.idle));),
            ROW(cuModuleGetLoadingMode, CUmoduleLoadingMode v = (CUmoduleLoadingMode)0; p.at([&] { return f(&v); });
                p.note(v);),
            ROW(cuLibraryGetKernel, CUkernel v = nullptr; p.at([&] { return f(&v, things.library, "idle"); });
                p.note(v == things.kernel);),
            ROW(cuLibraryGetKernelCount, unsigned v = 0; p.at([&] { return f(&v, things.library); }); p.note(v);),
            ROW(cuLibraryEnumerateKernels, CUkernel v[2] = {}; p.at([&] { return f(v, 2, things.library); });
                p.note((v[0] == things.kernel) + (v[1] == things.kernel));),
            ROW(cuLibraryGetModule, CUmodule v = nullptr; p.at([&] { return f(&v, things.library); });
                p.note((long long)v);),
            ROW(cuKernelGetFunction, CUfunction v = nullptr; p.at([&] { return f(&v, things.kernel); });
                p.note((long long)v);),
            ROW(cuKernelGetLibrary, CUlibrary v = nullptr; p.at([&] { return f(&v, things.kernel); });
                p.note(v == things.library);),
            ROW(cuKernelGetName, const char *v = nullptr; p.at([&] { return f(&v, things.kernel); }); p.text(v);),
            ROW(cuKernelGetAttribute, int v = -1;
                p.at([&] { return f(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, things.kernel, things.device); }); p.note(v);),
            ROW(cuKernelGetParamInfo, size_t at = 9; size_t size = 9;
                p.at([&] { return f(things.kernel, 1, &at, &size); }); p.note((long long)at); p.note((long long)size);),
            ROW(cuKernelSetAttribute, p.at([&] {
                return f(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, things.kernel, things.device);
            });),
            ROW(cuKernelSetCacheConfig,
                p.at([&] { return f(things.kernel, CU_FUNC_CACHE_PREFER_NONE, things.device); });),
            ROW(cuFuncGetModule, CUmodule v = nullptr; p.at([&] { return f(&v, things.idle); });
                p.note(v == things.module);),
            ROW(cuFuncGetName, const char *v = nullptr; p.at([&] { return f(&v, things.idle); }); p.text(v);),
            ROW(cuFuncGetAttribute, int v = -1;
                p.at([&] { return f(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, things.idle); }); p.note(v);),
            ROW(cuFuncGetParamInfo, size_t at = 9; size_t size = 9; p.at([&] { return f(things.idle, 1, &at, &size); });
                p.note((long long)at); p.note((long long)size);),
            ROW(cuFuncIsLoaded, CUfunctionLoadingState v = (CUfunctionLoadingState)9;
                p.at([&] { return f(&v, things.idle); }); p.note(v);),
            ROW(cuFuncLoad, p.at([&] { return f(things.idle); });),
            ROW(cuFuncSetAttribute,
                p.at([&] { return f(things.idle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 2048); });),
            ROW(cuFuncSetCacheConfig, p.at([&] { return f(things.idle, CU_FUNC_CACHE_PREFER_NONE); });),
            ROW(cuFuncSetSharedMemConfig,
                p.at([&] { return f(things.idle, CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE); });),
            ROW(cuFuncSetBlockShape, p.at([&] { return f(things.idle, 1, 1, 1); });),
            ROW(cuFuncSetSharedSize, p.at([&] { return f(things.idle, 0); });),
            ROW(cuParamSetSize, p.at([&] { return f(things.idle, 16); });),
            ROW(cuParamSeti, p.at([&] { return f(things.idle, 8, 7); });),
            ROW(cuParamSetf, p.at([&] { return f(things.idle, 8, 7); });),
            ROW(cuParamSetv, long long v = 0; p.at([&] { return f(things.idle, 0, &v, 8); });),
            ROW(cuLinkCreate_v2, (void)f; link(p, 0);), ROW(cuLinkAddData_v2, (void)f; link(p, 1);),
            ROW(cuLinkComplete, (void)f; link(p, 2);), ROW(cuLinkDestroy, (void)f; link(p, 3);),
            ROW(cuOccupancyMaxActiveBlocksPerMultiprocessor, int v = -1;
                p.at([&] { return f(&v, things.idle, 128, 0); }); p.note(v);),
            ROW(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int v = -1;
                p.at([&] { return f(&v, things.idle, 128, 0, 0); }); p.note(v);),
            ROW(cuOccupancyAvailableDynamicSMemPerBlock, size_t v = 0; p.at([&] { return f(&v, things.idle, 1, 128); });
                p.note((long long)v);),
            ROW(cuOccupancyMaxPotentialBlockSize, int a = 0; int b = 0;
                p.at([&] { return f(&a, &b, things.idle, no_memory, 0, 0); }); p.note(a); p.note(b);),
            ROW(cuOccupancyMaxPotentialBlockSizeWithFlags, int a = 0; int b = 0;
                p.at([&] { return f(&a, &b, things.idle, no_memory, 0, 0, 0); }); p.note(a); p.note(b);),
            ROW(cuOccupancyMaxPotentialClusterSize, int v = -1; CUlaunchConfig c = {}; c.gridDimX = 64;
                c.gridDimY = c.gridDimZ = c.blockDimY = c.blockDimZ = 1; c.blockDimX = 128;
                p.at([&] { return f(&v, things.idle, &c); }); p.note(v);),
            ROW(cuOccupancyMaxActiveClusters, int v = -1; CUlaunchConfig c = {}; CUlaunchAttribute a = {};
                a.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION; a.value.clusterDim.x = 2;
                a.value.clusterDim.y = a.value.clusterDim.z = 1; c.attrs = &a; c.numAttrs = 1; c.gridDimX = 64;
                c.gridDimY = c.gridDimZ = c.blockDimY = c.blockDimZ = 1; c.blockDimX = 128;
                p.at([&] { return f(&v, things.idle, &c); }); p.note(v);),
    };
}

// Rows of blind_calls: streams, events, captures; arrays, textures, mappings, pools.
#include "blind_calls.h"

template <typename GetInfo> static void begin_capture_around(Probe &p, GetInfo look) {
    CUgraph graph;
    MUST(CALL(cuStreamBeginCapture_v2)(things.other, CU_STREAM_CAPTURE_MODE_RELAXED));
    look();
    if (CALL(cuStreamEndCapture)(things.other, &graph) == CUDA_SUCCESS)
        MUST(CALL(cuGraphDestroy)(graph));
    (void)p;
}

std::vector<BlindRow> stream_rows() {
    return {
        ROW(cuStreamCreate, CUstream v = nullptr; p.at([&] { return f(&v, CU_STREAM_NON_BLOCKING); });
            p.later.push_back([=] { MUST(CALL(cuStreamDestroy_v2)(v)); });),
            ROW(cuStreamCreateWithPriority, CUstream v = nullptr;
                p.at([&] { return f(&v, CU_STREAM_NON_BLOCKING, 0); });
                p.later.push_back([=] { MUST(CALL(cuStreamDestroy_v2)(v)); });),
            ROW(cuStreamGetId, unsigned long long v = 0; p.at([&] { return f(things.busy, &v); });
                p.note((long long)v);),
            ROW(cuStreamGetId_ptsz, unsigned long long v = 0; p.at([&] { return f(things.busy, &v); });
                p.note((long long)v);),
            ROW(cuStreamGetFlags, unsigned v = 9; p.at([&] { return f(things.busy, &v); }); p.note(v);),
            ROW(cuStreamGetFlags_ptsz, unsigned v = 9; p.at([&] { return f(things.busy, &v); }); p.note(v);),
            ROW(cuStreamGetPriority, int v = 9; p.at([&] { return f(things.busy, &v); }); p.note(v);),
            ROW(cuStreamGetPriority_ptsz, int v = 9; p.at([&] { return f(things.busy, &v); }); p.note(v);),
            ROW(cuStreamGetDevice, CUdevice v = 9; p.at([&] { return f(things.busy, &v); }); p.note(v);),
            ROW(cuStreamGetDevice_ptsz, CUdevice v = 9; p.at([&] { return f(things.busy, &v); }); p.note(v);),
            ROW(cuStreamGetCtx, CUcontext v = nullptr; p.at([&] { return f(things.busy, &v); });
                p.note(v == things.context);),
            ROW(cuStreamGetCtx_ptsz, CUcontext v = nullptr; p.at([&] { return f(things.busy, &v); });
                p.note(v == things.context);),
            ROW(cuStreamGetCtx_v2, CUcontext v = nullptr; CUgreenCtx g = nullptr;
                p.at([&] { return f(things.busy, &v, &g); }); p.note(v == things.context); p.note(g != nullptr);),
            ROW(cuStreamGetCtx_v2_ptsz, CUcontext v = nullptr; CUgreenCtx g = nullptr;
                p.at([&] { return f(things.busy, &v, &g); }); p.note(v == things.context); p.note(g != nullptr);),
            ROW(cuStreamGetGreenCtx, CUgreenCtx v = nullptr; p.at([&] { return f(things.busy, &v); });
                p.note(v != nullptr);),
            ROW(cuStreamGetAttribute, CUstreamAttrValue v = {};
                p.at([&] { return f(things.busy, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v); });
                p.note(v.syncPolicy);),
            ROW(cuStreamGetAttribute_ptsz, CUstreamAttrValue v = {};
                p.at([&] { return f(things.busy, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v); });
                p.note(v.syncPolicy);),
            ROW(cuStreamIsCapturing, CUstreamCaptureStatus v = (CUstreamCaptureStatus)9;
                p.at([&] { return f(things.busy, &v); }); p.note(v);),
            ROW(cuStreamIsCapturing_ptsz, CUstreamCaptureStatus v = (CUstreamCaptureStatus)9;
                p.at([&] { return f(things.busy, &v); }); p.note(v);),
            ROW(cuStreamGetCaptureInfo_v2, CUstreamCaptureStatus v = (CUstreamCaptureStatus)9;
                p.at([&] { return f(things.busy, &v, nullptr, nullptr, nullptr, nullptr); }); p.note(v);),
            ROW(cuStreamGetCaptureInfo_v3, CUstreamCaptureStatus v = (CUstreamCaptureStatus)9;
                p.at([&] { return f(things.busy, &v, nullptr, nullptr, nullptr, nullptr, nullptr); }); p.note(v);),
            ROW(cuStreamGetCaptureInfo_v3_ptsz, CUstreamCaptureStatus v = (CUstreamCaptureStatus)9;
                p.at([&] { return f(things.busy, &v, nullptr, nullptr, nullptr, nullptr, nullptr); }); p.note(v);),
            ROW(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode v = CU_STREAM_CAPTURE_MODE_RELAXED;
                p.at([&] { return f(&v); }); p.note(v); MUST(f(&v));),
            ROW(cuEventCreate, CUevent v = nullptr; p.at([&] { return f(&v, CU_EVENT_DISABLE_TIMING); });
                p.later.push_back([=] { MUST(CALL(cuEventDestroy_v2)(v)); });),
            // of an event behind the work
            ROW(cuEventDestroy_v2, CUevent v = nullptr; MUST(CALL(cuEventCreate)(&v, 0));
                MUST(CALL(cuEventRecord)(v, things.busy)); p.at([&] { return f(v); });),
            ROW(cuEventDestroy, CUevent v = nullptr; MUST(CALL(cuEventCreate)(&v, 0));
                MUST(CALL(cuEventRecord)(v, things.busy)); p.at([&] { return f(v); });),
    };
}

static CUDA_RESOURCE_DESC of_array() {
    CUDA_RESOURCE_DESC resource = {};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = things.array;
    return resource;
}

static CUmemAllocationProp on_device() {
    CUmemAllocationProp kind = {};
    kind.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    kind.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return kind;
}

// Host memory that the device reaches; it is freed at the end of the process.
static void *pinned() {
    static void *memory;
    if (!memory)
        MUST(CALL(cuMemHostAlloc)(&memory, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    return memory;
}

std::vector<BlindRow> memory_rows() {
    return {
        ROW(cuMemGetAddressRange_v2, CUdeviceptr v = 0; size_t size = 0;
            p.at([&] { return f(&v, &size, things.block + 4096); }); p.note(v == things.block);
            p.note((long long)size);),
            ROW(cuArrayGetDescriptor_v2, CUDA_ARRAY_DESCRIPTOR v = {}; p.at([&] { return f(&v, things.array); });
                p.note((long long)v.Width);),
            ROW(cuArray3DGetDescriptor_v2, CUDA_ARRAY3D_DESCRIPTOR v = {}; p.at([&] { return f(&v, things.array); });
                p.note((long long)v.Height);),
            ROW(cuArrayGetPlane, CUarray v = nullptr; p.at([&] { return f(&v, things.array, 0); });),
            ROW(cuArrayGetMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS v = {};
                p.at([&] { return f(&v, things.array, things.device); }); p.note((long long)v.size);),
            ROW(cuArrayGetSparseProperties, CUDA_ARRAY_SPARSE_PROPERTIES v = {};
                p.at([&] { return f(&v, things.array); });),
            ROW(cuMipmappedArrayGetLevel, CUarray v = nullptr; p.at([&] { return f(&v, things.mipmap, 1); });
                p.note(v != nullptr);),
            ROW(cuMipmappedArrayGetMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS v = {};
                p.at([&] { return f(&v, things.mipmap, things.device); }); p.note((long long)v.size);),
            ROW(cuMipmappedArrayGetSparseProperties, CUDA_ARRAY_SPARSE_PROPERTIES v = {};
                p.at([&] { return f(&v, things.mipmap); });),
            ROW(cuTexObjectCreate, CUDA_RESOURCE_DESC resource = of_array(); CUDA_TEXTURE_DESC kind = {};
                CUtexObject v = 0; p.at([&] { return f(&v, &resource, &kind, nullptr); });
                p.later.push_back([=] { MUST(CALL(cuTexObjectDestroy)(v)); });),
            ROW(cuSurfObjectCreate, CUDA_RESOURCE_DESC resource = of_array(); CUsurfObject v = 0;
                p.at([&] { return f(&v, &resource); });
                p.later.push_back([=] { MUST(CALL(cuSurfObjectDestroy)(v)); });),
            ROW(cuTexObjectGetResourceDesc, CUDA_RESOURCE_DESC v = {}; p.at([&] { return f(&v, things.texture); });
                p.note(v.res.array.hArray == things.array);),
            ROW(cuTexObjectGetResourceViewDesc, CUDA_RESOURCE_VIEW_DESC v = {};
                p.at([&] { return f(&v, things.texture); });),
            ROW(cuTexObjectGetTextureDesc, CUDA_TEXTURE_DESC v = {}; p.at([&] { return f(&v, things.texture); });
                p.note(v.filterMode);),
            ROW(cuSurfObjectGetResourceDesc, CUDA_RESOURCE_DESC v = {}; p.at([&] { return f(&v, things.surface); });
                p.note(v.res.array.hArray == things.array);),
            ROW(cuTexRefCreate, CUtexref v = nullptr; p.at([&] { return f(&v); });),
            ROW(cuMemGetAccess, unsigned long long v = 9; CUmemLocation where = on_device().location;
                p.at([&] { return f(&v, &where, things.mapped); }); p.note((long long)v);),
            ROW(cuMemGetAllocationGranularity, size_t v = 0; CUmemAllocationProp kind = on_device();
                p.at([&] { return f(&v, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM); }); p.note((long long)v);),
            ROW(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp v = {};
                p.at([&] { return f(&v, things.handle); }); p.note(v.type);),
            ROW(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle v = 0;
                p.at([&] { return f(&v, (void *)things.mapped); }); p.note(v == things.handle);
                p.later.push_back([=] { MUST(CALL(cuMemRelease)(v)); });),
            ROW(cuMemPoolGetAccess, CUmemAccess_flags v = CU_MEM_ACCESS_FLAGS_PROT_NONE;
                CUmemLocation where = on_device().location; p.at([&] { return f(&v, things.pool, &where); });
                p.note(v);),
            ROW(cuDeviceGetDefaultMemPool, CUmemoryPool v = nullptr; p.at([&] { return f(&v, things.device); });
                p.note((long long)v);),
            ROW(cuDeviceGetMemPool, CUmemoryPool v = nullptr; p.at([&] { return f(&v, things.device); });
                p.note((long long)v);),
            ROW(cuDeviceSetMemPool, CUmemoryPool v = nullptr; MUST(CALL(cuDeviceGetMemPool)(&v, things.device));
                p.at([&] { return f(things.device, v); });),
            ROW(cuTensorMapEncodeTiled, alignas(64) CUtensorMap v; cuuint64_t sizes[2] = {64, 64};
                cuuint64_t strides[1] = {256}; cuuint32_t box[2] = {16, 16}; cuuint32_t steps[2] = {1, 1};
                std::memset(&v, 0, sizeof v); p.at([&] {
                    return f(&v, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)things.block, sizes, strides, box, steps,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
                });
                p.bytes(&v, sizeof v);),
            ROW(cuTensorMapReplaceAddress, alignas(64) CUtensorMap v; cuuint64_t sizes[2] = {64, 64};
                cuuint64_t strides[1] = {256}; cuuint32_t box[2] = {16, 16}; cuuint32_t steps[2] = {1, 1};
                std::memset(&v, 0, sizeof v); MUST(CALL(cuTensorMapEncodeTiled)(
                    &v, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, (void *)things.block, sizes, strides, box, steps,
                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                    CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
                p.at([&] { return f(&v, (void *)(things.block + 65536)); }); p.bytes(&v, sizeof v);),
            ROW(cuMulticastGetGranularity, CUmulticastObjectProp kind = {}; size_t v = 0; kind.numDevices = 1;
                kind.size = 2 << 20; p.at([&] { return f(&v, &kind, CU_MULTICAST_GRANULARITY_MINIMUM); });
                p.note((long long)v);),
            // Pinned memory and captures: frees wait then.
            SHARING_ROW(cuMemHostGetDevicePointer_v2, CUdeviceptr v = 0; void *memory = pinned();
                        p.at([&] { return f(&v, memory, 0); }); p.note((long long)v);),
            SHARING_ROW(cuMemHostGetFlags, unsigned v = 0; void *memory = pinned(); p.at([&] { return f(&v, memory); });
                        p.note(v);),
            SHARING_ROW(cuStreamEndCapture, CUgraph v = nullptr; (void)v;
                        // the capture begins when the kernel runs, so that nothing waits behind it
                        p.at([&] {
                            CUresult result =
                                CALL(cuStreamBeginCapture_v2)(things.other, CU_STREAM_CAPTURE_MODE_RELAXED);
                            return result ? result : f(things.other, &v);
                        });
                        p.later.push_back([=] { MUST(CALL(cuGraphDestroy)(v)); });),
            SHARING_ROW(cuStreamUpdateCaptureDependencies, p.at([&] {
                CUresult result = CUDA_SUCCESS;
                begin_capture_around(p,
                                     [&] { result = f(things.other, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES); });
                return result;
            });),
            SHARING_ROW(cuStreamUpdateCaptureDependencies_v2, p.at([&] {
                CUresult result = CUDA_SUCCESS;
                begin_capture_around(
                    p, [&] { result = f(things.other, nullptr, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES); });
                return result;
            });),
    };
}

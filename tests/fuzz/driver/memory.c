/* Memory of every kind, and what is done with it. */
#include "perform.h"

#include <stdlib.h>

static const size_t MAPPED_BYTES = (size_t)2 << 20;

/* ---- memory */

static CUresult set_access(CUdeviceptr address, CUmemAccess_flags flags, uint32_t variant) {
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, flags};
    return CALL(cuMemSetAccess, address, MAPPED_BYTES, &access, 1);
}

CUresult map_memory(CUdeviceptr *address, CUmemGenericAllocationHandle *handle, uint32_t variant) {
    CUmemAllocationProp kind = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    TRY(CALL(cuMemCreate, handle, MAPPED_BYTES, &kind, 0));
    TRY(CALL(cuMemAddressReserve, address, MAPPED_BYTES, 0, 0, 0));
    TRY(CALL(cuMemMap, *address, MAPPED_BYTES, 0, *handle, 0));
    return set_access(*address, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, variant);
}

static CUresult map(int number, uint32_t variant) {
    CUdeviceptr address;
    CUresult result = map_memory(&address, &world.handle[number], variant);
    world.address[number] = (char *)(uintptr_t)address;
    return result;
}

static CUresult unmap(int number, uint32_t variant) {
    CUdeviceptr address = device_address(number);
    if (variant & 4)
        TRY(CALL(cuMemRelease, world.handle[number]));
    TRY(CALL(cuMemUnmap, address, MAPPED_BYTES));
    if (!(variant & 4))
        TRY(CALL(cuMemRelease, world.handle[number]));
    return CALL(cuMemAddressFree, address, MAPPED_BYTES);
}

static CUresult allocate(int number, uint32_t variant) {
    const struct object *object = object_of(number);
    CUdeviceptr address = 0;
    size_t pitch;
    CUresult result = CUDA_SUCCESS;
    void **at = (void **)&world.address[number];
    switch (object->made) {
    case DEVICE: result = CALL(cuMemAlloc_v2, &address, object->size); break;
    case PITCHED: result = CALL(cuMemAllocPitch_v2, &address, &pitch, 1024, object->size / 1024, 4); break;
    case MANAGED: result = CALL(cuMemAllocManaged, &address, object->size, CU_MEM_ATTACH_GLOBAL); break;
    case MAPPED: return map(number, variant);
    case PINNED: return variant & 4 ? CALL(cuMemHostAlloc, at, BYTES, 0) : CALL(cuMemAllocHost_v2, at, BYTES);
    default:
        *at = aligned_alloc(4096, 4096);
        return object->made == REGISTERED ? CALL(cuMemHostRegister_v2, *at, 4096, 0) : CUDA_SUCCESS;
    }
    *at = (void *)(uintptr_t)address;
    return result;
}

static CUresult release(int number, uint32_t variant) {
    char *address = world.address[number];
    switch (object_of(number)->made) {
    case MAPPED: return unmap(number, variant);
    case PINNED: return CALL(cuMemFreeHost, address);
    case REGISTERED: TRY(CALL(cuMemHostUnregister, address)); /* fall through */
    case PLAIN: free(address); return CUDA_SUCCESS;
    default: return CALL(cuMemFree_v2, device_address(number));
    }
}

CUresult make_memory_call(const struct call *call) {
    uint32_t variant = call->variant;
    struct door_stream on = call->lane ? stream_of(call) : (struct door_stream){0};
    CUdeviceptr address = 0;
    switch (call->kind) {
    case ALLOC: return allocate(call->to, variant);
    case FREE: return release(call->to, variant);
    case FREE_ASYNC: return ON(cuMemFreeAsync, device_address(call->to), on.handle);
    case CLOSE: return set_access(device_address(call->to), CU_MEM_ACCESS_FLAGS_PROT_NONE, variant);
    case OPEN: return set_access(device_address(call->to), CU_MEM_ACCESS_FLAGS_PROT_READWRITE, variant);
    default: {
        CUresult result = ON(cuMemAllocAsync, &address, object_of(call->to)->size, on.handle);
        world.address[call->to] = (char *)(uintptr_t)address;
        return result;
    }
    }
}

/* ---- work */

struct host_work *host_work(int to, int from, uint32_t value) {
    struct host_work *made = malloc(sizeof *made);
    if (!made)
        abort();
    *made = (struct host_work){(uint32_t *)world.address[to], (const uint32_t *)world.address[from], value};
    return made;
}

void mix_on_host(void *data) {
    struct host_work *work = data;
    mix_words(work->to, work->from, work->value);
}

static void CUDA_CB mix_by_callback(CUstream stream, CUresult status, void *data) {
    if (status == CUDA_SUCCESS)
        mix_on_host(data);
}

/* Functions that act at once are refused while the stream captures. */
static CUresult set(const struct call *call) {
    uint32_t variant = call->variant;
    struct door_stream on = stream_of(call);
    CUdeviceptr to = device_address(call->to);
    bool by_default_stream = world.plan->lanes[call->lane].kind != CREATED;
    if (by_default_stream && variant & 4 && !on.handle)
        return ON_NOW(cuMemsetD32_v2, to, call->value, WORDS);
    if (variant & 8)
        return ON(cuMemsetD2D32Async, to, BYTES, call->value, WORDS, 1, on.handle);
    return ON(cuMemsetD32Async, to, call->value, WORDS, on.handle);
}

static bool lies_on_device(int number) { return object_of(number)->made < PINNED; }

static CUresult copy_rows(struct door_stream on, CUdeviceptr to, CUdeviceptr from, uint32_t variant) {
    CUDA_MEMCPY2D two = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                         .srcDevice = from,
                         .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                         .dstDevice = to,
                         .WidthInBytes = BYTES,
                         .Height = 1};
    CUDA_MEMCPY3D three = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = from,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = to,
                           .WidthInBytes = BYTES,
                           .Height = 1,
                           .Depth = 1};
    return variant & 16 ? ON(cuMemcpy2DAsync_v2, &two, on.handle) : ON(cuMemcpy3DAsync_v2, &three, on.handle);
}

static CUresult copy(const struct call *call) {
    uint32_t variant = call->variant;
    struct door_stream on = stream_of(call);
    CUdeviceptr to = device_address(call->to), from = device_address(call->from);
    int there = object_of(call->to)->context, here = object_of(call->from)->context;
    bool now = world.plan->lanes[call->lane].kind != CREATED && !on.handle && variant & 32;
    if (there != here && variant & 4)
        return ON(cuMemcpyPeerAsync, to, world.contexts[there], from, world.contexts[here], BYTES, on.handle);
    if (lies_on_device(call->from) && lies_on_device(call->to) && variant & 8)
        return now ? ON_NOW(cuMemcpyDtoD_v2, to, from, BYTES) : ON(cuMemcpyDtoDAsync_v2, to, from, BYTES, on.handle);
    if (object_of(call->to)->made == PINNED && lies_on_device(call->from) && variant & 8)
        return now ? ON_NOW(cuMemcpyDtoH_v2, world.address[call->to], from, BYTES)
                   : ON(cuMemcpyDtoHAsync_v2, world.address[call->to], from, BYTES, on.handle);
    if (object_of(call->from)->made == PINNED && lies_on_device(call->to) && variant & 8)
        return now ? ON_NOW(cuMemcpyHtoD_v2, to, world.address[call->from], BYTES)
                   : ON(cuMemcpyHtoDAsync_v2, to, world.address[call->from], BYTES, on.handle);
    if (!call->graph && there == here && variant & 64)
        return copy_rows(on, to, from, variant);
    return now ? ON_NOW(cuMemcpy, to, from, BYTES) : ON(cuMemcpyAsync, to, from, BYTES, on.handle);
}

static CUresult launch(const struct call *call) {
    uint32_t variant = call->variant, value = call->value;
    struct door_stream on = stream_of(call);
    CUdeviceptr to = device_address(call->to), from = device_address(call->from);
    void *parameters[] = {&to, &from, &value};
    CUfunction mix = world.mix[call->context];
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = WORDS,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = on.handle,
                             .attrs = &attribute,
                             .numAttrs = variant >> 4 & 1};
    if (call->kind == EARLY_KERNEL) {
        attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attribute.value.programmaticStreamSerializationAllowed = 1;
        config.numAttrs = 1;
    }
    if (call->kind == EARLY_KERNEL || (variant >> 2 & 3) == 0)
        return ON(cuLaunchKernelEx, &config, mix, parameters, NULL);
    if ((variant >> 2 & 7) == 1)
        return ON(cuLaunchCooperativeKernel, mix, 1, 1, 1, WORDS, 1, 1, 0, on.handle, parameters);
    return ON(cuLaunchKernel, mix, 1, 1, 1, WORDS, 1, 1, 0, on.handle, parameters, NULL);
}

static CUresult publish(const struct call *call) {
    uint32_t variant = call->variant, value = call->value;
    struct door_stream on = stream_of(call);
    CUdeviceptr from = device_address(call->from);
    return ON(cuLaunchKernel, world.publish, 1, 1, 1, WORDS, 1, 1, 0, on.handle, (void *[]){&from, &value}, NULL);
}

static CUresult fault(const struct call *call) {
    uint32_t variant = call->variant, value = 0;
    struct door_stream on = stream_of(call);
    CUdeviceptr nowhere = 4096;
    return ON(cuLaunchKernel, world.mix[call->context], 1, 1, 1, WORDS, 1, 1, 0, on.handle,
              (void *[]){&nowhere, &nowhere, &value}, NULL);
}

static CUresult copy_up(const struct call *call) {
    uint32_t variant = call->variant, source[WORDS];
    struct door_stream on = stream_of(call);
    bool now = world.plan->lanes[call->lane].kind != CREATED && !on.handle && variant & 4;
    CUresult result;
    for (int i = 0; i < WORDS; i++)
        source[i] = call->want[i];
    if (lies_on_device(call->to) && variant & 8)
        result = now ? ON_NOW(cuMemcpyHtoD_v2, device_address(call->to), source, BYTES)
                     : ON(cuMemcpyHtoDAsync_v2, device_address(call->to), source, BYTES, on.handle);
    else
        result = now ? ON_NOW(cuMemcpy, device_address(call->to), (CUdeviceptr)(uintptr_t)source, BYTES)
                     : ON(cuMemcpyAsync, device_address(call->to), (CUdeviceptr)(uintptr_t)source, BYTES, on.handle);
    for (int i = 0; i < WORDS; i++)
        *(volatile uint32_t *)&source[i] = 0xdead;
    return result;
}

static CUresult copy_down(const struct call *call, uint32_t *seen) {
    uint32_t variant = call->variant;
    struct door_stream on = stream_of(call);
    CUdeviceptr from = device_address(call->from), to = (CUdeviceptr)(uintptr_t)seen;
    bool now = world.plan->lanes[call->lane].kind != CREATED && !on.handle && variant & 4;
    if (lies_on_device(call->from) && variant & 8)
        return now ? ON_NOW(cuMemcpyDtoH_v2, seen, from, BYTES)
                   : ON(cuMemcpyDtoHAsync_v2, seen, from, BYTES, on.handle);
    return now ? ON_NOW(cuMemcpy, to, from, BYTES) : ON(cuMemcpyAsync, to, from, BYTES, on.handle);
}

/* On a card, work takes its time. */
static CUresult spin(const struct call *call) {
    uint32_t variant = call->variant;
    struct door_stream on = stream_of(call);
    uint64_t ns = world.place->spin_us * 1000ull;
    return ON(cuLaunchKernel, world.spin[call->context], 1, 1, 1, 1, 1, 1, 0, on.handle, (void *[]){&ns}, NULL);
}

CUresult make_work(const struct call *call, uint32_t *seen) {
    uint32_t variant = call->variant;
    struct door_stream on = stream_of(call);
    if (world.place->kernels && !call->graph && call->kind <= KERNEL && (variant >> 20 & 3) == 0)
        TRY(spin(call));
    switch (call->kind) {
    case SET: return set(call);
    case COPY: return copy(call);
    case KERNEL:
    case EARLY_KERNEL: return launch(call);
    case PUBLISH: return publish(call);
    case FAULT: return fault(call);
    case COPY_UP: return copy_up(call);
    case COPY_DOWN: return copy_down(call, seen);
    case CALLBACK:
        return ON(cuStreamAddCallback, on.handle, mix_by_callback, host_work(call->to, call->from, call->value), 0);
    default: return ON(cuLaunchHostFunc, on.handle, mix_on_host, host_work(call->to, call->from, call->value));
    }
}

/* Memory calls of the simulated runtime. */
#include "runtime.h"
#include <string.h>

#define PTR(p) ((CUdeviceptr)(uintptr_t)(p))

static cudaError_t give(cudaError_t e, void **out, const CUdeviceptr *p) {
    if (e == cudaSuccess)
        *out = (void *)(uintptr_t)*p;
    return rt_error(e);
}

RT_API cudaError_t cudaMalloc(void **devPtr, size_t size) {
    CUdeviceptr p = 0;
    RT_READY();
    if (!devPtr)
        return rt_error(cudaErrorInvalidValue);
    if (size == 0) { /* the runtime answers this itself */
        *devPtr = NULL;
        return cudaSuccess;
    }
    return give((cudaError_t)rt_legacy.cuMemAlloc(&p, size), devPtr, &p);
}

RT_API cudaError_t cudaFree(void *devPtr) {
    RT_READY();
    return devPtr ? rt_error((cudaError_t)rt_legacy.cuMemFree(PTR(devPtr))) : cudaSuccess;
}

RT_API cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height) {
    CUdeviceptr p = 0;
    RT_READY();
    if (!devPtr || !pitch)
        return rt_error(cudaErrorInvalidValue);
    return give((cudaError_t)rt_legacy.cuMemAllocPitch(&p, pitch, width, height, 4), devPtr, &p);
}

RT_API cudaError_t cudaMalloc3D(struct cudaPitchedPtr *out, struct cudaExtent extent) {
    CUdeviceptr p = 0;
    size_t pitch = 0;
    RT_READY();
    CUresult r = rt_legacy.cuMemAllocPitch(&p, &pitch, extent.width, extent.height * extent.depth, 4);
    if (r == CUDA_SUCCESS)
        *out = (struct cudaPitchedPtr){(void *)(uintptr_t)p, pitch, extent.width, extent.height};
    return rt_error((cudaError_t)r);
}

RT_API cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags) {
    CUdeviceptr p = 0;
    RT_READY();
    if (!devPtr || size == 0)
        return rt_error(cudaErrorInvalidValue);
    return give((cudaError_t)rt_legacy.cuMemAllocManaged(&p, size, flags), devPtr, &p);
}

RT_API cudaError_t cudaFreeHost(void *ptr) {
    RT_READY();
    return ptr ? rt_error((cudaError_t)rt_legacy.cuMemFreeHost(ptr)) : cudaSuccess;
}

/* ---- copies ---- */

RT_TWIN(_ptds, cudaMemcpy, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
        (dst, src, count, kind)) {
    RT_READY();
    if (count == 0)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToDevice: return rt_error((cudaError_t)d->cuMemcpyHtoD(PTR(dst), src, count));
    case cudaMemcpyDeviceToHost: return rt_error((cudaError_t)d->cuMemcpyDtoH(dst, PTR(src), count));
    case cudaMemcpyDeviceToDevice: return rt_error((cudaError_t)d->cuMemcpyDtoD(PTR(dst), PTR(src), count));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: return rt_error((cudaError_t)d->cuMemcpy(PTR(dst), PTR(src), count));
    default: return rt_error(cudaErrorInvalidMemcpyDirection);
    }
}

RT_TWIN(_ptsz, cudaMemcpyAsync,
        (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream),
        (dst, src, count, kind, stream)) {
    RT_READY();
    if (count == 0)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToDevice: return rt_error((cudaError_t)d->cuMemcpyHtoDAsync(PTR(dst), src, count, stream));
    case cudaMemcpyDeviceToHost: return rt_error((cudaError_t)d->cuMemcpyDtoHAsync(dst, PTR(src), count, stream));
    case cudaMemcpyDeviceToDevice:
        return rt_error((cudaError_t)d->cuMemcpyDtoDAsync(PTR(dst), PTR(src), count, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault: return rt_error((cudaError_t)d->cuMemcpyAsync(PTR(dst), PTR(src), count, stream));
    default: return rt_error(cudaErrorInvalidMemcpyDirection);
    }
}

static CUcontext primary_of(int device, cudaError_t *e) {
    CUcontext ctx = NULL;
    *e = (cudaError_t)rt_legacy.cuDevicePrimaryCtxRetain(&ctx, device);
    return ctx;
}

static cudaError_t copy_peer(const struct rt_driver *d, void *dst, int dstDevice, const void *src, int srcDevice,
                             size_t count, bool async, cudaStream_t stream) {
    cudaError_t e, e2;
    RT_READY();
    CUcontext to = primary_of(dstDevice, &e), from = primary_of(srcDevice, &e2);
    if (e == cudaSuccess && e2 == cudaSuccess)
        e = (cudaError_t)(async ? d->cuMemcpyPeerAsync(PTR(dst), to, PTR(src), from, count, stream)
                                : d->cuMemcpyPeer(PTR(dst), to, PTR(src), from, count));
    if (to)
        rt_legacy.cuDevicePrimaryCtxRelease(dstDevice);
    if (from)
        rt_legacy.cuDevicePrimaryCtxRelease(srcDevice);
    return rt_error(e ? e : e2);
}

RT_API cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count) {
    return copy_peer(&rt_legacy, dst, dstDevice, src, srcDevice, count, false, NULL);
}

RT_API cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t count,
                                       cudaStream_t stream) {
    return copy_peer(&rt_legacy, dst, dstDevice, src, srcDevice, count, true, stream);
}

static CUmemorytype side(enum cudaMemcpyKind kind, bool source) {
    if (kind == cudaMemcpyDefault)
        return CU_MEMORYTYPE_UNIFIED;
    bool host = source ? kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice
                       : kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost;
    return host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

static CUDA_MEMCPY2D flat(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                          enum cudaMemcpyKind kind) {
    return (CUDA_MEMCPY2D){.srcMemoryType = side(kind, true),
                           .srcHost = src,
                           .srcDevice = PTR(src),
                           .srcPitch = spitch,
                           .dstMemoryType = side(kind, false),
                           .dstHost = dst,
                           .dstDevice = PTR(dst),
                           .dstPitch = dpitch,
                           .WidthInBytes = width,
                           .Height = height};
}

RT_TWIN(_ptds, cudaMemcpy2D,
        (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
         enum cudaMemcpyKind kind),
        (dst, dpitch, src, spitch, width, height, kind)) {
    CUDA_MEMCPY2D c = flat(dst, dpitch, src, spitch, width, height, kind);
    RT_READY();
    if (dpitch < width || spitch < width)
        return rt_error(cudaErrorInvalidPitchValue);
    return rt_error((cudaError_t)d->cuMemcpy2DUnaligned(&c));
}

RT_TWIN(_ptsz, cudaMemcpy2DAsync,
        (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
         enum cudaMemcpyKind kind, cudaStream_t stream),
        (dst, dpitch, src, spitch, width, height, kind, stream)) {
    CUDA_MEMCPY2D c = flat(dst, dpitch, src, spitch, width, height, kind);
    RT_READY();
    if (dpitch < width || spitch < width)
        return rt_error(cudaErrorInvalidPitchValue);
    return rt_error((cudaError_t)d->cuMemcpy2DAsync(&c, stream));
}

/* What a copy of solids says in the driver's words, between devices too: all but the kinds of its two sides. */
#define SOLID(p)                                                                                                   \
    .WidthInBytes = (p)->extent.width, .Height = (p)->extent.height, .Depth = (p)->extent.depth,                   \
    .srcXInBytes = (p)->srcPos.x, .srcY = (p)->srcPos.y, .srcZ = (p)->srcPos.z, .srcDevice = PTR((p)->srcPtr.ptr), \
    .srcArray = (CUarray)(p)->srcArray, .srcPitch = (p)->srcPtr.pitch, .srcHeight = (p)->srcPtr.ysize,             \
    .dstXInBytes = (p)->dstPos.x, .dstY = (p)->dstPos.y, .dstZ = (p)->dstPos.z, .dstDevice = PTR((p)->dstPtr.ptr), \
    .dstArray = (CUarray)(p)->dstArray, .dstPitch = (p)->dstPtr.pitch, .dstHeight = (p)->dstPtr.ysize

static CUDA_MEMCPY3D solid(const struct cudaMemcpy3DParms *p) {
    CUDA_MEMCPY3D c = {SOLID(p), .srcHost = p->srcPtr.ptr, .dstHost = p->dstPtr.ptr};
    c.srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY : side(p->kind, true);
    c.dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY : side(p->kind, false);
    return c;
}

RT_TWIN(_ptds, cudaMemcpy3D, (const struct cudaMemcpy3DParms *p), (p)) {
    RT_READY();
    CUDA_MEMCPY3D c = solid(p);
    return rt_error((cudaError_t)d->cuMemcpy3D(&c));
}

RT_TWIN(_ptsz, cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *p, cudaStream_t stream), (p, stream)) {
    RT_READY();
    CUDA_MEMCPY3D c = solid(p);
    return rt_error((cudaError_t)d->cuMemcpy3DAsync(&c, stream));
}

/* The contexts are the devices' primary ones; the driver knows the devices by the addresses. */
static CUDA_MEMCPY3D_PEER solid_peer(const struct cudaMemcpy3DPeerParms *p) {
    CUDA_MEMCPY3D_PEER c = {SOLID(p)};
    c.srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
    c.dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_DEVICE;
    return c;
}

RT_TWIN(_ptds, cudaMemcpy3DPeer, (const struct cudaMemcpy3DPeerParms *p), (p)) {
    RT_READY();
    CUDA_MEMCPY3D_PEER c = solid_peer(p);
    return rt_error((cudaError_t)d->cuMemcpy3DPeer(&c));
}

RT_TWIN(_ptsz, cudaMemcpy3DPeerAsync, (const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream), (p, stream)) {
    RT_READY();
    CUDA_MEMCPY3D_PEER c = solid_peer(p);
    return rt_error((cudaError_t)d->cuMemcpy3DPeerAsync(&c, stream));
}

/* ---- variables ---- */

RT_API cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol) {
    CUdeviceptr p = 0;
    size_t size;
    RT_READY();
    return give(rt_variable(symbol, &p, &size), devPtr, &p);
}
RT_API cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol) {
    CUdeviceptr p = 0;
    RT_READY();
    return rt_variable(symbol, &p, size);
}
RT_TWIN(_ptds, cudaMemcpyToSymbol,
        (const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind),
        (symbol, src, count, offset, kind)) {
    void *p = NULL;
    cudaError_t e = cudaGetSymbolAddress(&p, symbol);
    return e ? e : cudaMemcpy_on(d, (char *)p + offset, src, count, kind);
}
RT_TWIN(_ptds, cudaMemcpyFromSymbol,
        (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind),
        (dst, symbol, count, offset, kind)) {
    void *p = NULL;
    cudaError_t e = cudaGetSymbolAddress(&p, symbol);
    return e ? e : cudaMemcpy_on(d, dst, (char *)p + offset, count, kind);
}
RT_TWIN(_ptsz, cudaMemcpyToSymbolAsync,
        (const void *symbol, const void *src, size_t count, size_t offset, enum cudaMemcpyKind kind,
         cudaStream_t stream),
        (symbol, src, count, offset, kind, stream)) {
    void *p = NULL;
    cudaError_t e = cudaGetSymbolAddress(&p, symbol);
    return e ? e : cudaMemcpyAsync_on(d, (char *)p + offset, src, count, kind, stream);
}

RT_TWIN(_ptsz, cudaMemcpyFromSymbolAsync,
        (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream),
        (dst, symbol, count, offset, kind, stream)) {
    void *p = NULL;
    cudaError_t e = cudaGetSymbolAddress(&p, symbol);
    return e ? e : cudaMemcpyAsync_on(d, dst, (char *)p + offset, count, kind, stream);
}

static CUmemLocation location(struct cudaMemLocation l) {
    return (CUmemLocation){.type = (CUmemLocationType)l.type, .id = l.id};
}

RT_API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *ptr) {
    CUmemorytype type = 0;
    int device = -2;
    unsigned char managed = 0;
    CUdeviceptr on_device = 0;
    void *on_host = NULL;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *data[] = {&type, &device, &managed, &on_device, &on_host};
    RT_READY();
    if (!out)
        return rt_error(cudaErrorInvalidValue);
    CUresult r = rt_legacy.cuPointerGetAttributes(5, names, data, PTR(ptr));
    if (r != CUDA_SUCCESS)
        return rt_error((cudaError_t)r);
    memset(out, 0, sizeof *out);
    out->type = managed                      ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                : type                       ? cudaMemoryTypeDevice
                                             : cudaMemoryTypeUnregistered;
    out->device = device;
    out->devicePointer = (void *)(uintptr_t)on_device;
    out->hostPointer = type ? on_host : (void *)ptr;
    return cudaSuccess;
}

/* ---- stream-ordered memory ---- */

RT_TWIN(_ptsz, cudaMallocAsync, (void **devPtr, size_t size, cudaStream_t stream), (devPtr, size, stream)) {
    CUdeviceptr p = 0;
    RT_READY();
    if (!devPtr)
        return rt_error(cudaErrorInvalidValue);
    if (size == 0) {
        *devPtr = NULL;
        return cudaSuccess;
    }
    return give((cudaError_t)d->cuMemAllocAsync(&p, size, stream), devPtr, &p);
}
RT_TWIN(_ptsz, cudaFreeAsync, (void *devPtr, cudaStream_t stream), (devPtr, stream)) {
    RT_READY();
    return devPtr ? rt_error((cudaError_t)d->cuMemFreeAsync(PTR(devPtr), stream)) : cudaSuccess;
}
RT_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *p) {
    RT_READY();
    CUmemPoolProps props = {.allocType = (CUmemAllocationType)p->allocType,
                            .handleTypes = (CUmemAllocationHandleType)p->handleTypes,
                            .location = location(p->location),
                            .maxSize = p->maxSize};
    return rt_error((cudaError_t)rt_legacy.cuMemPoolCreate(pool, &props));
}

/* ---- arrays ---- */

static bool array_format(const struct cudaChannelFormatDesc *d, CUarray_format *format, unsigned *channels) {
    *channels = (d->x > 0) + (d->y > 0) + (d->z > 0) + (d->w > 0);
    static const struct {
        int bits, kind;
        CUarray_format format;
    } rows[] = {{8, cudaChannelFormatKindSigned, CU_AD_FORMAT_SIGNED_INT8},
                {16, cudaChannelFormatKindSigned, CU_AD_FORMAT_SIGNED_INT16},
                {32, cudaChannelFormatKindSigned, CU_AD_FORMAT_SIGNED_INT32},
                {8, cudaChannelFormatKindUnsigned, CU_AD_FORMAT_UNSIGNED_INT8},
                {16, cudaChannelFormatKindUnsigned, CU_AD_FORMAT_UNSIGNED_INT16},
                {32, cudaChannelFormatKindUnsigned, CU_AD_FORMAT_UNSIGNED_INT32},
                {16, cudaChannelFormatKindFloat, CU_AD_FORMAT_HALF},
                {32, cudaChannelFormatKindFloat, CU_AD_FORMAT_FLOAT}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].bits == d->x && rows[i].kind == (int)d->f) {
            *format = rows[i].format;
            return true;
        }
    }
    return false;
}

RT_API cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                                     struct cudaExtent extent, unsigned int flags) {
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = extent.width, .Height = extent.height, .Depth = extent.depth, .Flags = flags};
    RT_READY();
    if (!array_format(desc, &d.Format, &d.NumChannels))
        return rt_error(cudaErrorInvalidChannelDescriptor);
    return rt_error((cudaError_t)rt_legacy.cuArray3DCreate((CUarray *)array, &d));
}
RT_API cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc, size_t width,
                                   size_t height, unsigned int flags) {
    return cudaMalloc3DArray(array, desc, (struct cudaExtent){width, height, 0}, flags);
}
RT_API cudaError_t cudaFreeArray(cudaArray_t array) {
    RT_READY();
    return array ? rt_error((cudaError_t)rt_legacy.cuArrayDestroy((CUarray)array)) : cudaSuccess;
}
RT_API struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind f) {
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}
RT_TWIN(_ptds, cudaMemcpy2DToArray,
        (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch, size_t width, size_t height,
         enum cudaMemcpyKind kind),
        (dst, wOffset, hOffset, src, spitch, width, height, kind)) {
    CUDA_MEMCPY2D c = flat(NULL, width, src, spitch, width, height, kind);
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = (CUarray)dst;
    c.dstXInBytes = wOffset;
    c.dstY = hOffset;
    RT_CALL(d->cuMemcpy2DUnaligned(&c));
}
RT_TWIN(_ptds, cudaMemcpy2DFromArray,
        (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t width, size_t height,
         enum cudaMemcpyKind kind),
        (dst, dpitch, src, wOffset, hOffset, width, height, kind)) {
    CUDA_MEMCPY2D c = flat(dst, dpitch, NULL, width, width, height, kind);
    c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    c.srcArray = (CUarray)src;
    c.srcXInBytes = wOffset;
    c.srcY = hOffset;
    RT_CALL(d->cuMemcpy2DUnaligned(&c));
}

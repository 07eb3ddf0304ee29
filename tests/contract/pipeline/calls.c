/* Allocates one block by each allocating call and prints what the driver reports about it: calls
 *
 * Prints a line for each block: LABEL ADDRESS BYTES managed=M type=T device=D start=S ipc=E. A line `reference KIND
 * ipc=E` is the driver's answer for memory of that kind which the program requested itself. All blocks live until
 * the end, so their addresses are distinct. */
#include <cuda.h>

#include "tests/preload/program.h"

enum { MOST = 64 };
static struct {
    CUdeviceptr address;
    int by_async;
} blocks[MOST];
static int block_count;
static CUstream stream;

static int ipc_answer(CUdeviceptr address) {
    CUipcMemHandle handle;
    return (int)cuIpcGetMemHandle(&handle, address);
}

static void describe(const char *label, CUdeviceptr address, size_t size) {
    CUdeviceptr base = 0, start = 0;
    size_t range = 0;
    int managed = 0, type = -1, device = -1; /* a driver may write one byte for a truth value */
    MUST(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address + size / 2));
    MUST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
    MUST(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
    MUST(cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address + size - 1));
    MUST(cuMemGetAddressRange(&base, &range, address + size / 2));
    EXPECT(base <= address && address + size <= base + range);
    printf("%s %#llx %zu managed=%d type=%d device=%d start=%d ipc=%d\n", label, (unsigned long long)address, size,
           managed, type, device, start == address, ipc_answer(address));
}

/* Device-accessible: written and read back by the driver. */
static void use(CUdeviceptr address, size_t size) {
    unsigned char *host = malloc(size);
    MUST(cuMemsetD8(address, 0x5e, size));
    MUST(cuMemcpyDtoH(host, address, size));
    EXPECT(all_bytes_are(host, 0x5e, size));
    free(host);
}

static void keep(const char *label, CUdeviceptr address, size_t size, int by_async) {
    EXPECT(address % 256 == 0 && block_count < MOST);
    blocks[block_count].address = address;
    blocks[block_count++].by_async = by_async;
    if (by_async)
        MUST(cuStreamSynchronize(stream));
    use(address, size);
    describe(label, address, size);
}

static void get(const char *label, size_t size) {
    CUdeviceptr address;
    MUST(cuMemAlloc(&address, size));
    EXPECT(address % 512 == 0 || size < 512);
    keep(label, address, size, 0);
}

static void get_async(const char *label, size_t size) {
    CUdeviceptr address;
    MUST(cuMemAllocAsync(&address, size, stream));
    keep(label, address, size, 1);
}

static void repeat(size_t size, int by_async) {
    for (int i = 0; i < 12; i++) {
        CUdeviceptr address;
        if (by_async) {
            MUST(cuMemAllocAsync(&address, size, stream));
            MUST(cuMemFreeAsync(address, stream));
        } else {
            MUST(cuMemAlloc(&address, size));
            MUST(cuMemFree(address));
        }
    }
}

static void pitched(void) {
    CUdeviceptr address;
    size_t pitch;
    MUST(cuMemAllocPitch(&address, &pitch, 1000, 30, 8));
    EXPECT(pitch >= 1000 && pitch % 32 == 0);
    keep("pitch", address, pitch * 30, 0);
}

static void captured(void) {
    CUdeviceptr address;
    CUgraph graph;
    MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(cuMemAllocAsync(&address, 5001, stream));
    MUST(cuMemsetD8Async(address, 1, 5001, stream));
    MUST(cuMemFreeAsync(address, stream));
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphDestroy(graph));
    printf("async_captured %#llx 5001\n", (unsigned long long)address);
}

static CUmemoryPool pool;

static size_t used_in_pool(void) {
    cuuint64_t used = 0;
    MUST(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    return used;
}

/* While the program's pool is the device's current pool, stream-ordered memory comes from it. This holds for both
 * calls that set a pool, until the default pool is set again or the program's pool is destroyed. */
static void from_set_pool(const CUmemPoolProps *properties) {
    CUmemLocation location = properties->location;
    CUmemoryPool standard, second;
    CUdeviceptr address;
    CUresult (*set)(CUmemLocation *, CUmemAllocationType, CUmemoryPool) = NULL; /* drivers from 13.0 on */
    MUST(cuDeviceGetDefaultMemPool(&standard, 0));
    for (int by_location = 0; by_location < 2; by_location++) {
        size_t before = used_in_pool();
        if (by_location && (cuGetProcAddress("cuMemSetMemPool", (void **)&set, 13000, 0, NULL) != CUDA_SUCCESS || !set))
            break;
        MUST(by_location ? set(&location, CU_MEM_ALLOCATION_TYPE_PINNED, pool) : cuDeviceSetMemPool(0, pool));
        MUST(cuMemAllocAsync(&address, 9001, stream));
        EXPECT(used_in_pool() >= before + 9001);
        keep(by_location ? "from_placed_pool" : "from_set_pool", address, 9001, 1);
        MUST(by_location ? set(&location, CU_MEM_ALLOCATION_TYPE_PINNED, standard) : cuDeviceSetMemPool(0, standard));
    }
    get_async("async_default_pool", 410001);
    MUST(cuMemPoolCreate(&second, properties));
    MUST(cuDeviceSetMemPool(0, second));
    MUST(cuMemPoolDestroy(second));
    get_async("async_pool_gone", 420001);
}

static void never_moved(void) {
    CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = 64, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUdeviceptr address;
    void *host = NULL, *own = NULL;
    CUarray array;
    MUST(cuMemPoolCreate(&pool, &properties));
    MUST(cuMemAllocFromPoolAsync(&address, 6001, pool, stream));
    keep("from_pool", address, 6001, 1);
    printf("reference async ipc=%d\n", ipc_answer(address));
    from_set_pool(&properties);
    MUST(cuMemAllocManaged(&address, 7001, CU_MEM_ATTACH_GLOBAL));
    memset((void *)address, 7, 7001); /* host memory, too */
    keep("user_managed", address, 7001, 0);
    printf("reference managed ipc=%d\n", ipc_answer(address));
    MUST(cuMemHostAlloc(&host, 8001, 0));
    printf("host %#llx 8001\n", (unsigned long long)(uintptr_t)host);
    EXPECT(posix_memalign(&own, 4096, 8192) == 0);
    MUST(cuMemHostRegister(own, 8192, 0));
    printf("registered %#llx 8192\n", (unsigned long long)(uintptr_t)own);
    MUST(cuArrayCreate(&array, &shape));
    printf("array %#llx 2048\n", (unsigned long long)(uintptr_t)array);
    MUST(cuArrayDestroy(array));
    MUST(cuMemHostUnregister(own));
    MUST(cuMemFreeHost(host));
    free(own);
}

static void mapped(void) {
    CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    size_t chunk = 0;
    MUST(cuMemGetAllocationGranularity(&chunk, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    MUST(cuMemCreate(&handle, chunk, &property, 0));
    printf("vmm %#llx %zu\n", (unsigned long long)handle, chunk);
    MUST(cuMemRelease(handle));
}

int main(void) {
    CUcontext context;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    get("small", 1);
    get("lasting", 1000001);
    repeat(300000, 0);
    get("transient", 300000);
    pitched();
    get_async("async", 400001);
    repeat(500000, 1);
    get_async("async_transient", 500000);
    captured();
    never_moved();
    mapped();
    for (int i = 0; i < block_count; i++) {
        if (blocks[i].by_async)
            MUST(cuMemFreeAsync(blocks[i].address, stream));
        else
            MUST(cuMemFree(blocks[i].address));
    }
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemPoolDestroy(pool));
    MUST(cuCtxSynchronize());
    printf("ok calls %d\n", block_count);
    return 0;
}

/* Sends host memory to a device by each call of the driver, or by the runtime's calls.
 *
 * "each": prints for each call `SYMBOL HOST DESTINATION BYTES`. Each call sends its buffer three times and, changed, a
 * fourth time. HOST is the first byte sent; DESTINATION is 0 for an array.
 * "runtime": by cudaMemcpy and its relatives; "runtime_kept": after a block was freed. "odd": copies whose contents
 * gpumem cannot know, and copies that are not from host to device. "threads": several threads at once. LINKED: "each"
 * and "odd" take the functions that the linker would bind, by a look-up that gpumem leaves alone. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include "program.h"

enum { WIDTH = 100, HEIGHT = 5, DEPTH = 3, PITCH = 160, ROWS = 8, SIZE = 1 << 16, X = 4, Y = 1, Z = 1 };

static void *driver;
static CUdeviceptr device;
static CUarray array;
static CUstream stream;
static unsigned char *host;

static void *find(const char *symbol) {
#ifdef LINKED
    void *function = dlsym(RTLD_NEXT, symbol);
#else
    void *function = dlsym(driver, symbol);
#endif
    EXPECT(function);
    return function;
}
#define D(symbol) ((__typeof__(&symbol))find(#symbol))

/* What the two structs of copies of layers have in common. */
#define LAYERS                                                                                         \
    .srcPitch = PITCH, .srcHeight = ROWS, .srcXInBytes = X, .srcY = Y, .srcZ = Z, .dstDevice = device, \
    .dstPitch = 2 * PITCH, .dstHeight = ROWS, .WidthInBytes = WIDTH, .Height = HEIGHT, .Depth = DEPTH

static void send(const char *symbol, int which) {
    void *f = find(symbol);
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)host, batch_from[2] = {from, from + 32},
                batch_to[2] = {device, device + 32};
    size_t sizes[2] = {16, 16}, index = 0, failed;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUDA_MEMCPY2D plane = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = host,
                           .srcPitch = PITCH,
                           .srcXInBytes = X,
                           .srcY = Y,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = device,
                           .dstPitch = 2 * PITCH,
                           .dstXInBytes = X,
                           .dstY = Y,
                           .WidthInBytes = WIDTH,
                           .Height = HEIGHT};
    CUDA_MEMCPY3D volume = {LAYERS, .srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = from,
                            .dstMemoryType = CU_MEMORYTYPE_UNIFIED};
    CUDA_MEMCPY3D_PEER peer = {LAYERS, .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = host,
                               .dstMemoryType = CU_MEMORYTYPE_DEVICE};
    CUDA_MEMCPY3D_BATCH_OP op = {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {from, PITCH, ROWS, {0}}},
                                 .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {device, 0, 0, {0}}},
                                 .extent = {WIDTH, HEIGHT, DEPTH}};
    switch (which) {
    case 0: MUST(((__typeof__(&cuMemcpyHtoD))f)(device, host, SIZE)); break;
    case 1: MUST(((__typeof__(&cuMemcpyHtoDAsync))f)(device, host, SIZE, stream)); break;
    case 2: MUST(((__typeof__(&cuMemcpyHtoA))f)(array, 0, host, 64)); break;
    case 3: MUST(((__typeof__(&cuMemcpyHtoAAsync))f)(array, 0, host, 64, stream)); break;
    case 4: MUST(((__typeof__(&cuMemcpy))f)(device, from, SIZE)); break;
    case 5: MUST(((__typeof__(&cuMemcpyAsync))f)(device, from, SIZE, stream)); break;
    case 6: MUST(((__typeof__(&cuMemcpy2D))f)(&plane)); break;
    case 7: MUST(((__typeof__(&cuMemcpy2DAsync))f)(&plane, stream)); break;
    case 8: MUST(((__typeof__(&cuMemcpy3D))f)(&volume)); break;
    case 9: MUST(((__typeof__(&cuMemcpy3DAsync))f)(&volume, stream)); break;
    case 10: MUST(((__typeof__(&cuMemcpy3DPeer))f)(&peer)); break;
    case 11: MUST(((__typeof__(&cuMemcpy3DPeerAsync))f)(&peer, stream)); break;
    case 12:
        MUST(((CUresult(*)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t,
                           size_t *, CUstream))f)(batch_to, batch_from, sizes, 2, &attributes, &index, 1, &failed,
                                                  stream));
        break;
    case 13:
        MUST(((CUresult(*)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *, size_t,
                           CUstream))f)(batch_to, batch_from, sizes, 2, &attributes, &index, 1, stream));
        break;
    case 14:
        MUST(((CUresult(*)(size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long, CUstream))f)(1, &op, &failed,
                                                                                                        0, stream));
        break;
    case 15:
        MUST(((CUresult(*)(size_t, CUDA_MEMCPY3D_BATCH_OP *, unsigned long long, CUstream))f)(1, &op, 0, stream));
        break;
    }
    MUST(D(cuCtxSynchronize)());
}

static void each(void) {
    static const struct {
        const char *symbol;
        const char *twin;
        int which;
    } calls[] = {
        {"cuMemcpyHtoD_v2", "_ptds", 0},
        {"cuMemcpyHtoDAsync_v2", "_ptsz", 1},
        {"cuMemcpyHtoA_v2", "_ptds", 2},
        {"cuMemcpyHtoAAsync_v2", "_ptsz", 3},
        {"cuMemcpy", "_ptds", 4},
        {"cuMemcpyAsync", "_ptsz", 5},
        {"cuMemcpy2D_v2", "_ptds", 6},
        {"cuMemcpy2DUnaligned_v2", "_ptds", 6},
        {"cuMemcpy2DAsync_v2", "_ptsz", 7},
        {"cuMemcpy3D_v2", "_ptds", 8},
        {"cuMemcpy3DAsync_v2", "_ptsz", 9},
        {"cuMemcpy3DPeer", "_ptds", 10},
        {"cuMemcpy3DPeerAsync", "_ptsz", 11},
        {"cuMemcpyBatchAsync", "_ptsz", 12},
        {"cuMemcpyBatchAsync_v2", "_ptsz", 13},
        {"cuMemcpy3DBatchAsync", "_ptsz", 14},
        {"cuMemcpy3DBatchAsync_v2", "_ptsz", 15},
    };
    static const size_t in_volume = X + Y * PITCH + Z * ROWS * PITCH;
    for (unsigned i = 0; i < 2 * sizeof calls / sizeof *calls; i++) {
        char symbol[64];
        int which = calls[i / 2].which;
        size_t offset = 0, to = 0, bytes = SIZE;
        host = malloc(SIZE); /* never freed, so that each call has an address of its own */
        memset(host, (int)i, SIZE);
        snprintf(symbol, sizeof symbol, "%s%s", calls[i / 2].symbol, i % 2 ? calls[i / 2].twin : "");
        if (which == 2 || which == 3)
            bytes = 64;
        if (which == 6 || which == 7)
            offset = X + Y * PITCH, to = X + Y * 2 * PITCH, bytes = WIDTH * HEIGHT;
        if (which >= 8 && which <= 11)
            offset = in_volume, bytes = WIDTH * HEIGHT * DEPTH;
        if (which == 12 || which == 13)
            bytes = 16;
        if (which >= 14)
            bytes = WIDTH * HEIGHT * DEPTH;
        for (int time = 0; time < 4; time++) {
            host[offset + 3] = time == 3 ? 0xaa : 0x55;
            send(symbol, which);
        }
        printf("%s %p %#llx %zu\n", symbol, (void *)(host + offset),
               which == 2 || which == 3 ? 0ull : (unsigned long long)(device + to), bytes);
    }
}

/* ---- by the runtime */

static void runtime(void) {
    char *first, *second, *pinned;
    MUST(cudaMalloc((void **)&first, SIZE));
    MUST(cudaMalloc((void **)&second, SIZE));
    MUST(cudaMallocHost((void **)&pinned, SIZE));
    memset(pinned, 7, SIZE);
    host = malloc(SIZE);
    memset(host, 1, SIZE);
    for (int i = 0; i < 3; i++)
        MUST(cudaMemcpy(first, host, SIZE, cudaMemcpyHostToDevice)); /* twice at the same address */
    MUST(cudaMemcpy(second, host, SIZE, cudaMemcpyDefault));         /* at another address */
    MUST(cudaMemcpyAsync(first, pinned, SIZE, cudaMemcpyHostToDevice, 0));
    MUST(cudaMemcpyAsync(second, pinned, SIZE, cudaMemcpyDefault, 0)); /* at another address */
    MUST(cudaMemcpy(second, host, SIZE, cudaMemcpyHostToDevice));      /* overwritten */
    host[0]++;
    MUST(cudaMemcpy(first, host, SIZE, cudaMemcpyHostToDevice)); /* changed */
    MUST(cudaFree(first));
    MUST(cudaMalloc((void **)&first, SIZE));
    MUST(cudaMemcpy(first, host, SIZE, cudaMemcpyHostToDevice)); /* freed */
    MUST(cudaMemcpy2D(first, 256, host, 512, 100, 10, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy2D(first, 256, host, 512, 100, 10, cudaMemcpyHostToDevice)); /* at the same address */
    MUST(cudaMemcpy(host, first, SIZE, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(second, first, SIZE, cudaMemcpyDeviceToDevice));
    MUST(cudaDeviceSynchronize());
}

/* ---- odd copies */

static void odd(void) {
    void *managed;
    unsigned char *pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), back[SIZE];
    CUgraph graph;
    CUdeviceptr other = device + SIZE;
    EXPECT(pages != MAP_FAILED);
    memset(pages, 9, SIZE);

    /* unreadable while the call returns */
    MUST(D(cuMemHostRegister_v2)(pages, SIZE, 0));
    EXPECT(mprotect(pages + SIZE / 2, SIZE / 2, PROT_NONE) == 0);
    MUST(D(cuMemcpyHtoDAsync_v2)(device, pages, SIZE, stream));
    EXPECT(mprotect(pages, SIZE, PROT_READ | PROT_WRITE) == 0);
    MUST(D(cuStreamSynchronize)(stream));
    MUST(D(cuMemcpyDtoH_v2)(back, device, SIZE));
    EXPECT(all_bytes_are(back, 9, SIZE));

    /* managed memory as source */
    MUST(D(cuMemAllocManaged)((CUdeviceptr *)&managed, SIZE, CU_MEM_ATTACH_GLOBAL));
    MUST(D(cuMemcpyHtoD_v2)(device, managed, SIZE));

    /* captured: runs with the graph */
    MUST(D(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(D(cuMemcpyHtoDAsync_v2)(device, pages, SIZE, stream));
    MUST(D(cuStreamEndCapture)(stream, &graph));

    /* refused */
    EXPECT(D(cuMemcpyHtoD_v2)(16, pages, SIZE) != CUDA_SUCCESS);
    EXPECT(D(cuMemcpy2D_v2)(NULL) != CUDA_SUCCESS);
    EXPECT(D(cuMemcpyBatchAsync_v2)(NULL, NULL, NULL, 7, NULL, NULL, 0, stream) != CUDA_SUCCESS);

    /* not from host to device, or nothing */
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = pages,
                                .dstMemoryType = CU_MEMORYTYPE_HOST,
                                .dstHost = back,
                                .WidthInBytes = WIDTH,
                                .Height = HEIGHT};
    MUST(D(cuMemcpy2D_v2)(&rows));
    MUST(D(cuMemcpy)(other, device, SIZE));
    MUST(D(cuMemcpy)((CUdeviceptr)(uintptr_t)pages, device, SIZE));
    MUST(D(cuMemcpy)((CUdeviceptr)(uintptr_t)back, (CUdeviceptr)(uintptr_t)pages, SIZE));
    MUST(D(cuMemcpyDtoD_v2)(other, device, SIZE));
    MUST(D(cuMemcpyHtoD_v2)(device, pages, 0));
    MUST(D(cuCtxSynchronize)());
}

/* ---- threads */

static void *many(void *argument) {
    char *to, *from = malloc(SIZE);
    MUST(cudaMalloc((void **)&to, SIZE));
    memset(from, 3, SIZE);
    for (int i = 0; i < 50; i++) {
        from[0] = (char)(i / 2);
        MUST(cudaMemcpy(to, from, SIZE, cudaMemcpyHostToDevice));
    }
    MUST(cudaFree(to));
    return NULL; /* `from` stays, so that each thread has an address of its own */
}

static void threads(void) {
    pthread_t all[8];
    for (int i = 0; i < 8; i++)
        EXPECT(pthread_create(&all[i], NULL, many, NULL) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(all[i], NULL);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "threads";
#ifdef LINKED
    MUST(cuInit(0)); /* links the driver */
#endif
    MUST(cudaFree(NULL));
    if (!strcmp(what, "runtime_kept")) {
        void *memory;
        MUST(cudaMalloc(&memory, 1 << 20));
        MUST(cudaFree(memory));
        runtime();
    } else if (!strcmp(what, "runtime")) {
        runtime();
    } else if (!strcmp(what, "threads")) {
        threads();
    } else {
        CUDA_ARRAY_DESCRIPTOR shape = {64, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1};
        EXPECT((driver = dlopen("libcuda.so.1", RTLD_NOW)));
        MUST(D(cuMemAlloc_v2)(&device, 4 * SIZE));
        MUST(D(cuArrayCreate_v2)(&array, &shape));
        MUST(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
        (strcmp(what, "odd") ? each : odd)();
    }
    return 0;
}

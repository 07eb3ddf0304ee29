/* Copies between two devices in every form and direction, without peer access and, where it is available, with it.
 * Prints the status of each form. A successful call that did not copy the bytes is a failure. A block of the first
 * device is older than the second device's context. Then the first device allocates and frees while the second one
 * waits for the thread that does so: no wait natively includes work of another device. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include "program.h"

enum { WIDTH = 3000, ROWS = 80, SIZE = WIDTH * ROWS, DEVICES = 2 };

struct place {
    int device;
    void *flat, *rows;
    size_t pitch;
    cudaStream_t stream;
};

static unsigned char sent[SIZE], got[SIZE];

static cudaError_t plain(const struct place *to, const struct place *from) {
    return cudaMemcpy(to->flat, from->flat, SIZE, cudaMemcpyDefault);
}
static cudaError_t device_to_device(const struct place *to, const struct place *from) {
    return cudaMemcpy(to->flat, from->flat, SIZE, cudaMemcpyDeviceToDevice);
}
static cudaError_t async_by_source(const struct place *to, const struct place *from) {
    MUST(cudaSetDevice(from->device));
    return cudaMemcpyAsync(to->flat, from->flat, SIZE, cudaMemcpyDefault, from->stream);
}
static cudaError_t async_by_target(const struct place *to, const struct place *from) {
    MUST(cudaSetDevice(to->device));
    return cudaMemcpyAsync(to->flat, from->flat, SIZE, cudaMemcpyDefault, to->stream);
}
static cudaError_t peer(const struct place *to, const struct place *from) {
    return cudaMemcpyPeer(to->flat, to->device, from->flat, from->device, SIZE);
}
static cudaError_t peer_async(const struct place *to, const struct place *from) {
    MUST(cudaSetDevice(from->device));
    return cudaMemcpyPeerAsync(to->flat, to->device, from->flat, from->device, SIZE, from->stream);
}
static cudaError_t two_dimensions(const struct place *to, const struct place *from) {
    return cudaMemcpy2D(to->rows, to->pitch, from->rows, from->pitch, WIDTH, ROWS, cudaMemcpyDefault);
}
static cudaError_t two_dimensions_async(const struct place *to, const struct place *from) {
    MUST(cudaSetDevice(to->device));
    return cudaMemcpy2DAsync(to->rows, to->pitch, from->rows, from->pitch, WIDTH, ROWS, cudaMemcpyDeviceToDevice,
                             to->stream);
}

static struct cudaMemcpy3DPeerParms cube(const struct place *to, const struct place *from) {
    return (struct cudaMemcpy3DPeerParms){
        .srcDevice = from->device,
        .srcPtr = {from->rows, from->pitch, WIDTH, ROWS / 10},
        .dstDevice = to->device,
        .dstPtr = {to->rows, to->pitch, WIDTH, ROWS / 10},
        .extent = {WIDTH, ROWS / 10, 10},
    };
}
static cudaError_t three_dimensions(const struct place *to, const struct place *from) {
    const struct cudaMemcpy3DPeerParms parameters = cube(to, from);
    return cudaMemcpy3DPeer(&parameters);
}
static cudaError_t three_dimensions_async(const struct place *to, const struct place *from) {
    const struct cudaMemcpy3DPeerParms parameters = cube(to, from);
    MUST(cudaSetDevice(from->device));
    return cudaMemcpy3DPeerAsync(&parameters, from->stream);
}

static const struct {
    const char *name;
    cudaError_t (*copy)(const struct place *to, const struct place *from);
    int by_rows;
} ways[] = {
    {"Default", plain, 0},
    {"DeviceToDevice", device_to_device, 0},
    {"Default by the source's stream", async_by_source, 0},
    {"Default by the target's stream", async_by_target, 0},
    {"Peer", peer, 0},
    {"PeerAsync", peer_async, 0},
    {"2D", two_dimensions, 1},
    {"2DAsync", two_dimensions_async, 1},
    {"3DPeer", three_dimensions, 1},
    {"3DPeerAsync", three_dimensions_async, 1},
};

static void write_block(const struct place *place, unsigned way, int value) {
    MUST(cudaSetDevice(place->device));
    memset(got, value, SIZE);
    const unsigned char *bytes = value < 0 ? sent : got;
    if (ways[way].by_rows)
        MUST(cudaMemcpy2D(place->rows, place->pitch, bytes, WIDTH, WIDTH, ROWS, cudaMemcpyHostToDevice));
    else
        MUST(cudaMemcpy(place->flat, bytes, SIZE, cudaMemcpyHostToDevice));
    MUST(cudaDeviceSynchronize());
}

static void read_block(const struct place *place, unsigned way) {
    MUST(cudaSetDevice(place->device));
    if (ways[way].by_rows)
        MUST(cudaMemcpy2D(got, WIDTH, place->rows, place->pitch, WIDTH, ROWS, cudaMemcpyDeviceToHost));
    else
        MUST(cudaMemcpy(got, place->flat, SIZE, cudaMemcpyDeviceToHost));
}

static void copy(const struct place *to, const struct place *from, unsigned way, int current) {
    write_block(to, way, 0x5a);
    write_block(from, way, -1);
    MUST(cudaSetDevice(current));
    cudaError_t code = ways[way].copy(to, from);
    for (int device = 0; device < DEVICES; device++) {
        MUST(cudaSetDevice(device));
        MUST(cudaDeviceSynchronize());
    }
    printf(" %d", (int)code);
    read_block(to, way);
    EXPECT(code != cudaSuccess || memcmp(got, sent, SIZE) == 0);
}

static void every_copy(const struct place *places) {
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        printf("%s:", ways[way].name);
        for (size_t i = 0; i < SIZE; i++)
            sent[i] = (unsigned char)(i * 7 + i / 253 + way);
        for (int current = 0; current < DEVICES; current++)
            for (int from = 0; from < DEVICES; from++)
                copy(&places[1 - from], &places[from], way, current);
        printf("\n");
    }
}

static void fill(struct place *place) {
    MUST(cudaSetDevice(place->device));
    if (!place->flat)
        place->flat = device_alloc(SIZE);
    MUST(cudaMallocPitch(&place->rows, &place->pitch, WIDTH, ROWS));
    note_alloc("cuMemAllocPitch", ANY_BYTES, place->rows);
}

static void empty(struct place *place) {
    MUST(cudaSetDevice(place->device));
    device_free(place->rows);
    device_free(place->flat);
    place->flat = NULL;
}

static void out_of_time(int unused) {
    static const char text[] = "a call of one device waits for work of the other\n";
    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 4 : 3);
}

static void free_beside(const struct place *places) {
    typedef CUresult wait_call(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    const unsigned limit_s = 60;
    volatile unsigned *flag;
    void *address, *driver = dlopen("libcuda.so.1", RTLD_NOW);
    wait_call *wait_value = driver ? (wait_call *)dlsym(driver, "cuStreamWaitValue32_v2") : NULL;
    EXPECT(wait_value);
    signal(SIGALRM, out_of_time);
    alarm(limit_s);
    MUST(cudaHostAlloc((void **)&flag, sizeof *flag, cudaHostAllocMapped | cudaHostAllocPortable));
    note_alloc("cuMemHostAlloc", sizeof *flag, (void *)flag);
    *flag = 0;
    MUST(cudaSetDevice(1));
    MUST(cudaHostGetDevicePointer(&address, (void *)flag, 0));
    MUST(wait_value((CUstream)places[1].stream, (CUdeviceptr)(uintptr_t)address, 1, CU_STREAM_WAIT_VALUE_GEQ));
    MUST(cudaSetDevice(0));
    for (int i = 0; i < 40; i++) {
        void *block = device_alloc(SIZE << i % 3);
        MUST(cudaMemsetAsync(block, i, SIZE, places[0].stream));
        device_free(block);
        MUST(cudaStreamSynchronize(places[0].stream));
    }
    MUST(cudaDeviceSynchronize());
    *flag = 1;
    MUST(cudaSetDevice(1));
    MUST(cudaStreamSynchronize(places[1].stream));
    alarm(0);
    note_free("cuMemFreeHost", (void *)flag);
    MUST(cudaFreeHost((void *)flag));
    dlclose(driver);
}

int main(void) {
    struct place places[DEVICES] = {{.device = 0}, {.device = 1}};
    int count = 0, reach[DEVICES];
    MUST(cudaGetDeviceCount(&count));
    if (count < DEVICES) {
        fprintf(stderr, "one device only\n");
        return 77;
    }
    places[0].flat = device_alloc(SIZE);
    for (int i = 0; i < DEVICES; i++) {
        MUST(cudaDeviceCanAccessPeer(&reach[i], i, 1 - i));
        MUST(cudaSetDevice(i));
        MUST(cudaStreamCreateWithFlags(&places[i].stream, cudaStreamNonBlocking));
    }
    printf("reach: %d\n", reach[0] && reach[1]);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < DEVICES; i++)
            fill(&places[i]);
        every_copy(places);
        for (int i = 0; i < DEVICES; i++)
            empty(&places[i]);
        free_beside(places);
        for (int i = 0; i < DEVICES && !round && reach[i]; i++) {
            MUST(cudaSetDevice(i));
            MUST(cudaDeviceEnablePeerAccess(1 - i, 0));
        }
    }
    for (int i = 0; i < DEVICES; i++)
        MUST(cudaStreamDestroy(places[i].stream));
    printf("ok two_devices\n");
    return 0;
}

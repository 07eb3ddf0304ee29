// Arrays grown by hand while CUPTI, which enters the driver through private tables, follows every call by callbacks and
// records kernels and copies in buffers of its own; a callback also looks at the array's neighbours through the driver.
// The results are a host's. The second line of the output tells what CUPTI saw.
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>
#include <cupti.h>

#include "../check.h"

static unsigned long long calls, records, bytes_copied, callback_copies;
static unsigned *probe; // device memory that callbacks write while a copy may be put off
static bool inside;

#define MUST_CUPTI(call)                                                                     \
    do {                                                                                     \
        CUptiResult answer_ = (call);                                                        \
        if (answer_ != CUPTI_SUCCESS) {                                                      \
            const char *text_ = "";                                                          \
            cuptiGetResultString(answer_, &text_);                                           \
            std::fprintf(stderr, "%s: %s\n", #call, text_);                                  \
            std::exit(77); /* CUPTI may be refused to users without the permission for it */ \
        }                                                                                    \
    } while (0)

static void CUPTIAPI called(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data) {
    const CUpti_CallbackData *info = (const CUpti_CallbackData *)data;
    calls++;
    if (inside || !probe || domain != CUPTI_CB_DOMAIN_RUNTIME_API || info->callbackSite != CUPTI_API_EXIT)
        return;
    // Between a program's copy and its free every fourth time: work that a callback makes.
    if (id == CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020 && ++callback_copies % 4 == 0) {
        inside = true;
        unsigned value = (unsigned)callback_copies, back = 0;
        CHECK(cudaMemcpy(probe, &value, sizeof value, cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(&back, probe, sizeof back, cudaMemcpyDeviceToHost));
        if (back != value)
            std::exit(1);
        inside = false;
    }
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most) {
    *size = 1 << 20;
    *most = 0;
    *buffer = (uint8_t *)std::aligned_alloc(8, *size);
}

static void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid) {
    CUpti_Activity *record = nullptr;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        records++;
    std::free(buffer);
}

__global__ void fill(unsigned *data, size_t first, size_t count) {
    for (size_t i = first + blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        data[i] = (unsigned)(i * 2654435761u);
}

__global__ void differing(const unsigned *data, size_t count, unsigned *number) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        if (data[i] != (unsigned)(i * 2654435761u))
            atomicAdd(number, 1u);
}

int main() {
    const size_t first = 1500000, last = 60000000;
    CUpti_SubscriberHandle subscriber;
    unsigned *data = nullptr, *number, wrong = 0;
    size_t count = 0;
    int steps = 0;
    if (cudaFree(nullptr) != cudaSuccess)
        return 77;
    MUST_CUPTI(cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)called, nullptr));
    MUST_CUPTI(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RUNTIME_API));
    MUST_CUPTI(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API));
    MUST_CUPTI(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_RESOURCE));
    MUST_CUPTI(cuptiEnableDomain(1, subscriber, CUPTI_CB_DOMAIN_SYNCHRONIZE));
    MUST_CUPTI(cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
    MUST_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
    MUST_CUPTI(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY));
    CHECK(cudaMalloc(&number, sizeof *number));
    CHECK(cudaMemset(number, 0, sizeof *number));
    CHECK(cudaMalloc(&probe, sizeof *probe));
    for (size_t next = first; next < last; next = next * 3 / 2, steps++) {
        unsigned *larger;
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMalloc(&larger, next * sizeof *larger));
        if (data) {
            CHECK(cudaMemcpy(larger, data, count * sizeof *data, cudaMemcpyDeviceToDevice));
            bytes_copied += count * sizeof *data;
            if (steps % 3 == 1)
                CHECK(cudaDeviceSynchronize());
            CHECK(cudaFree(data));
        }
        data = larger;
        fill<<<256, 256>>>(data, count, next);
        CHECK(cudaDeviceSynchronize());
        differing<<<256, 256>>>(data, next, number);
        count = next;
        if (steps % 4 == 3)
            MUST_CUPTI(cuptiActivityFlushAll(0));
    }
    CHECK(cudaMemcpy(&wrong, number, sizeof wrong, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(data));
    MUST_CUPTI(cuptiActivityFlushAll(1));
    MUST_CUPTI(cuptiUnsubscribe(subscriber));
    bool good = !wrong && calls && records && callback_copies;
    std::printf("%s grow under CUPTI %d steps, %llu bytes\n", good ? "ok" : "wrong", steps, bytes_copied);
    std::printf("%llu callbacks, %llu records, %u wrong\n", calls, records, wrong);
    return good ? 0 : 1;
}

/* New managed memory carries no advice of an earlier block, also when cuMemAlloc returns managed memory under a
 * policy. Sizes, data and the driver's answers stay the same. Argument `alone`, when no other process uses the
 * device: a destroyed context holds no memory. */
#include <cuda.h>

#include "program.h"

enum { MIB = 1 << 20, ROUNDS = 12, STEP = 64 << 10 };

static const CUmem_range_attribute names[] = {
    CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
    CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
    CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
};
enum { NAMES = sizeof names / sizeof *names };

static CUstream stream;
static int alone;
static CUdevice device;

static CUdeviceptr get(size_t size, int managed) {
    CUdeviceptr address;
    if (managed)
        MUST(cuMemAllocManaged(&address, size, CU_MEM_ATTACH_GLOBAL));
    else
        MUST(cuMemAlloc(&address, size));
    note_alloc(managed ? "cuMemAllocManaged" : "cuMemAlloc", (long long)size, (void *)(uintptr_t)address);
    return address;
}

static void give(CUdeviceptr address) {
    note_free("cuMemFree", (void *)(uintptr_t)address);
    MUST(cuMemFree(address));
}

static int is_managed(CUdeviceptr address) {
    int managed = 0; /* a driver may write one byte for a truth value */
    MUST(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
    return managed;
}

static int attribute(CUmem_range_attribute name, CUdeviceptr address, size_t size) {
    int value = -99;
    MUST(cuMemRangeGetAttribute(&value, sizeof value, name, address, size));
    return value;
}

/* The attributes of new memory before any advice. */
static void read_all(CUdeviceptr address, size_t size, int *values) {
    for (int i = 0; i < NAMES; i++)
        values[i] = attribute(names[i], address, size);
}

static void expect_fresh(CUdeviceptr address, size_t size, const int *fresh) {
    for (size_t at = 0; at < size; at += STEP) {
        size_t part = size - at < STEP ? size - at : STEP;
        for (int i = 0; i < NAMES; i++) {
            int value = attribute(names[i], address + at, part);
            if (value != fresh[i])
                fprintf(stderr, "attribute %d at %zu of %zu: %d, new memory says %d\n", (int)names[i], at, size, value,
                        fresh[i]);
            EXPECT(value == fresh[i]);
        }
        /* The memory location of pages is not promised: a prefetch of an earlier block may still be in progress. */
        EXPECT(!alone || attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, address + at, part) != CU_DEVICE_CPU);
    }
}

/* Native memory of cuMemAlloc accepts no advice, so the memory that replaces it need not accept all advice. */
static void expect_taken(CUresult result, int managed) {
    EXPECT(result == CUDA_SUCCESS || (!managed && result == CUDA_ERROR_NOT_SUPPORTED));
}

/* Advice on the whole block, and on parts that begin and end inside it. */
static void advise(CUdeviceptr address, size_t size, int managed, int round) {
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                  host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    size_t third = size / 3;
    if (round & 1)
        expect_taken(cuMemAdvise(address + third, third, CU_MEM_ADVISE_SET_READ_MOSTLY, here), managed);
    if (round & 2)
        expect_taken(cuMemAdvise(address, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, round & 1 ? host : here),
                     managed);
    if (round & 4)
        expect_taken(cuMemAdvise(address + 2 * third, size - 2 * third, CU_MEM_ADVISE_SET_ACCESSED_BY, here), managed);
    if (round & 8)
        MUST(cuMemPrefetchAsync(address + third, third, host, 0, stream));
}

static void use(CUdeviceptr address, size_t size, unsigned char pattern) {
    unsigned char last;
    MUST(cuMemsetD8Async(address, pattern, size, stream));
    MUST(cuMemcpyDtoHAsync(&last, address + size - 1, 1, stream));
    MUST(cuStreamSynchronize(stream));
    EXPECT(last == pattern);
}

static void rounds(size_t size, int managed) {
    int fresh[NAMES] = {0};
    CUdeviceptr first = get(size, managed);
    if (is_managed(first))
        read_all(first, size, fresh);
    give(first);
    for (int round = 0; round < ROUNDS; round++) {
        CUdeviceptr address = get(size, managed);
        if (is_managed(address)) {
            expect_fresh(address, size, fresh);
            use(address, size, (unsigned char)(round + 1));
            advise(address, size, managed, round);
            if (round == 5 && !managed) { /* the driver chooses what cuMemFreeAsync does with managed memory */
                CUdeviceptr next;
                note_free("cuMemFreeAsync", (void *)(uintptr_t)address);
                MUST(cuMemFreeAsync(address, stream));
                next = get(size, managed);
                expect_fresh(next, size, fresh);
                give(next);
                continue;
            }
        }
        use(address, size, (unsigned char)(round + 100));
        give(address);
    }
}

/* Native memory of cuMemAlloc cannot be attached to a stream. Whatever the driver answers for the memory that
 * replaces it, the memory keeps working. */
static void attached(size_t size) {
    CUdeviceptr address = get(size, 0);
    CUresult answer = cuStreamAttachMemAsync(stream, address, 0, CU_MEM_ATTACH_SINGLE);
    EXPECT(answer != CUDA_SUCCESS || is_managed(address));
    MUST(cuStreamSynchronize(stream));
    use(address, size, 7);
    give(address);
    address = get(size, 0);
    use(address, size, 8);
    give(address);
}

static void contexts(void) {
    size_t used = 0;
    for (int round = 0; round < 4; round++) {
        CUcontext context;
        CUdeviceptr blocks[6];
        size_t unused, total;
        MUST(cuCtxCreate(&context, NULL, 0, device));
        for (int i = 0; i < 6; i++)
            blocks[i] = get(5 * MIB, 0);
        for (int i = 0; i < 6; i++)
            give(blocks[i]);
        MUST(cuCtxDestroy(context));
        MUST(cuMemGetInfo(&unused, &total));
        if (round == 0)
            used = total - unused;
        EXPECT(!alone || total - unused <= used);
    }
}

int main(int argc, char **argv) {
    alone = argc > 1;
    start_driver();
    MUST(cuDeviceGet(&device, 0));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int managed = 0; managed < 2; managed++) {
        rounds(MIB, managed);
        rounds(3 * MIB + 300, managed);
    }
    attached(MIB);
    contexts();
    MUST(cuStreamDestroy(stream));
    MUST(cuDevicePrimaryCtxRelease(device));
    printf("ok advice %d\n", ROUNDS);
    return 0;
}

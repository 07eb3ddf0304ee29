/* A program cannot notice that freed memory is reused: sizes, free memory, handles, tags and errors are as natively. */
#include "driver_memory.h"

enum { MIB = 1 << 20, LOOPS = 200 };

static void loop(size_t size) {
    for (int i = 0; i < LOOPS; i++) {
        CUdeviceptr address = get(size), base;
        size_t range, attribute;
        unsigned char pattern = (unsigned char)i, first;
        MUST(cuMemsetD8(address + size - 1, pattern, 1));
        MUST(cuMemcpyDtoH(&first, address + size - 1, 1));
        EXPECT(first == pattern);
        MUST(cuMemGetAddressRange(&base, &range, address + size / 2));
        EXPECT(base == address && range == size);
        MUST(cuPointerGetAttribute(&attribute, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address));
        EXPECT(attribute == size);
        give(address);
    }
}

static size_t free_memory(void) {
    size_t bytes = 0, total = 0;
    MUST(cuMemGetInfo(&bytes, &total));
    EXPECT(bytes <= total);
    return bytes;
}

/* A handle identifies one block forever: the next block has another handle. */
static void exported_blocks_are_unique(size_t size) {
    enum { COUNT = 40 };
    static CUipcMemHandle handles[COUNT];
    for (int i = 0; i < COUNT; i++) {
        CUdeviceptr address = get(size);
        MUST(cuIpcGetMemHandle(&handles[i], address));
        for (int j = 0; j < i; j++)
            EXPECT(memcmp(&handles[i], &handles[j], sizeof handles[i]) != 0);
        give(address);
    }
}

/* A tag belongs to one block: the next block does not have it. */
static void tags_do_not_stick(size_t size) {
    for (int i = 0; i < 40; i++) {
        CUdeviceptr address = get(size);
        int one = 1, tagged = -1;
        if (cuPointerGetAttribute(&tagged, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address) == CUDA_SUCCESS)
            EXPECT(tagged == 0);
        MUST(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
        give(address);
    }
}

/* The id of memory is never given again: caches of registrations rely on it. */
static void ids_are_unique(size_t size) {
    enum { COUNT = 40 };
    static unsigned long long seen[COUNT];
    for (int i = 0; i < COUNT; i++) {
        CUdeviceptr address = get(size);
        CUpointer_attribute named[] = {CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_BUFFER_ID};
        size_t range;
        void *answers[] = {&range, &seen[i]};
        switch (i % 3) {
        case 0: MUST(cuPointerGetAttribute(&seen[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, address)); break;
        case 1: MUST(cuPointerGetAttribute(&seen[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, address + size / 2)); break;
        default: MUST(cuPointerGetAttributes(2, named, answers, address));
        }
        for (int j = 0; j < i; j++)
            EXPECT(seen[i] != seen[j]);
        give(address);
        give(get(size)); /* kept, and nobody knows its id */
    }
}

int main(void) {
    CUdevice device;
    start_driver();
    MUST(cuDeviceGet(&device, 0));
    loop(1000);
    loop(3 * MIB);
    size_t before = free_memory();
    give(get(64 * MIB));
    give(get(7 * MIB + 1));
    MUST(cuCtxSynchronize());
    EXPECT(free_memory() + 2 * MIB >= before);
    exported_blocks_are_unique(3 * MIB);
    tags_do_not_stick(3 * MIB);
    ids_are_unique(3 * MIB);
    ids_are_unique(1000);
    loop(3 * MIB);
    MUST(cuDevicePrimaryCtxRelease(device));
    printf("ok kept_blocks\n");
    return 0;
}

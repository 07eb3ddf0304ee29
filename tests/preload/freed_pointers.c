/* The driver reports no memory for freed blocks and for bytes beyond the requested size. Answers are printed without
 * addresses so that they can be compared. */
#include "driver_memory.h"

static CUcontext context;

/* Values of outputs that a failing call must not change. */
enum { UNTOUCHED = 0x5a5a5a5a };

/* Distance from `block`; -1: no address; -2: outside of every block, e.g. untouched. */
static long long from(CUdeviceptr address, CUdeviceptr block) {
    return !address ? -1 : address < block ? -2 : (long long)(address - block);
}

static void ask(const char *what, size_t size, CUdeviceptr block, size_t offset) {
    CUdeviceptr address = block + offset, base = UNTOUCHED, start = UNTOUCHED, both_start = UNTOUCHED,
                both_pointer = UNTOUCHED;
    size_t range = UNTOUCHED, bytes = UNTOUCHED, both_bytes = UNTOUCHED;
    int type = UNTOUCHED, both_type = UNTOUCHED, both_device = UNTOUCHED;
    CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                   CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&both_type, &both_start, &both_bytes, &both_pointer, &both_device};
    int result = cuMemGetAddressRange(&base, &range, address);
    printf("%zu %s: range %d %lld %zu", size, what, result, result ? (long long)base : from(base, block), range);
    result = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
    printf(", type %d %d", result, type);
    result = cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address);
    printf(", start %d %lld", result, result ? (long long)start : from(start, block));
    result = cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address);
    printf(", size %d %zu", result, bytes);
    result = cuPointerGetAttributes(sizeof names / sizeof *names, names, values, address);
    printf(", all %d %d %lld %zu %lld %d\n", result, both_type, from(both_start, block), both_bytes,
           from(both_pointer, address), both_device);
}

/* Calls that would change a property of the memory. */
static void use_freed(const char *what, size_t size, CUdeviceptr address) {
    CUipcMemHandle handle;
    int one = 1;
    printf("%zu %s: tag %d", size, what, cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    printf(", export %d\n", cuIpcGetMemHandle(&handle, address));
}

static void life(size_t size) {
    CUdeviceptr block = get(size), after = get(size), again;
    ask("start", size, block, 0);
    ask("middle", size, block, size / 2 + 1);
    ask("last", size, block, size - 1);
    if (size % 512)
        ask("behind", size, block, size);
    give(block);
    ask("freed", size, block, 0);
    ask("freed middle", size, block, size / 2 + 1);
    ask("freed last", size, block, size - 1);
    use_freed("freed", size, block);
    use_freed("freed middle", size, block + size / 2);
    again = get(size - 5);
    ask("again", size - 5, again, 0);
    ask("again last", size - 5, again, size - 6);
    if ((size - 5) % 512)
        ask("again behind", size - 5, again, size - 5);
    ask("neighbour", size, after, size / 3);
    give(again);
    give(after);
    ask("neighbour freed", size, after, size / 3);
}

/* Queries from another context and from a thread without one: the known addresses do not depend on it. */
static void elsewhere(size_t size) {
    CUdeviceptr block = get(size);
    CUcontext popped;
    int type = 0;
    give(block);
    MUST(cuCtxPopCurrent(&popped));
    printf("%zu without a context: %d\n", size, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
    MUST(cuCtxPushCurrent(popped));
}

int main(void) {
    static const size_t sizes[] = {1000, 4096, (3u << 20) + 77, 64u << 20};
    int host, type = 0;
    context = start_driver();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        life(sizes[i]);
        elsewhere(sizes[i]);
    }
    printf("host: %d\n", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&host));
    MUST(cuDevicePrimaryCtxRelease(0));
    printf("ok freed_pointers\n");
    return 0;
}

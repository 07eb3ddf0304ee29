/* Buffers that a program maps itself: the sequences of allocators, which a policy may serve from kept buffers, and
 * calls that deviate from them. Every result is compared with what the driver's rules imply.
 *
 * usage: mapped exact ORDER | deviations | bound HOW | held | random SEED | threads | pending | memory | faults
 * MAPPED_EXPORTABLE: handles can be exported, as those of JAX, beside a buffer whose handle cannot. */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>

#include "program.h"
#include "simcuda.h"

#if CUDA_VERSION < 13010
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle object, CUdevice device, size_t offset,
                               CUmemGenericAllocationHandle handle, size_t handle_offset, size_t size,
                               unsigned long long flags);
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle object, CUdevice device, size_t offset,
                                CUdeviceptr address, size_t size, unsigned long long flags);
#endif

#define CHUNK ((size_t)2 << 20)
#define END   ((size_t)4096)

static CUcontext context;
static CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc access_all = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

/* ---- the calls, noted for the comparison with the trace */

static CUmemGenericAllocationHandle create(size_t size) {
    CUmemGenericAllocationHandle handle;
    MUST(cuMemCreate(&handle, size, &plain, 0));
    note_alloc("cuMemCreate", (long long)size, NULL);
    return handle;
}

static CUdeviceptr reserve(size_t size) {
    CUdeviceptr address;
    MUST(cuMemAddressReserve(&address, size, 0, 0, 0));
    note("reserve", "cuMemAddressReserve", (long long)size, (void *)address);
    return address;
}

static void map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, int again) {
    MUST(cuMemMap(address, size, offset, handle, 0));
    note(again ? "map" : "alloc", "cuMemMap", (long long)size, (void *)address);
}

static void unmap(CUdeviceptr address, size_t size, int again) {
    note(again ? "unmap" : "free", "cuMemUnmap", ANY_BYTES, (void *)address);
    MUST(cuMemUnmap(address, size));
}

static void release(CUmemGenericAllocationHandle handle) {
    note_free("cuMemRelease", NULL);
    MUST(cuMemRelease(handle));
}

static void free_address(CUdeviceptr address, size_t size) {
    note("unreserve", "cuMemAddressFree", ANY_BYTES, (void *)address);
    MUST(cuMemAddressFree(address, size));
}

/* With MAPPED_PEERS also to the second device, as programs of several devices do. */
static void open_all(CUdeviceptr address, size_t size) {
    CUmemAccessDesc both[] = {access_all, access_all};
    both[1].location.id = 1;
    MUST(cuMemSetAccess(address, size, both, getenv("MAPPED_PEERS") ? 2 : 1));
}

/* Both ends, which are compared later: writing all of the memory would take most of the test's time. */
static void fill(CUdeviceptr address, size_t size, unsigned char value) {
    MUST(cuMemsetD2D8(address, size - END, value, END, 2));
}

static void check_bytes(CUdeviceptr address, size_t size, unsigned char value) {
    unsigned char ends[2];
    MUST(cuMemcpyDtoH(&ends[0], address, 1));
    MUST(cuMemcpyDtoH(&ends[1], address + size - 1, 1));
    EXPECT(ends[0] == value && ends[1] == value);
}

/* ---- whole buffers, in the orders that allocators use */

struct buffer {
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    size_t size;
};

enum order { CREATE_FIRST, RETAINED, RESERVE_FIRST, RELEASED_EARLY, RELEASED_FIRST, ORDERS };
static const char *const orders[ORDERS] = {"create_first", "retained", "reserve_first", "released_early",
                                           "released_first"};

static struct buffer make(size_t size, enum order order) {
    struct buffer buffer = {.size = size};
    if (order == RESERVE_FIRST)
        buffer.address = reserve(size);
    buffer.handle = create(size);
    if (order != RESERVE_FIRST)
        buffer.address = reserve(size);
    map(buffer.address, size, 0, buffer.handle, 0);
    if (order == RELEASED_EARLY)
        release(buffer.handle);
    open_all(buffer.address, size);
    return buffer;
}

static void drop(struct buffer buffer, enum order order) {
    CUmemGenericAllocationHandle same = 0;
    if (order == RETAINED) {
        MUST(cuMemRetainAllocationHandle(&same, (void *)buffer.address));
        EXPECT(same == buffer.handle);
        MUST(cuMemRelease(same));
    }
    if (order == RELEASED_FIRST)
        release(buffer.handle);
    unmap(buffer.address, buffer.size, 0);
    if (order != RELEASED_FIRST && order != RELEASED_EARLY)
        release(buffer.handle);
    free_address(buffer.address, buffer.size);
}

static void exact(enum order order, int rounds) {
    for (int i = 0; i < rounds; i++) {
        struct buffer buffers[3];
        for (int k = 0; k < 3; k++) {
            buffers[k] = make((size_t)(1 + k) * CHUNK, order);
            fill(buffers[k].address, buffers[k].size, (unsigned char)(i + k));
        }
        for (int k = 0; k < 3; k++) {
            size_t size = 0;
            check_bytes(buffers[k].address, buffers[k].size, (unsigned char)(i + k));
            MUST(cuMemGetAddressRange(NULL, &size, buffers[k].address + 1));
            EXPECT(size == buffers[k].size);
            drop(buffers[k], order);
            EXPECT(cuMemGetAddressRange(NULL, &size, buffers[k].address) != CUDA_SUCCESS);
        }
    }
}

/* ---- deviations; before each of them there are kept buffers of its sizes */

static void partial(void) {
    CUmemGenericAllocationHandle handle = create(CHUNK);
    CUdeviceptr range = reserve(3 * CHUNK);
    map(range + CHUNK, CHUNK, 0, handle, 0);
    open_all(range + CHUNK, CHUNK);
    fill(range + CHUNK, CHUNK, 1);
    check_bytes(range + CHUNK, CHUNK, 1);
    unmap(range + CHUNK, CHUNK, 0);
    free_address(range, 3 * CHUNK);
    release(handle);
}

static void aliased(void) {
    struct buffer buffer = make(2 * CHUNK, CREATE_FIRST);
    CUdeviceptr second = reserve(2 * CHUNK);
    map(second, 2 * CHUNK, 0, buffer.handle, 1);
    open_all(second, 2 * CHUNK);
    fill(second, 2 * CHUNK, 2);
    check_bytes(buffer.address, 2 * CHUNK, 2);
    drop(buffer, CREATE_FIRST);
    check_bytes(second, 2 * CHUNK, 2);
    unmap(second, 2 * CHUNK, 1);
    free_address(second, 2 * CHUNK);
}

static void crossed(void) {
    CUmemGenericAllocationHandle handles[2] = {create(CHUNK), create(CHUNK)};
    CUdeviceptr ranges[2] = {reserve(CHUNK), reserve(CHUNK)};
    for (int i = 0; i < 2; i++)
        map(ranges[i], CHUNK, 0, handles[!i], 0);
    for (int i = 0; i < 2; i++) {
        open_all(ranges[i], CHUNK);
        fill(ranges[i], CHUNK, (unsigned char)(3 + i));
    }
    for (int i = 0; i < 2; i++)
        check_bytes(ranges[i], CHUNK, (unsigned char)(3 + i));
    for (int i = 0; i < 2; i++) {
        unmap(ranges[i], CHUNK, 0);
        release(handles[i]);
        free_address(ranges[i], CHUNK);
    }
}

static void with_offset(void) {
    CUmemGenericAllocationHandle handle = create(2 * CHUNK);
    CUdeviceptr range = reserve(2 * CHUNK);
    map(range, CHUNK, CHUNK, handle, 0);
    map(range + CHUNK, CHUNK, 0, handle, 0);
    open_all(range, 2 * CHUNK);
    fill(range, CHUNK, 5);
    fill(range + CHUNK, CHUNK, 6);
    check_bytes(range, CHUNK, 5);
    note_free("cuMemUnmap", (void *)(range + CHUNK));
    unmap(range, 2 * CHUNK, 0);
    release(handle);
    free_address(range, 2 * CHUNK);
}

static void read_only(void) {
    CUmemAccessDesc reading = access_all;
    struct buffer buffer = make(CHUNK, CREATE_FIRST);
    fill(buffer.address, CHUNK, 7);
    reading.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    MUST(cuMemSetAccess(buffer.address, CHUNK, &reading, 1));
    check_bytes(buffer.address, CHUNK, 7);
    drop(buffer, CREATE_FIRST);
}

static void never_opened(void) {
    for (int i = 0; i < 3; i++) {
        CUmemGenericAllocationHandle handle = create(CHUNK);
        CUdeviceptr range = reserve(CHUNK);
        map(range, CHUNK, 0, handle, 0);
        unmap(range, CHUNK, 0);
        release(handle);
        free_address(range, CHUNK);
    }
}

/* The contents stay with the handle. */
static void mapped_again(void) {
    struct buffer buffer = make(CHUNK, CREATE_FIRST);
    fill(buffer.address, CHUNK, 8);
    unmap(buffer.address, CHUNK, 0);
    map(buffer.address, CHUNK, 0, buffer.handle, 0);
    open_all(buffer.address, CHUNK);
    check_bytes(buffer.address, CHUNK, 8);
    unmap(buffer.address, CHUNK, 0);
    CUdeviceptr other = reserve(CHUNK);
    EXPECT(other != buffer.address);
    map(other, CHUNK, 0, buffer.handle, 0);
    open_all(other, CHUNK);
    check_bytes(other, CHUNK, 8);
    free_address(buffer.address, CHUNK);
    unmap(other, CHUNK, 0);
    release(buffer.handle);
    free_address(other, CHUNK);
}

/* The same addresses, with new memory each time. */
static void same_address(void) {
    CUdeviceptr range = reserve(CHUNK);
    for (int i = 0; i < 20; i++) {
        CUmemGenericAllocationHandle handle = create(CHUNK);
        map(range, CHUNK, 0, handle, 0);
        open_all(range, CHUNK);
        fill(range, CHUNK, (unsigned char)i);
        check_bytes(range, CHUNK, (unsigned char)i);
        unmap(range, CHUNK, 0);
        release(handle);
    }
    free_address(range, CHUNK);
}

static void held_longer(void) {
    struct buffer buffer = make(CHUNK, CREATE_FIRST);
    CUmemGenericAllocationHandle same;
    fill(buffer.address, CHUNK, 9);
    MUST(cuMemRetainAllocationHandle(&same, (void *)(buffer.address + 5)));
    EXPECT(same == buffer.handle);
    unmap(buffer.address, CHUNK, 0);
    MUST(cuMemRelease(buffer.handle));
    free_address(buffer.address, CHUNK);
    struct buffer next = make(CHUNK, CREATE_FIRST);
    fill(next.address, CHUNK, 10);
    CUdeviceptr range = reserve(CHUNK);
    EXPECT(next.handle != same);
    map(range, CHUNK, 0, same, 0);
    open_all(range, CHUNK);
    check_bytes(range, CHUNK, 9);
    unmap(range, CHUNK, 0);
    release(same);
    free_address(range, CHUNK);
    drop(next, CREATE_FIRST);
}

static void refused(void) {
    struct buffer buffer = make(CHUNK, CREATE_FIRST);
    CUmemGenericAllocationHandle handle;
    EXPECT(cuMemAddressFree(buffer.address, CHUNK) == CUDA_ERROR_INVALID_VALUE);
    note("free_fail", "cuMemAddressFree", ANY_BYTES, (void *)buffer.address);
    unmap(buffer.address, CHUNK, 0);
    EXPECT(cuMemSetAccess(buffer.address, CHUNK, &access_all, 1) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemRetainAllocationHandle(&handle, (void *)buffer.address) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemUnmap(buffer.address, CHUNK) == CUDA_ERROR_INVALID_VALUE);
    note("free_fail", "cuMemUnmap", ANY_BYTES, (void *)buffer.address);
    release(buffer.handle);
    free_address(buffer.address, CHUNK);
    EXPECT(cuMemUnmap(buffer.address, CHUNK) == CUDA_ERROR_INVALID_VALUE);
    note("free_fail", "cuMemUnmap", ANY_BYTES, (void *)buffer.address);
    EXPECT(cuMemSetAccess(buffer.address, CHUNK, &access_all, 1) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemAddressFree(buffer.address, CHUNK) == CUDA_ERROR_INVALID_VALUE);
    note("free_fail", "cuMemAddressFree", ANY_BYTES, (void *)buffer.address);
    EXPECT(cuMemRetainAllocationHandle(&handle, (void *)(buffer.address + 9)) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuMemsetD8(buffer.address, 1, 1) != CUDA_SUCCESS || getenv("GPUMEM_POLICY"));
}

static void exported(void) {
    CUmemAllocationProp property = plain;
    int file;
    property.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    for (int i = 0; i < 2; i++) {
        struct buffer buffer = {.size = CHUNK};
        MUST(cuMemCreate(&buffer.handle, CHUNK, &property, 0));
        note_alloc("cuMemCreate", CHUNK, NULL);
        buffer.address = reserve(CHUNK);
        map(buffer.address, CHUNK, 0, buffer.handle, 0);
        open_all(buffer.address, CHUNK);
        MUST(cuMemExportToShareableHandle(&file, buffer.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        close(file);
        drop(buffer, CREATE_FIRST);
    }
}

/* Other devices may write to what was bound to a multicast object, so it becomes no other buffer. */
static void bind(int how, CUmemGenericAllocationHandle object, struct buffer buffer) {
    switch (how) {
    case 0: MUST(cuMulticastBindMem(object, 0, buffer.handle, 0, CHUNK, 0)); break;
    case 1: MUST(cuMulticastBindMem_v2(object, 0, 0, buffer.handle, 0, CHUNK, 0)); break;
    case 2: MUST(cuMulticastBindAddr(object, 0, buffer.address, CHUNK, 0)); break;
    default: MUST(cuMulticastBindAddr_v2(object, 0, 0, buffer.address, CHUNK, 0));
    }
}

static void bound(int how) {
    const CUmulticastObjectProp property = {.numDevices = 1, .size = CHUNK};
    for (int i = 0; i < 8; i++) {
        CUmemGenericAllocationHandle object;
        struct buffer buffer = make(CHUNK, CREATE_FIRST);
        MUST(cuMulticastCreate(&object, &property));
        MUST(cuMulticastAddDevice(object, 0));
        bind(how, object, buffer);
        drop(buffer, CREATE_FIRST);
        MUST(cuMulticastUnbind(object, 0, 0, CHUNK));
        MUST(cuMemRelease(object));
    }
}

/* The id of memory is never given again. */
static void identified(void) {
    unsigned long long ids[8];
    for (int i = 0; i < 8; i++) {
        struct buffer buffer = make(CHUNK, CREATE_FIRST);
        MUST(cuPointerGetAttribute(&ids[i], CU_POINTER_ATTRIBUTE_BUFFER_ID, buffer.address));
        for (int j = 0; j < i; j++)
            EXPECT(ids[i] != ids[j]);
        drop(buffer, CREATE_FIRST);
    }
}

static void hinted(void) {
    CUdeviceptr range = reserve(CHUNK), same;
    free_address(range, CHUNK);
    MUST(cuMemAddressReserve(&same, CHUNK, 0, range, 0));
    note("reserve", "cuMemAddressReserve", CHUNK, (void *)same);
    free_address(same, CHUNK);
}

/* A handle and a range that are never mapped. */
static void unused(void) {
    CUmemGenericAllocationHandle handle = create(CHUNK);
    release(handle);
    CUdeviceptr range = reserve(CHUNK);
    free_address(range, CHUNK);
    handle = create(CHUNK);
    range = reserve(CHUNK);
    free_address(range, CHUNK);
    range = reserve(CHUNK);
    map(range, CHUNK, 0, handle, 0);
    unmap(range, CHUNK, 0);
    release(handle);
    free_address(range, CHUNK);
}

static void deviations(void) {
    static void (*const all[])(void) = {partial,      aliased,      crossed,     with_offset, read_only,
                                        never_opened, mapped_again, refused,     exported,    identified,
                                        hinted,       unused,       same_address};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        exact(CREATE_FIRST, 8);
        exact(RESERVE_FIRST, 2);
        all[i]();
        exact(CREATE_FIRST, 2);
    }
}

/* ---- random calls beside a model of the driver's rules */

enum { SLOTS = 12 };

struct held { /* a handle */
    CUmemGenericAllocationHandle handle;
    size_t size;
    int maps;     /* mappings */
    int value;    /* its bytes, -1: unknown */
    int released; /* only its mappings hold it */
};
struct range {
    CUdeviceptr address;
    size_t size;
    struct held *of; /* what is mapped there, NULL: nothing */
    int open, again;
};

static struct held handles[SLOTS]; /* of size 0: none */
static struct range ranges[SLOTS];

static unsigned long long seed;
static unsigned pick(unsigned below) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(seed >> 33) % below;
}

static void random_map(struct range *range, struct held *held) {
    if (!range->size || range->of || !held->size || held->released || held->size != range->size)
        return;
    range->again = 0; /* the trace takes the first mapping for the memory's block */
    for (const struct range *other = ranges; other < ranges + SLOTS; other++)
        range->again |= other->of == held && !other->again;
    map(range->address, range->size, 0, held->handle, range->again);
    range->of = held;
    range->open = 0;
    held->maps++;
}

static void random_unmap(struct range *range) {
    struct held *held = range->of;
    if (!held) {
        if (range->size) {
            EXPECT(cuMemUnmap(range->address, range->size) == CUDA_ERROR_INVALID_VALUE);
            note("free_fail", "cuMemUnmap", ANY_BYTES, (void *)range->address);
        }
        return;
    }
    unmap(range->address, range->size, range->again);
    range->of = NULL;
    if (!--held->maps && held->released)
        held->size = 0;
}

static void random_release(struct held *held) {
    if (!held->size || held->released)
        return;
    release(held->handle);
    held->released = 1;
    if (!held->maps)
        held->size = 0;
}

static void random_free_address(struct range *range) {
    if (!range->size)
        return;
    if (range->of) {
        EXPECT(cuMemAddressFree(range->address, range->size) == CUDA_ERROR_INVALID_VALUE);
        note("free_fail", "cuMemAddressFree", ANY_BYTES, (void *)range->address);
        return;
    }
    free_address(range->address, range->size);
    range->size = 0;
}

static void random_use(struct range *range) {
    if (!range->of)
        return;
    if (!range->open)
        open_all(range->address, range->size);
    range->open = 1;
    if (range->of->value >= 0)
        check_bytes(range->address, range->size, (unsigned char)range->of->value);
    range->of->value = (int)pick(256);
    fill(range->address, range->size, (unsigned char)range->of->value);
}

static struct held *random_create(struct held *held, size_t size) {
    if (held->size)
        return NULL;
    *held = (struct held){.handle = create(size), .size = size, .value = -1};
    return held;
}

static struct range *random_reserve(struct range *range, size_t size) {
    if (range->size)
        return NULL;
    *range = (struct range){.address = reserve(size), .size = size};
    return range;
}

/* Most calls follow a sequence. */
static void random_sequence(struct range *range, struct held *held) {
    size_t size = (1 + pick(2)) * CHUNK;
    if (!range->size && !held->size) {
        if (pick(2))
            random_create(held, size);
        random_reserve(range, size);
        random_create(held, size);
        random_map(range, held);
        random_use(range);
    } else if (range->of == held && held->maps == 1) {
        if (pick(2))
            random_release(held);
        random_unmap(range);
        if (held->size)
            random_release(held);
        random_free_address(range);
    }
}

static void random_step(void) {
    unsigned i = pick(SLOTS);
    struct range *range = &ranges[i];
    struct held *held = &handles[pick(8) ? i : pick(SLOTS)];
    switch (pick(16)) {
    case 0: random_create(held, (1 + pick(2)) * CHUNK); break;
    case 1: random_reserve(range, (1 + pick(2)) * CHUNK); break;
    case 2: random_map(range, held); break;
    case 3: random_unmap(range); break;
    case 4: random_release(held); break;
    case 5: random_free_address(range); break;
    case 6:
    case 7: random_use(range); break;
    default: random_sequence(range, held); break;
    }
}

static void random_calls(unsigned long long first) {
    seed = first;
    for (int i = 0; i < 1500; i++)
        random_step();
    for (int i = 0; i < SLOTS; i++) {
        if (ranges[i].of)
            random_unmap(&ranges[i]);
        random_free_address(&ranges[i]);
    }
    for (int i = 0; i < SLOTS; i++)
        random_release(&handles[i]);
}

/* ---- threads */

static void *one_thread(void *number) {
    unsigned char value = (unsigned char)(uintptr_t)number;
    MUST(cuCtxSetCurrent(context));
    for (int i = 0; i < 60; i++) {
        enum order order = i % 4 == 3 ? RESERVE_FIRST : CREATE_FIRST;
        struct buffer buffer = make((size_t)(1 + i % 2) * CHUNK, order);
        fill(buffer.address, buffer.size, value);
        check_bytes(buffer.address, buffer.size, value);
        drop(buffer, order);
    }
    return NULL;
}

static void threads(void) {
    pthread_t all[6];
    for (uintptr_t i = 0; i < 6; i++)
        EXPECT(!pthread_create(&all[i], NULL, one_thread, (void *)(i + 1)));
    for (int i = 0; i < 6; i++)
        pthread_join(all[i], NULL);
}

/* ---- work in flight: a kept buffer is not handed out before it is done (SIMCUDA_STREAMS=manual) */

static void pending(void) {
    CUstream stream;
    struct buffer first = make(CHUNK, CREATE_FIRST), others[8];
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuMemsetD8Async(first.address, 1, CHUNK, stream));
    if (getenv("GPUMEM_POLICY")) /* natively the program must not unmap it now */
        drop(first, CREATE_FIRST);
    for (int i = 0; i < 8; i++) {
        others[i] = make(CHUNK, CREATE_FIRST);
        EXPECT(others[i].address != first.address);
    }
    MUST(cuStreamSynchronize(stream));
    if (!getenv("GPUMEM_POLICY"))
        drop(first, CREATE_FIRST);
    for (int i = 0; i < 8; i++)
        drop(others[i], CREATE_FIRST);
    MUST(cuStreamDestroy(stream));
}

/* ---- the memory of the device */

/* Kept buffers count as free memory, and do not stand in the way of other memory. */
static void memory(void) {
    size_t before, after, total;
    CUdeviceptr block;
    MUST(cuMemGetInfo(&before, &total));
    exact(CREATE_FIRST, 6);
    MUST(cuCtxSynchronize());
    MUST(cuMemGetInfo(&after, &total));
    EXPECT(after == before);
    for (int i = 0; i < 3; i++) {
        size_t most = total / CHUNK / 10 * 9 * CHUNK;
        struct buffer large = make(total / CHUNK / 5 * CHUNK, CREATE_FIRST), held = make(400 * CHUNK, CREATE_FIRST);
        drop(large, CREATE_FIRST);
        unmap(held.address, held.size, 0);
        release(held.handle);
        MUST(cuMemAlloc(&block, most));
        note_alloc("cuMemAlloc", (long long)most, (void *)block);
        note_free("cuMemFree", (void *)block);
        MUST(cuMemFree(block));
        free_address(held.address, held.size);
    }
}

/* ---- calls that fail: whatever a call refuses is left out or tried again (SIMCUDA_FAIL) */

static void faults(void) {
    for (int i = 0; i < 24; i++) {
        CUmemGenericAllocationHandle handle;
        CUdeviceptr address = 0;
        int mapped = 0;
        if (cuMemCreate(&handle, CHUNK, &plain, 0) != CUDA_SUCCESS)
            continue;
        if (cuMemAddressReserve(&address, CHUNK, 0, 0, 0) != CUDA_SUCCESS)
            address = 0;
        mapped = address && cuMemMap(address, CHUNK, 0, handle, 0) == CUDA_SUCCESS;
        if (mapped && cuMemSetAccess(address, CHUNK, &access_all, 1) == CUDA_SUCCESS) {
            fill(address, CHUNK, (unsigned char)i);
            check_bytes(address, CHUNK, (unsigned char)i);
        }
        if (mapped && cuMemUnmap(address, CHUNK) != CUDA_SUCCESS)
            MUST(cuMemUnmap(address, CHUNK));
        if (cuMemRelease(handle) != CUDA_SUCCESS)
            MUST(cuMemRelease(handle));
        if (address && cuMemAddressFree(address, CHUNK) != CUDA_SUCCESS)
            MUST(cuMemAddressFree(address, CHUNK));
    }
}

static unsigned long long calls(void) {
    static const char *const names[] = {"cuMemCreate", "cuMemAddressReserve", "cuMemMap",        "cuMemSetAccess",
                                        "cuMemUnmap",  "cuMemRelease",        "cuMemAddressFree"};
    unsigned long long sum = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        sum += simcuda_calls(names[i]);
    return sum;
}

/* The memory of a buffer without exportable handle is not handed out to those that request one. */
static void of_one_kind(struct buffer other) {
    struct buffer buffers[4];
    drop(other, CREATE_FIRST);
    for (int i = 0; i < 4; i++) {
        CUmemAllocationProp found;
        buffers[i] = make(CHUNK, CREATE_FIRST);
        MUST(cuMemGetAllocationPropertiesFromHandle(&found, buffers[i].handle));
        EXPECT(found.requestedHandleTypes == plain.requestedHandleTypes);
    }
    for (int i = 0; i < 4; i++)
        drop(buffers[i], CREATE_FIRST);
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    MUST(cuInit(0));
    if (getenv("MAPPED_PEERS")) {
        MUST(cuDevicePrimaryCtxRetain(&context, 1));
        MUST(cuCtxSetCurrent(context));
    }
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    simcuda_reset_counters();
    bool exportable = getenv("MAPPED_EXPORTABLE") != NULL;
    struct buffer other = exportable ? make(CHUNK, CREATE_FIRST) : (struct buffer){0};
    if (exportable)
        plain.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    if (!strcmp(mode, "exact")) {
        for (int order = 0; order < ORDERS; order++)
            if (!strcmp(arguments[2], orders[order]))
                exact((enum order)order, 40);
    } else if (!strcmp(mode, "deviations")) {
        deviations();
    } else if (!strcmp(mode, "random")) {
        random_calls(strtoull(arguments[2], NULL, 10));
    } else if (!strcmp(mode, "threads")) {
        threads();
    } else if (!strcmp(mode, "pending")) {
        pending();
    } else if (!strcmp(mode, "memory")) {
        memory();
    } else if (!strcmp(mode, "held")) {
        exact(CREATE_FIRST, 8);
        held_longer();
        exact(CREATE_FIRST, 2);
    } else if (!strcmp(mode, "faults")) {
        faults();
    } else if (!strcmp(mode, "bound")) {
        bound(atoi(arguments[2]));
    }
    if (exportable)
        of_one_kind(other);
    if (getenv("MAPPED_CALLS"))
        printf("calls %llu\n", calls());
    if (getenv("MAPPED_PEERS"))
        MUST(cuDevicePrimaryCtxReset(1));
    MUST(cuDevicePrimaryCtxReset(0));
    EXPECT(simcuda_live_handles() == 0);
    EXPECT(simcuda_live_reservations() == 0);
    EXPECT(simcuda_violations() == 0);
    printf("ok mapped\n");
    return 0;
}

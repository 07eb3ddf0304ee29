/* A program that creates and maps its memory itself, which leaves the device and comes back meanwhile. It compares all
 * contents with a model on the host.
 *
 * usage: suspend_mapped segment SEED | failing | life | away | shapes | access | stays | arrays | tags | ranges | full
 * | orphaned | threads */
#include "suspend.h"

#include <pthread.h>

#include "simcuda.h"
#ifdef WITH_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

#define PIECE (2 * MIB)

static CUmemAllocationProp plain = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static CUmemGenericAllocationHandle create(size_t size) {
    CUmemGenericAllocationHandle handle;
    MUST(cuMemCreate(&handle, size, &plain, 0));
    return handle;
}

static CUdeviceptr reserve(size_t size) {
    CUdeviceptr address;
    MUST(cuMemAddressReserve(&address, size, 0, 0, 0));
    return address;
}

static CUresult open_to(CUdeviceptr address, size_t size, int device, CUmemAccess_flags flags) {
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, .flags = flags};
    return cuMemSetAccess(address, size, &access, 1);
}

static void map(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle) {
    MUST(cuMemMap(address, size, offset, handle, 0));
    MUST(open_to(address, size, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

static CUmemAccess_flags access_of(CUdeviceptr address, int device) {
    const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    unsigned long long flags = 99;
    MUST(cuMemGetAccess(&flags, &location, address));
    return (CUmemAccess_flags)flags;
}

static void fill(CUdeviceptr address, size_t size, unsigned char value) { MUST(cuMemsetD8(address, value, size)); }

static void expect(CUdeviceptr address, size_t size, unsigned char value) {
    unsigned char *host = malloc(size);
    EXPECT(host);
    MUST(cuMemcpyDtoH(host, address, size));
    EXPECT(all_bytes_are(host, value, size));
    free(host);
}

/* One handle, mapped as a whole and filled. */
static CUdeviceptr make(size_t size, unsigned char value, CUmemGenericAllocationHandle *handle) {
    CUdeviceptr address = reserve(size);
    *handle = create(size);
    map(address, size, 0, *handle);
    fill(address, size, value);
    return address;
}

static void end(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle) {
    MUST(cuMemUnmap(address, size));
    MUST(cuMemRelease(handle));
    MUST(cuMemAddressFree(address, size));
}

/* Nothing of the memory of handles is on the device. */
static bool all_left(size_t before, size_t size) { return !is_shimmed() || before - simcuda_used(0) == size; }

/* ---- an expandable segment: a large reservation, and pieces that are mapped and unmapped one by one */

enum { PIECES = 12 };

static struct piece {
    CUmemGenericAllocationHandle handle; /* 0: nothing is mapped there */
    unsigned char value;
} pieces[PIECES];

static CUdeviceptr segment;
static size_t piece_size;

static CUdeviceptr address_of(unsigned i) { return segment + i * piece_size; }

static void map_piece(unsigned i) {
    pieces[i] = (struct piece){.handle = create(piece_size), .value = (unsigned char)(1 + next(250))};
    MUST(cuMemMap(address_of(i), piece_size, 0, pieces[i].handle, 0));
    MUST(open_to(address_of(i), piece_size, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    fill(address_of(i), piece_size, pieces[i].value);
}

/* cuMemUnmap does not wait for the device. */
static void unmap_piece(unsigned i) {
    MUST(cuCtxSynchronize());
    MUST(cuMemUnmap(address_of(i), piece_size));
    MUST(cuMemRelease(pieces[i].handle));
    pieces[i].handle = 0;
}

/* Its memory goes to another place of the segment, with its contents. */
static void move_piece(unsigned from, unsigned to) {
    MUST(cuCtxSynchronize());
    MUST(cuMemUnmap(address_of(from), piece_size));
    map(address_of(to), piece_size, 0, pieces[from].handle);
    pieces[to] = pieces[from];
    pieces[from].handle = 0;
}

static void change_segment(void) {
    unsigned i = (unsigned)next(PIECES), other = (unsigned)next(PIECES);
    if (!pieces[i].handle)
        map_piece(i);
    else if (!next(3))
        unmap_piece(i);
    else if (!pieces[other].handle)
        move_piece(i, other);
    else if (!next(2))
        expect(address_of(i), piece_size, pieces[i].value);
    else {
        MUST(cuMemcpyDtoD(address_of(i), address_of(other), piece_size));
        pieces[i].value = pieces[other].value;
    }
}

static void expandable_segment(uint64_t seed) {
    random_state = seed * 977 + 1;
    piece_size = seed % 2 ? PIECE : 3 * PIECE;
    segment = reserve(PIECES * piece_size);
    for (unsigned step = 0; step < 50; step++) {
        change_segment();
        if (next(3))
            continue;
        bool waits = !next(3);
        EXPECT(!suspend_as(NULL, NULL, waits, NULL));
        if (!next(3))
            EXPECT(!suspend_as(NULL, NULL, waits, NULL));
        if (is_shimmed() && (waits || next(2)))
            EXPECT(!resume_(NULL, NULL));
    }
    suspend();
    for (unsigned i = 0; i < PIECES; i++)
        if (pieces[i].handle) {
            expect(address_of(i), piece_size, pieces[i].value);
            if (i % 2) /* the rest is unmapped while it is away */
                suspend();
            unmap_piece(i);
        }
    MUST(cuMemAddressFree(segment, PIECES * piece_size));
}

/* ---- single cases */

/* SIMCUDA_FAIL lets some call of a suspend or resume fail: the contents are right afterwards. */
static void failing(void) {
    CUmemGenericAllocationHandle handle, alias, alone;
    CUdeviceptr whole = make(3 * PIECE, 1, &handle), two = make(PIECE, 2, &alias), again = reserve(PIECE),
                other = make(PIECE, 3, &alone);
    map(again, PIECE, 0, alias);
    MUST(cuMemUnmap(other, PIECE)); /* its memory is mapped nowhere now */
    MUST((CUresult)simcuda_set_failures(getenv("SUSPEND_FAILS")));
    for (unsigned i = 0; i < 3; i++) {
        if (suspend_as(NULL, NULL, true, NULL)) /* nothing has left */
            EXPECT(!suspended_());
        for (unsigned attempt = 0; is_shimmed() && suspended_(); attempt++) {
            EXPECT(attempt < 5);
            resume_(NULL, NULL);
        }
        MUST((CUresult)simcuda_set_failures(i < 2 ? getenv("SUSPEND_FAILS") : ""));
    }
    expect(whole, 3 * PIECE, 1);
    expect(two, PIECE, 2);
    expect(again, PIECE, 2);
    map(other, PIECE, 0, alone);
    expect(other, PIECE, 3);
}

/* References and mappings keep memory, as the driver has it. */
static void life(void) {
    CUmemGenericAllocationHandle handle, same = 0;
    size_t none = simcuda_used(0);
    CUdeviceptr address = make(PIECE, 7, &handle);
    MUST(cuMemRelease(handle)); /* the mapping keeps it */
    EXPECT(cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(!is_shimmed() || cuMemMap(reserve(PIECE), PIECE, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < 2; i++) {
        size_t before = simcuda_used(0);
        suspend();
        EXPECT(all_left(before, PIECE));
        expect(address, PIECE, 7);
    }
    MUST(cuMemRetainAllocationHandle(&same, (void *)(address + 4096)));
    EXPECT(same == handle);
    suspend();
    MUST(cuMemRetainAllocationHandle(&same, (void *)(address + 4096)));
    MUST(cuMemUnmap(address, PIECE)); /* the references keep it, with its contents */
    MUST(cuMemRelease(same));
    map(address, PIECE, 0, handle);
    expect(address, PIECE, 7);
    MUST(cuMemUnmap(address, PIECE));
    MUST(cuMemRelease(handle));
    EXPECT(simcuda_used(0) == none);
    EXPECT(!is_shimmed() || cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
}

/* What the program does with memory that is away, and what does not wake it. */
static void away(void) {
    CUmemGenericAllocationHandle handles[3], fresh;
    CUdeviceptr at[3], address = reserve(PIECE);
    CUmemAllocationProp properties = {0};
    for (unsigned i = 0; i < 3; i++)
        at[i] = make(PIECE, (unsigned char)(10 + i), &handles[i]);
    size_t live = simcuda_live_handles();
    EXPECT(!suspend_as(NULL, NULL, true, NULL));
    MUST(cuMemGetAllocationPropertiesFromHandle(&properties, handles[0]));
    EXPECT(properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE && properties.requestedHandleTypes);
    EXPECT(access_of(at[0], 0) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    EXPECT(cuMemAddressFree(at[0], PIECE) == CUDA_ERROR_INVALID_VALUE);
    fresh = create(PIECE);
    EXPECT(cuMemMap(at[1], PIECE, 0, fresh, 0) == CUDA_ERROR_INVALID_VALUE); /* something is mapped there */
    MUST(cuMemMap(address, PIECE, 0, fresh, 0));
    MUST(open_to(address, PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    end(at[2], PIECE, handles[2]);
    EXPECT(cuMemUnmap(at[2], PIECE) == CUDA_ERROR_INVALID_VALUE);
    EXPECT(!is_shimmed() || suspended_());
    EXPECT(!is_shimmed() || !resume_(NULL, NULL));
    EXPECT(simcuda_live_handles() == live);
    fill(address, PIECE, 4);
    suspend();
    expect(at[0], PIECE, 10);
    expect(at[1], PIECE, 11);
    expect(address, PIECE, 4);
    end(at[0], PIECE, handles[0]);
    end(at[1], PIECE, handles[1]);
    end(address, PIECE, fresh);
    EXPECT(simcuda_live_handles() == live - 3);
}

/* Memory that is mapped twice, in parts, with an offset, or nowhere. */
static void shapes(void) {
    CUmemGenericAllocationHandle twice, parts, nowhere;
    CUdeviceptr one = make(2 * PIECE, 1, &twice), two = reserve(2 * PIECE), part = reserve(4 * PIECE),
                none = make(PIECE, 5, &nowhere);
    map(two, 2 * PIECE, 0, twice);
    fill(two, PIECE, 2);
    parts = create(3 * PIECE);
    map(part, PIECE, 2 * PIECE, parts);
    map(part + PIECE, PIECE, 0, parts);
    fill(part, PIECE, 3);
    fill(part + PIECE, PIECE, 4);
    MUST(cuMemUnmap(none, PIECE));
    for (unsigned i = 0; i < 3; i++) {
        size_t before = simcuda_used(0), reservations = simcuda_live_reservations();
        suspend();
        EXPECT(all_left(before, 6 * PIECE) && simcuda_live_reservations() == reservations);
        expect(one, PIECE, 2);
        EXPECT(simcuda_used(0) == before && simcuda_live_reservations() == reservations);
        expect(two + PIECE, PIECE, 1);
        expect(part, PIECE, 3);
        expect(part + PIECE, PIECE, 4);
    }
    suspend();
    MUST(cuMemUnmap(part, 2 * PIECE)); /* both at once, while they are away */
    map(none, PIECE, 0, nowhere);      /* wakes the program */
    EXPECT(!is_shimmed() || !suspended_());
    expect(none, PIECE, 5);
    map(part, 3 * PIECE, 0, parts);
    expect(part, PIECE, 4);
    expect(part + 2 * PIECE, PIECE, 3);
}

/* Two devices, each with its own access, which comes back. */
static void access_rights(void) {
    CUmemGenericAllocationHandle handle, other;
    CUdeviceptr address = make(PIECE, 8, &handle), fixed = make(PIECE, 9, &other);
    MUST(open_to(address, PIECE, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    MUST(open_to(fixed, PIECE, 1, CU_MEM_ACCESS_FLAGS_PROT_READ));
    MUST(open_to(fixed, PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE));
    for (unsigned i = 0; i < 4; i++) { /* awake, and away */
        EXPECT(access_of(address, 0) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        EXPECT(access_of(address, 1) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        EXPECT(access_of(fixed, 0) == CU_MEM_ACCESS_FLAGS_PROT_NONE);
        EXPECT(access_of(fixed, 1) == CU_MEM_ACCESS_FLAGS_PROT_READ);
        if (i % 2)
            expect(address, PIECE, 8);
        else
            suspend();
    }
    suspend();
    MUST(open_to(fixed, PIECE, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)); /* wakes it */
    EXPECT(!is_shimmed() || !suspended_());
    expect(fixed, PIECE, 9);
}

/* What others see stays where it is. */
static void stays(void) {
    const CUmulticastObjectProp kind = {.numDevices = 1, .size = PIECE};
    CUmemGenericAllocationHandle exported, bound, named, object, imported;
    CUdeviceptr first = make(PIECE, 1, &exported), second = make(PIECE, 2, &bound), third = make(PIECE, 3, &named);
    int file = -1;
    size_t before = simcuda_used(0), bytes = 1;
    suspend();
    MUST(cuMemExportToShareableHandle(&file, exported, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)); /* wakes it */
    EXPECT(!is_shimmed() || !suspended_());
    MUST(cuMemImportFromShareableHandle(&imported, (void *)(uintptr_t)file, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    MUST(cuMulticastCreate(&object, &kind));
    MUST(cuMulticastAddDevice(object, 0));
    MUST(cuMulticastBindMem(object, 0, bound, 0, PIECE, 0));
    MUST(cuMulticastUnbind(object, 0, 0, PIECE));
    suspend();
    MUST(cuMulticastBindAddr(object, 0, third, PIECE, 0)); /* wakes it, too */
    EXPECT(!suspend_as(NULL, NULL, false, &bytes) && (!is_shimmed() || bytes == 0) && simcuda_used(0) == before);
    CUdeviceptr shared = reserve(PIECE);
    map(shared, PIECE, 0, imported);
    EXPECT(!suspend_as(NULL, NULL, false, &bytes) && (!is_shimmed() || bytes == 0));
    expect(first, PIECE, 1);
    expect(second, PIECE, 2);
    expect(third, PIECE, 3);
    expect(shared, PIECE, 1);
    end(shared, PIECE, imported);
    end(first, PIECE, exported);
}

/* Tiles of arrays keep their memory. */
static void arrays(void) {
    CUmemGenericAllocationHandle tile, other;
    CUdeviceptr address = make(PIECE, 5, &tile), second = make(PIECE, 6, &other);
    CUarrayMapInfo list[2] = {
        {.memOperationType = CU_MEM_OPERATION_TYPE_MAP,
         .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
         .memHandle.memHandle = tile},
        {.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP, .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC}};
    size_t bytes = 0;
    suspend();
    MUST(cuMemMapArrayAsync(list, 2, NULL));
    EXPECT(list[0].memHandle.memHandle == tile && (!is_shimmed() || !suspended_()));
    EXPECT(!suspend_as(NULL, NULL, false, &bytes) && (!is_shimmed() || bytes == PIECE));
    expect(address, PIECE, 5);
    expect(second, PIECE, 6);
}

static void tags(void) {
    CUmemGenericAllocationHandle weights, cache;
    size_t bytes = 0;
    if (!is_shimmed())
        return;
    tag_push_("weights");
    CUdeviceptr first = make(PIECE, 1, &weights);
    tag_push_("kv");
    CUdeviceptr second = make(3 * PIECE, 2, &cache);
    EXPECT(!tag_pop_() && !tag_pop_());
    EXPECT(!suspend_as("weights", "kv", true, &bytes) && bytes == 3 * PIECE);
    EXPECT(!resume_("weights", &bytes) && !bytes && !resume_("kv", &bytes) && bytes == 3 * PIECE);
    expect(first, PIECE, 1);
    expect(second, 3 * PIECE, 0);
    EXPECT(!suspend_as("make", NULL, false, &bytes) && bytes == 0); /* a part of both call sites */
}

/* NVTX ranges name blocks and mappings, also where the thread has a tag. */
static void ranges(void) {
#ifdef WITH_NVTX
    CUmemGenericAllocationHandle handle;
    CUdeviceptr block;
    size_t bytes = 0;
    nvtxDomainHandle_t domain = nvtxDomainCreateA("lib");
    nvtxEventAttributes_t inner = {.version = NVTX_VERSION,
                                   .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
                                   .messageType = NVTX_MESSAGE_TYPE_ASCII,
                                   .message.ascii = "step"};
    nvtxRangePushA("load weights");
    CUdeviceptr first = make(PIECE, 1, &handle);
    nvtxDomainRangePushEx(domain, &inner);
    if (tag_push_)
        tag_push_("kv");
    MUST(cuMemAlloc(&block, 3 * MIB));
    fill(block, 3 * MIB, 2);
    EXPECT(!tag_pop_ || !tag_pop_());
    nvtxRangePop(); /* the inner one goes on */
    CUdeviceptr last = make(2 * PIECE, 3, &handle);
    nvtxDomainRangePop(domain);
    CUdeviceptr none = make(PIECE, 4, &handle);
    EXPECT(!suspend_as("load *", "lib:*", true, &bytes) && (!is_shimmed() || bytes == 5 * PIECE));
    EXPECT(!is_shimmed() || (!resume_("kv", &bytes) && bytes == 2 * PIECE && !resume_(NULL, &bytes)));
    expect(first, PIECE, 1);
    expect(block, 3 * MIB, is_shimmed() ? 0 : 2);
    expect(last, 2 * PIECE, is_shimmed() ? 0 : 3);
    expect(none, PIECE, 4);
#endif
}

/* The device is full when memory is to come back: the process stays asleep, and goes on later. */
static void full(void) {
    enum { HANDLES = 64 };
    CUmemGenericAllocationHandle handle, handles[HANDLES];
    CUdeviceptr address = make(33 * PIECE, 6, &handle); /* more than is copied in one piece */
    unsigned count = 0;
    fill(address + 32 * PIECE, PIECE, 7);
    suspend();
    for (size_t size = 512 * MIB; is_shimmed() && size >= PIECE; size /= 2)
        while (count < HANDLES && cuMemCreate(&handles[count], size, &plain, 0) == CUDA_SUCCESS)
            count++;
    EXPECT(count < HANDLES && (!is_shimmed() || (resume_(NULL, NULL) == GPUMEM_OUT_OF_MEMORY && suspended_())));
    while (count)
        MUST(cuMemRelease(handles[--count]));
    expect(address, 32 * PIECE, 6);
    expect(address + 32 * PIECE, PIECE, 7);
}

/* The memory of handles outlives all contexts of its device. */
static void orphaned(void) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address = make(PIECE, 8, &handle);
    MUST(cuCtxSynchronize());
    MUST(cuDevicePrimaryCtxReset(0));
    size_t before = simcuda_used(0);
    suspend();
    EXPECT(all_left(before, PIECE) && (!is_shimmed() || !resume_(NULL, NULL)));
    start_driver();
    expect(address, PIECE, 8);
}

static bool stop;

static void *maps_often(void *argument) {
    unsigned char value = (unsigned char)(uintptr_t)argument;
    CUcontext context;
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    for (unsigned i = 0; i < 8; i++) {
        CUmemGenericAllocationHandle handle;
        CUdeviceptr address = make((1 + i % 3) * PIECE, value, &handle);
        expect(address, PIECE, value);
        end(address, (1 + i % 3) * PIECE, handle);
    }
    return NULL;
}

static void *suspends_often(void *unused) {
    CUcontext context;
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        suspend();
        usleep(20000);
    }
    return unused;
}

static void threads(void) {
    pthread_t makers[3], suspender;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr kept = make(5 * PIECE, 77, &handle);
    for (uintptr_t i = 0; i < 3; i++)
        EXPECT(!pthread_create(&makers[i], NULL, maps_often, (void *)(i + 1)));
    EXPECT(!pthread_create(&suspender, NULL, suspends_often, NULL));
    for (unsigned i = 0; i < 3; i++)
        pthread_join(makers[i], NULL);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    pthread_join(suspender, NULL);
    expect(kept, 5 * PIECE, 77);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"failing", failing},      {"life", life},         {"away", away},     {"shapes", shapes},
                 {"access", access_rights}, {"stays", stays},       {"arrays", arrays}, {"tags", tags},
                 {"ranges", ranges},        {"orphaned", orphaned}, {"full", full},     {"threads", threads}};
    EXPECT(argc > 1);
    start_suspendable();
    if (!strcmp(argv[1], "segment"))
        expandable_segment((uint64_t)atoi(argv[2]));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name))
            cases[i].run();
    EXPECT(simcuda_violations() == 0);
    puts("ok suspend");
    return 0;
}

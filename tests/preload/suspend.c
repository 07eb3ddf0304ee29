/* A program whose memory leaves the device and comes back meanwhile. It compares all contents with a model on the host.
 *
 * usage: suspend random SEED | threads | capture | full | tags | aside | waits | busy | ends | fork | exported |
 * failing | off | outside | queries | kept | dropped | registered | other | file */
#include "suspend.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "simcuda.h"

static CUfunction fill_kernel;

static void start(void) {
    CUmodule module;
    start_suspendable();
    MUST(cuModuleLoadData(&module, "simulated"));
    MUST(cuModuleGetFunction(&fill_kernel, module, SIMCUDA_KERNEL_FILL));
}

/* ---- random programs */

enum { BLOCKS = 24, MOST = 5 };

static struct block {
    CUdeviceptr address;
    size_t size;
    unsigned char *model;
} blocks[BLOCKS];

static size_t random_size(void) {
    static const size_t most[] = {2000, 300000, 3 * MIB, 70 * MIB};
    return 4 + next(most[next(60) ? next(3) : 3]) / 4 * 4;
}

static void make(struct block *block) {
    block->size = random_size();
    block->model = malloc(block->size);
    EXPECT(block->model);
    MUST(cuMemAlloc(&block->address, block->size));
    unsigned char value = (unsigned char)next(256);
    memset(block->model, value, block->size);
    MUST(cuMemsetD8(block->address, value, block->size));
}

static void end(struct block *block) {
    MUST(cuMemFree(block->address));
    free(block->model);
    block->address = 0;
}

static void compare(const struct block *block) {
    unsigned char *host = malloc(block->size);
    EXPECT(host);
    MUST(cuMemcpyDtoH(host, block->address, block->size));
    EXPECT(!memcmp(host, block->model, block->size));
    free(host);
}

static void launch_fill(CUdeviceptr address, uint64_t bytes, uint32_t pattern, CUstream stream) {
    void *arguments[] = {&address, &bytes, &pattern};
    MUST(cuLaunchKernel(fill_kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static void change(struct block *block) {
    size_t at = next(block->size) / 4 * 4, size = 4 + next(block->size - at) / 4 * 4;
    struct block *other = &blocks[next(BLOCKS)];
    size = size > block->size - at ? block->size - at : size;
    uint32_t pattern = (uint32_t)next(1u << 30);
    switch (next(3)) {
    case 0:
        launch_fill(block->address + at, size, pattern, NULL);
        for (size_t i = 0; i + 4 <= size; i += 4)
            memcpy(block->model + at + i, &pattern, 4);
        break;
    case 1:
        for (size_t i = 0; i < size; i++)
            block->model[at + i] = (unsigned char)(i * 7 + pattern);
        MUST(cuMemcpyHtoD(block->address + at, block->model + at, size));
        break;
    default:
        if (!other->address || other == block || other->size < size)
            return;
        memcpy(block->model + at, other->model, size);
        MUST(cuMemcpyDtoD(block->address + at, other->address, size));
    }
}

static void move_at_random(void) {
    if (next(6))
        return;
    bool waits = next(3) == 0;
    int status = suspend_as(NULL, NULL, waits, NULL);
    EXPECT(!status);
    if (next(4) == 0)
        EXPECT(!suspend_as(NULL, NULL, waits, NULL));
    if (is_shimmed() && (waits || next(2)))
        EXPECT(!resume_(NULL, NULL));
}

static void random_program(uint64_t seed) {
    random_state = seed * 977 + 1;
    for (unsigned step = 0; step < 120; step++) {
        struct block *block = &blocks[next(BLOCKS)];
        if (!block->address)
            make(block);
        else if (next(4) == 0)
            end(block);
        else if (next(3) == 0)
            compare(block);
        else
            change(block);
        move_at_random();
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (blocks[i].address) {
            compare(&blocks[i]);
            end(&blocks[i]);
        }
}

/* ---- threads */

static bool stops;

static void *uses_memory(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument;
    unsigned char *host = malloc(3 * MIB);
    CUcontext context;
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    EXPECT(host);
    for (unsigned i = 0; i < 20; i++) {
        size_t size = 256 + (size_t)rand_r(&seed) % (2 * MIB) / 4 * 4;
        unsigned char value = (unsigned char)rand_r(&seed);
        CUdeviceptr address;
        MUST(cuMemAlloc(&address, size));
        MUST(cuMemsetD8(address, value, size));
        if (i % 3 == 0)
            launch_fill(address, size / 4 * 4, value * 0x01010101u, NULL);
        MUST(cuMemcpyDtoH(host, address, size));
        EXPECT(all_bytes_are(host, value, size / 4 * 4));
        MUST(cuMemFree(address));
    }
    free(host);
    return NULL;
}

static void *suspends_again(void *unused) {
    CUcontext context;
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    while (!__atomic_load_n(&stops, __ATOMIC_RELAXED)) {
        suspend();
        usleep(30000);
    }
    return unused;
}

static void threads(void) {
    pthread_t users[4], suspender;
    struct block kept = {.size = 3 * MIB, .model = malloc(3 * MIB)};
    MUST(cuMemAlloc(&kept.address, kept.size));
    memset(kept.model, 77, kept.size);
    MUST(cuMemsetD8(kept.address, 77, kept.size));
    for (uintptr_t i = 0; i < 4; i++)
        EXPECT(!pthread_create(&users[i], NULL, uses_memory, (void *)(i + 1)));
    EXPECT(!pthread_create(&suspender, NULL, suspends_again, NULL));
    for (unsigned i = 0; i < 4; i++)
        pthread_join(users[i], NULL);
    __atomic_store_n(&stops, true, __ATOMIC_RELAXED);
    pthread_join(suspender, NULL);
    compare(&kept);
}

/* ---- single cases */

static void fill_model(struct block *block, size_t size) {
    *block = (struct block){.size = size, .model = malloc(size)};
    for (size_t i = 0; i < size; i++)
        block->model[i] = (unsigned char)(i * 13 + i / 4096);
    MUST(cuMemAlloc(&block->address, size));
    MUST(cuMemcpyHtoD(block->address, block->model, size));
}

static void capture(void) {
    CUstream stream;
    CUgraph graph;
    CUgraphExec run;
    struct block block;
    fill_model(&block, 5 * MIB);
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_fill(block.address, 4096, 0x05050505, stream);
    EXPECT(!is_shimmed() || suspend_as(NULL, NULL, false, NULL) == GPUMEM_STREAM_CAPTURE);
    launch_fill(block.address + 8192, 4096, 0x06060606, stream);
    MUST(cuStreamEndCapture(stream, &graph));
    MUST(cuGraphInstantiateWithFlags(&run, graph, 0));
    for (unsigned i = 0; i < 3; i++) {
        suspend();
        EXPECT(!is_shimmed() || suspended_());
        MUST(cuGraphLaunch(run, stream));
        EXPECT(!is_shimmed() || !suspended_());
        MUST(cuStreamSynchronize(stream));
    }
    memset(block.model, 5, 4096);
    memset(block.model + 8192, 6, 4096);
    compare(&block);
}

static void *fills_later(void *block) {
    CUcontext context;
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemsetD8(((struct block *)block)->address, 9, 4096));
    return NULL;
}

/* The device is full when the process wakes: the call waits, and fails not. */
static void full(void) {
    static const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    enum { HANDLES = 64 };
    CUmemGenericAllocationHandle handles[HANDLES];
    unsigned count = 0;
    struct block block;
    pthread_t thread;
    fill_model(&block, 90 * MIB);
    size_t before = simcuda_used(0);
    suspend();
    EXPECT(!is_shimmed() || before - simcuda_used(0) >= 90 * MIB);
    if (is_shimmed()) {
        for (size_t size = 512 * MIB; size >= 2 * MIB; size /= 2)
            while (count < HANDLES && cuMemCreate(&handles[count], size, &plain, 0) == CUDA_SUCCESS)
                count++;
        EXPECT(count < HANDLES);
        EXPECT(resume_(NULL, NULL) == GPUMEM_OUT_OF_MEMORY && suspended_());
    }
    EXPECT(!pthread_create(&thread, NULL, fills_later, &block));
    usleep(600000);
    EXPECT(!is_shimmed() || suspended_());
    while (count)
        MUST(cuMemRelease(handles[--count]));
    pthread_join(thread, NULL);
    EXPECT(!is_shimmed() || !suspended_());
    memset(block.model, 9, 4096);
    compare(&block);
}

static void tags(void) {
    struct block weights, cache, small;
    size_t bytes = 0;
    if (is_shimmed())
        tag_push_("weights");
    fill_model(&weights, 6 * MIB);
    if (is_shimmed()) {
        tag_push_("kv");
        fill_model(&cache, 8 * MIB);
        EXPECT(!tag_pop_());
        fill_model(&small, 4096);
        EXPECT(!tag_pop_() && tag_pop_() == GPUMEM_INVALID_VALUE);
        EXPECT(!suspend_as("weights", "k?", true, &bytes) && bytes == 8 * MIB);
        EXPECT(!resume_("weights", &bytes) && bytes == 0 && suspended_());
        EXPECT(!resume_("k*", &bytes) && bytes == 8 * MIB && !suspended_());
        memset(cache.model, 0, cache.size);
        compare(&cache);
        compare(&small);
        /* A block that is used again has the tag of its latest life. */
        MUST(cuMemFree(cache.address));
        fill_model(&cache, 8 * MIB);
        EXPECT(!suspend_as(NULL, "kv", false, &bytes) && bytes >= 14 * MIB);
        compare(&cache);
    }
    compare(&weights);
}

static size_t free_bytes(void) {
    size_t unused, total;
    MUST(cuMemGetInfo(&unused, &total));
    return unused;
}

static size_t set_aside(const char *only, const char *drop) {
    const struct gpumem_suspend_options options = {
        .struct_size = sizeof options, .only = only, .drop = drop, .flags = GPUMEM_SUSPEND_ASIDE};
    size_t bytes = 0;
    EXPECT(!suspend_(&options, &bytes) && !suspended_());
    return bytes;
}

static void fill_tagged(struct block *block, const char *tag, size_t size) {
    tag_push_(tag);
    fill_model(block, size);
    EXPECT(!tag_pop_());
}

/* The program goes on without a part of its memory. */
static void aside(void) {
    struct block weights, cache, small, unused;
    size_t bytes;
    if (!is_shimmed())
        return;
    fill_tagged(&weights, "weights", 6 * MIB);
    fill_tagged(&cache, "kv", 8 * MIB);
    fill_tagged(&small, "kv", 4096);
    fill_model(&unused, 12 * MIB);
    MUST(cuMemFree(unused.address));
    size_t before = free_bytes();
    EXPECT(set_aside("kv", NULL) == 8 * MIB && free_bytes() == before + 8 * MIB);
    compare(&weights);
    compare(&small);
    EXPECT(set_aside(NULL, NULL) == 6 * MIB); /* neither free blocks nor slabs */
    EXPECT(!resume_("weights", &bytes) && bytes == 6 * MIB);

    /* The first call of a suspended process does not bring back what was set aside. */
    EXPECT(!suspend_as(NULL, NULL, false, &bytes) && bytes >= 6 * MIB && suspended_());
    compare(&weights);
    EXPECT(!suspended_() && free_bytes() == before + 8 * MIB);
    EXPECT(!resume_("kv", &bytes) && bytes == 8 * MIB && free_bytes() == before);
    compare(&cache);

    /* What is freed meanwhile serves no other request. */
    EXPECT(set_aside("kv", NULL) == 8 * MIB);
    MUST(cuMemFree(cache.address));
    fill_tagged(&cache, "kv", 8 * MIB);
    compare(&cache);
    EXPECT(!resume_(NULL, &bytes) && !bytes);
    EXPECT(set_aside("kv", "k*") == 8 * MIB && !resume_(NULL, &bytes) && bytes == 8 * MIB);
    memset(cache.model, 0, cache.size);
    compare(&cache);

    const struct gpumem_suspend_options both = {.struct_size = sizeof both,
                                                .flags = GPUMEM_SUSPEND_ASIDE | GPUMEM_SUSPEND_WAIT};
    EXPECT(suspend_(&both, NULL) == GPUMEM_INVALID_VALUE);
}

static void waits(void) {
    struct block block;
    pthread_t thread;
    fill_model(&block, 3 * MIB);
    EXPECT(!suspend_as(NULL, NULL, true, NULL));
    EXPECT(!pthread_create(&thread, NULL, fills_later, &block));
    usleep(300000);
    EXPECT(!is_shimmed() || suspended_());
    CUdeviceptr other;
    size_t unused, total;
    MUST(cuMemAlloc(&other, 3 * MIB)); /* is served */
    MUST(cuMemGetInfo(&unused, &total));
    MUST(cuCtxSynchronize());
    MUST(cuMemFree(other));
    EXPECT(!is_shimmed() || suspended_());
    EXPECT(!is_shimmed() || !resume_(NULL, NULL));
    pthread_join(thread, NULL);
    memset(block.model, 9, 4096);
    compare(&block);
}

/* Work that does not end: the suspend gives up, and the program goes on. */
static void busy(void) {
    struct block block, flag;
    CUstream stream;
    fill_model(&block, 3 * MIB);
    fill_model(&flag, 4096);
    MUST(cuMemsetD8(flag.address, 0, 4096));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuStreamWaitValue32(stream, flag.address, 1, CU_STREAM_WAIT_VALUE_EQ));
    launch_fill(block.address, 4096, 0x09090909, stream);
    EXPECT(!is_shimmed() || suspend_as(NULL, NULL, false, NULL) == CUDA_ERROR_NOT_READY);
    EXPECT(!is_shimmed() || !suspended_());
    MUST(cuMemsetD8(flag.address, 1, 1));
    MUST(cuStreamSynchronize(stream));
    suspend();
    memset(block.model, 9, 4096);
    compare(&block);
}

/* Memory that leaves and is freed while it is away, or ends with its context. */
static void ends(void) {
    struct block block, other, small;
    CUcontext context;
    CUdevice device;
    MUST(cuDeviceGet(&device, 0));
    fill_model(&block, 7 * MIB);
    fill_model(&small, 1000);
    suspend();
    MUST(cuMemFree(block.address));
    MUST(cuMemFree(small.address));
    fill_model(&block, 7 * MIB);
    MUST(cuCtxCreate(&context, NULL, 0, device));
    fill_model(&other, 3 * MIB);
    fill_model(&small, 1000);
    suspend();
    MUST(cuCtxDestroy(context));
    start_driver();
    compare(&block);
    suspend();
    MUST(cuDevicePrimaryCtxReset(device));
    start_driver();
    fill_model(&block, 7 * MIB);
    suspend();
    compare(&block);
}

/* Questions about memory that is away are answered as natively. */
static void queries(void) {
    struct block block, small;
    fill_model(&block, 70 * MIB);
    fill_model(&small, 1000);
    for (unsigned i = 0; i < 2; i++) {
        const struct block *asked = i ? &small : &block;
        CUdeviceptr base = 0, inside = asked->address + asked->size - 4;
        CUmemorytype type = 0;
        CUcontext owner = NULL, current = NULL;
        size_t size = 0;
        suspend();
        MUST(cuMemGetAddressRange(&base, &size, inside));
        EXPECT(base == asked->address && size == asked->size);
        suspend();
        MUST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside));
        EXPECT(type == CU_MEMORYTYPE_DEVICE);
        suspend();
        MUST(cuCtxGetCurrent(&current));
        MUST(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, inside));
        EXPECT(owner == current);
    }
    compare(&block);
    compare(&small);
}

static void forks(void) {
    struct block block;
    int status;
    fill_model(&block, 4 * MIB);
    suspend();
    pid_t child = fork();
    if (!child)
        _exit(is_shimmed() && suspended_() ? 1 : 0);
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    compare(&block);
}

/* The first block cannot be exported. Blocks of its call site can, from then on. */
static void exported(void) {
    CUdeviceptr address;
    CUipcMemHandle handle;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < 3; i++) {
        MUST(cuMemAlloc(&address, 3 * MIB));
        result = cuIpcGetMemHandle(&handle, address);
        EXPECT(result == CUDA_SUCCESS || (is_shimmed() && i == 0));
        suspend();
        MUST(cuMemsetD8(address, 1, 3 * MIB));
    }
}

/* SIMCUDA_FAIL lets some call fail: the contents are right afterwards, whatever the calls here answer. */
static void failing(void) {
    struct block block, small;
    fill_model(&block, 66 * MIB);
    fill_model(&small, 5000);
    for (unsigned i = 0; i < 3; i++) {
        if (suspend_as(NULL, NULL, true, NULL)) /* nothing has left */
            EXPECT(!suspended_());
        for (unsigned attempt = 0; is_shimmed() && suspended_(); attempt++) {
            EXPECT(attempt < 5);
            resume_(NULL, NULL);
        }
        compare(&block);
        compare(&small);
        MUST(cuMemsetD8(block.address, (unsigned char)i, MIB));
        memset(block.model, (int)i, MIB);
    }
}

/* ---- what the host keeps after a resume */

static void sleep_and_wake(void) {
    EXPECT(!suspend_as(NULL, NULL, true, NULL));
    EXPECT(!is_shimmed() || !resume_(NULL, NULL));
}

static uint64_t copies_of_suspend(void) {
    uint64_t before = simcuda_calls("cuMemcpyAsync");
    EXPECT(!suspend_as(NULL, NULL, true, NULL));
    uint64_t copies = simcuda_calls("cuMemcpyAsync") - before;
    EXPECT(!is_shimmed() || !resume_(NULL, NULL));
    return copies;
}

/* Only pages that changed are copied, and none that are zero. */
static void kept(void) {
    struct block block, small;
    fill_model(&block, 10 * MIB);
    fill_model(&small, 5000);
    uint64_t pages = copies_of_suspend(), page = pages / 6;
    EXPECT(pages == 6 * page && (page || !is_shimmed()));
    EXPECT(copies_of_suspend() == 0);
    MUST(cuMemsetD8(block.address + 5 * MIB - 1, 3, 1));
    block.model[5 * MIB - 1] = 3;
    EXPECT(copies_of_suspend() == page);
    compare(&block);
    MUST(cuMemsetD8(block.address, 0, block.size));
    memset(block.model, 0, block.size);
    EXPECT(copies_of_suspend() == 0);
    compare(&block);
    compare(&small);
    MUST(cuMemcpyHtoD(block.address, small.model, 4)); /* the page was zero, and has other contents on the host */
    memcpy(block.model, small.model, 4);
    EXPECT(copies_of_suspend() == page);
    compare(&block);
    if (is_shimmed()) { /* what is dropped does not come back from an earlier copy */
        EXPECT(!suspend_as(NULL, "*", true, NULL) && !resume_(NULL, NULL));
        memset(block.model, 0, block.size);
        compare(&block);
    }
}

/* GPUMEM_SUSPEND_BACKING=dropped. */
static void dropped(void) {
    struct block block;
    fill_model(&block, 10 * MIB);
    for (unsigned i = 0; i < 3; i++)
        EXPECT(!is_shimmed() || copies_of_suspend() >= 5);
    compare(&block);
}

static bool reaches(const char *call, uint64_t count) {
    for (unsigned i = 0; i < 2000 && simcuda_calls(call) < count; i++)
        usleep(5000);
    return simcuda_calls(call) >= count;
}

static void fill_again(struct block *block, unsigned char value) {
    memset(block->model, value, block->size);
    MUST(cuMemsetD8(block->address, value, block->size));
}

/* A thread registers what the host keeps; it is copied by pieces of 64 MiB then. It ends with its range, or with its
 * context. */
static void registered(void) {
    struct block block;
    CUdevice device;
    int status;
    MUST(cuDeviceGet(&device, 0));
    fill_model(&block, 66 * MIB);
    sleep_and_wake();
    EXPECT(!is_shimmed() || reaches("cuMemHostRegister_v2", 2));
    fill_again(&block, 3);
    EXPECT(!is_shimmed() || copies_of_suspend() == 2);
    compare(&block);
    pid_t child = fork();
    if (!child)
        _exit(0);
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    end(&block);
    MUST(cuCtxSynchronize());
    EXPECT(!is_shimmed() || reaches("cuMemHostUnregister", 2));
    fill_model(&block, 4 * MIB);
    suspend();
    EXPECT(!is_shimmed() || reaches("cuMemHostRegister_v2", 3));
    compare(&block);
    MUST(cuDevicePrimaryCtxReset(device));
    start_driver();
    fill_model(&block, 4 * MIB);
    suspend();
    EXPECT(!is_shimmed() || reaches("cuMemHostRegister_v2", 4));
    compare(&block);
    sleep_and_wake();
    compare(&block);
}

static volatile unsigned char *spoilt;
static void spoil(void) { *spoilt = 77; }

/* What comes back is not what left: nothing runs on it. */
static void other(void) {
    struct block block;
    fill_model(&block, 5 * MIB);
    if (!is_shimmed())
        return;
    EXPECT(!suspend_as(NULL, NULL, true, NULL));
    spoilt = (unsigned char *)(uintptr_t)(block.address + 3 * MIB);
    EXPECT(block.model[3 * MIB] != 77);
    simcuda_set_after("cuStreamSynchronize", spoil);
    EXPECT(resume_(NULL, NULL) && suspended_() && strstr(last_error_(), "1 pages came back with other contents"));
    simcuda_set_after("cuStreamSynchronize", NULL);
    EXPECT(!resume_(NULL, NULL) && !suspended_());
    compare(&block);
}

/* SUSPEND_TO names a folder. */
static void in_file(void) {
    const struct rlimit small = {.rlim_cur = 3 * MIB, .rlim_max = RLIM_INFINITY};
    struct rlimit usual;
    struct block block;
    struct stat status;
    const char *usable = folder;
    unsigned closed = 0;
    fill_model(&block, 20 * MIB);
    MUST(cuMemsetD8(block.address + 6 * MIB, 0, 4 * MIB));
    memset(block.model + 6 * MIB, 0, 4 * MIB);
    for (unsigned char i = 0; i < 3; i++) {
        sleep_and_wake();
        compare(&block);
        MUST(cuMemsetD8(block.address + 9 * MIB, i, 1));
        block.model[9 * MIB] = i;
    }
    EXPECT(!getrlimit(RLIMIT_FSIZE, &usual) && !setrlimit(RLIMIT_FSIZE, &small));
    EXPECT(!is_shimmed() || (suspend_as(NULL, NULL, true, NULL) == (int)CUDA_ERROR_OPERATING_SYSTEM && !suspended_()));
    EXPECT(!setrlimit(RLIMIT_FSIZE, &usual));
    EXPECT(!is_shimmed() || strstr(last_error_(), "cannot be written"));
    folder = "/none";
    EXPECT(!is_shimmed() || (suspend_as(NULL, NULL, true, NULL) == (int)CUDA_ERROR_OPERATING_SYSTEM && !suspended_()));
    EXPECT(!is_shimmed() || strstr(last_error_(), "no file can be made in '/none'"));
    folder = usable;
    compare(&block);
    if (!is_shimmed())
        return;
    /* A file that the program closed: the memory stays away. */
    EXPECT(!suspend_as(NULL, NULL, true, NULL));
    for (int descriptor = 100; descriptor < 1000; descriptor++)
        if (!fstat(descriptor, &status) && S_ISREG(status.st_mode) && status.st_size == (off_t)(20 * MIB))
            closed += !close(descriptor);
    EXPECT(closed == 1 && (int)resume_(NULL, NULL) == (int)CUDA_ERROR_OPERATING_SYSTEM && suspended_());
    EXPECT(strstr(last_error_(), "the file with the contents cannot be read"));
}

/* GPUMEM_SUSPEND is off. */
static void off(void) {
    struct block block;
    size_t used = simcuda_used(0);
    fill_model(&block, 5 * MIB);
    EXPECT(simcuda_used(0) > used && (getenv("GPUMEM_GUARD") || simcuda_calls("cuMemMap") == 0));
    EXPECT(suspend_as(NULL, NULL, false, NULL) == GPUMEM_NOT_SUPPORTED && !suspended_());
    EXPECT(resume_(NULL, NULL) == GPUMEM_NOT_SUPPORTED);
    compare(&block);
}

/* Others suspend and resume it, by lines that this program reads: "use" lets it submit work, "end" ends it. */
static void outside(void) {
    struct block weights, cache;
    CUdeviceptr stays;
    char line[16];
    if (tag_push_)
        tag_push_("weights");
    fill_model(&weights, 30 * MIB);
    if (tag_push_)
        tag_push_("kv");
    fill_model(&cache, 40 * MIB);
    MUST(cuMemAllocAsync(&stays, 4 * MIB, NULL));
    setvbuf(stdout, NULL, _IONBF, 0);
    for (puts("ready"); fgets(line, sizeof line, stdin) && strcmp(line, "end\n");) {
        printf("used %zu\n", simcuda_used(0) / MIB);
        if (strcmp(line, "use\n"))
            continue;
        compare(&weights);
        unsigned char first = 1;
        MUST(cuMemcpyDtoH(&first, cache.address + 7, 1));
        printf("kv %d\n", first);
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"threads", threads},
                 {"capture", capture},
                 {"full", full},
                 {"tags", tags},
                 {"aside", aside},
                 {"waits", waits},
                 {"busy", busy},
                 {"ends", ends},
                 {"fork", forks},
                 {"exported", exported},
                 {"failing", failing},
                 {"off", off},
                 {"outside", outside},
                 {"queries", queries},
                 {"kept", kept},
                 {"dropped", dropped},
                 {"registered", registered},
                 {"other", other},
                 {"file", in_file}};
    EXPECT(argc > 1);
    start();
    if (!strcmp(argv[1], "random"))
        random_program((uint64_t)atoi(argv[2]));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[1], cases[i].name))
            cases[i].run();
    EXPECT(simcuda_violations() == 0);
    puts("ok suspend");
    return 0;
}

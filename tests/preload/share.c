/* A program that shares its card with others. It does what it reads, a line each, and compares all contents with a
 * model on the host:
 *
 *     alloc MIB      a block of random contents; says ok or the error
 *     async MIB      the same by cuMemAllocAsync
 *     create MIB     a handle of memory, which is released at once
 *     work ROUNDS    changes and compares parts of all blocks
 *     check          compares all blocks
 *     threads ROUNDS four threads work, each on a block of its own of 1 MiB
 *     info           says the free and the total MiB
 *     used           says the MiB that this process has on the card
 *     fork           a child allocates nothing and ends
 *     free           frees all blocks
 *     end */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "program.h"
#include "simcuda.h"

#define MIB ((size_t)1 << 20)
enum { BLOCKS = 64, THREADS = 4 };

static struct block {
    CUdeviceptr address;
    size_t size;
    unsigned char *model;
} blocks[BLOCKS];
static unsigned count;
static CUfunction fill_kernel;
static CUcontext context;

static void begin_process(void) {
    CUmodule module;
    CUdevice device;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, "simulated"));
    MUST(cuModuleGetFunction(&fill_kernel, module, SIMCUDA_KERNEL_FILL));
}

static void fill(struct block *block, unsigned *seed) {
    for (size_t i = 0; i + 4 <= block->size; i += 4) {
        uint32_t value = i % 4096 ? (uint32_t)i : (uint32_t)rand_r(seed);
        memcpy(block->model + i, &value, 4);
    }
    MUST(cuMemcpyHtoD(block->address, block->model, block->size));
}

static void compare(const struct block *block, size_t at, size_t size) {
    unsigned char *host = malloc(size);
    EXPECT(host);
    MUST(cuMemcpyDtoH(host, block->address + at, size));
    EXPECT(!memcmp(host, block->model + at, size));
    free(host);
}

static CUresult allocate(size_t size, bool async, unsigned *seed) {
    struct block *block = &blocks[count];
    EXPECT(count < BLOCKS);
    CUresult result = async ? cuMemAllocAsync(&block->address, size, NULL) : cuMemAlloc(&block->address, size);
    if (result)
        return result;
    *block = (struct block){.address = block->address, .size = size, .model = malloc(size)};
    EXPECT(block->model);
    fill(block, seed);
    count++;
    return CUDA_SUCCESS;
}

static CUresult create(size_t size) {
    static const CUmemAllocationProp plain = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle;
    CUresult result = cuMemCreate(&handle, size, &plain, 0);
    if (!result)
        MUST(cuMemRelease(handle));
    return result;
}

static void work_on(struct block *block, unsigned *seed) {
    size_t at = (size_t)rand_r(seed) % (block->size / 2) / 4 * 4, size = 4 + (size_t)rand_r(seed) % 65536 / 4 * 4;
    uint32_t pattern = (uint32_t)rand_r(seed);
    uint64_t address = block->address + at, bytes = size < block->size - at ? size : block->size - at;
    void *arguments[] = {&address, &bytes, &pattern};
    MUST(cuLaunchKernel(fill_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
    for (size_t i = 0; i + 4 <= bytes; i += 4)
        memcpy(block->model + at + i, &pattern, 4);
    compare(block, at, bytes);
}

static void work(unsigned rounds, unsigned *seed) {
    for (unsigned i = 0; i < rounds && count; i++) {
        work_on(&blocks[(unsigned)rand_r(seed) % count], seed);
        usleep(1000);
    }
}

static void *work_of_thread(void *argument) {
    unsigned seed = (unsigned)(uintptr_t)argument % 1000, rounds = (unsigned)((uintptr_t)argument / 1000);
    struct block block = {.size = MIB, .model = malloc(MIB)};
    EXPECT(block.model);
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemAlloc(&block.address, block.size));
    fill(&block, &seed);
    for (unsigned i = 0; i < rounds; i++)
        work_on(&block, &seed);
    compare(&block, 0, block.size);
    MUST(cuMemFree(block.address));
    free(block.model);
    return NULL;
}

static void work_of_threads(unsigned rounds) {
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        EXPECT(!pthread_create(&threads[i], NULL, work_of_thread, (void *)(rounds * 1000ul + i + 1)));
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void check_all(void) {
    for (unsigned i = 0; i < count; i++)
        compare(&blocks[i], 0, blocks[i].size);
}

static void free_all(void) {
    while (count) {
        MUST(cuMemFree(blocks[--count].address));
        free(blocks[count].model);
    }
}

static void fork_child(void) {
    int status;
    pid_t child = fork();
    if (!child)
        _exit(0);
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && !status);
}

static void say_result(CUresult result) {
    if (result)
        printf("error %d\n", result);
    else
        puts("ok");
}

/* False: it does not know the word. */
static bool obey(const char *word, unsigned number, unsigned *seed) {
    size_t room, total;
    CUresult result = CUDA_SUCCESS;
    if (!strcmp(word, "alloc") || !strcmp(word, "async"))
        result = allocate(number * MIB, !strcmp(word, "async"), seed);
    else if (!strcmp(word, "create"))
        result = create(number * MIB);
    else if (!strcmp(word, "work"))
        work(number, seed);
    else if (!strcmp(word, "threads"))
        work_of_threads(number);
    else if (!strcmp(word, "check"))
        check_all();
    else if (!strcmp(word, "free"))
        free_all();
    else if (!strcmp(word, "fork"))
        fork_child();
    else if (!strcmp(word, "info")) {
        MUST(cuMemGetInfo(&room, &total));
        printf("%zu %zu\n", room / MIB, total / MIB);
        return true;
    } else if (!strcmp(word, "used")) {
        printf("%zu\n", simcuda_used(0) / MIB);
        return true;
    } else
        return false;
    say_result(result);
    return true;
}

int main(int argc, char **argv) {
    unsigned seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1, number;
    char line[64], word[16];
    setvbuf(stdout, NULL, _IONBF, 0);
    begin_process();
    printf("ready %d\n", (int)getpid());
    while (fgets(line, sizeof line, stdin) && strcmp(line, "end\n")) {
        number = 0;
        EXPECT(sscanf(line, "%15s %u", word, &number) >= 1);
        EXPECT(obey(word, number, &seed));
    }
    check_all();
    free_all();
    EXPECT(simcuda_violations() == 0);
    puts("end");
    return 0;
}

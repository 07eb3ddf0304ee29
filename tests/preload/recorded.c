/* Allocates and frees in eight threads, and obeys words from standard input, so that others can start and stop a trace
 * meanwhile. Each answer is the word, the pid, and how many blocks and bytes are live.
 *
 * Linked with gpumem, and with the argument racing: starts and stops traces itself, as gpumem trace does. With the
 * argument exhausting: each thread requests more than there is. With the argument ranges: opens and closes NVTX
 * ranges. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#ifdef WITH_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

#include "program.h"

enum { SINGLES = 128, THREADS = 8, HELD = 64, SIZES = 12 };

static struct slot {
    void *block;
    size_t bytes;
} held[THREADS][HELD], singles[SINGLES];
static pthread_t threads[THREADS];
static int going;
static unsigned rounds; /* of work(), by all threads */

static size_t size_of(unsigned random) { return (size_t)512 << random % SIZES; }

/* Most pairs are of blocks that the cache keeps; every eighth call holds a block for longer. */
static void *work(void *argument) {
    struct slot *own = held[(intptr_t)argument];
    unsigned random = (unsigned)(intptr_t)argument * 77777u + 1;
    while (__atomic_load_n(&going, __ATOMIC_RELAXED)) {
        random = random * 1103515245u + 12345u;
        struct slot *slot = &own[random >> 16 & (HELD - 1)];
        if (slot->block) {
            MUST(cudaFree(slot->block));
            slot->block = NULL;
        } else if (random >> 24 & 7) {
            void *block;
            MUST(cudaMalloc(&block, size_of(random >> 8)));
            MUST(cudaFree(block));
        } else {
            slot->bytes = size_of(random >> 8);
            MUST(cudaMalloc(&slot->block, slot->bytes));
        }
        __atomic_add_fetch(&rounds, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void go(void) {
    going = 1;
    for (intptr_t i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
}

/* Waits until the threads have done 64 more rounds together, so have allocated and freed. */
static void work_on(void) {
    unsigned begin = __atomic_load_n(&rounds, __ATOMIC_RELAXED);
    while (__atomic_load_n(&rounds, __ATOMIC_RELAXED) - begin < 64)
        usleep(100);
}

static void halt(void) {
    __atomic_store_n(&going, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
}

static void release(void) {
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < HELD; k++)
            if (held[i][k].block) {
                MUST(cudaFree(held[i][k].block));
                held[i][k].block = NULL;
            }
}

static void pairs(void) {
    for (int i = 0; i < 1000; i++) {
        void *block;
        MUST(cudaMalloc(&block, 4096));
        MUST(cudaFree(block));
    }
}

static void alloc(void) {
    static size_t made;
    int i = 0;
    while (singles[i].block)
        EXPECT(++i < SINGLES);
    singles[i].bytes = 1000000 + 1000 * made++;
    MUST(cudaMalloc(&singles[i].block, singles[i].bytes));
}

static void exhaust(void) {
    void *block;
    EXPECT(cudaMalloc(&block, (size_t)1 << 50) == cudaErrorMemoryAllocation);
}

/* ---- a block of each kind; memory that the program maps itself comes from the driver */

static struct {
    void *pitched, *managed, *pinned, *async, *of_pool;
    cudaArray_t array;
    cudaMemPool_t pool;
    CUdeviceptr reserved;
    CUmemGenericAllocationHandle handle;
} kinds;

static void *driver(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_LAZY), *function = library ? dlsym(library, name) : NULL;
    EXPECT(function != NULL);
    return function;
}
#define DRIVER(function, ...) EXPECT(((__typeof__(function) *)driver(#function))(__VA_ARGS__) == CUDA_SUCCESS)

enum { PIECE = 2 << 20 };

/* Half of the reservation is mapped. */
static void make_kinds(void) {
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const struct cudaMemPoolProps of_device = {.allocType = cudaMemAllocationTypePinned,
                                               .location = {.type = cudaMemLocationTypeDevice}};
    const struct cudaChannelFormatDesc format = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    size_t pitch;
    MUST(cudaMallocPitch(&kinds.pitched, &pitch, 1000, 10));
    MUST(cudaMallocArray(&kinds.array, &format, 64, 64, 0));
    MUST(cudaMallocManaged(&kinds.managed, 10000, cudaMemAttachGlobal));
    MUST(cudaMallocHost(&kinds.pinned, 20000));
    MUST(cudaMallocAsync(&kinds.async, 30000, NULL));
    MUST(cudaMemPoolCreate(&kinds.pool, &of_device));
    MUST(cudaMallocFromPoolAsync(&kinds.of_pool, 40000, kinds.pool, NULL));
    DRIVER(cuMemAddressReserve, &kinds.reserved, 2 * PIECE, 0, 0, 0);
    DRIVER(cuMemCreate, &kinds.handle, PIECE, &prop, 0);
    DRIVER(cuMemMap, kinds.reserved, PIECE, 0, kinds.handle, 0);
}

static void drop_kinds(void) {
    DRIVER(cuMemUnmap, kinds.reserved, PIECE);
    DRIVER(cuMemRelease, kinds.handle);
    DRIVER(cuMemAddressFree, kinds.reserved, 2 * PIECE);
    MUST(cudaFreeAsync(kinds.of_pool, NULL));
    MUST(cudaFreeAsync(kinds.async, NULL));
    MUST(cudaDeviceSynchronize());
    MUST(cudaMemPoolDestroy(kinds.pool));
    MUST(cudaFreeHost(kinds.pinned));
    MUST(cudaFree(kinds.managed));
    MUST(cudaFreeArray(kinds.array));
    MUST(cudaFree(kinds.pitched));
}

/* The first of the single blocks, or the last one. */
static void free_one(int step) {
    int i = step > 0 ? 0 : SINGLES - 1;
    while (!singles[i].block)
        i += step;
    MUST(cudaFree(singles[i].block));
    singles[i].block = NULL;
}

#ifdef WITH_NVTX
static nvtxRangeId_t started;

static void *end_inside(void *name) {
    nvtxRangePushA(name);
    return NULL;
}

/* Threads open ranges of the same name, and some end inside one. */
static void *open_ranges(void *unused) {
    pthread_t inside;
    for (int i = 0; i < 100; i++) {
        nvtxRangePushA("step");
        usleep(500);
        nvtxRangePop();
        usleep(500);
    }
    EXPECT(pthread_create(&inside, NULL, end_inside, "step") == 0);
    EXPECT(pthread_join(inside, NULL) == 0);
    return unused;
}

static int race_ranges(void) {
    pthread_t second;
    MUST(cudaFree(NULL));
    nvtxMarkA("begin"); /* NVTX finds its tool; it has no lock for threads that do so at once */
    go();
    EXPECT(pthread_create(&second, NULL, open_ranges, NULL) == 0);
    open_ranges(NULL);
    EXPECT(pthread_join(second, NULL) == 0);
    halt();
    release();
    return 0;
}

/* push=NAME, pop, dpush=NAME, dpop (in the domain lib; behind `many` in the last of so many domains that it shares the
 * default one), start=NAME, end; inside=NAME: a thread ends in the range. */
static int mark_range(const char *word) {
    enum { MANY_DOMAINS = 65 };
    static nvtxDomainHandle_t domain;
    const char *name = strchr(word, '=');
    nvtxEventAttributes_t a = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = name ? name + 1 : "";
    if (*word == 'd' && !domain)
        domain = nvtxDomainCreateA("lib");
    if (!strcmp(word, "many")) {
        char text[16];
        for (int i = 0; i < MANY_DOMAINS; i++) {
            snprintf(text, sizeof text, "many %d", i);
            domain = nvtxDomainCreateA(text);
        }
    } else if (!strncmp(word, "push=", 5))
        nvtxRangePushA(name + 1);
    else if (!strncmp(word, "inside=", 7)) {
        pthread_t thread;
        EXPECT(pthread_create(&thread, NULL, end_inside, (void *)(name + 1)) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
    } else if (!strcmp(word, "pop"))
        nvtxRangePop();
    else if (!strncmp(word, "dpush=", 6))
        nvtxDomainRangePushEx(domain, &a);
    else if (!strcmp(word, "dpop"))
        nvtxDomainRangePop(domain);
    else if (!strncmp(word, "start=", 6))
        started = nvtxRangeStartA(name + 1);
    else if (!strcmp(word, "end"))
        nvtxRangeEnd(started);
    else
        return 0;
    return 1;
}
#else
static int mark_range(const char *word) { return 0; }
static int race_ranges(void) { return 1; }
#endif

/* Without the blocks of the threads while these work. */
static void answer(const char *word) {
    size_t blocks = 0, bytes = 0;
    for (int i = 0; i < SINGLES; i++)
        if (singles[i].block) {
            blocks++;
            bytes += singles[i].bytes;
        }
    for (int i = 0; i < THREADS && !going; i++)
        for (int k = 0; k < HELD; k++)
            if (held[i][k].block) {
                blocks++;
                bytes += held[i][k].bytes;
            }
    printf("%s %d %zu %zu\n", word, (int)getpid(), blocks, bytes);
    fflush(stdout);
}

#ifdef LINKED
#include <sys/mman.h>

#include "shim/accounts/stats.h"

static struct gm_stats *own_counters(void) {
    char link[64], name[64];
    for (int fd = 0; fd < 1024; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(link, name, sizeof name - 1);
        name[length > 0 ? length : 0] = '\0';
        if (strstr(name, "gpumem-stats"))
            return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    fail("the counters of the process", __LINE__, 0);
    return NULL;
}

static void request(struct gm_stats *counters, enum gm_stats_wanted wanted) {
    struct gm_stats_recording *r = &counters->recording;
    uint32_t number = r->request + 2;
    r->wanted = wanted;
    r->stacks = 4;
    strcpy(r->name, "recorded.%p.gmt");
    __atomic_store_n(&r->request, number, __ATOMIC_RELEASE);
    __atomic_or_fetch(&counters->watched_until, GM_STATS_REQUESTED, __ATOMIC_RELEASE);
    for (int turn = 0; __atomic_load_n(&r->answered, __ATOMIC_ACQUIRE) != number; turn++) {
        EXPECT(turn < 100000);
        usleep(1000);
    }
    EXPECT(!r->failed);
    if (wanted == GM_STATS_STOP)
        EXPECT(unlink(r->text) == 0);
}

static int racing(void) {
    struct gm_stats *counters = own_counters();
    go();
    for (int round = 0; round < 10; round++) {
        request(counters, GM_STATS_START);
        usleep(20000);
        request(counters, GM_STATS_STOP);
        usleep(5000);
    }
    halt();
    release();
    return 0;
}

static void *exhaust_often(void *unused) {
    for (int i = 0; i < 5000; i++)
        exhaust();
    return NULL;
}

/* Each request that finds no memory asks whether to measure what the process holds beyond gpumem's view. */
static int exhausting(void) {
    for (int i = 0; i < THREADS; i++)
        EXPECT(pthread_create(&threads[i], NULL, exhaust_often, NULL) == 0);
    halt();
    return 0;
}
#else
static int racing(void) { return 1; }
static int exhausting(void) { return 1; }
#endif

int main(int argc, char **argv) {
    char word[32];
    int status;
    if (argc > 1 && (!strcmp(argv[1], "racing") || !strcmp(argv[1], "exhausting"))) {
        MUST(cudaFree(NULL));
        return argv[1][0] == 'r' ? racing() : exhausting();
    }
    if (argc > 1 && !strcmp(argv[1], "ranges"))
        return race_ranges();
    setvbuf(stdin, NULL, _IONBF, 0); /* parent and child read the same pipe in turn */
    if (argc == 1)
        MUST(cudaFree(NULL));
    answer("ready");
    while (scanf("%31s", word) == 1) {
        if (!strcmp(word, "go"))
            go();
        else if (!strcmp(word, "work"))
            work_on();
        else if (!strcmp(word, "halt"))
            halt();
        else if (!strcmp(word, "release"))
            release();
        else if (!strcmp(word, "pairs"))
            pairs();
        else if (!strcmp(word, "alloc"))
            alloc();
        else if (!strcmp(word, "exhaust"))
            exhaust();
        else if (!strcmp(word, "kinds"))
            make_kinds();
        else if (!strcmp(word, "unkinds"))
            drop_kinds();
        else if (!strcmp(word, "free"))
            free_one(-1);
        else if (!strcmp(word, "oldest"))
            free_one(1);
        else if (!strcmp(word, "reset")) {
            MUST(cudaDeviceReset());
            memset(held, 0, sizeof held);
            memset(singles, 0, sizeof singles);
        } else if (!strcmp(word, "fork")) {
            pid_t child = fork();
            EXPECT(child >= 0);
            if (child) { /* from here on the child reads the commands */
                EXPECT(waitpid(child, &status, 0) == child);
                return !WIFEXITED(status) || WEXITSTATUS(status);
            }
            memset(held, 0, sizeof held);
            memset(singles, 0, sizeof singles);
        } else if (!mark_range(word))
            fail(word, __LINE__, 0);
        answer(word);
    }
    return 0;
}

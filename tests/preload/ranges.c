/* Ranges and marks of NVTX 3 in all forms, around allocations that differ in size. */
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <sys/wait.h>

#include "program.h"

static nvtxDomainHandle_t domain;
static nvtxRangeId_t across;

static void allocate(size_t bytes) {
    void *block;
    MUST(cudaMalloc(&block, bytes));
    MUST(cudaFree(block));
}

static nvtxEventAttributes_t attributes(void) {
    nvtxEventAttributes_t a = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    return a;
}

static void *worker(void *arg) {
    size_t bytes = *(size_t *)arg;
    for (int i = 0; i < 3; i++) {
        nvtxRangePushA("outer");
        allocate(bytes);
        nvtxRangePushA(bytes == 30000 ? "inner 3" : "inner 5");
        allocate(2 * bytes);
        nvtxRangePop();
        nvtxRangePop();
    }
    return NULL;
}

static void *ender(void *arg) {
    allocate(7000);
    nvtxRangeEnd(across);
    allocate(8000);
    return NULL;
}

static void forms(void) {
    nvtxEventAttributes_t a = attributes();
    a.messageType = NVTX_MESSAGE_TYPE_ASCII;
    a.message.ascii = "in a domain";
    nvtxDomainRangePushEx(domain, &a);
    nvtxRangePushW(L"wide \u00fc \u20ac \U0001f600");
    nvtxDomainRangePop(domain); /* the outer one: domains have stacks of their own */
    allocate(1100);
    nvtxRangePop();
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = nvtxDomainRegisterStringA(domain, "registered");
    nvtxRangeId_t id = nvtxDomainRangeStartEx(domain, &a);
    allocate(1200);
    nvtxDomainRangeEnd(domain, id);
    a.messageType = NVTX_MESSAGE_TYPE_UNICODE;
    a.message.unicode = L"unicode";
    nvtxRangePushEx(&a);
    allocate(1300);
    nvtxRangePop();
    nvtxRangePushA("odd \xff\x01\n\"<,\\ bytes");
    allocate(1400);
    nvtxRangePop();
    nvtxRangePushEx(NULL);
    nvtxRangePop();
    nvtxRangePushA(NULL);
    nvtxRangePop();
}

static int stop;

static void *push_often(void *unused) {
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        nvtxRangePushA("early");
        nvtxRangePop();
    }
    return unused;
}

/* Children push a range while a thread of their parent does. No call of CUDA comes before. */
static void fork_early(void) {
    pthread_t thread;
    int status;
    nvtxRangePushA("early"); /* NVTX begins here: a child would wait for a thread that begins it */
    nvtxRangePop();
    EXPECT(!pthread_create(&thread, NULL, push_often, NULL));
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (!child) {
            alarm(10);
            nvtxRangePushA("early");
            nvtxRangePop();
            _exit(0);
        }
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
    static char large[3000];
    if (argc > 1 && !strcmp(argv[1], "fork_early")) {
        fork_early();
        return 0;
    }
    nvtxRangePushA("whole");
    nvtxRangePushA("gone before CUDA");
    nvtxRangePop();
    nvtxRangePushA("first");
    allocate(1000);
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangePop(); /* one too many */
    domain = nvtxDomainCreateA("library");
    EXPECT(domain == nvtxDomainCreateA("library") || argc > 1);
    if (argc > 1 && !strcmp(argv[1], "fork")) {
        pid_t child = fork();
        if (!child) {
            nvtxMarkA("in the child");
            nvtxRangePushA("first");
            nvtxRangePop();
            exit(0);
        }
        int status;
        EXPECT(waitpid(child, &status, 0) == child && status == 0);
        return 0;
    }
    forms();
    across = nvtxRangeStartA("across threads");
    pthread_t threads[3];
    size_t sizes[2] = {30000, 50000};
    for (int i = 0; i < 2; i++)
        EXPECT(!pthread_create(&threads[i], NULL, worker, &sizes[i]));
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    EXPECT(!pthread_create(&threads[2], NULL, ender, NULL));
    pthread_join(threads[2], NULL);
    memset(large, 'x', sizeof large - 1);
    nvtxRangePushA(large);
    nvtxRangePop();
    nvtxMarkA("mark one");
    allocate(9000);
    nvtxMarkW(L"mark two");
    for (int i = 0; i < 6000; i++) { /* more than gpumem stores */
        char name[32];
        snprintf(name, sizeof name, "step %d", i);
        nvtxRangePushA(name);
        nvtxRangePop();
    }
    nvtxRangePushA("never popped");
    allocate(600000);
    return 0;
}

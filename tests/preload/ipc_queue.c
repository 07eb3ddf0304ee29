/* A queue of device memory between processes, as torch.multiprocessing has it without its caching allocator: a thread
 * of each producer exports four blocks with an event each and sends the handles. A consumer lets its stream wait for
 * the events, opens the blocks, reads them, and drops them when it has the next ones. Then the producer frees them.
 *
 * usage: ipc_queue; it starts itself as ipc_queue produce NUMBER and ipc_queue consume NUMBER */
#include <cuda.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "program.h"

enum { PROCESSES = 2, ROUNDS = 20, BLOCKS = 4, BIG = 1 << 20, SMALL = 64, PAGE = 4096 };
enum { TAKES = 10, SENDS, USES }; /* descriptors of the children */

struct message {
    CUipcMemHandle blocks[BLOCKS];
    CUipcEventHandle events[BLOCKS];
    int producer, round;
};

static volatile unsigned char (*in_use)[ROUNDS]; /* of each producer; the processes share it */

static size_t size_in(int round) { return round % 2 ? SMALL : BIG; }
static unsigned char pattern_of(int producer, int round, int block) {
    return (unsigned char)(1 + producer * 100 + round * BLOCKS + block);
}

/* ---- producer */

static CUcontext context;
static struct sent {
    CUdeviceptr blocks[BLOCKS];
    CUevent events[BLOCKS];
    int live;
} all_sent[ROUNDS];
static struct message message;

static void *export_and_send(void *unused) {
    struct sent *sent = &all_sent[message.round];
    MUST(cuCtxSetCurrent(context));
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cuIpcGetMemHandle(&message.blocks[i], sent->blocks[i]));
        MUST(cuEventCreate(&sent->events[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS | CU_EVENT_BLOCKING_SYNC));
        MUST(cuEventRecord(sent->events[i], NULL));
        MUST(cuIpcGetEventHandle(&message.events[i], sent->events[i]));
    }
    EXPECT(write(SENDS, &message, sizeof message) == (ssize_t)sizeof message);
    return unused;
}

/* Returns how many are still in use. */
static int free_unused(int producer) {
    int used = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct sent *sent = &all_sent[round];
        used += sent->live && in_use[producer][round];
        if (!sent->live || in_use[producer][round])
            continue;
        for (int i = 0; i < BLOCKS; i++) {
            MUST(cuEventDestroy(sent->events[i]));
            note_free("cuMemFree", (void *)(uintptr_t)sent->blocks[i]);
            MUST(cuMemFree(sent->blocks[i]));
        }
        sent->live = 0;
    }
    return used;
}

static void produce(int producer) {
    context = start_driver();
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t feeder;
        message.producer = producer;
        message.round = round;
        all_sent[round].live = in_use[producer][round] = 1;
        for (int i = 0; i < BLOCKS; i++) {
            CUdeviceptr *block = &all_sent[round].blocks[i];
            MUST(cuMemAlloc(block, size_in(round)));
            note_alloc("cuMemAlloc", (long long)size_in(round), (void *)(uintptr_t)*block);
            MUST(cuMemsetD8Async(*block, pattern_of(producer, round, i), size_in(round), NULL));
        }
        EXPECT(pthread_create(&feeder, NULL, export_and_send, NULL) == 0);
        (void)free_unused(producer);
        EXPECT(pthread_join(feeder, NULL) == 0);
    }
    close(SENDS);
    while (free_unused(producer))
        usleep(1000);
}

/* ---- consumer */

static void drop(const CUdeviceptr *blocks, const struct message *of) {
    MUST(cuStreamSynchronize(NULL));
    for (int i = 0; i < BLOCKS; i++) {
        note_free("cuIpcCloseMemHandle", (void *)(uintptr_t)blocks[i]);
        MUST(cuIpcCloseMemHandle(blocks[i]));
    }
    in_use[of->producer][of->round] = 0;
}

static void consume(void) {
    struct message of = {.round = -1}, next;
    CUdeviceptr blocks[BLOCKS], opened[BLOCKS];
    static unsigned char host[BIG];
    (void)start_driver();
    while (read(TAKES, &next, sizeof next) == (ssize_t)sizeof next) {
        size_t size = size_in(next.round);
        for (int i = 0; i < BLOCKS; i++) {
            CUevent event;
            MUST(cuIpcOpenEventHandle(&event, next.events[i]));
            MUST(cuStreamWaitEvent(NULL, event, 0));
            MUST(cuEventDestroy(event));
            MUST(cuIpcOpenMemHandle(&opened[i], next.blocks[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
            note_alloc("cuIpcOpenMemHandle", ANY_BYTES, (void *)(uintptr_t)opened[i]);
            MUST(cuMemcpyDtoH(host, opened[i], size));
            EXPECT(all_bytes_are(host, pattern_of(next.producer, next.round, i), size));
        }
        if (of.round >= 0)
            drop(blocks, &of);
        memcpy(blocks, opened, sizeof blocks);
        of = next;
    }
    if (of.round >= 0)
        drop(blocks, &of);
}

/* ---- the processes */

static void start(const char *role, int number) {
    char text[16];
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child)
        return;
    close(strcmp(role, "produce") ? SENDS : TAKES);
    snprintf(text, sizeof text, "%d", number);
    execl("/proc/self/exe", "ipc_queue", role, text, (char *)NULL);
    _exit(1);
}

int main(int count, char **words) {
    if (count > 2) {
        in_use = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, USES, 0);
        EXPECT((void *)in_use != MAP_FAILED);
        if (strcmp(words[1], "produce") == 0)
            produce(atoi(words[2]));
        else
            consume();
        return 0;
    }
    int ends[2], uses = memfd_create("uses", 0);
    EXPECT(uses >= 0 && ftruncate(uses, PAGE) == 0 && pipe(ends) == 0);
    EXPECT(dup2(ends[0], TAKES) == TAKES && dup2(ends[1], SENDS) == SENDS && dup2(uses, USES) == USES);
    close(ends[0]);
    close(ends[1]);
    for (int i = 0; i < PROCESSES; i++) {
        start("produce", i);
        start("consume", i);
    }
    close(SENDS);
    for (int i = 0; i < 2 * PROCESSES; i++) {
        int status = -1;
        EXPECT(wait(&status) > 0 && status == 0);
    }
    printf("ok ipc_queue\n");
    return 0;
}

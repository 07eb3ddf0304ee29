/* Freed memory counts as free: cuMemGetInfo reports it beside live blocks. Argument "all": nearly all of it can be
 * allocated at once. */
#include <stdbool.h>
#include <unistd.h>

#include "driver_memory.h"

/* SLACK: a small live block holds a whole segment of a managed pool, 32 MiB on a card; each of two pools may have one.
 * KEPT: the driver keeps so much of a card after the first allocation from a managed pool, also when the pool is
 * trimmed. What is lost in all rounds together is more than both. */
enum { MIB = 1 << 20, ROUNDS = 8, SMALL = 10, SLACK = 72 * MIB, KEPT = 128 * MIB, PAGE = 65536 };

static size_t kept(void) {
    const char *policy = getenv("GPUMEM_POLICY");
    bool managed = policy && (!strcmp(policy, "managed") || !strcmp(policy, "active-list"));
    return managed ? KEPT : 0;
}

static size_t tolerance(void) { return SLACK + kept(); }

static size_t free_memory(void) {
    size_t bytes = 0, total = 0;
    MUST(cuMemGetInfo(&bytes, &total));
    EXPECT(bytes <= total);
    return bytes;
}

/* The driver wipes memory of processes that have ended, and only then it is free. */
static size_t settled_memory(void) {
    size_t bytes = free_memory();
    for (int same = 0; same < 5;) {
        size_t now;
        usleep(20000);
        now = free_memory();
        same = now == bytes ? same + 1 : 0;
        bytes = now;
    }
    return bytes;
}

int main(int count, char **arguments) {
    CUdeviceptr alive[ROUNDS], blocks[SMALL];
    start_driver();
    give(get(64 * MIB)); /* memory that comes with a first allocation stays */
    MUST(cuCtxSynchronize());
    size_t before = settled_memory();
    for (int round = 0; round < ROUNDS; round++) {
        /* Whole extents of any pool, so that no other block lies in them, and more than the driver may have kept. */
        size_t large = kept() + (size_t)(32 + 2 * round) * MIB;
        size_t idle = free_memory();
        CUdeviceptr block = get(large);
        alive[round] = get(100000);
        for (int i = 0; i < SMALL; i++)
            blocks[i] = get((size_t)300000 + (size_t)i * 1000);
        MUST(cuMemsetD2D8(block, PAGE, 1, 1, large / PAGE)); /* managed memory is taken when it is written */
        MUST(cuCtxSynchronize());
        size_t beside = free_memory();
        if (beside + large > idle + kept())
            fprintf(stderr, "round %d: %zu MiB free beside a block of %zu MiB, %zu MiB before it\n", round,
                    beside / MIB, large / MIB, idle / MIB);
        EXPECT(beside + large <= idle + kept());
        give(block);
        for (int i = 0; i < SMALL; i++)
            give(blocks[i]);
        MUST(cuCtxSynchronize());
        size_t now = free_memory();
        if (now + tolerance() < before)
            fprintf(stderr, "round %d: %zu MiB less free than at the start\n", round, (before - now) / MIB);
        EXPECT(now + tolerance() >= before);
    }
    if (count > 1 && strcmp(arguments[1], "all") == 0)
        give(get(free_memory() - 64 * MIB)); /* natively some of it is fragmented, too */
    for (int round = 0; round < ROUNDS; round++)
        give(alive[round]);
    MUST(cuDevicePrimaryCtxRelease(0));
    printf("ok free_memory\n");
    return 0;
}

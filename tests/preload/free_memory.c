/* Freed memory counts as free: cuMemGetInfo reports it beside live blocks. An argument says that the card is simulated;
 * "all": also that nearly all of it can be allocated at once. */
#include <stdbool.h>
#include <unistd.h>

#include "driver_memory.h"

/* SLACK: a small live block holds a whole segment of a managed pool, 32 MiB on a card; each of two pools may have one.
 * FIRST: more than any round uses. The driver keeps memory of a card for managed memory, also when all of it is freed:
 * up to MOST_KEPT, and up to KEPT more while rounds go on. What is lost in all rounds together is more. */
enum { MIB = 1 << 20, ROUNDS = 8, SMALL = 10, PAGE = 65536 };
enum { SLACK = 72 * MIB, FIRST = 256 * MIB, MOST_KEPT = 512 * MIB, KEPT = 256 * MIB };

static bool places_in_managed_memory(void) {
    const char *policy = getenv("GPUMEM_POLICY");
    return policy && (!strcmp(policy, "managed") || !strcmp(policy, "active-list"));
}

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

/* Managed memory is taken when it is written. */
static void write_block(CUdeviceptr block, size_t bytes) {
    MUST(cuMemsetD2D8(block, PAGE, 1, 1, bytes / PAGE));
    MUST(cuCtxSynchronize());
}

static void write_and_give(CUdeviceptr block, size_t bytes) {
    write_block(block, bytes);
    give(block);
    MUST(cuCtxSynchronize());
}

int main(int count, char **arguments) {
    CUdeviceptr alive[ROUNDS], blocks[SMALL];
    start_driver();
    bool keeps = places_in_managed_memory() && count == 1; /* the driver of a card, not the simulated one */
    size_t start = settled_memory(), slack = keeps ? KEPT : SLACK;
    write_and_give(get(FIRST), FIRST);
    size_t before = settled_memory(); /* memory that comes with the first allocations stays */
    EXPECT(before + (keeps ? MOST_KEPT : SLACK) >= start);
    for (int round = 0; round < ROUNDS; round++) {
        size_t large = (size_t)(32 + 2 * round) * MIB; /* whole extents of any pool: no other block lies in them */
        size_t idle = free_memory();
        CUdeviceptr block = get(large);
        alive[round] = get(100000);
        for (int i = 0; i < SMALL; i++)
            blocks[i] = get((size_t)300000 + (size_t)i * 1000);
        write_block(block, large);
        size_t beside = free_memory();
        if (!keeps && beside + large > idle)
            fprintf(stderr, "round %d: %zu MiB free beside a block of %zu MiB, %zu MiB before it\n", round,
                    beside / MIB, large / MIB, idle / MIB);
        EXPECT(keeps || beside + large <= idle);
        give(block);
        for (int i = 0; i < SMALL; i++)
            give(blocks[i]);
        MUST(cuCtxSynchronize());
        size_t now = free_memory();
        if (now + slack < before)
            fprintf(stderr, "round %d: %zu MiB less free than at the start\n", round, (before - now) / MIB);
        EXPECT(now + slack >= before);
    }
    if (count > 1 && strcmp(arguments[1], "all") == 0)
        give(get(free_memory() - 64 * MIB)); /* natively some of it is fragmented, too */
    for (int round = 0; round < ROUNDS; round++)
        give(alive[round]);
    MUST(cuDevicePrimaryCtxRelease(0));
    printf("ok free_memory\n");
    return 0;
}

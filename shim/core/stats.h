/* Counters of one process, in private memory or in a page of a file that `gpumem run` reads. Library and tools of one version
 * share the layout; `magic` tells them apart. */
#ifndef GM_STATS_H
#define GM_STATS_H

#include "policy/policy.h"

#define GM_STATS_MAGIC  0x3153544154534d47ull /* "GMSTATS1" */
#define GM_STATS_SLOTS  128 /* processes that one file can hold */
#define GM_STATS_SHARDS 64

/* Counters of one thread, raised without locked instructions; a thread that ends leaves its shard, counts and all, to the next.
 * Shard 0 belongs to the threads beyond GM_STATS_SHARDS - 1, whose counts may lose a step to each other. Readers add up. */
struct gm_stats_shard {
    uint64_t allocs[GM_KIND_COUNT]; /* successful */
    uint64_t frees[GM_KIND_COUNT];
    uint64_t failed_allocs;
    uint64_t failed_frees;
    uint64_t unknown_frees; /* address not in the registry */
    uint64_t temporary;     /* freed with no other allocation of the thread in between */
    uint64_t time_ns;       /* inside hooked calls, driver included */
    uint64_t moved;         /* served by another kind than asked */
    uint64_t released[GM_KIND_COUNT]; /* went with their context */
    uint64_t doors[4];      /* calls by door: exported symbol, dlsym, resolver, audit */
} __attribute__((aligned(64)));

struct gm_stats {
    uint64_t magic;
    int32_t pid;            /* 0 = free slot */
    int32_t finished;       /* set at orderly exit */
    uint64_t start_ns;      /* CLOCK_MONOTONIC */
    char program[64];
    char policy[64];
    char trace[256];        /* file name, "" = none */
    uint64_t live_bytes[GM_KIND_COUNT];
    uint64_t peak_bytes[GM_KIND_COUNT];
    uint64_t peak_total;                     /* device memory: gm_kind_is_on_device */
    uint64_t slack, peak_reserved;           /* what owners count beyond the live bytes; peak of both together */
    uint64_t released_bytes;                 /* went with their context */
    struct gm_stats_shard shards[GM_STATS_SHARDS];
} __attribute__((aligned(4096)));

/* This process's counters; never NULL. Private until gm_stats_open moves them into `path`. */
extern struct gm_stats *gm_stats;

/* Maps a free slot of the file into gm_stats. The file is made by `gpumem run`, GM_STATS_SLOTS * sizeof(struct gm_stats) bytes.
 * On any trouble the private counters stay and the trouble is logged once. */
void gm_stats_open(const char *path);

/* In the child after fork: counts from zero, in an own slot where the parent had one. */
void gm_stats_after_fork(void);

/* This thread's shard. */
extern __thread struct gm_stats_shard *gm_stats_shard __attribute__((tls_model("initial-exec")));
struct gm_stats_shard *gm_stats_take_shard(void);
static inline struct gm_stats_shard *gm_stats_mine(void) {
    return __builtin_expect(gm_stats_shard != NULL, 1) ? gm_stats_shard : gm_stats_take_shard();
}

static inline bool gm_kind_is_on_device(enum gm_kind kind) {
    return kind != GM_KIND_HOST && kind != GM_KIND_IMPORTED && kind != GM_KIND_HOST_NUMA;
}

/* Bytes of all kinds on devices alive now; a few loads are cheaper than one more counter that all threads write. */
static inline uint64_t gm_stats_live_on_devices(const struct gm_stats *stats) {
    uint64_t live = 0;
#pragma GCC unroll 16
    for (int kind = 0; kind < GM_KIND_COUNT; kind++) /* not subtracted afterwards: another thread may raise it in between */
        live += gm_kind_is_on_device((enum gm_kind)kind) ? __atomic_load_n(&stats->live_bytes[kind], __ATOMIC_RELAXED) : 0;
    return live;
}

/* Blocks of a kind alive now. */
static inline uint64_t gm_stats_live_count(const struct gm_stats *stats, enum gm_kind kind) {
    uint64_t count = 0;
    for (unsigned i = 0; i < GM_STATS_SHARDS; i++)
        count += stats->shards[i].allocs[kind] - stats->shards[i].frees[kind] - stats->shards[i].released[kind];
    return count;
}

#endif

/* Counters of one process, in a page that others can read while it runs: of a file that `gpumem run` made, else of a
 * memory file of its own that `gpumem top` opens by /proc/PID/fd. Library and tools of one version share the layout;
 * `magic` tells them apart. A reader costs the process nothing: it copies the page. */
#ifndef GM_STATS_H
#define GM_STATS_H

#include "policy/policy.h"
#include "shim/base/base.h"

#define GM_STATS_MAGIC  0x3353544154534d47ull /* "GMSTATS3"; seven letters for all layouts, the eighth for this one */
#define GM_STATS_SLOTS  128                   /* processes that one file can hold */
#define GM_STATS_SHARDS 64
#define GM_STATS_NAME   "gpumem-stats" /* of the memory file */
#define GM_STATS_RUN    "gpumem-run"   /* of the one that gpumem run makes */

/* Counters of one thread, raised without locked instructions; a thread that ends leaves its shard, counts and all, to
 * the next. Threads beyond GM_STATS_SHARDS - 1 count apart and add that to shard 0, which belongs to all of them, at
 * the end of each call. Readers add up. All members are 64-bit counts that only grow. */
struct gm_stats_shard {
    uint64_t allocs[GM_KIND_COUNT]; /* successful */
    uint64_t frees[GM_KIND_COUNT];
    uint64_t failed_allocs;
    uint64_t failed_frees;
    uint64_t unknown_frees;             /* address not in the registry */
    uint64_t temporary;                 /* freed with no other allocation of the thread in between */
    uint64_t time_ns;                   /* inside hooked calls, driver included; counted while `timed` or watched */
    uint64_t moved;                     /* served by another kind than asked */
    uint64_t released[GM_KIND_COUNT];   /* went with their context */
    uint64_t entries[4];                /* calls by entry point: exported symbol, dlsym, resolver, audit */
    uint64_t hits[GM_KIND_COUNT];       /* of allocs: served from memory that was kept */
    uint64_t cached_in[GM_KIND_COUNT];  /* bytes of freed blocks that were kept for reuse ... */
    uint64_t cached_out[GM_KIND_COUNT]; /* ... and that left: reused, given back, gone with their context */
    uint64_t fence_records, fence_queries;
    uint64_t fence_waits, fence_wait_ns; /* the host waited for the device */
    uint64_t trims, trimmed_bytes;       /* kept memory given back to the driver */
    uint64_t oom_steps;                  /* remedies tried after the driver was out of memory */
} __attribute__((aligned(64)));

/* A call site of cudaFree whose wait later work may rely on (GPUMEM_CHECK_ORDER). */
enum { GM_STATS_RELIANCES = 20, GM_STATS_FRAMES = 6 };
struct gm_stats_reliance {
    uint64_t count;
    uint64_t base;                    /* of the module */
    uint64_t frames[GM_STATS_FRAMES]; /* return addresses in it, innermost first */
    uint32_t frame_count;             /* 0 = the site is not known */
    char module[196];
    char text[160]; /* who may rely on the wait for whom */
};

struct gm_stats {
    uint64_t magic;
    int32_t pid;       /* as the process knows itself; 0 = free slot */
    int32_t finished;  /* set at orderly exit */
    uint64_t start_ns; /* CLOCK_MONOTONIC */
    uint64_t
        watched_until; /* CLOCK_MONOTONIC, ns: till then somebody wants calls timed; 0 = nobody. Written by viewers */
    int32_t timed;     /* calls are timed whoever looks */
    int32_t unused;
    char program[64]; /* "" in a memory file: /proc/PID/exe says it */
    char policy[64];
    char trace[256];    /* file name, "" = none */
    char free_sync[96]; /* why a cudaFree does more than exclude early reuse, "" = it does not; written at the end */
    uint64_t live_bytes[GM_KIND_COUNT];
    uint64_t peak_bytes[GM_KIND_COUNT];
    uint64_t slack_bytes[GM_KIND_COUNT]; /* what owners count beyond the live bytes */
    uint64_t peak_total;                 /* device memory: all kinds but host, imported */
    uint64_t slack, peak_reserved;       /* slack of all kinds on devices; peak of it and the live bytes together */
    uint64_t released_bytes;             /* went with their context */
    struct gm_stats_shard shards[GM_STATS_SHARDS];
    /* Under GPUMEM_CHECK_ORDER, written at the end. */
    uint64_t waiting_frees;  /* that waited for work */
    uint32_t checked_order;  /* the rows below are there */
    uint32_t reliance_count; /* of all call sites; the most frequent ones are here */
    struct gm_stats_reliance reliances[GM_STATS_RELIANCES];
} __attribute__((aligned(4096)));

/* This process's counters; never NULL. Seen by nobody until gm_stats_open. */
GM_INTERNAL extern struct gm_stats *gm_stats;

/* Moves the counters to where others can read them: to a free slot of the file `path`, which `gpumem run` made with
 * GM_STATS_SLOTS * sizeof(struct gm_stats) bytes; with none named, or on any trouble with it (logged once), to a memory
 * file that lasts as long as the process and leaves nothing behind. It keeps one descriptor open (close-on-exec, 100 or
 * above); a program that closes it loses nothing. Where the kernel has no memory files, or file sizes are limited to
 * less, the counters stay private. To be called before other threads count. */
void gm_stats_open(const char *path);

/* In the child after fork: counts from zero, in a slot or memory file of its own where the parent had one. */
void gm_stats_after_fork(void);

/* This thread's shard; NULL where it has none, or none yet. */
GM_INTERNAL extern __thread struct gm_stats_shard *gm_stats_shard __attribute__((tls_model("initial-exec")));
struct gm_stats_shard *gm_stats_take_shard(void);
static inline struct gm_stats_shard *gm_stats_mine(void) {
    return __builtin_expect(gm_stats_shard != NULL, 1) ? gm_stats_shard : gm_stats_take_shard();
}

/* Raises a counter of what gm_stats_mine gave. */
static inline void gm_stats_count(uint64_t *counter, uint64_t by) {
    __atomic_store_n(counter, *counter + by, __ATOMIC_RELAXED);
}

/* The call is over: what a thread without a shard counted becomes visible. */
void gm_stats_add_up(void);
static inline void gm_stats_settle(void) {
    if (__builtin_expect(gm_stats_shard == NULL, 0))
        gm_stats_add_up();
}

/* ---- what resources and fences report: one call each, at the place where it happens */

static inline void gm_stats_cached(enum gm_kind kind, uint64_t bytes) {
    gm_stats_count(&gm_stats_mine()->cached_in[kind], bytes);
}
static inline void gm_stats_uncached(enum gm_kind kind, uint64_t bytes) {
    gm_stats_count(&gm_stats_mine()->cached_out[kind], bytes);
}

static inline void gm_stats_fence_recorded(void) { gm_stats_count(&gm_stats_mine()->fence_records, 1); }
static inline void gm_stats_fence_queried(void) { gm_stats_count(&gm_stats_mine()->fence_queries, 1); }
static inline void gm_stats_fence_waited(uint64_t ns) {
    struct gm_stats_shard *shard = gm_stats_mine();
    gm_stats_count(&shard->fence_waits, 1);
    gm_stats_count(&shard->fence_wait_ns, ns);
}

/* Nothing given back counts as no trim. */
static inline void gm_stats_trimmed(uint64_t bytes) {
    struct gm_stats_shard *shard = gm_stats_mine();
    gm_stats_count(&shard->trims, bytes != 0);
    gm_stats_count(&shard->trimmed_bytes, bytes);
}

static inline void gm_stats_oom_step(void) { gm_stats_count(&gm_stats_mine()->oom_steps, 1); }

/* ---- times, only while somebody looks */

static inline bool gm_stats_watched(void) {
    return __builtin_expect(__atomic_load_n(&gm_stats->watched_until, __ATOMIC_RELAXED) != 0, 0);
}

/* A viewer that was killed renews no more; the first call after its time ends what it asked for. */
static inline void gm_stats_watch_ends(uint64_t now_ns) {
    uint64_t until = __atomic_load_n(&gm_stats->watched_until, __ATOMIC_RELAXED);
    if (until && now_ns > until)
        __atomic_compare_exchange_n(&gm_stats->watched_until, &until, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* ---- for readers */

static inline bool gm_kind_is_on_device(enum gm_kind kind) { return gm_kind_traits(kind) & GM_TRAIT_DEVICE; }

/* Bytes of all kinds on devices alive now; a few loads are cheaper than one more counter that all threads write. */
static inline uint64_t gm_stats_live_on_devices(const struct gm_stats *stats) {
    uint64_t live = 0;
#pragma GCC unroll 16
    for (int kind = 0; kind < GM_KIND_COUNT;
         kind++) /* not subtracted afterwards: another thread may raise it in between */
        live +=
            gm_kind_is_on_device((enum gm_kind)kind) ? __atomic_load_n(&stats->live_bytes[kind], __ATOMIC_RELAXED) : 0;
    return live;
}

/* All shards added up. */
static inline struct gm_stats_shard gm_stats_total(const struct gm_stats *stats) {
    struct gm_stats_shard total = {0};
    uint64_t *sums = (uint64_t *)&total;
    for (unsigned i = 0; i < GM_STATS_SHARDS; i++)
        for (size_t word = 0; word < sizeof total / sizeof *sums; word++)
            sums[word] += __atomic_load_n((const uint64_t *)&stats->shards[i] + word, __ATOMIC_RELAXED);
    return total;
}

/* Blocks of a kind alive now; shards read one after the other while threads count may be a step off, but never below
 * nothing. */
static inline uint64_t gm_stats_blocks(const struct gm_stats_shard *total, enum gm_kind kind) {
    uint64_t gone = total->frees[kind] + total->released[kind];
    return total->allocs[kind] > gone ? total->allocs[kind] - gone : 0;
}

#endif

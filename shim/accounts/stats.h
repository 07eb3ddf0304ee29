/* The counters of one process, in memory that other processes can read while it runs. The memory belongs to a file
 * that `gpumem run` created, or to a memory file of the process that `gpumem top` opens by /proc/PID/fd. Library and
 * tools of one version share the layout, and `magic` identifies it. A reader copies the memory, which costs the
 * process nothing. */
#ifndef GM_STATS_H
#define GM_STATS_H

#include "policy/policy.h"
#include "shim/accounts/account.h"
#include "shim/base/base.h"

#define GM_STATS_MAGIC   0x4753544154534d47ull /* "GMSTATSG": seven letters for every layout, the eighth for this one */
#define GM_STATS_SLOTS   128                   /* processes that one file can hold */
#define GM_STATS_SHARDS  64
#define GM_STATS_DEVICES 16             /* devices whose bytes are counted one by one */
#define GM_STATS_NAME    "gpumem-stats" /* of the memory file */
#define GM_STATS_RUN     "gpumem-run"   /* of the file that gpumem run creates */

/* The counters of one thread, raised without locked instructions. A thread that ends leaves its shard, with the
 * counts, to the next thread. Threads beyond GM_STATS_SHARDS - 1 count separately and add their counts to shard 0,
 * which they share, at the end of each call. Readers add all shards. All members have 64 bits. The deferred ones aside,
 * they are counts that only grow. */
struct gm_stats_shard {
    uint64_t allocs[GM_KIND_COUNT]; /* successful */
    uint64_t frees[GM_KIND_COUNT];
    uint64_t failed_allocs;
    uint64_t failed_frees;
    uint64_t unknown_frees;             /* address not in the registry */
    uint64_t temporary;                 /* freed before its thread allocated again */
    uint64_t time_ns;                   /* inside hooked calls, driver included; counted while `timed` or watched */
    uint64_t moved;                     /* served by another kind than requested */
    uint64_t released[GM_KIND_COUNT];   /* destroyed with their context */
    uint64_t calls;                     /* of hooks that took the whole way */
    uint64_t hits[GM_KIND_COUNT];       /* allocations served from a free block */
    uint64_t cached_in[GM_KIND_COUNT];  /* bytes of freed blocks that became free blocks of the cache ... */
    uint64_t cached_out[GM_KIND_COUNT]; /* ... and bytes that left it: reused, released, destroyed */
    uint64_t fence_records, fence_queries;
    uint64_t fence_waits, fence_wait_ns; /* the host waited for the device */
    uint64_t trims, trimmed_bytes;       /* free blocks released to the driver */
    uint64_t oom_steps;                  /* out-of-memory steps tried */
    /* Of freed blocks of the cache: requested bytes that are still in gm_stats.live_bytes, and bytes taken, which are
     * still in live_bytes and slack together and not yet in cached_in. */
    uint64_t deferred_bytes, deferred_reserved;
    uint64_t deferred_device;            /* whose blocks they were; of all shards together it means nothing */
    uint64_t frees_begun, frees_written; /* frees whose events have a number, and those that were written */
} __attribute__((aligned(64)));

/* Why freed blocks went back to the driver that later requests might have reused. X(enumerator, reason, what changes
 * it) */
#define GM_UNKEPT(X)                                                                          \
    X(GM_UNKEPT_LIMIT, "above the limit of kept memory", "a higher --cache-limit keeps more") \
    X(GM_UNKEPT_IDLE, "unused for --cache-idle", "a longer --cache-idle, or 0, keeps it")     \
    X(GM_UNKEPT_TIGHT, "as the device was almost full", "no option does, but less memory in use does")
enum gm_unkept {
#define X(enumerator, reason, change) enumerator,
    GM_UNKEPT(X)
#undef X
        GM_UNKEPT_COUNT
};

/* A call site of cudaFree whose wait later work may rely on (GPUMEM_CHECK_ORDER). */
enum { GM_STATS_RELIANCES = 20, GM_STATS_FRAMES = 6, GM_STATS_STAYED = 8 };
struct gm_stats_reliance {
    uint64_t count;
    uint64_t base;                    /* of the module */
    uint64_t frames[GM_STATS_FRAMES]; /* return addresses in it, innermost first */
    uint32_t frame_count;             /* 0 = the site is unknown */
    char module[196];
    char text[160]; /* which stream may rely on the wait for which */
};

/* Recording is started and stopped from outside (gpumem trace start, stop). The tool raises `request` to an odd number,
 * fills the fields, raises it once more, and sets GM_STATS_REQUESTED. The process notices it at its next call, and
 * while it records at the next flush; it sets `answered` to the number of the request. */
enum gm_stats_wanted {
    GM_STATS_START = 1,
    GM_STATS_STOP = 2,
    /* Of shim/start/suspender.h, which looks at the request by itself. `name`: globs to keep and to drop and a folder,
     * or a glob of what comes back, a line each; `stacks`: enum gm_stats_sleep. */
    GM_STATS_SUSPEND = 3,
    GM_STATS_RESUME = 4,
};
enum gm_stats_sleep {
    GM_STATS_WAKES,  /* the first call that submits work resumes the process */
    GM_STATS_SLEEPS, /* such calls wait for a resume */
    GM_STATS_WHOLE,  /* and the driver saves the rest of the process meanwhile */
};
enum gm_stats_state { GM_STATS_OFF, GM_STATS_RECORDS, GM_STATS_WAITS }; /* for a range of GPUMEM_TRACE_RANGE */
struct gm_stats_recording {
    uint32_t request, answered;
    uint32_t wanted; /* enum gm_stats_wanted */
    uint32_t stacks; /* frames of each call site; UINT32_MAX: as GPUMEM_STACKS says */
    uint32_t failed; /* the answer: `text` says why; else it is the name of the file */
    uint32_t state;  /* enum gm_stats_state */
    char name[1024]; /* pattern of the file's name */
    char text[1536]; /* a name may have a number behind it, and a reason */
};
#define GM_STATS_REQUESTED (1ull << 63) /* bit of watched_until */

struct gm_stats {
    uint64_t magic;
    int32_t pid;            /* as the process sees it; 0 = free slot */
    int32_t finished;       /* set at orderly exit */
    uint64_t start_ns;      /* CLOCK_MONOTONIC */
    uint64_t watched_until; /* a viewer wants calls timed until then (ns, CLOCK_MONOTONIC); 0 = none */
    int32_t timed;          /* calls are timed even without a viewer */
    int32_t unused;
    uint64_t limit_bytes; /* GPUMEM_LIMIT now in force (gm_memory_of): gpumem limit changes it; 0 = not counted,
                             UINT64_MAX = none */
    char group[48];       /* GPUMEM_GROUP, whose limit counts instead; "" = none */
    char program[64];     /* "" in a memory file: /proc/PID/exe has it */
    char policy[64];
    char trace[256];    /* file name, "" = none */
    char free_sync[96]; /* why cudaFree does more than prevent early reuse, "" = it does not; written at the end */
    uint64_t live_bytes[GM_KIND_COUNT]; /* of kind cache less the deferred bytes of all shards: gm_stats_live */
    uint64_t peak_bytes[GM_KIND_COUNT];
    uint64_t slack_bytes[GM_KIND_COUNT];    /* bytes by which live blocks are larger than requested */
    uint64_t reserved_bytes[GM_KIND_COUNT]; /* see gm_stats_take */
    uint64_t reserved_on[GM_STATS_DEVICES]; /* the same by device, kinds on devices only */
    uint64_t peak_total;                    /* device memory: all kinds but host, imported */
    uint64_t peak_reserved;                 /* of all kinds on devices together */
    uint64_t released_bytes;                /* destroyed with their context */
    uint64_t unkept[GM_UNKEPT_COUNT];       /* bytes that were not kept, or not for long enough */
    uint64_t never_kept;                    /* of them, those that were not kept at all, which trimmed_bytes lacks */
    uint64_t guard_every;                   /* GPUMEM_GUARD: one of so many blocks, 0 = off */
    uint64_t guard_refused;                 /* requests not guarded for lack of memory */
    uint64_t guard_errors;                  /* memory errors found, wrong frees included */
    uint64_t guard_races;                   /* what may be one, and may be right */
    int64_t guard_uncompared;               /* guarded blocks, less those that the bytes beside were compared of */
    struct gm_stats_recording recording;
    /* Blocks that an out-of-memory step placed in this kind, because the device or GPUMEM_LIMIT had no room. */
    struct gm_stats_displaced {
        uint64_t since_ns; /* the first one (CLOCK_MONOTONIC), 0 = none */
        uint64_t live, peak;
    } displaced[GM_KIND_COUNT];
    /* What the process holds on a device beyond the reserved bytes, when it was measured last (shim/start/untracked.h).
     */
    struct gm_stats_untracked {
        uint64_t bytes, peak;
    } untracked[GM_STATS_DEVICES];
    /* Accounts of a device that were taken: the latest, and the fullest. That is of the first request that found no
     * memory (`failed`), or of the moment at which the process had most of the card. */
    struct gm_stats_accounts {
        struct gm_account latest, fullest;
        uint64_t failed;
    } accounts[GM_STATS_DEVICES];
    uint64_t peak_reserved_on[GM_STATS_DEVICES]; /* of reserved_on */
    uint64_t live_on[GM_STATS_DEVICES];          /* live_bytes by device, kinds on devices only: gm_stats_live_of */
    uint64_t peak_live_on[GM_STATS_DEVICES];
    uint64_t uuid[GM_STATS_DEVICES][2]; /* 16 bytes for each device that was used; zeros = unknown */
    uint64_t total[GM_STATS_DEVICES];   /* bytes of each device that was used */
    struct gm_stats_shard shards[GM_STATS_SHARDS];
    /* Under GPUMEM_CHECK_ORDER, written at the end. */
    uint64_t waiting_frees;  /* frees that waited for work */
    uint32_t checked_order;  /* the fields below are valid */
    uint32_t host_relies;    /* the host relied on such a free */
    uint32_t reliance_count; /* number of all call sites; the most frequent ones are stored here */
    struct gm_stats_reliance reliances[GM_STATS_RELIANCES];
    struct gm_stats_suspended { /* GPUMEM_SUSPEND */
        uint32_t on, asleep;
        uint64_t context; /* a suspend said GM_STATS_WHOLE */
        uint64_t suspends, resumes;
        uint64_t away;          /* bytes that are not on a device now */
        uint64_t stored;        /* bytes of them that the host holds; the others are zero */
        uint64_t kept;          /* bytes that the host holds of memory that is on the device */
        uint64_t registered;    /* bytes that the host holds and that are registered with the driver */
        uint64_t out_ns, in_ns; /* the latest suspend and resume took */
        uint64_t away_on[GM_STATS_DEVICES];
        struct gm_stats_stayed { /* what the latest suspend left on devices; the first ones are used */
            char why[40];
            uint64_t bytes;
        } stayed[GM_STATS_STAYED];
    } suspended;
    struct gm_stats_shared {     /* GPUMEM_SHARE */
        char group[48];          /* "" = no sharing */
        uint64_t waits_since_ns; /* for memory (CLOCK_MONOTONIC), 0 = it does not wait */
        uint64_t waited_ns;      /* in all */
        uint64_t left;           /* times that it left for others */
    } shared;
} __attribute__((aligned(4096)));

/* The levels of GPUMEM_FREE that keep the order on which the run relied; static text. */
static inline const char *gm_stats_levels(const struct gm_stats *stats) {
    return stats->host_relies      ? "this run needs GPUMEM_FREE=safe or wait"
           : stats->reliance_count ? "this run needs GPUMEM_FREE=order, safe or wait, as far as is seen"
                                   : "this run is right at every level of GPUMEM_FREE, as far as is seen";
}

/* The counters of this process; never NULL. Private until gm_stats_open. */
GM_INTERNAL extern struct gm_stats *gm_stats;

/* Moves the counters to memory that other processes can read. That is a free slot of the file `path`, which `gpumem
 * run` created with GM_STATS_SLOTS * sizeof(struct gm_stats) bytes. Without a path, or when the file cannot be used
 * (logged once), it is a memory file, which disappears with the process. One descriptor stays open (close-on-exec,
 * number 100 or above); a program that closes it loses nothing. Where the kernel has no memory files, or limits file
 * sizes to less, the counters stay private. Must be called before other threads count. */
void gm_stats_open(const char *path);

/* In the child after a fork: counts from zero, in a slot or memory file of its own where the parent had one. */
void gm_stats_after_fork(void);

/* The shard of this thread, kept in gm_mine.counts. */
struct gm_stats_shard *gm_stats_take_shard(void);
static inline struct gm_stats_shard *gm_stats_mine(void) {
    return __builtin_expect(gm_mine.counts != NULL, 1) ? gm_mine.counts : gm_stats_take_shard();
}

/* Successful allocations that the shard has counted. */
static inline uint64_t gm_stats_allocations(const struct gm_stats_shard *shard) {
    uint64_t sum = 0;
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        sum += shard->allocs[kind];
    return sum;
}

/* Raises a counter of the shard that gm_stats_mine returned. */
static inline void gm_stats_count(uint64_t *counter, uint64_t by) { gm_add_alone(counter, by); }

/* The hooked call ends: the counts of a thread without a shard become visible. */
void gm_stats_add_up(void);
static inline void gm_stats_settle(void) {
    if (__builtin_expect(gm_mine.counts == NULL, 0))
        gm_stats_add_up();
}

/* ---- reports of resources and fences: one call for each event */

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

/* A trim that released nothing is not counted. */
static inline void gm_stats_trimmed(uint64_t bytes) {
    struct gm_stats_shard *shard = gm_stats_mine();
    gm_stats_count(&shard->trims, bytes != 0);
    gm_stats_count(&shard->trimmed_bytes, bytes);
}

/* `kept`: they were kept until now. */
static inline void gm_stats_unkept(enum gm_unkept why, uint64_t bytes, bool kept) {
    __atomic_add_fetch(&gm_stats->unkept[why], bytes, __ATOMIC_RELAXED);
    __atomic_add_fetch(&gm_stats->never_kept, kept ? 0 : bytes, __ATOMIC_RELAXED);
}

static inline void gm_stats_oom_step(void) { gm_stats_count(&gm_stats_mine()->oom_steps, 1); }

/* ---- live bytes of cached blocks that come and go: the thread sets their bytes off against each other, and no locked
 * instruction is needed. live_bytes holds the bytes of freed blocks somewhat longer, at most GM_STATS_DEFERRED for each
 * thread. It never lacks bytes of live blocks. So a peak may be too high by GM_STATS_DEFERRED for each further thread.
 */
#define GM_STATS_DEFERRED ((uint64_t)24 << 20)

/* Subtracts the deferred bytes of this thread's shard. */
void gm_stats_settle_deferred(struct gm_stats_shard *shard);

/* The bytes that a thread defers are of one device, so that live_on is exact. The functions below are for its blocks.
 */
static inline bool gm_stats_defers(const struct gm_stats_shard *shard, int16_t device) {
    return __builtin_expect(shard->deferred_device == (uint16_t)device, 1);
}
static inline void gm_stats_defer_for(struct gm_stats_shard *shard, int16_t device) {
    if (gm_stats_defers(shard, device))
        return;
    gm_stats_settle_deferred(shard);
    __atomic_store_n(&shard->deferred_device, (uint16_t)device, __ATOMIC_RELAXED);
}
static inline void gm_stats_defer_free(struct gm_stats_shard *shard, uint64_t bytes, uint64_t reserved) {
    gm_add_alone(&shard->deferred_bytes, bytes);
    gm_add_alone(&shard->deferred_reserved, reserved);
}
/* To be called after some of these, at the latest when they freed GM_STATS_DEFERRED / 2. */
static inline void gm_stats_bound_deferred(struct gm_stats_shard *shard) {
    if (__builtin_expect(shard->deferred_bytes > GM_STATS_DEFERRED / 2, 0))
        gm_stats_settle_deferred(shard);
}
/* False: the deferred bytes are fewer. Nothing changed, and the caller counts the block as a new one. The reserved
 * bytes may fall below zero, modulo 2^64: sums with them are right. */
static inline bool gm_stats_reuse_deferred(struct gm_stats_shard *shard, uint64_t bytes, uint64_t reserved) {
    if (__builtin_expect(shard->deferred_bytes < bytes, 0))
        return false;
    gm_take_alone(&shard->deferred_bytes, bytes);
    gm_take_alone(&shard->deferred_reserved, reserved);
    return true;
}

/* ---- times, only while a viewer watches */

static inline bool gm_stats_watched(void) {
    const struct gm_stats *stats = __atomic_load_n(&gm_stats, __ATOMIC_RELAXED); /* a first call may come early */
    return __builtin_expect(__atomic_load_n(&stats->watched_until, __ATOMIC_RELAXED) != 0, 0);
}

/* A killed viewer does not renew its request. The first call after `watched_until` ends it. */
static inline void gm_stats_watch_ends(uint64_t now_ns) {
    uint64_t until = __atomic_load_n(&gm_stats->watched_until, __ATOMIC_RELAXED);
    if (until && now_ns > until)
        __atomic_compare_exchange_n(&gm_stats->watched_until, &until, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* ---- for readers */

static inline bool gm_kind_is_on_device(enum gm_kind kind) { return gm_kind_traits(kind) & GM_TRAIT_DEVICE; }

/* The sum over all kinds on devices. A few loads are cheaper than one more counter that all threads write. */
static inline uint64_t gm_stats_on_devices(const uint64_t bytes[GM_KIND_COUNT]) {
    uint64_t sum = 0;
#pragma GCC unroll 32
    for (int kind = 0; kind < GM_KIND_COUNT;
         kind++) /* skips host kinds instead of subtracting them: another thread may raise a counter in between */
        sum += gm_kind_is_on_device((enum gm_kind)kind) ? __atomic_load_n(&bytes[kind], __ATOMIC_RELAXED) : 0;
    return sum;
}

/* Live bytes of all kinds on devices, deferred bytes included. */
static inline uint64_t gm_stats_live_on_devices(const struct gm_stats *stats) {
    return gm_stats_on_devices(stats->live_bytes);
}

/* Bytes of freed blocks of kinds on devices that are kept for reuse. Threads count meanwhile, so the value may be
 * slightly off. */
static inline uint64_t gm_stats_kept(const struct gm_stats *stats) {
    uint64_t in = 0, out = 0;
    for (unsigned i = 0; i < GM_STATS_SHARDS; i++) {
        in += gm_stats_on_devices(stats->shards[i].cached_in);
        in += __atomic_load_n(&stats->shards[i].deferred_reserved, __ATOMIC_RELAXED);
        out += gm_stats_on_devices(stats->shards[i].cached_out);
    }
    return in > out ? in - out : 0;
}

/* ---- memory that is taken from the driver. All tools use these words:
 *
 *   live      bytes that the program requested and has not freed
 *   kept      bytes of freed blocks that gpumem keeps for reuse
 *   reserved  bytes taken from the driver: live and kept blocks with what rounding adds to them, and the pages of
 *             gpumem's pools that hold no block
 *
 * A block counts when it is obtained from the driver and no more when it is released there, so reuse changes nothing
 * and costs nothing. The memory of gpumem's pools counts as a whole, whatever blocks lie in it (GM_TRAIT_POOLED). */

static inline void gm_stats_raise(uint64_t *peak, uint64_t value) {
    uint64_t seen = __atomic_load_n(peak, __ATOMIC_RELAXED);
    while (value > seen && !__atomic_compare_exchange_n(peak, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static inline bool gm_stats_knows(int device) { return device >= 0 && device < GM_STATS_DEVICES; }

/* A block on a device begins or ends to live. */
static inline void gm_stats_live_more(int device, uint64_t bytes) {
    if (gm_stats_knows(device))
        gm_stats_raise(&gm_stats->peak_live_on[device],
                       __atomic_add_fetch(&gm_stats->live_on[device], bytes, __ATOMIC_RELAXED));
}
static inline void gm_stats_live_less(int device, uint64_t bytes) {
    if (gm_stats_knows(device))
        __atomic_sub_fetch(&gm_stats->live_on[device], bytes, __ATOMIC_RELAXED);
}

static inline void gm_stats_take(enum gm_kind kind, int device, uint64_t bytes) {
    struct gm_stats *stats = gm_stats;
    __atomic_add_fetch(&stats->reserved_bytes[kind], bytes, __ATOMIC_RELAXED);
    if (!gm_kind_is_on_device(kind))
        return;
    if (gm_stats_knows(device))
        gm_stats_raise(&stats->peak_reserved_on[device],
                       __atomic_add_fetch(&stats->reserved_on[device], bytes, __ATOMIC_RELAXED));
    gm_stats_raise(&stats->peak_reserved, gm_stats_on_devices(stats->reserved_bytes));
}

static inline void gm_stats_give(enum gm_kind kind, int device, uint64_t bytes) {
    __atomic_sub_fetch(&gm_stats->reserved_bytes[kind], bytes, __ATOMIC_RELAXED);
    if (gm_kind_is_on_device(kind) && gm_stats_knows(device))
        __atomic_sub_fetch(&gm_stats->reserved_on[device], bytes, __ATOMIC_RELAXED);
}

/* Live bytes of a kind, where `total` is the sum of all shards. */
static inline uint64_t gm_stats_live(const struct gm_stats *stats, const struct gm_stats_shard *total,
                                     enum gm_kind kind) {
    uint64_t live = __atomic_load_n(&stats->live_bytes[kind], __ATOMIC_RELAXED);
    uint64_t deferred = kind == GM_KIND_CACHE ? total->deferred_bytes : 0;
    return live > deferred ? live - deferred : 0;
}

/* Live bytes on a device. */
static inline uint64_t gm_stats_live_of(const struct gm_stats *stats, int device) {
    uint64_t live = __atomic_load_n(&stats->live_on[device], __ATOMIC_RELAXED), deferred = 0;
    for (unsigned i = 0; i < GM_STATS_SHARDS; i++)
        if (__atomic_load_n(&stats->shards[i].deferred_device, __ATOMIC_RELAXED) == (uint16_t)device)
            deferred += __atomic_load_n(&stats->shards[i].deferred_bytes, __ATOMIC_RELAXED);
    return live > deferred ? live - deferred : 0;
}

/* Bytes on a device that are reserved and not live: kept blocks, unused memory of pools, rounding. */
static inline uint64_t gm_stats_unused_on(const struct gm_stats *stats, int device) {
    uint64_t live = gm_stats_knows(device) ? gm_stats_live_of(stats, device) : 0;
    uint64_t reserved = gm_stats_knows(device) ? __atomic_load_n(&stats->reserved_on[device], __ATOMIC_RELAXED) : 0;
    return reserved > live ? reserved - live : 0;
}

/* The sum of all shards. Deferred bytes of freed blocks are in cached_in, too. */
static inline struct gm_stats_shard gm_stats_total(const struct gm_stats *stats) {
    struct gm_stats_shard total = {0};
    uint64_t *sums = (uint64_t *)&total;
    for (unsigned i = 0; i < GM_STATS_SHARDS; i++)
        for (size_t word = 0; word < sizeof total / sizeof *sums; word++)
            sums[word] += __atomic_load_n((const uint64_t *)&stats->shards[i] + word, __ATOMIC_RELAXED);
    total.cached_in[GM_KIND_CACHE] += total.deferred_reserved;
    return total;
}

/* Live blocks of a kind. Shards are read one after the other while threads count, so the value may be slightly off,
 * but it is never negative. */
static inline uint64_t gm_stats_blocks(const struct gm_stats_shard *total, enum gm_kind kind) {
    uint64_t ended = total->frees[kind] + total->released[kind];
    return total->allocs[kind] > ended ? total->allocs[kind] - ended : 0;
}

#endif

/* Policy active-list and the active list behind it: the dynamic scheme of hybrid-allocation-he, III.D.
 *
 * At each allocation of s bytes on a device, live(s) increases by one and is appended to the list of s; the list
 * keeps the latest L entries. Fewer than L entries: managed memory. max - min < X: stream-ordered memory. Otherwise:
 * managed memory. A free only lowers live(s).
 *
 * No thread waits for another thread. Each list has its own lock. When another thread holds that lock, because it
 * allocates the same size at this moment, the allocation counts as live, appends no entry and uses the latest
 * verdict.
 *
 * The entries lie in a ring that is longer than L, so that a failed allocation can restore the entry that it
 * displaced. Each entry has a number, so that a failed allocation finds its entry among later ones of other threads. */
#include "policy/active_list.h"
#include "policy/setup.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct key {
    uint64_t size;
    int64_t device; /* 64 bits, so that the key has no padding: it is compared as bytes */
};

/* The key is two words, which one multiplication mixes well enough. */
static unsigned hash_of_key(const struct key *key) {
    return (unsigned)((key->size ^ (uint64_t)key->device << 56) * 0x9e3779b97f4a7c15ull >> 32);
}
static int differ(const struct key *a, const struct key *b) { return a->size != b->size || a->device != b->device; }

/* uthash's table lies in memory that is reserved at setup and never grows: one chunk for the table, one for its
 * buckets. */
static void *take_table_memory(size_t bytes);
#define HASH_NONFATAL_OOM               1
#define HASH_FUNCTION(at, length, hash) ((hash) = hash_of_key((const struct key *)(const void *)(at)))
#define HASH_KEYCMP(a, b, length)       differ((const struct key *)(const void *)(a), (const struct key *)(const void *)(b))
#define uthash_malloc(bytes)            take_table_memory(bytes)
#define uthash_free(address, bytes)     ((void)(address), (void)(bytes))
#include <uthash.h>
/* uthash defines these unconditionally and reads them where its macros expand. */
#undef HASH_INITIAL_NUM_BUCKETS
#undef HASH_INITIAL_NUM_BUCKETS_LOG2
#define HASH_INITIAL_NUM_BUCKETS      16384U
#define HASH_INITIAL_NUM_BUCKETS_LOG2 14U

struct entry {
    uint32_t live;
    uint32_t number;
};

struct list {
    struct key key;
    UT_hash_handle hh;
    atomic_uint live;
    atomic_uchar reason;  /* of the latest verdict */
    atomic_bool locked;   /* guards the members below */
    uint32_t pushes;      /* number of the next entry */
    uint32_t begin;       /* index of the oldest entry */
    uint32_t count;       /* entries in the ring, at most `places` */
    uint32_t steady;      /* how many of the newest entries, at most L, differ by less than X */
    uint32_t least, most; /* the smallest and the largest of these entries */
    struct entry ring[];
};

static struct {
    atomic_bool locked; /* guards the table */
    struct list *lists; /* uthash head */
    char *nodes;        /* room for GM_LIST_SIZES lists */
    size_t node_bytes;
    unsigned nodes_used;
    char *table; /* room for uthash */
    size_t table_remaining;
    unsigned length, range;
    unsigned places; /* entries of a ring, a power of two */
    enum gm_kind managed;
    uint16_t generation; /* changes with each setup; what threads recorded before is void */
} state;

enum { TABLE_BYTES = HASH_INITIAL_NUM_BUCKETS * sizeof(struct UT_hash_bucket) + sizeof(struct UT_hash_table) + 64 };

/* What this thread appended last. A request fails in the thread that made it. */
static _Thread_local struct {
    struct list *list;
    uint32_t number;
    uint16_t generation;
    bool entered; /* an entry was appended */
} pushed __attribute__((tls_model("initial-exec")));

/* Lists that this thread used recently, as index among the nodes + 1. They save the hash and the lock. Lists are
 * never destroyed. */
enum { RECENT_BITS = 2, RECENT = 1 << RECENT_BITS };
static _Thread_local struct { uint16_t places[RECENT], generation; } recent __attribute__((tls_model("initial-exec")));

/* Yielding does not let a lock holder of lower real-time priority run. Sleeping does. */
static void wait_asleep(void) {
    const struct timespec nap = {0, 50000};
    int saved = errno;
    syscall(SYS_nanosleep, &nap, NULL); /* the C library's function is a cancellation point */
    errno = saved;
}

static bool try_lock(atomic_bool *locked) { return !atomic_exchange_explicit(locked, true, memory_order_acquire); }

static void lock(atomic_bool *locked) {
    for (unsigned tries = 0; !try_lock(locked); tries++) {
        if (tries > 1000) {
            wait_asleep();
        } else if (tries > 100) {
            sched_yield();
        }
    }
}

static void unlock(atomic_bool *locked) { atomic_store_explicit(locked, false, memory_order_release); }

static void *take_table_memory(size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > state.table_remaining)
        return NULL;
    void *memory = state.table;
    state.table += bytes;
    state.table_remaining -= bytes;
    return memory;
}

gm_status gm_active_list_setup(struct gm_policy_setup *setup) {
    char room[GM_DIGITS];
    if (setup->list_length < 1 || setup->list_length > GM_LIST_LENGTH_MAX)
        return gm_setup_error(setup, "list length ", gm_setup_digits(room, setup->list_length),
                              " is not between 1 and 64");
    unsigned places = GM_LIST_HISTORY;
    while (places < setup->list_length + GM_LIST_HISTORY)
        places *= 2;
    size_t node_bytes = (sizeof(struct list) + places * sizeof(struct entry) + 63) & ~(size_t)63;
    char *nodes = setup->reserve(GM_LIST_SIZES * node_bytes);
    char *table = nodes ? setup->reserve(TABLE_BYTES) : NULL;
    if (!table) {
        gm_setup_error(setup, "no memory for the tables of the active list");
        return GM_OUT_OF_MEMORY;
    }
    lock(&state.locked);
    state.lists = NULL;
    state.nodes = nodes;
    state.node_bytes = node_bytes;
    state.nodes_used = 0;
    state.table = table;
    state.table_remaining = TABLE_BYTES;
    state.length = setup->list_length;
    state.range = setup->list_range;
    state.places = places;
    state.managed = setup->managed;
    state.generation++;
    unlock(&state.locked);
    if (setup->list_range >= setup->list_length)
        gm_setup_error(setup, "list range X is not below list length L: "
                              "steady growth is never answered with managed memory again");
    return GM_OK;
}

static struct key key_of(int device, size_t size) { return (struct key){size, device}; }

static struct list *find_list(const struct key *key) {
    struct list *list;
    HASH_FIND(hh, state.lists, key, sizeof *key, list);
    return list;
}

static struct list *find_or_add(const struct key *key) {
    struct list *list = find_list(key);
    if (list || state.nodes_used == GM_LIST_SIZES)
        return list;
    list = (struct list *)(void *)(state.nodes + state.nodes_used * state.node_bytes);
    list->key = *key;
    HASH_ADD(hh, state.lists, key, sizeof list->key, list);
    if (!list->hh.tbl)
        return NULL;
    state.lists->hh.tbl->noexpand = 1; /* rehashing would hold the lock for long */
    state.nodes_used++;
    return list;
}

static __attribute__((noinline)) struct list *look_up(int device, size_t size, bool add, unsigned place) {
    const struct key key = key_of(device, size);
    lock(&state.locked);
    struct list *list = add ? find_or_add(&key) : find_list(&key);
    unlock(&state.locked);
    if (recent.generation != state.generation)
        memset(&recent, 0, sizeof recent);
    recent.generation = state.generation;
    if (list) /* the last node would be 65536, which is stored as 0: it is not cached */
        recent.places[place] = (uint16_t)((size_t)((char *)list - state.nodes) / state.node_bytes + 1);
    return list;
}

/* The list of a size, from this thread's recent lists if possible. NULL: there is none (yet). */
static struct list *list_of(int device, size_t size, bool add) {
    unsigned place = (unsigned)(((size ^ (uint64_t)device) * 0x9e3779b97f4a7c15ull) >> (64 - RECENT_BITS));
    if (recent.places[place] && recent.generation == state.generation) {
        struct list *list = (struct list *)(void *)(state.nodes + (recent.places[place] - 1u) * state.node_bytes);
        if (list->key.size == size && list->key.device == device)
            return list;
    }
    return look_up(device, size, add, place);
}

/* Lowers the live count by one, never below 0. */
static void lower_live(struct list *list) {
    unsigned live = atomic_load_explicit(&list->live, memory_order_relaxed);
    while (live && !atomic_compare_exchange_weak_explicit(&list->live, &live, live - 1, memory_order_relaxed,
                                                          memory_order_relaxed))
        ;
}

/* The entry `back` positions before the newest one. */
static struct entry *entry_at(struct list *list, unsigned back) {
    return &list->ring[(list->begin + list->count - 1 - back) & (state.places - 1)];
}

/* Extends the run of newest entries that differ by less than X by one entry. False: this entry differs by X or more. */
static bool extends_steady_run(struct list *list, uint32_t live) {
    uint32_t least = list->steady && list->least < live ? list->least : live;
    uint32_t most = list->steady && list->most > live ? list->most : live;
    if (most - least >= state.range)
        return false;
    list->least = least;
    list->most = most;
    list->steady += list->steady < state.length;
    return true;
}

static void measure(struct list *list) {
    list->steady = 0;
    for (unsigned back = 0; back < list->count && back < state.length; back++)
        if (!extends_steady_run(list, entry_at(list, back)->live))
            break;
}

static void push_entry(struct list *list, uint32_t live) {
    if (list->count == state.places) {
        list->begin = (list->begin + 1) & (state.places - 1);
        list->count--;
    }
    list->count++;
    *entry_at(list, 0) = (struct entry){live, list->pushes++};
    if (!extends_steady_run(list, live))
        measure(list);
}

static enum gm_reason judge(const struct list *list) {
    if (list->count < state.length)
        return GM_REASON_LIST_FILLING;
    return list->steady == state.length ? GM_REASON_LIST_STEADY : GM_REASON_LIST_GROWING;
}

static enum gm_reason count_in(struct list *list) {
    uint32_t live = atomic_fetch_add_explicit(&list->live, 1, memory_order_relaxed) + 1;
    enum gm_reason reason = atomic_load_explicit(&list->reason, memory_order_relaxed);
    pushed.generation = state.generation;
    pushed.entered = try_lock(&list->locked);
    if (pushed.entered) {
        push_entry(list, live);
        pushed.number = list->pushes - 1;
        reason = judge(list);
        atomic_store_explicit(&list->reason, (unsigned char)reason, memory_order_relaxed);
        unlock(&list->locked);
    }
    return reason ? reason : GM_REASON_LIST_FILLING;
}

enum gm_kind gm_active_list_allocated(const struct gm_request *request, enum gm_reason *reason) {
    struct list *list = list_of(request->device, request->size, true);
    pushed.list = list;
    *reason = list ? count_in(list) : GM_REASON_LIST_MAP_FULL;
    return *reason == GM_REASON_LIST_STEADY ? GM_KIND_ASYNC : state.managed;
}

/* Removes entry `number`. Newer entries move back by one position, and each counts one block less. When the entry is
 * no longer in the ring, there is nothing to remove, but all entries of the ring counted its block. */
static void remove_entry(struct list *list, uint32_t number) {
    unsigned newer = 0;
    for (; newer < list->count && entry_at(list, newer)->number != number; newer++)
        entry_at(list, newer)->live -= entry_at(list, newer)->live > 0;
    if (newer == list->count)
        return;
    for (unsigned back = newer; back > 0; back--)
        *entry_at(list, back) = *entry_at(list, back - 1);
    list->count--;
}

void gm_active_list_failed(const struct gm_request *request) {
    struct list *list = list_of(request->device, request->size, false);
    if (list) {
        bool own = pushed.list == list && pushed.generation == state.generation;
        if (!own || pushed.entered) {
            lock(&list->locked);
            remove_entry(list, own ? pushed.number : list->pushes - 1);
            measure(list);
            unlock(&list->locked);
        }
        lower_live(list);
    }
    pushed.list = NULL;
}

void gm_active_list_freed(const struct gm_request *request) {
    struct list *list = list_of(request->device, request->size, false);
    if (list)
        lower_live(list);
}

void gm_active_list_after_fork(void) {
    unlock(&state.locked);
    for (unsigned i = 0; i < state.nodes_used; i++)
        unlock(&((struct list *)(void *)(state.nodes + i * state.node_bytes))->locked);
}

unsigned gm_active_list_read(int device, size_t size, uint32_t *entries, uint32_t *live) {
    struct list *list = list_of(device, size, false);
    unsigned count = 0;
    *live = list ? atomic_load(&list->live) : 0;
    if (list) {
        lock(&list->locked);
        count = list->count < state.length ? list->count : state.length;
        for (unsigned i = 0; i < count; i++)
            entries[i] = entry_at(list, count - 1 - i)->live;
        unlock(&list->locked);
    }
    return count;
}

/* A stream-ordered call of a short-lived size stays native, because its own pool already serves it well. */
static void active_list_decide(const struct gm_request *request, struct gm_decision *decision) {
    enum gm_reason reason;
    enum gm_kind kind = gm_active_list_allocated(request, &reason);
    gm_decide_kind(request, kind, reason, decision);
    decision->counted = true;
}

const struct gm_policy gm_policy_active_list = {
    .name = "active-list",
    .summary = "Serve short-lived sizes from a stream-ordered pool and lasting sizes from managed memory, as observed "
               "while the program runs.",
    .setup = gm_active_list_setup,
    .decide = active_list_decide,
    .failed = gm_active_list_failed,
    .freed = gm_active_list_freed,
    .after_fork = gm_active_list_after_fork,
};

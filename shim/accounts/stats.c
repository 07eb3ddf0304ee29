/* Holds the counters of this process (stats.h). They lie in a slot of the file that `gpumem run` reads during and
 * after the run, in a memory file of this process, or, where neither is possible, in private memory. */
#include "shim/accounts/stats.h"
#include "shim/base/base.h"
#include "shim/base/file.h"
#include "shim/base/real_dl.h"
#include "shim/base/script_name.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

_Static_assert(offsetof(struct gm_stats, recording) + sizeof(struct gm_stats_recording) <= 4096,
               "viewers map one page");
_Static_assert(sizeof(struct gm_stats) % 4096 == 0, "slots of the file can be reserved one by one");

static struct gm_stats private_counters;
struct gm_stats *gm_stats = &private_counters;

static char file_name[4096];

/* The mapped memory that holds the counters. */
static struct {
    void *map; /* NULL = private */
    size_t bytes;
    int fd; /* of the memory file; -1 = none */
    dev_t device;
    ino_t inode;
} mapping = {.fd = -1};

static uint64_t taken = 1; /* a bit for each shard in use; shard 0 is shared */
static uint64_t used = 1;  /* a bit for each shard that was ever in use */

/* The counts of a thread without a shard since it last added them to shard 0. */
struct overflow {
    struct gm_stats_shard counts;
    struct overflow *next; /* list of all that were ever created */
    int taken;
};
static struct overflow *overflows;
static __thread struct overflow *overflow __attribute__((tls_model("initial-exec")));

void gm_stats_add_up(void) {
    uint64_t *from = (uint64_t *)overflow, *to = (uint64_t *)gm_stats->shards;
    for (size_t i = 0; from && i < sizeof overflow->counts / sizeof *from; i++)
        if (from[i]) {
            __atomic_add_fetch(&to[i], from[i], __ATOMIC_RELAXED);
            from[i] = 0;
        }
}

static void leave_overflow(void *unused) {
    struct overflow *remaining = overflow;
    gm_stats_add_up();
    overflow = NULL;
    if (remaining)
        __atomic_store_n(&remaining->taken, 0, __ATOMIC_RELEASE);
}

/* NULL: there is no memory. */
static struct overflow *take_overflow(void) {
    struct overflow *found = __atomic_load_n(&overflows, __ATOMIC_ACQUIRE);
    for (; found; found = found->next)
        if (!__atomic_load_n(&found->taken, __ATOMIC_RELAXED) &&
            !__atomic_exchange_n(&found->taken, 1, __ATOMIC_ACQUIRE))
            return found;
    found = gm_pages(sizeof *found);
    if (!found)
        return NULL;
    found->taken = 1;
    found->next = __atomic_load_n(&overflows, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&overflows, &found->next, found, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return found;
}

void gm_stats_settle_deferred(struct gm_stats_shard *shard) {
    uint64_t bytes = shard->deferred_bytes, reserved = shard->deferred_reserved, slack = reserved - bytes;
    if (!bytes && !reserved)
        return;
    __atomic_store_n(&shard->deferred_bytes, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&shard->deferred_reserved, 0, __ATOMIC_RELAXED);
    gm_stats_count(&shard->cached_in[GM_KIND_CACHE], reserved);
    __atomic_sub_fetch(&gm_stats->live_bytes[GM_KIND_CACHE], bytes, __ATOMIC_RELAXED);
    gm_stats_live_less((int16_t)shard->deferred_device, bytes);
    __atomic_sub_fetch(&gm_stats->slack_bytes[GM_KIND_CACHE], slack, __ATOMIC_RELAXED);
}

static void forget_shard(void) {
    gm_mine.counts = NULL;
    gm_mine.shard = NULL;
}

static void leave_shard(void *value) {
    unsigned index = (unsigned)(uintptr_t)value;
    gm_stats_settle_deferred(&gm_stats->shards[index]);
    gm_mine.number = 0;
    forget_shard();
    __atomic_and_fetch(&taken, ~(1ull << index), __ATOMIC_RELEASE);
}

struct gm_stats_shard *gm_stats_take_shard(void) {
    uint64_t now = __atomic_load_n(&taken, __ATOMIC_ACQUIRE);
    while (!gm_mine.number && ~now) {
        unsigned index = (unsigned)__builtin_ctzll(~now);
        if (!__atomic_compare_exchange_n(&taken, &now, now | 1ull << index, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            continue;
        __atomic_or_fetch(&used, 1ull << index, __ATOMIC_RELAXED);
        if (gm_thread_at_exit(leave_shard, (void *)(uintptr_t)index) == 0)
            gm_mine.number = (uint8_t)index;
        else
            __atomic_and_fetch(&taken, ~(1ull << index), __ATOMIC_RELEASE);
        break;
    }
    if (gm_mine.number) {
        leave_overflow(NULL);
        gm_mine.counts = &gm_stats->shards[gm_mine.number];
        return gm_mine.counts;
    }
    if (!overflow && (overflow = take_overflow()))
        gm_thread_at_exit(leave_overflow, overflow);
    return overflow ? &overflow->counts : gm_stats->shards;
}

static bool name_script(struct gm_stats *stats) {
    char words[4096];
    size_t length = gm_read_text("/proc/self/cmdline", words, sizeof words);
    return gm_script_name(words, length, stats->program, sizeof stats->program);
}

/* A Python program is named by its script. */
static void name_program(struct gm_stats *stats) {
    char path[512];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (strncmp(name, "python", 6) || !name_script(stats))
        gm_format(stats->program, sizeof stats->program, "%s", name);
}

/* Takes the first free slot; NULL when all are in use. */
static struct gm_stats *take_stats_slot(struct gm_stats *slots, int fd) {
    for (unsigned i = 0; i < GM_STATS_SLOTS; i++) {
        int32_t nobody = 0;
        if (__atomic_load_n(&slots[i].pid, __ATOMIC_RELAXED))
            continue;
        /* A store to a page without disk blocks would be a bus error. A file system that cannot reserve blocks does
         * not need it. */
        if (syscall(SYS_fallocate, fd, 0, (off_t)(i * sizeof *slots), sizeof *slots) && errno != EOPNOTSUPP &&
            errno != ENOSYS)
            return NULL;
        if (!__atomic_compare_exchange_n(&slots[i].pid, &nobody, (int32_t)getpid(), false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            continue;
        return &slots[i];
    }
    return NULL;
}

static struct gm_stats *map_file(const char *path, const char **trouble, int *fd_out) {
    struct stat st;
    /* The name of a memory file is a link to a descriptor of gpumem run. */
    int fd = gm_open(path, O_RDWR | O_CLOEXEC | (strncmp(path, "/proc/", 6) ? O_NOFOLLOW : 0));
    *fd_out = fd;
    if (fd < 0) {
        *trouble = "cannot be opened";
        return NULL;
    }
    if (gm_fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != GM_STATS_SLOTS * sizeof(struct gm_stats)) {
        *trouble = "is not a counters file of this version";
        return NULL;
    }
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        *trouble = "cannot be mapped";
        return NULL;
    }
    return map;
}

/* ---- memory file */

enum { CLOEXEC = 1, ALLOW_SEALING = 2, NOEXEC_SEAL = 8 }; /* flags of memfd_create, Linux 3.17; the last one 6.3 */
enum { ADD_SEALS = 1033, GET_SEALS, SEAL_SEAL = 1, SEAL_SHRINK = 2, SEAL_GROW = 4 }; /* of fcntl */

/* The file is sealed, so that a viewer cannot shrink it and end this process by a bus error. */
static int make_memory_file(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < sizeof(struct gm_stats))
        return -1; /* setting the file's size would raise SIGXFSZ */
    int fd = (int)syscall(SYS_memfd_create, GM_STATS_NAME, CLOEXEC | NOEXEC_SEAL);
    if (fd < 0)
        fd = (int)syscall(SYS_memfd_create, GM_STATS_NAME, CLOEXEC | ALLOW_SEALING);
    if (fd < 0)
        return -1;
    fd = gm_lift(fd);
    if (fd >= 0 &&
        (ftruncate(fd, sizeof(struct gm_stats)) || gm_fcntl(fd, ADD_SEALS, SEAL_SEAL | SEAL_SHRINK | SEAL_GROW))) {
        gm_close(fd);
        fd = -1;
    }
    return fd;
}

/* Keeps the descriptor open, because a viewer finds the counters by it. */
static void keep_descriptor(int fd) {
    struct stat st;
    if (fd >= 0 && gm_fstat(fd, &st)) {
        gm_close(fd);
        fd = -1;
    }
    mapping.fd = fd;
    mapping.device = fd < 0 ? 0 : st.st_dev;
    mapping.inode = fd < 0 ? 0 : st.st_ino;
}

static struct gm_stats *map_memory_file(void) {
    int fd = make_memory_file();
    if (fd < 0)
        return NULL;
    void *map = mmap(NULL, sizeof(struct gm_stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        gm_close(fd);
        return NULL;
    }
    mapping.map = map;
    mapping.bytes = sizeof(struct gm_stats);
    keep_descriptor(fd);
    return map;
}

/* Closes the descriptor only if it is still ours: the program may have closed it and reused its number. */
static void unmap_counters(void) {
    struct stat st;
    if (mapping.fd >= 0 && !gm_fstat(mapping.fd, &st) && st.st_dev == mapping.device && st.st_ino == mapping.inode)
        gm_close(mapping.fd);
    mapping.fd = -1;
    if (mapping.map)
        munmap(mapping.map, mapping.bytes);
    mapping.map = NULL;
}

/* ---- moving the counters */

static struct gm_stats *map_slot(const char *path) {
    static int reported;
    const char *trouble = NULL;
    int fd = -1;
    if (path != file_name)
        gm_format(file_name, sizeof file_name, "%s", path);
    struct gm_stats *slots = map_file(file_name, &trouble, &fd), *slot = slots ? take_stats_slot(slots, fd) : NULL;
    int seals = slot ? gm_fcntl(fd, GET_SEALS, 0) : -1;
    if (seals >= 0 && seals & SEAL_SHRINK)
        keep_descriptor(gm_lift(fd));
    else if (fd >= 0)
        gm_close(fd);
    if (slot) {
        mapping.map = slots;
        mapping.bytes = GM_STATS_SLOTS * sizeof *slots;
        return slot;
    }
    gm_log_once(&reported, GM_LOG_WARN, "counters file '%s' %s: this process is missing in the closing lines",
                file_name, trouble ? trouble : "has no room");
    if (slots)
        munmap(slots, GM_STATS_SLOTS * sizeof *slots);
    return NULL;
}

/* Clears only pages with counts, so that the others stay untouched. */
static void clear_private(void) {
    memset(&private_counters, 0, offsetof(struct gm_stats, shards));
    for (uint64_t remaining = used; remaining; remaining &= remaining - 1)
        memset(&private_counters.shards[__builtin_ctzll(remaining)], 0, sizeof private_counters.shards[0]);
}

/* Copies the counts so far. Pages without counts are not touched. */
static void move_counts(struct gm_stats *slot) {
    size_t from = offsetof(struct gm_stats, start_ns); /* the fields before it identify the owner of the slot */
    memcpy((char *)slot + from, (char *)&private_counters + from, offsetof(struct gm_stats, shards) - from);
    for (uint64_t remaining = used; remaining; remaining &= remaining - 1) {
        unsigned index = (unsigned)__builtin_ctzll(remaining);
        slot->shards[index] = private_counters.shards[index];
    }
}

void gm_stats_open(const char *path) {
    int saved = errno;
    bool named = path && *path;
    struct gm_stats *slot = named ? map_slot(path) : NULL;
    if (!slot)
        slot = map_memory_file();
    errno = saved;
    if (!slot)
        return;
    move_counts(slot);
    slot->pid = (int32_t)getpid();
    slot->timed = named;
    slot->start_ns = gm_now_ns();
    if (named) /* read after the process has ended; a viewer of the memory file can ask the kernel */
        name_program(slot);
    __atomic_store_n(&slot->magic, GM_STATS_MAGIC, __ATOMIC_RELEASE);
    __atomic_store_n(&gm_stats, slot, __ATOMIC_RELEASE);
    forget_shard();
}

void gm_stats_after_fork(void) {
    /* The parent's policy and limit are valid for the child, too. Its counts are not. */
    char policy[sizeof private_counters.policy];
    char group[sizeof private_counters.group];
    uint64_t limit_bytes = gm_stats->limit_bytes;
    uint32_t recording = gm_stats->recording.state;
    bool shared = mapping.map != NULL;
    memcpy(policy, gm_stats->policy, sizeof policy);
    memcpy(group, gm_stats->group, sizeof group);
    clear_private();
    memcpy(private_counters.policy, policy, sizeof policy);
    memcpy(private_counters.group, group, sizeof group);
    private_counters.limit_bytes = limit_bytes;
    private_counters.recording.state = recording;
    gm_stats = &private_counters;
    forget_shard();
    for (struct overflow *each = overflows; each; each = each->next) {
        memset(&each->counts, 0, sizeof each->counts);
        each->taken = each == overflow;
    }
    taken = used = 1ull | 1ull << gm_mine.number; /* the child has no other threads */
    unmap_counters();
    if (shared)
        gm_stats_open(file_name);
}

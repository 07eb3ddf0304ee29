/* The places of a group's members, and the place of this process (group.h). */
#include "shim/accounts/group.h"
#include "shim/base/events.h"
#include "shim/base/file.h"
#include "shim/base/options.h"

#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

enum { ATTEMPTS = 1000 };

static struct {
    struct gm_group_path path;
    dev_t device; /* identity of the file, which may be removed and made anew */
    ino_t inode;
    struct gm_group *group; /* NULL = this process is in no group */
    struct gm_group_member *place;
    gm_spin taking; /* one thread of the process decides at a time */
} mine;
GM_ZERO_IN_CHILD(mine.taking);

/* ---- members and devices */

static uint64_t used_members(const struct gm_group *group) {
    uint64_t used = __atomic_load_n(&group->used_members, __ATOMIC_ACQUIRE);
    return used < GM_GROUP_MEMBERS ? used : GM_GROUP_MEMBERS;
}

static void clear_place(struct gm_group_member *place) {
    for (unsigned device = 0; device < GM_GROUP_DEVICES; device++) {
        __atomic_store_n(&place->wanted[device], 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&place->live[device], 0, __ATOMIC_SEQ_CST);
    }
    __atomic_store_n(&place->pid, 0, __ATOMIC_RELEASE);
}

/* The one that gets the lock of an ended member clears its place, so that nobody joins there meanwhile. */
unsigned gm_group_clear_ended(const struct gm_group_file *file) {
    struct gm_group *group = file->group;
    unsigned running = 0;
    for (uint64_t i = 0; i < used_members(group); i++) {
        if (!__atomic_load_n(&group->members[i].pid, __ATOMIC_ACQUIRE))
            continue;
        if (gm_group_is_locked(file->fd, (int)i)) {
            running++;
        } else if (gm_group_lock(file->fd, (int)i)) {
            clear_place(&group->members[i]);
            gm_group_unlock(file->fd, (int)i);
        }
    }
    return running;
}

static bool is_shared(const struct gm_group_file *file) {
    for (int i = 0; i < GM_SHARE_PLACES; i++)
        if (__atomic_load_n(&file->group->sharing[i].pid, __ATOMIC_ACQUIRE) &&
            gm_group_is_locked(file->fd, GM_GROUP_SHARING + i))
            return true;
    return false;
}

bool gm_group_remove(const char *name, const char **why) {
    struct gm_group_file file;
    if (!gm_group_open(name, false, &file, why))
        return false;
    *why = !gm_group_lock_joining(file.fd)                   ? "is locked by another process"
           : gm_group_clear_ended(&file) || is_shared(&file) ? "has running members"
           : unlink(file.path.text) < 0                      ? gm_errno_text(errno)
                                                             : NULL;
    gm_group_close(&file);
    return !*why;
}

static uint64_t sum_of(const struct gm_group *group, unsigned device, bool wanted) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < used_members(group); i++) {
        const struct gm_group_member *member = &group->members[i];
        uint64_t bytes = __atomic_load_n(wanted ? &member->wanted[device] : &member->live[device], __ATOMIC_SEQ_CST);
        sum = bytes > UINT64_MAX - sum ? UINT64_MAX : sum + bytes;
    }
    return sum;
}

uint64_t gm_group_live(const struct gm_group *group, unsigned device) { return sum_of(group, device, false); }

uint64_t gm_group_hash(const unsigned char uuid[16]) {
    uint64_t hash = 0xcbf29ce484222325ull; /* FNV-1a */
    for (int i = 0; i < 16; i++)
        hash = (hash ^ uuid[i]) * 0x100000001b3ull;
    return hash ? hash : 1;
}

uint64_t gm_group_hash_of(int device) {
    unsigned char uuid[16];
    return device >= 0 && GM_ASK(device_uuid, device, uuid) ? gm_group_hash(uuid) : 0;
}

int gm_group_device(struct gm_group *group, uint64_t hash, bool add) {
    for (unsigned i = 0; i < GM_GROUP_DEVICES; i++) {
        uint64_t known = __atomic_load_n(&group->devices[i], __ATOMIC_ACQUIRE);
        if (!known && !add)
            return -1;
        if (!known &&
            __atomic_compare_exchange_n(&group->devices[i], &known, hash, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return (int)i;
        if (known == hash)
            return (int)i;
    }
    return -1;
}

/* ---- this process */

static struct gm_group_member *take_place(const struct gm_group_file *file) {
    struct gm_group *group = file->group;
    for (int i = 0; i < GM_GROUP_MEMBERS; i++) {
        if (!gm_group_lock(file->fd, i))
            continue;
        struct gm_group_member *place = &group->members[i];
        clear_place(place);
        __atomic_store_n(&place->pid, (int32_t)getpid(), __ATOMIC_RELEASE);
        if (used_members(group) <= (uint64_t)i) /* only one process joins at a time */
            __atomic_store_n(&group->used_members, (uint64_t)i + 1, __ATOMIC_RELEASE);
        return place;
    }
    return NULL;
}

struct gm_group *gm_group_join(const char *name, const uint64_t *limit, const char **why) {
    struct gm_group_file file;
    if (!gm_group_open(name, true, &file, why))
        return NULL;
    if (!gm_group_lock_joining(file.fd)) {
        *why = "is locked by another process";
        gm_group_close(&file);
        return NULL;
    }
    if (limit && !gm_group_clear_ended(&file))
        __atomic_store_n(&file.group->limit, *limit, __ATOMIC_RELEASE);
    mine.place = take_place(&file);
    gm_group_unlock(file.fd, GM_GROUP_JOINING);
    if (!mine.place) {
        *why = "has 256 members already";
        gm_group_close(&file);
        return NULL;
    }
    struct stat st = {0};
    gm_fstat(file.fd, &st);
    mine.device = st.st_dev;
    mine.inode = st.st_ino;
    mine.path = file.path;
    mine.group = file.group;
    gm_close(file.fd); /* the mapping keeps the lock */
    return mine.group;
}

void gm_group_after_fork(void) {
    if (mine.group)
        munmap(mine.group, sizeof *mine.group);
    mine.group = NULL;
    mine.place = NULL;
}

void gm_group_refresh(void) {
    struct stat st;
    int saved = errno;
    int fd = mine.group ? (int)syscall(SYS_openat, AT_FDCWD, mine.path.text, GM_GROUP_FLAGS, 0) : -1;
    if (fd >= 0 && !gm_fstat(fd, &st) && st.st_dev == mine.device && st.st_ino == mine.inode)
        gm_group_clear_ended(&(struct gm_group_file){.group = mine.group, .fd = fd});
    if (fd >= 0)
        gm_close(fd);
    errno = saved;
}

enum answer { FITS, REFUSED, BUSY };

/* Reads the wanted bytes before the live ones: a member raises its live bytes first and lowers its wanted bytes then,
 * so bytes may count twice meanwhile, but are never missed. */
static enum answer decide_request(unsigned device, uint64_t bytes, uint64_t total) {
    uint64_t limit = __atomic_load_n(&mine.group->limit, __ATOMIC_RELAXED);
    limit = limit ? gm_memory_of(limit, total) : UINT64_MAX;
    uint64_t wanted = sum_of(mine.group, device, true), live = sum_of(mine.group, device, false);
    if (bytes > limit || live > limit - bytes)
        return REFUSED;
    return wanted <= limit - live ? FITS : BUSY;
}

/* Where members want more together than there is room for, those behind the first one withdraw and try again. */
static bool is_first_wanting(unsigned device) {
    for (const struct gm_group_member *member = mine.group->members; member < mine.place; member++)
        if (__atomic_load_n(&member->wanted[device], __ATOMIC_SEQ_CST))
            return false;
    return true;
}

static bool take_bytes(unsigned device, uint64_t bytes, uint64_t total) {
    struct gm_group_member *place = mine.place;
    enum answer answer = BUSY;
    gm_spin_lock(&mine.taking);
    for (int attempt = 0; attempt < ATTEMPTS && answer == BUSY; attempt++) {
        __atomic_store_n(&place->wanted[device], bytes, __ATOMIC_SEQ_CST);
        answer = decide_request(device, bytes, total);
        if (answer == FITS)
            __atomic_add_fetch(&place->live[device], bytes, __ATOMIC_SEQ_CST);
        if (answer == BUSY && is_first_wanting(device)) {
            sched_yield();
            continue;
        }
        __atomic_store_n(&place->wanted[device], 0, __ATOMIC_SEQ_CST);
        if (answer == BUSY)
            sched_yield();
    }
    __atomic_store_n(&place->wanted[device], 0, __ATOMIC_SEQ_CST);
    gm_spin_unlock(&mine.taking);
    return answer == FITS;
}

bool gm_group_take(unsigned device, uint64_t bytes, uint64_t total) {
    if (take_bytes(device, bytes, total))
        return true;
    gm_group_refresh(); /* a member that was killed may hold the bytes */
    return take_bytes(device, bytes, total);
}

void gm_group_force(unsigned device, uint64_t bytes) {
    __atomic_add_fetch(&mine.place->live[device], bytes, __ATOMIC_SEQ_CST);
}

void gm_group_give(unsigned device, uint64_t bytes) {
    uint64_t *live = &mine.place->live[device], seen = __atomic_load_n(live, __ATOMIC_RELAXED), remaining;
    do {
        remaining = seen > bytes ? seen - bytes : 0;
    } while (!__atomic_compare_exchange_n(live, &seen, remaining, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

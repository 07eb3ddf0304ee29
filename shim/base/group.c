/* The shared memory of a group, and its members (group.h). */
#include "shim/base/group.h"
#include "shim/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

enum { OFD_GETLK = 36, OFD_SETLK = 37 }; /* of fcntl, Linux 3.15 */
enum { JOINING = GM_GROUP_MEMBERS };     /* the byte that is locked while a process joins */
enum { JOIN_MS = 1000, ATTEMPTS = 1000 };

static struct {
    char name[GM_GROUP_NAME];
    struct gm_group *group; /* NULL = this process is in no group */
    struct gm_group_member *place;
    gm_spin taking; /* one thread of the process decides at a time */
} mine;
GM_ZERO_IN_CHILD(mine.taking);

bool gm_group_name_is_valid(const char *name) {
    size_t length = strlen(name);
    if (!length || length >= GM_GROUP_NAME || *name == '.')
        return false;
    for (const char *p = name; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || strchr("._-", *p)))
            return false;
    return true;
}

/* ---- the file */

struct path {
    char text[128];
};

static const char *path_of(struct path *path, const char *name) {
    gm_format(path->text, sizeof path->text, "/dev/shm/gpumem-group-%u-%s", (unsigned)geteuid(), name);
    return path->text;
}

/* True: the command succeeded, and (OFD_GETLK) nobody has the lock. */
static bool control_lock(int fd, int byte, int command, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return !gm_fcntl(fd, command, (long)(uintptr_t)&lock) && (command == OFD_SETLK || lock.l_type == F_UNLCK);
}

static bool lock_byte(int fd, int byte) { return control_lock(fd, byte, OFD_SETLK, F_WRLCK); }
static void unlock_byte(int fd, int byte) { control_lock(fd, byte, OFD_SETLK, F_UNLCK); }
static bool is_locked(int fd, int byte) { return !control_lock(fd, byte, OFD_GETLK, F_WRLCK); }

/* A joining process holds the lock for microseconds, unless somebody stopped it there. */
static bool lock_joining(int fd) {
    for (int ms = 0; ms < JOIN_MS; ms++) {
        if (lock_byte(fd, JOINING))
            return true;
        if (errno != EAGAIN && errno != EACCES)
            return false;
        gm_sleep(1000000);
    }
    return false;
}

/* Reserves the memory, so that a full file system shows here and not as a bus error later. */
static const char *make_content(int fd) {
    static const uint64_t magic = GM_GROUP_MAGIC;
    if (ftruncate(fd, sizeof(struct gm_group)) || syscall(SYS_fallocate, fd, 0, (off_t)0, sizeof(struct gm_group)) ||
        gm_safe_pwrite(fd, &magic, sizeof magic, 0) != sizeof magic) {
        if (ftruncate(fd, 0))
            return "cannot be written";
        return "has no room in /dev/shm";
    }
    return NULL;
}

/* The file is empty between its creation and the lock of its maker. */
static const char *check_content(int fd) {
    struct stat st;
    uint64_t magic = 0;
    if (gm_fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return "belongs to somebody else";
    if (!st.st_size) {
        if (!lock_joining(fd))
            return "is locked by another process";
        const char *why = gm_fstat(fd, &st) || st.st_size ? NULL : make_content(fd);
        unlock_byte(fd, JOINING);
        if (why)
            return why;
    }
    if (gm_fstat(fd, &st) || st.st_size != sizeof(struct gm_group) ||
        gm_pread(fd, &magic, sizeof magic, 0) != sizeof magic || magic != GM_GROUP_MAGIC)
        return "is of another version of gpumem";
    return NULL;
}

bool gm_group_open(const char *name, bool create, struct gm_group_file *out, const char **why) {
    struct path path;
    int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path_of(&path, name), flags, 0600);
    *out = (struct gm_group_file){NULL, -1};
    if (fd < 0) {
        *why = errno == ENOENT ? "does not exist" : gm_errno_text(errno);
        return false;
    }
    void *map = MAP_FAILED;
    *why = check_content(fd);
    if (!*why) {
        map = mmap(NULL, sizeof(struct gm_group), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        *why = map == MAP_FAILED ? "cannot be mapped" : NULL;
    }
    if (*why) {
        gm_close(fd);
        errno = EINVAL;
        return false;
    }
    *out = (struct gm_group_file){map, fd};
    return true;
}

void gm_group_close(struct gm_group_file *file) {
    if (file->group)
        munmap(file->group, sizeof *file->group);
    if (file->fd >= 0)
        gm_close(file->fd);
    *file = (struct gm_group_file){NULL, -1};
}

bool gm_group_remove(const char *name, const char **why) {
    struct gm_group_file file;
    struct path path;
    if (!gm_group_open(name, false, &file, why))
        return false;
    *why = !lock_joining(file.fd)             ? "is locked by another process"
           : gm_group_clear_ended(&file)      ? "has running members"
           : unlink(path_of(&path, name)) < 0 ? gm_errno_text(errno)
                                              : NULL;
    gm_group_close(&file);
    return !*why;
}

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
        if (is_locked(file->fd, (int)i)) {
            running++;
        } else if (lock_byte(file->fd, (int)i)) {
            clear_place(&group->members[i]);
            unlock_byte(file->fd, (int)i);
        }
    }
    return running;
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
        if (!lock_byte(file->fd, i))
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
    if (!lock_joining(file.fd)) {
        *why = "is locked by another process";
        gm_group_close(&file);
        return NULL;
    }
    if (limit && !gm_group_clear_ended(&file))
        __atomic_store_n(&file.group->limit, *limit, __ATOMIC_RELEASE);
    mine.place = take_place(&file);
    unlock_byte(file.fd, JOINING);
    if (!mine.place) {
        *why = "has 256 members already";
        gm_group_close(&file);
        return NULL;
    }
    gm_format(mine.name, sizeof mine.name, "%s", name);
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

/* Only the group that this process is in: its file may have been removed and made anew. */
void gm_group_refresh(void) {
    struct gm_group_file file;
    const char *why;
    int saved = errno;
    if (mine.group && gm_group_open(mine.name, false, &file, &why)) {
        if (__atomic_load_n(&file.group->members[mine.place - mine.group->members].pid, __ATOMIC_RELAXED) ==
            __atomic_load_n(&mine.place->pid, __ATOMIC_RELAXED))
            gm_group_clear_ended(&file);
        gm_group_close(&file);
    }
    errno = saved;
}

enum answer { FITS, REFUSED, BUSY };

/* Reads the wanted bytes before the live ones: a member raises its live bytes first and lowers its wanted bytes then,
 * so bytes may count twice meanwhile, but are never missed. */
static enum answer decide_request(unsigned device, uint64_t bytes) {
    uint64_t limit = __atomic_load_n(&mine.group->limit, __ATOMIC_RELAXED);
    limit = limit ? limit : UINT64_MAX;
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

static bool take_bytes(unsigned device, uint64_t bytes) {
    struct gm_group_member *place = mine.place;
    enum answer answer = BUSY;
    gm_spin_lock(&mine.taking);
    for (int attempt = 0; attempt < ATTEMPTS && answer == BUSY; attempt++) {
        __atomic_store_n(&place->wanted[device], bytes, __ATOMIC_SEQ_CST);
        answer = decide_request(device, bytes);
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

bool gm_group_take(unsigned device, uint64_t bytes) {
    if (take_bytes(device, bytes))
        return true;
    gm_group_refresh(); /* a member that was killed may hold the bytes */
    return take_bytes(device, bytes);
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

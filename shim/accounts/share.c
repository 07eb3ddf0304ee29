/* The place of this process, and what the others can read in it (share.h). */
#include "shim/accounts/share.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/accounts/group.h"
#include "shim/accounts/share_parts.h"
#include "shim/accounts/stats.h"
#include "shim/base/file.h"
#include "shim/base/futex.h"

enum { DEVICES = 64 };
#define STOPPED_NS 3000000000ull /* a process that was not there for so long is stopped */
#define LEAST_PART 4             /* of the time that a member has the card, one part may be the way there */

struct gm_group *gm_share_group;
uint64_t gm_share_quantum_ns;
static struct gm_share_place *mine;
static struct gm_group_path path;
static dev_t file_device; /* identity of the file, which may be removed and made anew */
static ino_t file_inode;
static int8_t numbers[DEVICES]; /* of each device in the group, plus 1; 0 = not looked up, -1 = none */
GM_ZERO_IN_CHILD(gm_share_group);
GM_ZERO_IN_CHILD(mine);

struct gm_share_place *gm_share_mine(void) {
    return __atomic_load_n(&mine, __ATOMIC_ACQUIRE);
}

bool gm_share_is_on(void) { return gm_share_mine() != NULL; }

/* ---- the group */

/* The one that gets the lock has the place. */
static struct gm_share_place *take_place(const struct gm_group_file *file) {
    for (int i = 0; i < GM_SHARE_PLACES; i++) {
        if (!gm_group_lock(file->fd, GM_GROUP_SHARING + i))
            continue;
        struct gm_share_place *place = &file->group->sharing[i];
        GM_SHARE_WRITE(place, pid, 0);
        memset(place, 0, sizeof *place);
        place->seen_ns = place->idle_since_ns = place->since_ns = gm_now_ns();
        place->least_ns = gm_share_quantum_ns;
        GM_SHARE_WRITE(place, pid, (int32_t)getpid());
        return place;
    }
    return NULL;
}

/* The mapping keeps the lock until the process ends, and a child of a fork has neither. */
bool gm_share_join(const char *name, uint64_t quantum_ns, const char **why) {
    struct gm_group_file file;
    struct stat st = {0};
    int saved = errno;
    bool open = gm_group_open(name, true, &file, why);
    gm_share_quantum_ns = quantum_ns;
    struct gm_share_place *place =
        open && !madvise(file.group, sizeof *file.group, MADV_DONTFORK) ? take_place(&file) : NULL;
    if (place) {
        gm_fstat(file.fd, &st);
        file_device = st.st_dev;
        file_inode = st.st_ino;
        path = file.path;
        memset(numbers, 0, sizeof numbers);
        gm_share_group = file.group;
        gm_format(gm_stats->shared.group, sizeof gm_stats->shared.group, "%s", name);
        gm_close(file.fd);
        __atomic_store_n(&mine, place, __ATOMIC_RELEASE);
    } else if (open) {
        *why = "has 64 members already";
        gm_group_close(&file);
    }
    errno = saved;
    return place;
}

int gm_share_number(int device) {
    if (device < 0 || device >= DEVICES || !gm_share_is_on())
        return -1;
    int number = __atomic_load_n(&numbers[device], __ATOMIC_RELAXED);
    if (!number) {
        uint64_t hash = gm_group_hash_of(device);
        int found = hash ? gm_group_device(gm_share_group, hash, true) : -1;
        number = found < 0 ? -1 : found + 1;
        __atomic_store_n(&numbers[device], (int8_t)number, __ATOMIC_RELAXED);
    }
    return number < 0 ? -1 : number - 1;
}

int gm_share_open(void) {
    struct stat st;
    int saved = errno;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path.text, GM_GROUP_FLAGS, 0);
    if (fd >= 0 && (gm_fstat(fd, &st) || st.st_dev != file_device || st.st_ino != file_inode)) {
        gm_close(fd);
        fd = -1;
    }
    errno = saved;
    return fd;
}

bool gm_share_lives(const struct gm_share_place *place, int fd) {
    return place != gm_share_mine() && GM_SHARE_READ(place, pid) &&
           gm_group_is_locked(fd, GM_GROUP_SHARING + (int)(place - gm_share_group->sharing));
}

bool gm_share_waits(const struct gm_share_place *place, uint64_t now_ns) {
    return GM_SHARE_READ(place, waits_since_ns) && now_ns < GM_SHARE_READ(place, waits_until_ns) &&
           now_ns < GM_SHARE_READ(place, seen_ns) + STOPPED_NS;
}

/* ---- this process */

/* A child of a fork may free what its parent counted. */
static void change(uint64_t *bytes, int64_t by) {
    uint64_t seen = __atomic_load_n(bytes, __ATOMIC_RELAXED), next;
    do {
        next = by < 0 && seen < (uint64_t)-by ? 0 : seen + (uint64_t)by;
    } while (!__atomic_compare_exchange_n(bytes, &seen, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
}

void gm_share_count(int device, int64_t holds, int64_t away) {
    struct gm_share_place *place = gm_share_mine();
    int number = place ? gm_share_number(device) : -1;
    if (number < 0)
        return;
    change(&place->holds[number], holds);
    change(&place->away[number], away);
}

void gm_share_seen(uint64_t idle_since_ns) {
    struct gm_share_place *place = gm_share_mine();
    if (!place)
        return;
    GM_SHARE_WRITE(place, idle_since_ns, idle_since_ns);
    GM_SHARE_WRITE(place, seen_ns, gm_now_ns());
}

void gm_share_asleep(void) {
    struct gm_share_place *place = gm_share_mine();
    if (place)
        GM_SHARE_WRITE(place, asleep, 1);
}

void gm_share_awake(uint64_t moved_ns) {
    struct gm_share_place *place = gm_share_mine();
    uint64_t least = moved_ns * LEAST_PART;
    if (!place)
        return;
    GM_SHARE_WRITE(place, least_ns, least > gm_share_quantum_ns ? least : gm_share_quantum_ns);
    GM_SHARE_WRITE(place, since_ns, gm_now_ns());
    GM_SHARE_WRITE(place, asleep, 0);
}

/* Who asked may have ended, or have found memory. */
bool gm_share_is_asked(void) {
    struct gm_share_place *place = gm_share_mine();
    if (!place || GM_SHARE_READ(place, asked) == GM_SHARE_READ(place, answered))
        return false;
    bool waited_for = false;
    int fd = gm_share_open();
    for (int i = 0; i < GM_SHARE_PLACES && fd >= 0 && !waited_for; i++)
        waited_for =
            gm_share_waits(&gm_share_group->sharing[i], gm_now_ns()) && gm_share_lives(&gm_share_group->sharing[i], fd);
    if (fd >= 0)
        gm_close(fd);
    if (!waited_for)
        GM_SHARE_WRITE(place, answered, GM_SHARE_READ(place, asked));
    return waited_for;
}

void gm_share_leaving(void) {
    struct gm_share_place *place = gm_share_mine();
    if (place)
        GM_SHARE_WRITE(place, leaving_ns, gm_now_ns());
}

void gm_share_answer(uint64_t released) {
    struct gm_share_place *place = gm_share_mine();
    if (!place)
        return;
    if (!released)
        GM_SHARE_WRITE(place, refuses_until_ns, gm_now_ns() + gm_share_quantum_ns);
    else
        __atomic_add_fetch(&gm_stats->shared.left, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&gm_share_group->released, released, __ATOMIC_SEQ_CST);
    GM_SHARE_WRITE(place, leaving_ns, 0);
    GM_SHARE_WRITE(place, answered, GM_SHARE_READ(place, asked));
    gm_shared_raise(&gm_share_group->changes);
}

void gm_share_sleep(uint64_t ns) {
    const struct gm_share_place *place = gm_share_mine();
    if (!place) {
        gm_sleep(ns);
        return;
    }
    uint32_t seen = __atomic_load_n(&gm_share_group->changes, __ATOMIC_SEQ_CST);
    if (GM_SHARE_READ(place, asked) == GM_SHARE_READ(place, answered))
        gm_shared_sleep(&gm_share_group->changes, seen, ns);
}

/* ---- what is shown */

int64_t gm_share_room(int device) {
    const struct gm_share_place *place = gm_share_mine();
    int number = place ? gm_share_number(device) : -1, fd = number < 0 ? -1 : gm_share_open();
    if (fd < 0)
        return 0;
    int64_t bytes = -(int64_t)GM_SHARE_READ(place, away[number]);
    for (int i = 0; i < GM_SHARE_PLACES; i++)
        if (gm_share_lives(&gm_share_group->sharing[i], fd))
            bytes += (int64_t)GM_SHARE_READ(&gm_share_group->sharing[i], holds[number]);
    gm_close(fd);
    return bytes;
}

unsigned gm_share_holders(int device, struct gm_share_holder *out, unsigned room) {
    int number = gm_share_number(device), fd = number < 0 ? -1 : gm_share_open();
    unsigned count = 0;
    for (int i = 0; i < GM_SHARE_PLACES && fd >= 0; i++) {
        const struct gm_share_place *place = &gm_share_group->sharing[i];
        uint64_t holds = GM_SHARE_READ(place, holds[number]);
        if (!holds || !gm_share_lives(place, fd))
            continue;
        if (count < room)
            out[count] = (struct gm_share_holder){GM_SHARE_READ(place, pid), holds, gm_share_waits(place, gm_now_ns())};
        count++;
    }
    if (fd >= 0)
        gm_close(fd);
    return count;
}

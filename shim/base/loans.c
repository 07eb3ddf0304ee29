/* The file of loans (loans.h). */
#include "shim/base/loans.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/base/file.h"
#include "shim/base/group.h"
#include "shim/base/limit.h"
#include "shim/base/once.h"

enum { BITS = 64, PLACES = 128 };
enum { WAIT = 0, WAKE = 1 }; /* of a futex that processes share */

struct place {
    int32_t pid;             /* 0 = free */
    uint32_t answered[BITS]; /* number of the latest question, by device */
    uint64_t devices;        /* on which it keeps memory */
    uint64_t released;       /* bytes, in all answers together */
};
struct file {
    uint64_t magic;
    uint32_t questions, answers; /* rise with each one: what lenders and askers sleep on */
    uint32_t asked[BITS];        /* number of the latest question, by device */
    struct place places[PLACES];
};
#define MAGIC 0x31534e414f4c4d47ull /* "GMLOANS1" */

void (*gm_loans_much)(void);
static struct file *file;
static struct place *mine;
static struct gm_once opening;

static struct file *map_file(void) {
    char name[64];
    struct stat found;
    struct file *mapped = MAP_FAILED;
    gm_format(name, sizeof name, "/dev/shm/gpumem-loans-%u", (unsigned)geteuid());
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, name, flags, 0600);
    if (fd < 0)
        return NULL;
    bool own = !gm_fstat(fd, &found) && S_ISREG(found.st_mode) && found.st_uid == geteuid() && !(found.st_mode & 077);
    if (own && (found.st_size >= (off_t)sizeof *mapped || !ftruncate(fd, sizeof *mapped)))
        mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    gm_close(fd);
    if (mapped == MAP_FAILED)
        return NULL;
    uint64_t none = 0;
    if (__atomic_compare_exchange_n(&mapped->magic, &none, MAGIC, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
        none == MAGIC)
        return mapped;
    munmap(mapped, sizeof *mapped);
    return NULL;
}

static struct file *open_file(void) {
    if (gm_once_begin(&opening)) {
        int saved = errno;
        file = map_file();
        errno = saved;
        gm_once_end(&opening);
    }
    return file;
}

static void sleep_on(const uint32_t *word, uint32_t seen, uint64_t ns) {
    const struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    int saved = errno;
    syscall(SYS_futex, word, WAIT, seen, &time, NULL, 0);
    errno = saved;
}

static void wake(uint32_t *word) {
    int saved = errno;
    __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, word, WAKE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

/* ---- who asks */

/* A process that ended leaves its place to the next one. */
static bool lends(struct place *place, uint64_t bit) {
    int32_t pid = __atomic_load_n(&place->pid, __ATOMIC_ACQUIRE);
    if (!pid || pid == (int32_t)getpid() || !(__atomic_load_n(&place->devices, __ATOMIC_RELAXED) & bit))
        return false;
    if (kill(pid, 0) && errno == ESRCH) {
        __atomic_compare_exchange_n(&place->pid, &pid, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
        return false;
    }
    return true;
}

static bool all_answered(unsigned number, uint32_t question) {
    for (unsigned i = 0; i < PLACES; i++)
        if (lends(&file->places[i], 1ull << number) &&
            (int32_t)(__atomic_load_n(&file->places[i].answered[number], __ATOMIC_ACQUIRE) - question) < 0)
            return false;
    return true;
}

static uint64_t released_by_others(void) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < PLACES; i++)
        bytes += __atomic_load_n(&file->places[i].released, __ATOMIC_RELAXED);
    return bytes;
}

uint64_t gm_loans_bit(int device) {
    bool (*find)(int, unsigned char[16]) = __atomic_load_n(&gm_limit_uuid, __ATOMIC_ACQUIRE);
    unsigned char uuid[16];
    return find && device >= 0 && find(device, uuid) ? 1ull << gm_group_hash(uuid) % BITS : 0;
}

bool gm_loans_ask(int device) {
    uint64_t bit = gm_loans_bit(device);
    unsigned number = bit ? (unsigned)__builtin_ctzll(bit) : 0;
    int saved = errno;
    bool any = false;
    for (unsigned i = 0; bit && open_file() && i < PLACES && !any; i++)
        any = lends(&file->places[i], bit);
    if (!any)
        return errno = saved, false;
    uint64_t before = released_by_others(), until = gm_now_ns() + GM_LOANS_PATIENCE_NS;
    uint32_t question = __atomic_add_fetch(&file->asked[number], 1, __ATOMIC_SEQ_CST);
    wake(&file->questions);
    for (;;) {
        uint32_t seen = __atomic_load_n(&file->answers, __ATOMIC_SEQ_CST);
        uint64_t now = gm_now_ns();
        if (all_answered(number, question) || now >= until)
            break;
        sleep_on(&file->answers, seen, until - now);
    }
    errno = saved;
    return released_by_others() != before;
}

/* ---- a lender */

bool gm_loans_join(void) {
    int saved = errno;
    for (unsigned i = 0; open_file() && i < PLACES && !mine; i++) {
        struct place *place = &file->places[i];
        int32_t none = 0;
        (void)lends(place, UINT64_MAX); /* frees the place of a process that ended */
        if (__atomic_compare_exchange_n(&place->pid, &none, (int32_t)getpid(), false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            mine = place;
    }
    for (unsigned i = 0; mine && i < BITS; i++)
        __atomic_store_n(&mine->answered[i], __atomic_load_n(&file->asked[i], __ATOMIC_SEQ_CST), __ATOMIC_RELEASE);
    errno = saved;
    return mine != NULL;
}

void gm_loans_lend(uint64_t devices) {
    if (mine)
        __atomic_store_n(&mine->devices, devices, __ATOMIC_SEQ_CST);
}

void gm_loans_sleep(uint64_t ns) {
    uint32_t seen = file ? __atomic_load_n(&file->questions, __ATOMIC_SEQ_CST) : 0;
    if (gm_loans_asked())
        return;
    sleep_on(file ? &file->questions : &seen, seen, ns);
}

uint64_t gm_loans_asked(void) {
    uint64_t devices = mine ? __atomic_load_n(&mine->devices, __ATOMIC_SEQ_CST) : 0, asked = 0;
    for (unsigned i = 0; i < BITS && devices >> i; i++)
        if (devices >> i & 1 && __atomic_load_n(&file->asked[i], __ATOMIC_SEQ_CST) != mine->answered[i])
            asked |= 1ull << i;
    return asked;
}

void gm_loans_answer(uint64_t devices, uint64_t released) {
    if (!mine)
        return;
    __atomic_add_fetch(&mine->released, released, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < BITS; i++)
        if (devices >> i & 1)
            __atomic_store_n(&mine->answered[i], __atomic_load_n(&file->asked[i], __ATOMIC_SEQ_CST), __ATOMIC_RELEASE);
    wake(&file->answers);
}

void gm_loans_leave(void) {
    struct place *left = mine;
    if (!left)
        return;
    mine = NULL;
    __atomic_store_n(&left->devices, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&left->pid, 0, __ATOMIC_RELEASE);
    wake(&file->answers);
}

void gm_loans_after_fork(void) { mine = NULL; }

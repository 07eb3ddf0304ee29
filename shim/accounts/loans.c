/* The file of loans (loans.h). */
#include "shim/accounts/loans.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "shim/base/events.h"
#include "shim/base/file.h"
#include "shim/base/futex.h"
#include "shim/accounts/group.h"
#include "shim/accounts/group_file.h"

enum { BITS = 64, PLACES = 128 };

struct place {               /* its byte of the file is locked as long as its process lives */
    uint32_t answered[BITS]; /* number of the latest question, by device */
    uint64_t devices;        /* on which it keeps memory */
    uint64_t released;       /* bytes, in all answers together */
};
struct shared {
    uint64_t magic;
    uint32_t questions, answers; /* rise with each one: what lenders and askers sleep on */
    uint32_t asked[BITS];        /* number of the latest question, by device */
    uint64_t device[BITS];       /* hash of the device of that question: several devices may share a bit */
    struct place places[PLACES];
};
#define MAGIC 0x33534e414f4c4d47ull /* "GMLOANS3" */

static struct shared *file; /* of a lender */
static struct place *mine;  /* NULL from gm_loans_leave on, while the lender may still look */
#define SEVERAL UINT64_MAX
static uint64_t lent[BITS]; /* hash of the device; 0: none */

static struct place *own_place(void) { return __atomic_load_n(&mine, __ATOMIC_ACQUIRE); }

/* Reserves the memory, so that a full file system shows here and not as a bus error later. */
static bool has_size(int fd, const struct stat *found) {
    struct rlimit limit;
    if (found->st_size >= (off_t)sizeof(struct shared))
        return true;
    if (getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur < sizeof(struct shared))
        return false; /* setting the file's size would raise SIGXFSZ */
    return !syscall(SYS_fallocate, fd, 0, (off_t)0, sizeof(struct shared));
}

/* NULL: there is none. Otherwise *fd is open, too. */
static struct shared *open_file(int *fd) {
    char name[64];
    struct stat found;
    struct shared *mapped = MAP_FAILED;
    gm_format(name, sizeof name, "/dev/shm/gpumem-loans-%u", (unsigned)geteuid());
    if ((*fd = (int)syscall(SYS_openat, AT_FDCWD, name, GM_GROUP_FLAGS | O_CREAT, 0600)) < 0)
        return NULL;
    bool own = !gm_fstat(*fd, &found) && S_ISREG(found.st_mode) && found.st_uid == geteuid() && !(found.st_mode & 077);
    if (own && has_size(*fd, &found))
        mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (mapped != MAP_FAILED) {
        uint64_t none = 0;
        if (__atomic_compare_exchange_n(&mapped->magic, &none, MAGIC, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
            none == MAGIC)
            return mapped;
        munmap(mapped, sizeof *mapped);
    }
    gm_close(*fd);
    return NULL;
}

/* ---- who asks */

/* One of another process, which lives. */
static bool lends(const struct shared *shared, int fd, int number, uint64_t bit) {
    const struct place *place = own_place();
    bool own = place && number == place - file->places;
    return !own && __atomic_load_n(&shared->places[number].devices, __ATOMIC_RELAXED) & bit &&
           gm_group_is_locked(fd, number);
}

static bool any_lends(const struct shared *shared, int fd, uint64_t bit) {
    for (int i = 0; i < PLACES; i++)
        if (lends(shared, fd, i, bit))
            return true;
    return false;
}

static bool all_answered(const struct shared *shared, int fd, unsigned device, uint32_t question) {
    for (int i = 0; i < PLACES; i++) {
        uint32_t answered = __atomic_load_n(&shared->places[i].answered[device], __ATOMIC_ACQUIRE);
        if ((int32_t)(answered - question) < 0 && lends(shared, fd, i, 1ull << device))
            return false;
    }
    return true;
}

static uint64_t released_by_all(const struct shared *shared) {
    uint64_t bytes = 0;
    for (int i = 0; i < PLACES; i++)
        bytes += __atomic_load_n(&shared->places[i].released, __ATOMIC_RELAXED);
    return bytes;
}

static bool ask(struct shared *shared, int fd, uint64_t hash) {
    unsigned device = (unsigned)(hash % BITS);
    uint64_t before = released_by_all(shared), until = gm_now_ns() + GM_LOANS_PATIENCE_NS;
    __atomic_store_n(&shared->device[device], hash, __ATOMIC_SEQ_CST);
    uint32_t question = __atomic_add_fetch(&shared->asked[device], 1, __ATOMIC_SEQ_CST);
    gm_shared_raise(&shared->questions);
    for (;;) {
        uint32_t seen = __atomic_load_n(&shared->answers, __ATOMIC_SEQ_CST);
        uint64_t now = gm_now_ns();
        if (all_answered(shared, fd, device, question) || now >= until)
            break;
        gm_shared_sleep(&shared->answers, seen, until - now);
    }
    return released_by_all(shared) != before;
}

static uint64_t bit_of(uint64_t hash) { return hash ? 1ull << hash % BITS : 0; }

bool gm_loans_ask(int device) {
    uint64_t hash = gm_group_hash_of(device);
    int saved = errno, fd;
    struct shared *shared = hash ? open_file(&fd) : NULL;
    bool released = false;
    if (shared) {
        released = any_lends(shared, fd, bit_of(hash)) && ask(shared, fd, hash);
        munmap(shared, sizeof *shared);
        gm_close(fd);
    }
    errno = saved;
    return released;
}

/* ---- a lender */

/* The mapping keeps the lock until the process ends, and a child of a fork has neither. */
static bool take_place(int fd) {
    int i = 0;
    while (i < PLACES && !gm_group_lock(fd, i))
        i++;
    if (i == PLACES || madvise(file, sizeof *file, MADV_DONTFORK))
        return false;
    struct place *place = &file->places[i];
    __atomic_store_n(&place->devices, 0, __ATOMIC_SEQ_CST);
    for (unsigned bit = 0; bit < BITS; bit++)
        __atomic_store_n(&place->answered[bit], __atomic_load_n(&file->asked[bit], __ATOMIC_SEQ_CST), __ATOMIC_RELEASE);
    __atomic_store_n(&mine, place, __ATOMIC_RELEASE);
    return true;
}

bool gm_loans_join(void) {
    int saved = errno, fd;
    if ((file = open_file(&fd))) {
        if (!take_place(fd)) {
            munmap(file, sizeof *file);
            file = NULL;
        }
        gm_close(fd);
    }
    errno = saved;
    return own_place() != NULL;
}

void gm_loans_lend(int device) {
    uint64_t hash = gm_group_hash_of(device), known = 0, *at = &lent[hash % BITS];
    struct place *place = own_place();
    if (!place || !hash)
        return;
    if (!__atomic_compare_exchange_n(at, &known, hash, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) && known != hash)
        __atomic_store_n(at, SEVERAL, __ATOMIC_SEQ_CST);
    __atomic_or_fetch(&place->devices, bit_of(hash), __ATOMIC_SEQ_CST);
}

void gm_loans_sleep(uint64_t ns) {
    uint32_t seen = file ? __atomic_load_n(&file->questions, __ATOMIC_SEQ_CST) : 0;
    if (gm_loans_asked())
        return;
    gm_shared_sleep(file ? &file->questions : &seen, seen, ns);
}

/* Answers all questions about these devices: so many bytes were released. */
static void answer(struct place *place, uint64_t devices, uint64_t released) {
    __atomic_add_fetch(&place->released, released, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < BITS; i++)
        if (devices >> i & 1)
            __atomic_store_n(&place->answered[i], __atomic_load_n(&file->asked[i], __ATOMIC_SEQ_CST), __ATOMIC_RELEASE);
    gm_shared_raise(&file->answers);
}

/* Another device has the bit, too, and is meant. */
static bool is_of_others(unsigned bit) {
    uint64_t own = __atomic_load_n(&lent[bit], __ATOMIC_SEQ_CST);
    return own != SEVERAL && own != __atomic_load_n(&file->device[bit], __ATOMIC_SEQ_CST);
}

bool gm_loans_asked(void) {
    struct place *place = own_place();
    uint64_t devices = place ? __atomic_load_n(&place->devices, __ATOMIC_SEQ_CST) : 0, of_others = 0;
    bool asked = false;
    for (unsigned i = 0; i < BITS && devices >> i; i++) {
        if (!(devices >> i & 1) || __atomic_load_n(&file->asked[i], __ATOMIC_SEQ_CST) == place->answered[i])
            continue;
        of_others |= is_of_others(i) ? 1ull << i : 0;
        asked |= !is_of_others(i);
    }
    if (of_others && !asked)
        answer(place, of_others, 0);
    return asked;
}

void gm_loans_answer(uint64_t released) {
    struct place *place = own_place();
    if (place)
        answer(place, UINT64_MAX, released);
}

void gm_loans_leave(void) {
    struct place *left = __atomic_exchange_n(&mine, NULL, __ATOMIC_ACQ_REL);
    if (!left)
        return;
    __atomic_store_n(&left->devices, 0, __ATOMIC_SEQ_CST);
    gm_shared_raise(&file->answers);
}

void gm_loans_after_fork(void) {
    __atomic_store_n(&mine, NULL, __ATOMIC_RELAXED);
    file = NULL;
}

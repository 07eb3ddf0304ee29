/* The coverage report: look-ups, calls by symbol, names that concern memory and were returned unhooked, the
 * used bytes of the driver beside the tracked bytes, and modules that contain a CUDA runtime but never looked
 * anything up through gpumem. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/base/file.h"
#include "shim/base/libraries.h"
#include "shim/accounts/stats.h"
#include "shim/hook/coverage.h"
#include "shim/hook/entry_points.h"

bool gm_coverage_on;

/* ---- callers of look-ups */

enum { CALLERS = 512 };
static uintptr_t callers[CALLERS];

void gm_note_caller(const void *caller) {
    if (GM_LIKELY(!__atomic_load_n(&gm_coverage_on, __ATOMIC_RELAXED))) /* a look-up may come before the start */
        return;
    for (unsigned i = 0; i < CALLERS; i++) {
        uintptr_t seen = 0;
        if (__atomic_load_n(&callers[i], __ATOMIC_RELAXED) == (uintptr_t)caller ||
            __atomic_compare_exchange_n(&callers[i], &seen, (uintptr_t)caller, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return;
    }
}

static bool looked_up(const struct dl_phdr_info *module) {
    uintptr_t caller;
    for (unsigned i = 0; i < CALLERS && (caller = __atomic_load_n(&callers[i], __ATOMIC_RELAXED)); i++)
        if (gm_library_segment(module, caller))
            return true;
    return false;
}

/* ---- names returned unhooked */

enum { NAMES = 256, NAME_BYTES = 16384 };
static const char *names[NAMES];
static char name_bytes[NAME_BYTES];
static size_t name_count, name_used; /* a counted name never changes: it is read without the lock */
GM_LOCK(names_lock);

static bool starts_with(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* Whether a function allocates, maps, exports or describes memory. Functions that move bytes or give hints do not
 * count. */
static bool concerns_memory(const char *name) {
    static const char *const families[] = {"cuMem",
                                           "cuArray",
                                           "cuMipmapped",
                                           "cuIpc",
                                           "cuPointer",
                                           "cuGraphAddMem",
                                           "cuMulticast",
                                           "cuDeviceSetMemPool",
                                           "cuImportExternalMemory",
                                           "cuExternalMemory",
                                           "cuGraphicsResource",
                                           "cuGraphicsMap"};
    static const char *const moves[] = {"cuMemcpy",        "cuMemset",     "cuMemPrefetch",        "cuMemAdvise",
                                        "cuMemRangeGet",   "cuMemDiscard", "cuMemBatchDecompress", "cuGraphAddMemcpy",
                                        "cuGraphAddMemset"};
    for (size_t i = 0; i < sizeof(moves) / sizeof(*moves); i++)
        if (starts_with(name, moves[i]))
            return false;
    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++)
        if (starts_with(name, families[i]))
            return true;
    return false;
}

void gm_route_unhooked(const char *name) {
    if (!gm_coverage_on || !concerns_memory(name))
        return;
    size_t length = strlen(name) + 1;
    gm_spin_lock(&names_lock);
    bool known = name_count == NAMES || name_used + length > NAME_BYTES;
    for (size_t i = 0; i < name_count && !known; i++)
        known = strcmp(names[i], name) == 0;
    if (!known) {
        names[name_count] = memcpy(name_bytes + name_used, name, length);
        name_used += length;
        __atomic_store_n(&name_count, name_count + 1, __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&names_lock);
}

/* ---- used bytes of the driver */

static struct sample { uint64_t used, tracked; } first, latest, largest; /* largest: the sample with most used bytes */
GM_LOCK(lock);

/* The driver's used bytes include every process on the device. The difference to the first sample excludes the
 * others as long as their use does not change. */
void gm_coverage_sample(int device) {
    size_t free_bytes, total;
    if (gm_drv.mem_get_info(&free_bytes, &total) != CUDA_SUCCESS)
        return;
    struct sample now = {total - free_bytes, gm_stats_live_on_devices(gm_stats)};
    gm_spin_lock(&lock);
    if (!first.used)
        first = largest = now;
    latest = now;
    if (now.used > largest.used)
        largest = now;
    gm_spin_unlock(&lock);
}

/* A module contains a runtime when its file contains the name that the runtime looks up. */
static bool carries_runtime(const char *path) {
    bool found = false;
    int fd = gm_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    off_t size = lseek(fd, 0, SEEK_END);
    void *bytes = size > 0 ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (bytes != MAP_FAILED) {
        static const char needle[] = "cuGetProcAddress_v2";
        found = memmem(bytes, (size_t)size, needle, sizeof(needle)) != NULL;
        munmap(bytes, (size_t)size);
    }
    gm_close(fd);
    return found;
}

struct escape_search {
    int fd;
    unsigned count;
};

static int visit_module(struct dl_phdr_info *info, size_t size, void *arg) {
    struct escape_search *search = arg;
    const char *path = info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";

    if (gm_library_traits(info->dlpi_name) & (GM_LIBRARY_KERNEL | GM_LIBRARY_OWN | GM_LIBRARY_DRIVER) ||
        looked_up(info))
        return 0;
    if (carries_runtime(path)) {
        gm_say_line(search->fd, "    %s", info->dlpi_name[0] ? info->dlpi_name : "(the program itself)");
        search->count++;
    }
    return 0;
}

static void report_bytes(int fd) {
    gm_spin_lock(&lock);
    const struct sample begin = first, most = largest, last = latest;
    gm_spin_unlock(&lock);
    if (!begin.used)
        return;
    gm_say_line(fd, "  bytes since the first allocation, at the largest use: driver %lld, tracked %lld",
                (long long)(most.used - begin.used), (long long)(most.tracked - begin.tracked));
    gm_say_line(fd, "  bytes since the first allocation, at the last one: driver %lld, tracked %lld",
                (long long)(last.used - begin.used), (long long)(last.tracked - begin.tracked));
}

void gm_coverage_report(int fd) {
    static const char *const names_of[GM_LOOK_UPS] = {"dlsym", "cuGetProcAddress", "audit"};
    struct escape_search search = {fd, 0};

    gm_say_line(fd, "gpumem: coverage");
    gm_say_line(fd, "  functions looked up:");
    for (unsigned by = 0; by < GM_LOOK_UPS; by++)
        gm_say_line(fd, "    %s: %u", names_of[by], __atomic_load_n(&gm_look_ups[by], __ATOMIC_RELAXED));
    gm_say_line(fd, "  calls by symbol:");
    for (unsigned i = 0; i < GM_CALL_ROWS; i++) {
        unsigned long long calls = __atomic_load_n(&gm_hook_calls[i], __ATOMIC_RELAXED);
        if (calls)
            gm_say_line(fd, "    %s: %llu", gm_call_rows[i].symbol, calls);
    }
    size_t count = __atomic_load_n(&name_count, __ATOMIC_ACQUIRE);
    gm_say_line(fd, "  memory-related names handed out unhooked: %zu", count);
    for (size_t i = 0; i < count; i++)
        gm_say_line(fd, "    %s", names[i]);
    report_bytes(fd);
    gm_say_line(
        fd, "  modules with a CUDA runtime that never looked anything up through gpumem (unused, or they escape it):");
    dl_iterate_phdr(visit_module, &search);
    if (!search.count)
        gm_say_line(fd, "    none");
}

/* Kernels by their handles, and a ring of the latest launches (kernels.h). */
#include "shim/hook/kernels.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/resource/guard_closing.h"

enum { KERNELS = 2048, TABLES = 8, PARAMETERS = 48, NAME = 448, WORDS = 512 };

/* ---- kernels: hash tables, each of twice the size of the one before, which is half full then. When all are, further
 * kernels have no names, and their arguments are not looked at. */

/* Most launches read the first cache line only. */
struct kernel {
    CUfunction handle; /* NULL: the place is free. Written last */
    uint16_t count;    /* parameters that are known */
    bool whole;        /* there are no others, and all of their words are looked at */
    uint16_t words[PARAMETERS];
    uint16_t sizes[PARAMETERS], offsets[PARAMETERS]; /* in bytes; in a buffer of all */
    char name[NAME];
} __attribute__((aligned(64)));

static struct table {
    void *kernels; /* NULL: not used yet */
    unsigned count;
} tables[TABLES];
static uint32_t era; /* rises when kernels are forgotten: places have other kernels afterwards */
static gm_spin lock;

static unsigned places(unsigned table) { return (unsigned)KERNELS << table; }

/* The place of the handle, or the free one where it belongs. */
static struct kernel *place_of(struct kernel *all, unsigned table, CUfunction handle) {
    unsigned at = (unsigned)(((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15ull >> 32) & (places(table) - 1);
    CUfunction there;
    while ((there = __atomic_load_n(&all[at].handle, __ATOMIC_ACQUIRE)) && there != handle)
        at = (at + 1) & (places(table) - 1);
    return &all[at];
}

/* A handle may be that of a CUkernel, which launches take, too. */
static CUresult size_of_parameter(CUfunction handle, size_t i, size_t *offset, size_t *size) {
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (gm_drv.func_get_param_info)
        result = gm_drv.func_get_param_info(handle, i, offset, size);
    if (result && result != CUDA_ERROR_INVALID_VALUE && gm_drv.kernel_get_param_info)
        result = gm_drv.kernel_get_param_info((CUkernel)handle, i, offset, size);
    return result;
}

static const char *name_of(CUfunction handle) {
    const char *name = NULL;
    if (gm_drv.func_get_name && !gm_drv.func_get_name(&name, handle) && name)
        return name;
    return gm_drv.kernel_get_name && !gm_drv.kernel_get_name(&name, (CUkernel)handle) && name ? name : "?";
}

static void describe(CUfunction handle, struct kernel *kernel) {
    size_t offset, size;
    CUresult result;
    bool all = true;
    memset(kernel, 0, sizeof *kernel);
    while (!(result = size_of_parameter(handle, kernel->count, &offset, &size)) && kernel->count < PARAMETERS) {
        kernel->offsets[kernel->count] = (uint16_t)offset; /* all parameters take less than 32 KiB */
        kernel->sizes[kernel->count] = (uint16_t)(size < UINT16_MAX ? size : UINT16_MAX);
        size /= sizeof(uint64_t);
        kernel->words[kernel->count++] = (uint16_t)(size < WORDS ? size : WORDS);
        all &= size <= WORDS;
    }
    kernel->whole = all && result == CUDA_ERROR_INVALID_VALUE;
    gm_format(kernel->name, sizeof kernel->name, "%s", name_of(handle));
    kernel->handle = handle;
}

/* The first table that is not half full. NULL: all are, or the kernel has no memory. */
static struct kernel *table_with_room(unsigned *table) {
    for (*table = 0; *table < TABLES; ++*table)
        if (__atomic_load_n(&tables[*table].count, __ATOMIC_RELAXED) < places(*table) / 2)
            return gm_pages_once(&tables[*table].kernels, places(*table) * sizeof(struct kernel));
    static int once;
    gm_log_once(&once, GM_LOG_WARN,
                "memory errors: kernels beyond the first %u have no names, and their arguments are "
                "not looked at",
                places(TABLES) / 2 - KERNELS / 2);
    return NULL;
}

static GM_RARE const struct kernel *add_kernel(CUfunction handle) {
    struct kernel *made = gm_pages(sizeof *made), *place = NULL;
    unsigned table;
    struct kernel *all = made ? table_with_room(&table) : NULL;
    if (all) {
        describe(handle, made);
        gm_spin_lock(&lock);
        place = place_of(all, table, handle);
        if (!place->handle) {
            __atomic_store_n(&tables[table].count, tables[table].count + 1, __ATOMIC_RELAXED);
            memcpy((char *)place + sizeof place->handle, (char *)made + sizeof made->handle,
                   sizeof *made - sizeof made->handle);
            __atomic_store_n(&place->handle, handle, __ATOMIC_RELEASE);
        }
        gm_spin_unlock(&lock);
    }
    if (made)
        munmap(made, sizeof *made);
    return place;
}

/* In the tables from this one on, or a new one. */
static GM_RARE const struct kernel *find_further(unsigned table, CUfunction handle) {
    for (; table < TABLES; table++) {
        struct kernel *all = __atomic_load_n(&tables[table].kernels, __ATOMIC_ACQUIRE);
        const struct kernel *place = all ? place_of(all, table, handle) : NULL;
        if (!place)
            break;
        if (place->handle)
            return place;
    }
    return handle ? add_kernel(handle) : NULL;
}

static const struct kernel *find_kernel(CUfunction handle) {
    struct kernel *all = __atomic_load_n(&tables[0].kernels, __ATOMIC_ACQUIRE);
    const struct kernel *place = handle && GM_LIKELY(all != NULL) ? place_of(all, 0, handle) : NULL;
    return place && GM_LIKELY(place->handle != NULL) ? place : find_further(place != NULL, handle);
}

void gm_kernels_forget(void) {
    gm_spin_lock(&lock);
    __atomic_add_fetch(&era, 1, __ATOMIC_SEQ_CST);
    for (unsigned table = 0; table < TABLES; table++) {
        struct kernel *all = __atomic_load_n(&tables[table].kernels, __ATOMIC_ACQUIRE);
        for (unsigned i = 0; all && tables[table].count && i < places(table); i++)
            __atomic_store_n(&all[i].handle, NULL, __ATOMIC_RELAXED);
        __atomic_store_n(&tables[table].count, 0, __ATOMIC_RELAXED);
    }
    gm_spin_unlock(&lock);
}

/* ---- arguments
 *
 * What is known of a kernel counts only if it was not forgotten before that was read. */

static bool is_forgotten(uint32_t before) { return GM_UNLIKELY(__atomic_load_n(&era, __ATOMIC_RELAXED) != before); }

static inline uint64_t word_at(const char *value, size_t i) {
    uint64_t word;
    memcpy(&word, value + i * sizeof word, sizeof word);
    return word;
}

/* Most launches use no guarded block. */
static bool any_covered(const struct kernel *kernel, uint32_t before, void *const *parameters) {
    const uint64_t low = __atomic_load_n(&gm_guard_low, __ATOMIC_RELAXED),
                   bytes = __atomic_load_n(&gm_guard_high, __ATOMIC_RELAXED) - low;
    const unsigned count = __atomic_load_n(&kernel->count, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < count; i++) {
        unsigned words = __atomic_load_n(&kernel->words[i], __ATOMIC_ACQUIRE);
        if (is_forgotten(before))
            return false;
        for (const char *value = words ? parameters[i] : NULL; value && words; words--, value += sizeof(uint64_t))
            if (GM_UNLIKELY(word_at(value, 0) - low < bytes))
                return true;
    }
    return false;
}

static bool is_freed(uint64_t address) {
    struct gm_guard_block block;
    return gm_guard_find(address, &block) && block.state == GM_GUARD_FREED;
}

void gm_launch_add_pointer(struct gm_launch *launch, const struct gm_launch_pointer *pointer) {
    if (GM_LIKELY(launch->count < GM_LAUNCH_POINTERS)) {
        launch->pointers[launch->count++] = *pointer;
        return;
    }
    launch->more++;
    unsigned at = is_freed(pointer->address) ? GM_LAUNCH_POINTERS : 0;
    while (at && is_freed(launch->pointers[at - 1].address))
        at--;
    if (at)
        launch->pointers[at - 1] = *pointer;
}

static void look_at(struct gm_launch *launch, const struct gm_launch_pointer *pointer) {
    if (GM_UNLIKELY(gm_guard_covers(pointer->address))) {
        launch->closes |= gm_guard_waits_at(pointer->address);
        gm_launch_add_pointer(launch, pointer);
    } else if (pointer->alone && !pointer->address) {
        launch->zeros |= pointer->argument <= 64 ? 1ull << (pointer->argument - 1) : 0;
    } else if (pointer->alone && pointer->address >> 32 && !(pointer->address >> 48) &&
               launch->other_count < GM_LAUNCH_OTHERS) {
        launch->others[launch->other_count++] = *pointer;
    }
}

/* All arguments as one buffer. NULL: there is none. */
static const char *buffer_of(void *const *extra, size_t *size) {
    const char *buffer = NULL;
    *size = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *size = *(const size_t *)extra[1];
    }
    return buffer;
}

/* One of `parameters` and `buffer` has the arguments. */
static GM_APART void look_at_all(struct gm_launch *launch, const struct kernel *kernel, uint32_t before,
                                 void *const *parameters, const char *buffer, size_t buffer_size) {
    for (unsigned i = 0; i < __atomic_load_n(&kernel->count, __ATOMIC_RELAXED); i++) {
        size_t offset = __atomic_load_n(&kernel->offsets[i], __ATOMIC_RELAXED);
        size_t size = __atomic_load_n(&kernel->sizes[i], __ATOMIC_RELAXED);
        unsigned words = __atomic_load_n(&kernel->words[i], __ATOMIC_ACQUIRE);
        if (is_forgotten(before))
            return;
        const char *value = parameters ? parameters[i] : offset + size <= buffer_size ? buffer + offset : NULL;
        bool alone = size == sizeof(uint64_t);
        for (unsigned at = 0; value && at < words; at++) {
            const struct gm_launch_pointer pointer = {i + 1, alone, word_at(value, at)};
            look_at(launch, &pointer);
        }
    }
}

void gm_kernel_read(CUfunction function, void *const *parameters, void *const *extra, bool all,
                    struct gm_launch *launch) {
    launch->count = launch->other_count = launch->more = 0;
    launch->closes = launch->partly = launch->told = false;
    launch->zeros = 0;
    if (!all && !gm_guard_arenas())
        return;
    uint32_t before = __atomic_load_n(&era, __ATOMIC_ACQUIRE);
    const struct kernel *kernel = find_kernel(function);
    size_t size = 0;
    const char *buffer = !parameters && extra ? buffer_of(extra, &size) : NULL;
    launch->kernel = kernel ? kernel->name : "?";
    launch->partly = !(kernel && kernel->whole);
    launch->closes = launch->partly && (parameters || buffer);
    if (kernel && (buffer || (parameters && (all || any_covered(kernel, before, parameters)))))
        look_at_all(launch, kernel, before, parameters, buffer, size);
}

void gm_kernel_look(struct gm_launch *launch) {
    struct gm_guard_block block;
    for (unsigned i = 0; i < launch->count; i++)
        if (launch->pointers[i].alone && gm_guard_find(launch->pointers[i].address, &block) &&
            block.state == GM_GUARD_FREED && launch->pointers[i].address - block.address <= block.size) {
            gm_explain_argument(launch, &launch->pointers[i], &block);
            launch->told = true;
        }
}

/* ---- launches: those of a loop are equal, and count as one */

static struct kept {
    struct gm_launch launch;
    CUstream stream;
    uint64_t order; /* gm_guard_order_now() at the launch */
    unsigned times;
    bool open, waited; /* it may not have ended, as far as the program knows; it has */
} ring[GM_LAUNCHES];
static unsigned newest; /* the next place */
static uint64_t lost;   /* launches that had to make room and may not have ended */
static bool any_open;   /* at least one may be */
static gm_spin ring_lock;

/* Not by memcmp, because the structures have padding. */
static bool has_equal_pointers(const struct gm_launch *one, const struct gm_launch *two) {
    for (unsigned i = 0; i < one->count; i++)
        if (one->pointers[i].address != two->pointers[i].address ||
            one->pointers[i].argument != two->pointers[i].argument || one->pointers[i].alone != two->pointers[i].alone)
            return false;
    return true;
}

static bool is_equal(const struct kept *kept, const struct gm_launch *launch, CUstream stream) {
    return kept->open && kept->launch.kernel == launch->kernel && kept->launch.site == launch->site &&
           kept->stream == stream && kept->launch.count == launch->count && has_equal_pointers(&kept->launch, launch);
}

/* An equal one among the latest launches. */
static struct kept *find_equal(const struct gm_launch *launch, CUstream stream) {
    enum { PERIOD = 8 };
    for (unsigned i = 1; i <= PERIOD; i++) {
        struct kept *kept = &ring[(newest + GM_LAUNCHES - i) % GM_LAUNCHES];
        if (is_equal(kept, launch, stream))
            return kept;
    }
    return NULL;
}

void gm_launches_add(const struct gm_launch *launch, CUstream stream) {
    gm_spin_lock(&ring_lock);
    struct kept *kept = any_open ? find_equal(launch, stream) : NULL;
    if (!kept) {
        kept = &ring[newest];
        lost = any_open ? lost + (kept->open && !kept->waited ? kept->times : 0) : 0;
        kept->launch = *launch;
        kept->stream = stream;
        kept->times = 0;
        kept->open = true;
        newest = (newest + 1) % GM_LAUNCHES;
    }
    kept->launch.told |= launch->told;
    kept->times++;
    kept->waited = false;
    kept->order = gm_guard_order_now();
    __atomic_store_n(&any_open, true, __ATOMIC_RELAXED);
    gm_spin_unlock(&ring_lock);
}

static bool uses(const struct gm_launch *launch, const struct gm_guard_block *block) {
    for (unsigned i = 0; i < launch->count; i++)
        if (launch->pointers[i].alone && launch->pointers[i].address - block->address < block->size)
            return true;
    return false;
}

bool gm_launches_find(const struct gm_guard_block *block, CUstream stream, uint64_t order, struct gm_launch *launch) {
    bool found = false;
    gm_spin_lock(&ring_lock);
    for (unsigned i = 0; i < GM_LAUNCHES && !found; i++) {
        found = ring[i].open && ring[i].order == order && ring[i].stream > CU_STREAM_PER_THREAD &&
                ring[i].stream != stream && uses(&ring[i].launch, block);
        if (found)
            *launch = ring[i].launch;
    }
    gm_spin_unlock(&ring_lock);
    return found;
}

void gm_launches_waited(CUstream stream) {
    gm_spin_lock(&ring_lock);
    for (unsigned i = 0; i < GM_LAUNCHES; i++)
        ring[i].waited |= ring[i].open && ring[i].stream == stream;
    gm_spin_unlock(&ring_lock);
}

void gm_launches_ended(CUstream stream, bool all) {
    bool open = false;
    if (GM_LIKELY(!__atomic_load_n(&any_open, __ATOMIC_RELAXED)))
        return;
    gm_spin_lock(&ring_lock);
    for (unsigned i = 0; i < GM_LAUNCHES; i++)
        open |= ring[i].open &= !all && ring[i].stream != stream;
    __atomic_store_n(&any_open, open, __ATOMIC_RELAXED);
    gm_spin_unlock(&ring_lock);
}

unsigned gm_launches_copy(struct gm_launch launches[GM_LAUNCHES], unsigned times[GM_LAUNCHES], uint64_t *more) {
    unsigned count = 0;
    gm_spin_lock(&ring_lock);
    *more = lost;
    for (unsigned i = 1; i <= GM_LAUNCHES; i++) {
        unsigned at = (newest + GM_LAUNCHES - i) % GM_LAUNCHES;
        if (!ring[at].open || ring[at].waited)
            continue;
        times[count] = ring[at].times;
        launches[count++] = ring[at].launch;
    }
    gm_spin_unlock(&ring_lock);
    return count;
}

void gm_kernels_after_fork(void) {
    lock.held = ring_lock.held = 0;
    memset(tables, 0, sizeof tables);
    memset(ring, 0, sizeof ring);
}

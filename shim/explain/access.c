/* The texts of access.h. */
#include "shim/explain/access.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/base/function_name.h"
#include "shim/base/map.h"
#include "shim/accounts/stats.h"
#include "shim/explain/explained.h"
#include "shim/resource/registry.h"
#include "shim/sites/site_text.h"

/* The ones from RACE_ARGUMENT on are no errors for certain. */
enum what { FREED_ARGUMENT, OUTSIDE, FREED, DAMAGE, DAMAGE_BY, RACE_ARGUMENT, RACE_FREE, UNSHARED };
enum { SEEN = 1024 };

/* Hashes of what was explained. When the table is full, everything counts as seen. */
static uint64_t seen[SEEN];
static uint64_t found, explained;
static bool faulted;
GM_ZERO_IN_CHILD(seen);
GM_ZERO_IN_CHILD(found);
GM_ZERO_IN_CHILD(explained);
GM_ZERO_IN_CHILD(faulted);

static bool is_new(enum what what, uint32_t one, uint32_t two) {
    uint64_t key = (((uint64_t)one << 32 | two) ^ (uint64_t)what << 29) * 0x9e3779b97f4a7c15ull | 1;
    for (unsigned i = 0; i < SEEN; i++) {
        uint64_t *at = &seen[(key + i) % SEEN], there = __atomic_load_n(at, __ATOMIC_RELAXED);
        if (there == key)
            return false;
        if (!there && __atomic_compare_exchange_n(at, &there, key, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return true;
        if (there == key)
            return false;
    }
    return false;
}

static bool is_first_pair(enum what what, uint32_t one, uint32_t two) {
    __atomic_add_fetch(&found, 1, __ATOMIC_RELAXED);
    if (!is_new(what, one, two))
        return false;
    __atomic_add_fetch(&explained, 1, __ATOMIC_RELAXED);
    return true;
}

struct work {
    struct gm_log_lines lines;
    struct gm_size_text size[2];
    struct gm_site_text site;
    char name[200], place[160], argument[24], times[24], text[16384];
};

/* NULL: the kernel has no memory, and nothing is explained. */
static struct work *begin_text(void) {
    struct work *w = gm_pages(sizeof *w);
    if (w)
        w->lines = (struct gm_log_lines){w->text, sizeof w->text, 0};
    return w;
}

static void count_error(void) { __atomic_add_fetch(&gm_stats->guard_errors, 1, __ATOMIC_RELAXED); }

/* Counts the error. NULL: an error of the same two call sites was explained before. */
static struct work *begin_first(enum what what, uint32_t one, uint32_t two) {
    count_error();
    return is_first_pair(what, one, two) ? begin_text() : NULL;
}

static void end_text(struct work *w) {
    gm_log_lines(GM_LOG_ERROR, &w->lines);
    munmap(w, sizeof *w);
}

/* `site`: of the call at fault, or that saw it. `block` NULL: none is known. */
static void note_found_again(struct work *w, enum gm_memory_error error, uint32_t site,
                             const struct gm_guard_block *block, const char *more, bool again) {
    struct gm_explained found = {.error = error, .site = site, .device = -1, .again = again};
    if (block) {
        found.address = block->address;
        found.bytes = block->size;
        found.device = block->device;
        found.allocated_at = block->allocated_at;
        found.freed_at = block->state == GM_GUARD_FREED ? block->freed_at : 0;
    }
    gm_explained_note(&found, &w->lines, more);
}

static void note_found(struct work *w, enum gm_memory_error error, uint32_t site, const struct gm_guard_block *block,
                       const char *more) {
    note_found_again(w, error, site, block, more, false);
}

static const char *kernel_name(struct work *w, const struct gm_launch *launch) {
    if (!launch->kernel)
        return "of a graph";
    gm_function_name(w->name, sizeof w->name, launch->kernel);
    if (launch->of_graph) {
        size_t length = strlen(w->name);
        gm_format(w->name + length, sizeof w->name - length, " of a graph");
    }
    return w->name;
}

/* "block of 1000 bytes" */
static const char *size_of(struct work *w, const struct gm_guard_block *block) {
    if (block->size < 4096)
        gm_format(w->size[1].text, sizeof w->size[1].text, "%lu %s", (unsigned long)block->size,
                  block->size == 1 ? "byte" : "bytes");
    else
        gm_size_text(&w->size[1], block->size);
    return w->size[1].text;
}

/* Where the address lies, seen from the block. */
static const char *place_text(struct work *w, const struct gm_guard_block *block, uint64_t address) {
    uint64_t from = block->address, end = from + block->size;
    uint64_t distance = address < from ? from - address : address < end ? address - from : address - end;
    const char *freed = block->state == GM_GUARD_FREED ? " that was freed" : "";
    const char *where = address < from   ? "before "
                        : address > end  ? "behind the end of "
                        : address == end ? "the end of "
                        : distance       ? "inside "
                                         : "";
    if (distance)
        gm_format(w->place, sizeof w->place, "%lu bytes %sa block of %s%s", (unsigned long)distance, where,
                  size_of(w, block), freed);
    else
        gm_format(w->place, sizeof w->place, "%sa block of %s%s", where, size_of(w, block), freed);
    return w->place;
}

#define RACE    "possible race: "
#define ORDERED ", in the order of another stream"

static void end_race(struct work *w) {
    gm_log_add(&w->lines, "  not seen      an event or a wait between the two streams");
    gm_log_add(&w->lines, "  if right      they are ordered by a flag in memory, say: GPUMEM_GUARD=all,noraces");
    gm_log_lines(GM_LOG_WARN, &w->lines);
    munmap(w, sizeof *w);
}

static struct work *begin_race(enum what what, uint32_t one, uint32_t two) {
    __atomic_add_fetch(&gm_stats->guard_races, 1, __ATOMIC_RELAXED);
    return is_new(what, one, two) ? begin_text() : NULL;
}

static const char *freed_by(struct work *w, const struct gm_guard_block *block) {
    return block->ended ? "the end of its context" : gm_site_text(&w->site, block->freed_at);
}

static void add_life(struct work *w, const struct gm_guard_block *block, const char *how) {
    gm_log_add(&w->lines, "  allocated by  %s%s", gm_site_text(&w->site, block->allocated_at), how);
    if (block->state == GM_GUARD_FREED)
        gm_log_add(&w->lines, "  freed by      %s", freed_by(w, block));
    if (block->earlier)
        gm_log_add(&w->lines, "  or            one of %u earlier blocks at these addresses: try GPUMEM_GUARD_RANGE",
                   block->earlier);
}

static void add_launcher(struct work *w, const struct gm_launch *launch) {
    gm_log_add(&w->lines, "  launched by   %s", gm_site_text(&w->site, launch->site));
}

/* ---- copies and fills */

static void add_outside(struct work *w, const struct gm_access *access, const struct gm_guard_block *block) {
    uint64_t end = block->address + block->size, last = access->address + access->size;
    const char *verb = access->writes ? "writes" : "reads";
    uint64_t before = access->address < block->address ? block->address - access->address : 0;
    uint64_t behind = last > end ? last - (access->address > end ? access->address : end) : 0;
    if (block->state == GM_GUARD_FREED)
        gm_log_add(&w->lines, "%s %s %lu bytes at %s", access->call, verb, (unsigned long)access->size,
                   place_text(w, block, access->address));
    else if (before)
        gm_log_add(&w->lines, "%s %s %lu bytes, the first %lu before a block of %s", access->call, verb,
                   (unsigned long)access->size, (unsigned long)(before < access->size ? before : access->size),
                   size_of(w, block));
    else
        gm_log_add(&w->lines, "%s %s %lu bytes, the last %lu behind the end of a block of %s", access->call, verb,
                   (unsigned long)access->size, (unsigned long)behind, size_of(w, block));
}

void gm_explain_access(const struct gm_access *access, const struct gm_guard_block *block) {
    struct work *w = begin_first(block->state == GM_GUARD_FREED ? FREED : OUTSIDE, access->site, block->allocated_at);
    if (!w)
        return;
    add_outside(w, access, block);
    gm_log_add(&w->lines, "  called by     %s", gm_site_text(&w->site, access->site));
    add_life(w, block, "");
    note_found(w, block->state == GM_GUARD_FREED ? GM_ERROR_FREED : GM_ERROR_OUT_OF_BOUNDS, access->site, block, NULL);
    end_text(w);
}

/* ---- calls that guarded memory cannot serve */

void gm_explain_unshared(const char *call, uint32_t site, const struct gm_guard_block *block) {
    struct work *w = is_new(UNSHARED, site, block->allocated_at) ? begin_text() : NULL;
    if (!w)
        return;
    gm_log_add(&w->lines, "%s fails because a block of %s is guarded: guarded memory cannot be exported", call,
               size_of(w, block));
    gm_log_add(&w->lines, "  called by     %s", gm_site_text(&w->site, site));
    add_life(w, block, "");
    gm_log_add(&w->lines, "  try           GPUMEM_POLICY=static:RULES, which guard other blocks");
    end_text(w);
}

/* ---- kernels */

void gm_explain_argument(const struct gm_launch *launch, const struct gm_launch_pointer *pointer,
                         const struct gm_guard_block *block) {
    struct work *w = begin_first(FREED_ARGUMENT, launch->site, block->allocated_at);
    if (!w)
        return;
    gm_log_add(&w->lines, "kernel %s gets a pointer to freed memory: argument %u points to %s", kernel_name(w, launch),
               pointer->argument, place_text(w, block, pointer->address));
    add_launcher(w, launch);
    add_life(w, block, "");
    note_found(w, GM_ERROR_FREED, launch->site, block, NULL);
    end_text(w);
}

void gm_explain_early_use(const struct gm_launch *launch, const struct gm_launch_pointer *pointer,
                          const struct gm_guard_block *block) {
    struct work *w = begin_race(RACE_ARGUMENT, launch->site, block->allocated_at);
    if (!w)
        return;
    gm_log_add(&w->lines, RACE "kernel %s may use memory before it is allocated: argument %u points to %s",
               kernel_name(w, launch), pointer->argument, place_text(w, block, pointer->address));
    add_launcher(w, launch);
    add_life(w, block, ORDERED);
    note_found(w, GM_ERROR_RACE, launch->site, block, NULL);
    end_race(w);
}

void gm_explain_early_copy(const struct gm_access *access, const struct gm_guard_block *block) {
    struct work *w = begin_race(RACE_ARGUMENT, access->site, block->allocated_at);
    if (!w)
        return;
    gm_log_add(&w->lines, RACE "%s may %s memory before it is allocated: %lu bytes at %s", access->call,
               access->writes ? "write" : "read", (unsigned long)access->size, place_text(w, block, access->address));
    gm_log_add(&w->lines, "  called by     %s", gm_site_text(&w->site, access->site));
    add_life(w, block, ORDERED);
    note_found(w, GM_ERROR_RACE, access->site, block, NULL);
    end_race(w);
}

void gm_explain_freed_in_use(const struct gm_launch *launch, const struct gm_guard_block *block, uint32_t site) {
    struct work *w = begin_race(RACE_FREE, launch->site, site);
    if (!w)
        return;
    gm_log_add(&w->lines, RACE "kernel %s may still use a block of %s that is freed now", kernel_name(w, launch),
               size_of(w, block));
    add_launcher(w, launch);
    gm_log_add(&w->lines, "  freed by      %s" ORDERED, gm_site_text(&w->site, site));
    add_life(w, block, "");
    note_found(w, GM_ERROR_RACE, site, block, NULL);
    end_race(w);
}

/* ---- at a fault: arguments that are no pointers to guarded blocks */

struct around {
    uint64_t address;
    struct gm_block block; /* size 0: none */
};

static void note_around(const struct gm_block *block, void *arg) {
    struct around *around = arg;
    if (gm_block_is_memory(block) && around->address - block->address <= block->size)
        around->block = *block;
}

/* Memory of the process that the driver did not map. "" = none. */
static const char *host_memory_at(uint64_t address) {
    static const char *const kinds[] = {"host memory", "the host's heap", "a stack of the host"};
    struct gm_map_line line;
    if (!gm_map_find(address, &line) || !line.readable || !strncmp(line.name, "/dev/", 5))
        return "";
    return kinds[!strcmp(line.name, "[heap]") ? 1 : !strncmp(line.name, "[stack", 6) ? 2 : 0];
}

static void add_others(struct work *w, const struct gm_fault *fault, const struct gm_launch *launch) {
    bool only = fault->exact || fault->count == 1;
    struct gm_registry *registry = gm_registry_shared();
    for (unsigned i = 0; i < launch->other_count; i++) {
        struct around around = {.address = launch->others[i].address};
        const char *host = "";
        if (registry)
            gm_registry_each(registry, note_around, &around);
        if (!around.block.size && !fault->reaches_host)
            host = host_memory_at(around.address);
        if (*host)
            gm_log_add(&w->lines, "    argument %u  an address of %s, which the device cannot reach",
                       launch->others[i].argument, host);
        else if (only && around.block.size)
            gm_log_add(&w->lines, "    argument %u  lies in a block of %s that is not guarded, allocated by %s",
                       launch->others[i].argument, gm_size_text(&w->size[0], around.block.size),
                       gm_site_text(&w->site, around.block.site));
    }
    for (unsigned i = 0; only && !launch->told && i < 64; i++)
        if (launch->zeros >> i & 1)
            gm_log_add(&w->lines, "    argument %u  is 0, which is no address if it is a pointer", i + 1);
}

/* Those to freed blocks, or the others. */
static void add_pointers(struct work *w, const struct gm_launch *launch, bool freed) {
    struct gm_guard_block block;
    for (unsigned at = 0; at < launch->count; at++) {
        const struct gm_launch_pointer *pointer = &launch->pointers[at];
        if (!gm_guard_find(pointer->address, &block) || (block.state == GM_GUARD_FREED) != freed)
            continue;
        if (pointer->argument)
            gm_format(w->argument, sizeof w->argument, "argument %u", pointer->argument);
        else
            gm_format(w->argument, sizeof w->argument, "an argument");
        gm_log_add(&w->lines, "    %s  %s, allocated by %s", w->argument, place_text(w, &block, pointer->address),
                   gm_site_text(&w->site, block.allocated_at));
        if (freed)
            gm_log_add(&w->lines, "      freed by  %s", freed_by(w, &block));
        if (block.earlier)
            gm_log_add(&w->lines, "      or        one of %u earlier blocks at these addresses: try GPUMEM_GUARD_RANGE",
                       block.earlier);
    }
}

static void add_launch(struct work *w, const struct gm_fault *fault, unsigned i) {
    const struct gm_launch *launch = &fault->launches[i];
    w->times[0] = '\0';
    if (fault->times[i] > 1)
        gm_format(w->times, sizeof w->times, "%u times ", fault->times[i]);
    gm_log_add(&w->lines, "  %s        %s, launched %sby %s", fault->exact ? "at fault" : "kernel  ",
               kernel_name(w, launch), w->times, gm_site_text(&w->site, launch->site));
    add_pointers(w, launch, true);
    add_pointers(w, launch, false);
    if (launch->more)
        gm_log_add(&w->lines, "    and %u more pointers to guarded blocks", launch->more);
    if (launch->partly && launch->kernel)
        gm_log_add(&w->lines, "    not all arguments of this kernel are known");
    add_others(w, fault, launch);
}

static const char *fault_text(int error) {
    switch (error) {
    case 716: return "misaligned address: a kernel used an address that is no multiple of the size of the access";
    case 717: return "invalid address space: a kernel used an address that its instruction cannot access";
    case 718: return "invalid program counter: a kernel jumped to where no code is, as a damaged pointer may lead";
    case 719: return "launch failure: a kernel, or a copy, may have used memory outside of all blocks";
    default: return "illegal address: a kernel used memory outside of all blocks";
    }
}

/* Then the error is counted already. */
static bool was_told(const struct gm_fault *fault) {
    bool told = false;
    for (unsigned i = 0; i < fault->count && (!fault->exact || !i); i++)
        told |= fault->launches[i].told;
    return told;
}

/* Where one launch is at fault, it is named, with the first of its blocks, a freed one rather than another. */
static void note_fault(struct work *w, const struct gm_fault *fault) {
    struct gm_guard_block seen, block = {0};
    const struct gm_launch *launch = fault->exact || fault->count == 1 ? fault->launches : NULL;
    for (unsigned i = 0; launch && i < launch->count; i++)
        if (gm_guard_find(launch->pointers[i].address, &seen) &&
            (!block.size || (seen.state == GM_GUARD_FREED && block.state != GM_GUARD_FREED)))
            block = seen;
    if (launch)
        gm_format(w->place, sizeof w->place, "; kernel %s", kernel_name(w, launch));
    note_found_again(w, GM_ERROR_FAULT, launch ? launch->site : fault->site, block.size ? &block : NULL,
                     launch ? w->place : NULL, was_told(fault));
}

void gm_explain_fault(const struct gm_fault *fault) {
    struct work *w;
    if (__atomic_exchange_n(&faulted, true, __ATOMIC_RELAXED) || !(w = begin_text()))
        return;
    if (!was_told(fault))
        count_error();
    gm_log_add(&w->lines, "%s; %s returned the error", fault_text(fault->error), fault->call);
    gm_log_add(&w->lines, "  seen by       %s", gm_site_text(&w->site, fault->site));
    for (unsigned i = 0; i < fault->count && (!fault->exact || !i); i++)
        add_launch(w, fault, i);
    if (fault->more)
        gm_log_add(&w->lines, "  further       %lu earlier launches may not have ended", (unsigned long)fault->more);
    if (!fault->count)
        gm_log_add(&w->lines, "  kernel        not known: none was launched by a call that gpumem sees");
    else if (!fault->exact && fault->count > 1)
        gm_log_add(&w->lines, "  try           GPUMEM_GUARD=all,blocking, which names the kernel at fault");
    note_fault(w, fault);
    end_text(w);
}

/* ---- bytes behind a block */

static void add_damage(struct work *w, const struct gm_guard_block *block, const struct gm_guard_damage *damage) {
    gm_format(w->place, sizeof w->place, damage->distance ? "%lu bytes" : "right", (unsigned long)damage->distance);
    gm_log_add(&w->lines, "%s%lu %s written %s %s of a block of %s", damage->more ? "at least " : "",
               (unsigned long)damage->count, damage->count == 1 ? "byte was" : "bytes were", w->place,
               damage->before ? "before the start" : "behind the end", size_of(w, block));
    gm_log_add(&w->lines, "  allocated by  %s", gm_site_text(&w->site, block->allocated_at));
}

void gm_explain_damage(const struct gm_guard_block *block, const struct gm_guard_damage *damage) {
    struct work *w;
    if (!is_first_pair(DAMAGE, block->allocated_at, block->freed_at) || !(w = begin_text()))
        return;
    add_damage(w, block, damage);
    if (damage->found != GM_GUARD_AT_FREE)
        gm_log_add(&w->lines, "  found         at the end of %s: the block was not freed",
                   damage->found == GM_GUARD_AT_EXIT ? "the process" : "its context");
    else
        gm_log_add(&w->lines, "  found         at its free by %s", gm_site_text(&w->site, block->freed_at));
    note_found(w, GM_ERROR_OUT_OF_BOUNDS, 0, block, NULL);
    end_text(w);
}

void gm_explain_damage_by(const struct gm_launch *launch, const struct gm_guard_block *block,
                          const struct gm_guard_damage *damage) {
    struct work *w = begin_first(DAMAGE_BY, launch->site, block->allocated_at);
    if (!w)
        return;
    add_damage(w, block, damage);
    gm_log_add(&w->lines, "  found         after kernel %s, launched by %s", kernel_name(w, launch),
               gm_site_text(&w->site, launch->site));
    gm_format(w->place, sizeof w->place, "; kernel %s", kernel_name(w, launch));
    note_found(w, GM_ERROR_OUT_OF_BOUNDS, launch->site, block, w->place);
    end_text(w);
}

/* ---- life */

void gm_explain_access_finish(void) {
    uint64_t all = __atomic_load_n(&found, __ATOMIC_RELAXED), said = __atomic_load_n(&explained, __ATOMIC_RELAXED);
    if (all > said)
        gm_log(GM_LOG_WARN, "memory errors: %lu in all; the first of each pair of call sites is explained above",
               (unsigned long)all);
}

/* Ranges in a list and a hash table; one lock that many threads hold shared, or one alone (suspendable_memory.h). */
#include "shim/resource/suspendable_memory.h"

#include <sys/mman.h>

#include "shim/accounts/share.h"
#include "shim/accounts/stats.h"
#include "shim/base/futex.h"
#include "shim/resource/vmm.h"

#define UNIT   512u
#define SMALL  ((size_t)1 << 20) /* larger blocks have a range of their own */
#define SLAB   ((size_t)GM_SUSPENDABLE_UNITS * UNIT)
#define HASHED 4096u

static struct gm_suspendable_range *ranges, *hash[HASHED]; /* ranges that gpumem mapped come first */
static const struct gm_suspendable_pages own_pages;
static struct gm_suspendable_range **ranges_end; /* the link of the last one; NULL: there was none */
static uint64_t lowest, highest;                 /* of all ranges that ever were */
GM_LOCK(lock);                                   /* of the lists, and of the units of slabs */
GM_ZERO_IN_CHILD(ranges);
GM_ZERO_IN_CHILD(ranges_end);
GM_ZERO_IN_CHILD(hash);

/* ---- shared or alone: in `holders` the number of threads that hold it shared, and ALONE */

#define ALONE 0x80000000u
static uint32_t holders;
GM_ZERO_IN_CHILD(holders);

void gm_suspendable_lock_shared(void) {
    for (;;) {
        uint32_t seen = __atomic_load_n(&holders, __ATOMIC_ACQUIRE);
        if (seen & ALONE)
            gm_futex_wait(&holders, seen, NULL);
        else if (__atomic_compare_exchange_n(&holders, &seen, seen + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return;
    }
}

void gm_suspendable_unlock_shared(void) {
    if (__atomic_sub_fetch(&holders, 1, __ATOMIC_ACQ_REL) == ALONE)
        gm_futex_wake(&holders);
}

void gm_suspendable_lock(void) {
    uint32_t seen;
    while ((seen = __atomic_fetch_or(&holders, ALONE, __ATOMIC_ACQUIRE)) &
           ALONE) /* another thread has it, or wants it */
        gm_futex_wait(&holders, seen, NULL);
    while ((seen = __atomic_load_n(&holders, __ATOMIC_ACQUIRE)) != ALONE)
        gm_futex_wait(&holders, seen, NULL);
}

void gm_suspendable_unlock(void) {
    __atomic_store_n(&holders, 0, __ATOMIC_RELEASE);
    gm_futex_wake(&holders);
}

/* ---- ranges */

static unsigned slot_of(uint64_t address) { return (unsigned)(address / SLAB * 0x9e3779b97f4a7c15ull >> 52) % HASHED; }

/* The range that begins there. The lock is held. */
static struct gm_suspendable_range *find_start(uint64_t address) {
    struct gm_suspendable_range *range = hash[slot_of(address)];
    while (range && range->address != address)
        range = range->next_in_hash;
    return range;
}

/* The range of a block: its own, or the slab that it lies in. The lock is held. */
static struct gm_suspendable_range *find_of_block(uint64_t address) {
    struct gm_suspendable_range *range = find_start(address);
    return range ? range : find_start(address - address % SLAB);
}

/* The lock is held. */
static void link_at(struct gm_suspendable_range **at, struct gm_suspendable_range *range) {
    range->next = *at;
    range->link = at;
    if (range->next)
        range->next->link = &range->next;
    else
        ranges_end = &range->next;
    *at = range;
}

static void unlink_range(struct gm_suspendable_range *range) {
    *range->link = range->next;
    if (range->next)
        range->next->link = range->link;
    else
        ranges_end = range->link;
}

static void insert(struct gm_suspendable_range *range) {
    gm_spin_lock(&lock);
    link_at(&ranges, range);
    struct gm_suspendable_range **slot = &hash[slot_of(range->address)];
    range->next_in_hash = *slot;
    *slot = range;
    if (!lowest || range->address < lowest)
        __atomic_store_n(&lowest, range->address, __ATOMIC_RELAXED);
    if (range->address + range->size > highest)
        __atomic_store_n(&highest, range->address + range->size, __ATOMIC_RELAXED);
    gm_spin_unlock(&lock);
}

/* The lock is held. */
static void take_out(struct gm_suspendable_range *range) {
    struct gm_suspendable_range **in_hash = &hash[slot_of(range->address)];
    unlink_range(range);
    while (*in_hash != range)
        in_hash = &(*in_hash)->next_in_hash;
    *in_hash = range->next_in_hash;
}

void gm_suspendable_set_away(struct gm_suspendable_range *range, bool away) {
    struct gm_stats_suspended *shown = &gm_stats->suspended;
    uint64_t change = away ? range->size : -(uint64_t)range->size;
    if (range->away == away)
        return;
    range->away = away;
    range->aside = false;
    __atomic_add_fetch(&shown->away, change, __ATOMIC_RELAXED);
    if (gm_stats_knows(range->device))
        __atomic_add_fetch(&shown->away_on[range->device], change, __ATOMIC_RELAXED);
}

void gm_suspendable_join(struct gm_suspendable_range *range) {
    gm_spin_lock(&lock);
    link_at(ranges_end ? ranges_end : &ranges, range);
    gm_suspendable_recount(range, true);
    gm_spin_unlock(&lock);
}

void gm_suspendable_part(struct gm_suspendable_range *range) {
    gm_spin_lock(&lock);
    unlink_range(range);
    gm_suspendable_recount(range, false);
    gm_spin_unlock(&lock);
}

struct gm_suspendable_range *gm_suspendable_first(void) {
    return ranges;
}

struct gm_suspendable_range *gm_suspendable_of_block(uint64_t address) {
    gm_spin_lock(&lock);
    struct gm_suspendable_range *range = find_of_block(address);
    gm_spin_unlock(&lock);
    return range;
}

/* Of those that gpumem mapped. The lock is held. */
static struct gm_suspendable_range *find_around(uint64_t address) {
    struct gm_suspendable_range *range = ranges;
    if (address < lowest || address >= highest)
        return NULL;
    while (range && range->pages == &own_pages && address - range->address >= range->size)
        range = range->next;
    return range && range->pages == &own_pages ? range : NULL;
}

bool gm_suspendable_is_ours(uint64_t address) {
    if (address < __atomic_load_n(&lowest, __ATOMIC_RELAXED) || address >= __atomic_load_n(&highest, __ATOMIC_RELAXED))
        return false;
    gm_spin_lock(&lock);
    bool ours = find_around(address) != NULL;
    gm_spin_unlock(&lock);
    return ours;
}

void gm_suspendable_recount(struct gm_suspendable_range *range, bool exists) {
    int64_t size = exists ? (int64_t)range->size : 0, away = range->away ? size : 0;
    int64_t here = range->away || range->stays ? 0 : size;
    gm_share_count(range->device, here - range->counted_here, away - range->counted_away);
    range->counted_here = here;
    range->counted_away = away;
}

bool gm_suspendable_stay_ours(uint64_t address, const char *why) {
    gm_spin_lock(&lock);
    struct gm_suspendable_range *range = find_around(address);
    if (range) {
        range->stays = why;
        gm_suspendable_recount(range, true);
    }
    gm_spin_unlock(&lock);
    return range != NULL;
}

void gm_suspendable_set_tag(uint64_t address, uint8_t tag) {
    gm_spin_lock(&lock);
    struct gm_suspendable_range *range = find_of_block(address);
    if (range && !range->slab)
        range->tag = tag;
    bool lacks = range && range->slab && !range->tags && tag;
    gm_spin_unlock(&lock);
    uint8_t *tags = lacks ? gm_pages(GM_SUSPENDABLE_UNITS) : NULL, *spare = tags;
    gm_spin_lock(&lock);
    if (range && range->slab) { /* the block lives, so its slab does */
        if (!range->tags) {
            range->tags = tags;
            spare = NULL;
        }
        if (range->tags)
            range->tags[(address - range->address) / UNIT] = tag;
    }
    gm_spin_unlock(&lock);
    if (spare)
        munmap(spare, GM_SUSPENDABLE_UNITS);
}

uint8_t gm_suspendable_tag_of(uint64_t address) {
    gm_spin_lock(&lock);
    const struct gm_suspendable_range *range = find_of_block(address);
    uint8_t tag = !range         ? 0
                  : !range->slab ? range->tag
                  : range->tags  ? range->tags[(address - range->address) / UNIT]
                                 : 0;
    gm_spin_unlock(&lock);
    return tag;
}

/* ---- pages */

static struct gm_location location_of(int device) { return (struct gm_location){.device = device, .node = -1}; }

static gm_status create_pages(struct gm_suspendable_range *range) {
    struct gm_location location = location_of(range->device);
    for (unsigned i = 0; i < range->count; i++) {
        gm_status status = gm_extent_create(&gm_drv, &location, range->extents[i].size, &range->extents[i]);
        if (status) {
            gm_extents_release(&gm_drv, range->extents, i);
            return status;
        }
    }
    return GM_OK;
}

static void uncreate_pages(struct gm_suspendable_range *range) {
    gm_extents_release(&gm_drv, range->extents, range->count);
}

static gm_status map_pages(struct gm_suspendable_range *range) {
    gm_status status = gm_vmm_map(range->device, range->address, range->extents, range->count);
    if (status)
        return status;
    gm_suspendable_set_away(range, false);
    gm_suspendable_recount(range, true);
    return GM_OK;
}

/* Some extents may be unmapped already. */
static bool map_again(struct gm_suspendable_range *range, unsigned unmapped) {
    return !unmapped || !gm_vmm_map(range->device, range->address, range->extents, unmapped);
}

static gm_status leave_pages(struct gm_suspendable_range *range) {
    gm_status status = GM_OK;
    uint64_t at = range->address;
    unsigned done = 0;
    for (; done < range->count; at += range->extents[done++].size)
        if ((status = GM_TWICE(gm_drv.mem_unmap(at, range->extents[done].size))) != GM_OK)
            break;
    if (status && map_again(range, done))
        return status;
    if (status) /* the contents are copied: the pages that are mapped still are given up, too */
        for (; done < range->count; at += range->extents[done++].size)
            gm_drv.mem_unmap(at, range->extents[done].size);
    uncreate_pages(range);
    gm_suspendable_set_away(range, true);
    gm_suspendable_recount(range, true);
    return status;
}

static const struct gm_suspendable_pages own_pages = {
    .leave = leave_pages,
    .create = create_pages,
    .uncreate = uncreate_pages,
    .map = map_pages,
};

void gm_suspendable_drop_backing(struct gm_suspendable_range *range) {
    gm_backing_give(range->backing);
    range->backing = NULL;
}

static void discard(struct gm_suspendable_range *range) {
    gm_suspendable_set_away(range, false);
    gm_suspendable_drop_backing(range);
    if (range->extents)
        munmap(range->extents, range->count * sizeof *range->extents);
    if (range->tags)
        munmap(range->tags, GM_SUSPENDABLE_UNITS);
    munmap(range, sizeof *range);
}

static struct gm_suspendable_range *new_range(size_t size, int device) {
    struct gm_suspendable_range *range = gm_pages(sizeof *range);
    if (!range)
        return NULL;
    range->pages = &own_pages;
    range->size = size;
    range->device = device;
    range->count = (unsigned)((size + GM_SUSPENDABLE_EXTENT - 1) / GM_SUSPENDABLE_EXTENT);
    range->extents = gm_pages(range->count * sizeof *range->extents);
    if (!range->extents) {
        discard(range);
        return NULL;
    }
    for (unsigned i = 0; i < range->count; i++) {
        size_t rest = size - i * GM_SUSPENDABLE_EXTENT;
        range->extents[i].size = rest < GM_SUSPENDABLE_EXTENT ? rest : GM_SUSPENDABLE_EXTENT;
    }
    return range;
}

/* Addresses with pages. On success the range is not in the lists yet. */
static gm_status make(size_t size, int device, struct gm_suspendable_range **made) {
    struct gm_suspendable_range *range = new_range(size, device);
    CUdeviceptr address;
    gm_status status = range ? GM_OK : GM_OUT_OF_MEMORY;
    if (status)
        return status;
    status = gm_drv.mem_address_reserve(&address, size, SLAB, 0, 0);
    if (status)
        goto discard;
    range->address = address;
    status = create_pages(range);
    if (status)
        goto unreserve;
    status = map_pages(range);
    if (status)
        goto uncreate;
    *made = range;
    return GM_OK;
uncreate:
    uncreate_pages(range);
unreserve:
    gm_addresses_free(&gm_drv, address, size);
discard:
    discard(range);
    return status;
}

/* The range is out of the lists. After an error it is as before. */
static gm_status unmake(struct gm_suspendable_range *range, bool lost) {
    uint64_t at = range->address;
    if (lost) {
        gm_suspendable_recount(range, false);
        for (unsigned i = 0; !range->away && i < range->count; at += range->extents[i++].size) {
            gm_drv.mem_unmap(at, range->extents[i].size);
            gm_drv.mem_release(range->extents[i].handle);
        }
        gm_drv.mem_address_free(range->address, range->size);
        discard(range);
        return GM_OK;
    }
    if (!range->away) {
        gm_status status = leave_pages(range);
        if (status && !range->away)
            return status;
    }
    gm_suspendable_recount(range, false);
    gm_addresses_free(&gm_drv, range->address, range->size);
    discard(range);
    return GM_OK;
}

/* ---- units of a slab. The lock is held. */

static bool is_set(const uint64_t *bits, unsigned at) { return bits[at / 64] >> at % 64 & 1; }
static void set_bit(uint64_t *bits, unsigned at) { bits[at / 64] |= 1ull << at % 64; }
static void clear_bit(uint64_t *bits, unsigned at) { bits[at / 64] &= ~(1ull << at % 64); }

/* The first unit of a row of so many free units; GM_SUSPENDABLE_UNITS: there is none. */
static unsigned find_row(const uint64_t *used, unsigned units) {
    unsigned row = 0;
    for (unsigned at = 0; at < GM_SUSPENDABLE_UNITS; at++) {
        if (at % 64 == 0 && used[at / 64] == UINT64_MAX) {
            row = 0;
            at += 63;
            continue;
        }
        row = is_set(used, at) ? 0 : row + 1;
        if (row == units)
            return at + 1 - units;
    }
    return GM_SUSPENDABLE_UNITS;
}

static bool take_units(struct gm_suspendable_range *slab, unsigned units, uint64_t *address) {
    if (units > slab->free_units || units > slab->longest)
        return false;
    unsigned at = find_row(slab->used, units);
    if (at == GM_SUSPENDABLE_UNITS) {
        slab->longest = units - 1;
        return false;
    }
    set_bit(slab->starts, at);
    for (unsigned i = at; i < at + units; i++)
        set_bit(slab->used, i);
    slab->free_units -= units;
    slab->blocks++;
    *address = slab->address + (uint64_t)at * UNIT;
    return true;
}

/* False: no block starts there. */
static bool give_units(struct gm_suspendable_range *slab, uint64_t address) {
    unsigned at = (unsigned)((address - slab->address) / UNIT);
    if ((address - slab->address) % UNIT || !is_set(slab->starts, at))
        return false;
    clear_bit(slab->starts, at);
    for (; at < GM_SUSPENDABLE_UNITS && is_set(slab->used, at) && !is_set(slab->starts, at); at++) {
        clear_bit(slab->used, at);
        slab->free_units++;
    }
    slab->longest = GM_SUSPENDABLE_UNITS;
    slab->blocks--;
    return true;
}

static bool take_from_slabs(int device, unsigned units, uint64_t *address) {
    bool taken = false;
    gm_spin_lock(&lock);
    for (struct gm_suspendable_range *range = ranges; range && !taken; range = range->next)
        taken = range->slab && range->device == device && !range->stays && take_units(range, units, address);
    gm_spin_unlock(&lock);
    return taken;
}

/* ---- blocks */

static gm_status take_small(int device, size_t size, uint64_t *address, size_t *reserved) {
    unsigned units = (unsigned)((size + UNIT - 1) / UNIT);
    struct gm_suspendable_range *slab;
    *reserved = (size_t)units * UNIT;
    if (take_from_slabs(device, units, address))
        return GM_OK;
    gm_status status = make(SLAB, device, &slab);
    if (status)
        return status;
    slab->slab = true;
    slab->free_units = slab->longest = GM_SUSPENDABLE_UNITS;
    take_units(slab, units, address);
    insert(slab);
    return GM_OK;
}

gm_status gm_suspendable_take(const struct gm_request *request, size_t size, uint64_t *address, size_t *reserved) {
    size_t granularity;
    gm_status status = gm_vmm_prepare(request, &granularity);
    if (status || granularity > SLAB || SLAB % granularity)
        return status ? status : GM_NOT_SUPPORTED;
    gm_suspendable_lock_shared();
    if (size <= SMALL) {
        status = take_small(request->device, size, address, reserved);
    } else {
        struct gm_suspendable_range *range;
        size_t over = size % SLAB, whole;
        bool fits = !__builtin_add_overflow(size, over ? SLAB - over : 0, &whole) && whole < SIZE_MAX / 2;
        status = fits ? make(whole, request->device, &range) : GM_OUT_OF_MEMORY;
        if (!status) {
            *address = range->address;
            *reserved = whole;
            insert(range);
        }
    }
    gm_suspendable_unlock_shared();
    return status;
}

gm_status gm_suspendable_give(uint64_t address, bool lost) {
    gm_status status = GM_OK;
    gm_suspendable_lock_shared();
    gm_spin_lock(&lock);
    struct gm_suspendable_range *range = find_of_block(address);
    bool known = range && (range->slab ? give_units(range, address) : range->address == address);
    bool last = known && (!range->slab || !range->blocks);
    if (last)
        take_out(range);
    gm_spin_unlock(&lock);
    if (!known)
        status = GM_INVALID_VALUE;
    else if (last && (status = unmake(range, lost)) != GM_OK) {
        insert(range);
        status = range->slab ? GM_OK : status; /* an empty slab serves again */
    }
    gm_suspendable_unlock_shared();
    return status;
}

bool gm_suspendable_open_to(int device) {
    bool opened = true;
    gm_suspendable_lock();
    for (const struct gm_suspendable_range *range = ranges; range; range = range->next)
        if (range->pages == &own_pages && !range->away && range->device != device)
            opened &=
                !gm_mapping_open_to(&gm_drv, range->address, range->size, device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    gm_suspendable_unlock();
    return opened;
}

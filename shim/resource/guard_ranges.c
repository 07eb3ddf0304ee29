/* Arenas of places (guard_ranges.h). Each place has the number of the first place of its range; a range's block is
 * stored at that number. The tables lie in pages of the kernel, which takes memory only for pages that were used. */
#include "shim/resource/guard_ranges.h"

#include <string.h>

#define PLACE       (2 * GM_GUARD_GRANULE)
#define ARENA       ((uint64_t)1 << 40)
#define LEAST_ARENA ((uint64_t)1 << 26)
#define MOST_GUARD  ((size_t)1 << 30)
enum { ARENAS = 64 };

struct arena {
    uint64_t start;
    uint32_t places;
    uint32_t *first; /* of each place: 1 + the first place of its range; 0 = never used, or forgotten */
    struct gm_guard_block *blocks;
};

uint64_t gm_guard_low = UINT64_MAX, gm_guard_high, gm_guard_order;
static struct arena arenas[ARENAS]; /* constant once counted */
static unsigned arena_count;
static uint64_t budget, used_budget;
static uint64_t (*reserve_addresses)(size_t bytes);
static gm_spin lock;

static struct { /* where the next range is looked for */
    unsigned arena;
    uint32_t place;
} cursor;

void gm_guard_ranges_setup(uint64_t bytes, uint64_t (*reserve)(size_t bytes)) {
    if (reserve_addresses)
        return;
    budget = bytes;
    reserve_addresses = reserve;
}

/* ---- arenas */

/* Reserves one more arena, a smaller one where the driver refuses. The first place stays unused: it guards the first
 * block. */
static bool add_arena(uint64_t least) {
    struct arena made = {0};
    uint64_t left = budget - used_budget, bytes = left < ARENA ? left / PLACE * PLACE : ARENA;
    for (; !made.start && bytes >= least && bytes >= LEAST_ARENA;
         bytes = made.start ? bytes : bytes / 2 / PLACE * PLACE)
        made.start = reserve_addresses(bytes);
    if (!made.start)
        return false;
    made.places = (uint32_t)(bytes / PLACE);
    made.first = gm_pages(made.places * sizeof *made.first);
    made.blocks = gm_pages(made.places * sizeof *made.blocks);
    gm_spin_lock(&lock);
    bool added = made.first && made.blocks && arena_count < ARENAS;
    used_budget += bytes;
    if (added) {
        arenas[arena_count] = made;
        if (made.start < gm_guard_low)
            __atomic_store_n(&gm_guard_low, made.start, __ATOMIC_RELAXED);
        if (made.start + bytes > gm_guard_high)
            __atomic_store_n(&gm_guard_high, made.start + bytes, __ATOMIC_RELAXED);
        cursor.arena = arena_count;
        cursor.place = 1;
        __atomic_store_n(&arena_count, arena_count + 1, __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&lock);
    return added;
}

static struct arena *arena_of(uint64_t address) {
    unsigned count = __atomic_load_n(&arena_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < count; i++)
        if (address - arenas[i].start < (uint64_t)arenas[i].places * PLACE)
            return &arenas[i];
    return NULL;
}

static uint32_t place_of(const struct arena *arena, uint64_t address) {
    return (uint32_t)((address - arena->start) / PLACE);
}

/* ---- ranges; the lock is held */

static uint32_t places_for(size_t mapped) {
    size_t guard = mapped < MOST_GUARD ? mapped : MOST_GUARD;
    return (uint32_t)((mapped + guard + PLACE - 1) / PLACE);
}

/* The block whose range has this place; NULL: none. */
static struct gm_guard_block *block_of(const struct arena *arena, uint32_t place) {
    uint32_t first = arena->first[place];
    return first ? &arena->blocks[first - 1] : NULL;
}

static bool is_busy(const struct gm_guard_block *block) { return block && !block->released; }

static void set_places(struct arena *arena, uint32_t place, uint32_t count, uint32_t first) {
    for (uint32_t i = 0; i < count; i++)
        arena->first[place + i] = first;
}

/* Forgets the freed blocks in these places, with all places that they have. Returns the most blocks that a place had.
 */
static uint32_t forget_places(struct arena *arena, uint32_t place, uint32_t count) {
    uint32_t most = 0;
    for (uint32_t i = place; i < place + count; i++) {
        struct gm_guard_block *old = block_of(arena, i);
        if (!old)
            continue;
        uint32_t had = old->earlier + (old->state != GM_GUARD_NONE);
        most = had > most ? had : most;
        set_places(arena, arena->first[i] - 1, places_for(old->mapped), 0);
        old->state = GM_GUARD_NONE;
    }
    return most;
}

/* Looks for `count` places in [from, to) of an arena. 0: there are none. */
static uint32_t search(const struct arena *arena, uint32_t from, uint32_t to, uint32_t count) {
    uint32_t run = 0;
    for (uint32_t at = from; at < to;) {
        const struct gm_guard_block *block = block_of(arena, at);
        if (is_busy(block)) {
            at = place_of(arena, block->mapping) + places_for(block->mapped);
            run = 0;
            continue;
        }
        at++;
        if (++run == count)
            return at - count;
    }
    return 0;
}

static uint64_t occupy(struct arena *arena, uint32_t place, uint32_t count, size_t mapped) {
    uint64_t mapping = arena->start + (uint64_t)place * PLACE;
    uint32_t earlier = forget_places(arena, place, count);
    set_places(arena, place, count, place + 1);
    arena->blocks[place] = (struct gm_guard_block){.mapping = mapping, .mapped = mapped, .earlier = earlier};
    cursor.arena = (unsigned)(arena - arenas);
    cursor.place = place + count;
    return mapping;
}

/* From the cursor to the end of its arena, and with `around` through the other arenas back to the cursor's. */
static uint64_t take(uint32_t count, size_t mapped, bool around) {
    for (unsigned turn = 0; turn <= (around ? arena_count : 0) && arena_count; turn++) {
        struct arena *arena = &arenas[(cursor.arena + turn) % arena_count];
        uint32_t found = search(arena, turn ? 1 : cursor.place, arena->places, count);
        if (found)
            return occupy(arena, found, count, mapped);
    }
    return 0;
}

uint64_t gm_guard_range_take(size_t mapped) {
    uint32_t count = places_for(mapped);
    uint64_t least = ((uint64_t)count + 1) * PLACE;
    if (!reserve_addresses || mapped > ARENA / 4)
        return 0;
    gm_spin_lock(&lock);
    uint64_t mapping = take(count, mapped, false);
    bool more = !mapping && budget - used_budget >= least && arena_count < ARENAS;
    gm_spin_unlock(&lock);
    if (more)
        add_arena(least);
    if (mapping)
        return mapping;
    gm_spin_lock(&lock);
    mapping = take(count, mapped, true);
    gm_spin_unlock(&lock);
    return mapping;
}

void gm_guard_range_live(const struct gm_guard_block *block) {
    struct arena *arena = arena_of(block->mapping);
    if (!arena)
        return;
    gm_spin_lock(&lock);
    struct gm_guard_block *own = &arena->blocks[place_of(arena, block->mapping)];
    uint32_t earlier = own->earlier;
    *own = *block;
    own->earlier = earlier;
    own->state = GM_GUARD_LIVE;
    own->released = false;
    gm_spin_unlock(&lock);
}

/* The lock is held. */
static struct gm_guard_block *starting_at(uint64_t address) {
    struct arena *arena = arena_of(address);
    struct gm_guard_block *block = arena ? block_of(arena, place_of(arena, address)) : NULL;
    return block && block->address == address && block->state != GM_GUARD_NONE ? block : NULL;
}

bool gm_guard_range_freed(uint64_t address, uint32_t site, bool ended) {
    gm_spin_lock(&lock);
    struct gm_guard_block *block = starting_at(address);
    bool lives = block && block->state == GM_GUARD_LIVE;
    if (lives) {
        block->state = GM_GUARD_FREED;
        block->freed_at = site;
        block->ended = ended;
    }
    gm_spin_unlock(&lock);
    return lives;
}

void gm_guard_range_moved(uint64_t address, uint64_t context, uint64_t context_id) {
    gm_spin_lock(&lock);
    struct gm_guard_block *block = starting_at(address);
    if (block) {
        block->context = context;
        block->context_id = context_id;
    }
    gm_spin_unlock(&lock);
}

void gm_guard_range_revive(uint64_t address) {
    gm_spin_lock(&lock);
    struct gm_guard_block *block = starting_at(address);
    if (block && !block->released) {
        block->state = GM_GUARD_LIVE;
        block->ended = false;
    }
    gm_spin_unlock(&lock);
}

void gm_guard_range_release(uint64_t mapping) {
    struct arena *arena = arena_of(mapping);
    if (!arena)
        return;
    gm_spin_lock(&lock);
    struct gm_guard_block *block = block_of(arena, place_of(arena, mapping));
    if (block) {
        block->released = true;
        if (block->state == GM_GUARD_LIVE) {
            block->state = GM_GUARD_FREED;
            block->ended = true;
        }
    }
    gm_spin_unlock(&lock);
}

/* ---- questions */

static uint64_t distance(const struct gm_guard_block *block, uint64_t address) {
    uint64_t end = block->address + block->size;
    return address < block->address ? block->address - address : address >= end ? address - end : 0;
}

/* Of the range that has the place, and of the next one: the nearer block. */
static const struct gm_guard_block *nearest(const struct arena *arena, uint64_t address) {
    uint32_t place = place_of(arena, address);
    const struct gm_guard_block *own = block_of(arena, place), *next = NULL;
    uint32_t behind = own ? place_of(arena, own->mapping) + places_for(own->mapped) : place + 1;
    if (behind < arena->places)
        next = block_of(arena, behind);
    if (own && own->state == GM_GUARD_NONE)
        own = NULL;
    if (next && next->state == GM_GUARD_NONE)
        next = NULL;
    if (!own || !next)
        return own ? own : next;
    return distance(next, address) < distance(own, address) ? next : own;
}

bool gm_guard_find(uint64_t address, struct gm_guard_block *block) {
    const struct arena *arena = arena_of(address);
    if (!arena)
        return false;
    gm_spin_lock(&lock);
    const struct gm_guard_block *found = nearest(arena, address);
    if (found)
        *block = *found;
    gm_spin_unlock(&lock);
    return found != NULL;
}

bool gm_guard_at(uint64_t address, struct gm_guard_block *block) {
    gm_spin_lock(&lock);
    const struct gm_guard_block *found = starting_at(address);
    if (found)
        *block = *found;
    gm_spin_unlock(&lock);
    return found != NULL;
}

void gm_guard_each(void (*visit)(const struct gm_guard_block *block, void *arg), void *arg) {
    unsigned count = __atomic_load_n(&arena_count, __ATOMIC_ACQUIRE);
    for (unsigned i = 0; i < count; i++)
        for (uint32_t place = 1; place < arenas[i].places;) {
            struct gm_guard_block copy = {0};
            gm_spin_lock(&lock);
            const struct gm_guard_block *block = block_of(&arenas[i], place);
            if (block)
                copy = *block;
            gm_spin_unlock(&lock);
            place = block ? place_of(&arenas[i], copy.mapping) + places_for(copy.mapped) : place + 1;
            if (copy.state == GM_GUARD_LIVE)
                visit(&copy, arg);
        }
}

unsigned gm_guard_arenas(void) { return __atomic_load_n(&arena_count, __ATOMIC_ACQUIRE); }

void gm_guard_ranges_after_fork(void) {
    lock.held = 0;
    arena_count = 0;
    used_budget = budget; /* the driver does not work in the child, so nothing can be reserved */
    gm_guard_low = UINT64_MAX;
    gm_guard_high = 0;
}

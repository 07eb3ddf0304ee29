/* A table with one place for each hash, each under its own spinlock (freed.h). */
#include "shim/explain/freed.h"

#include <sys/mman.h>

enum { PLACES = 8192 };

struct place {
    gm_spin lock;
    struct gm_freed freed;
};

static void *places;

/* NULL: no memory. */
static struct place *table(void) { return gm_pages_once(&places, PLACES * sizeof(struct place)); }

static struct place *place_of_address(struct place *all, uint64_t address) {
    return &all[(address >> 8) * 0x9e3779b97f4a7c15ull >> 51];
}

void gm_freed_note(const struct gm_block *block, uint32_t site) {
    struct place *all = table();
    if (!all)
        return;
    struct place *place = place_of_address(all, block->address);
    gm_spin_lock(&place->lock);
    place->freed = (struct gm_freed){block->address, block->size, block->site, site};
    gm_spin_unlock(&place->lock);
}

bool gm_freed_find(uint64_t address, struct gm_freed *freed) {
    struct place *all = table();
    if (!all)
        return false;
    struct place *place = place_of_address(all, address);
    gm_spin_lock(&place->lock);
    *freed = place->freed;
    gm_spin_unlock(&place->lock);
    return freed->address == address;
}

void gm_freed_after_fork(void) {
    if (places)
        munmap(places, PLACES * sizeof(struct place));
    places = NULL;
}

/* The map from addresses to blocks: a balanced tree of ranges that do not overlap. */
#include "sim.h"
#include <search.h>
#include <stdlib.h>

static void *tree;
static uint64_t last_id;

static int compare(const void *x, const void *y) {
    const struct sim_block *a = x, *b = y;
    size_t an = a->size ? a->size : 1, bn = b->size ? b->size : 1;
    if (a->addr + an <= b->addr)
        return -1;
    return b->addr + bn <= a->addr;
}

struct sim_block *sim_block_overlap(uintptr_t addr, size_t size) {
    struct sim_block key = {.addr = addr, .size = size};
    struct sim_block **found = tfind(&key, &tree, compare);
    return found ? *found : NULL;
}

struct sim_block *sim_block_at(uintptr_t addr) {
    return sim_block_overlap(addr, 1);
}

/* The caller and the tree own one reference together; a range that is still named by an older, freed block of
 * a pool is taken over. */
struct sim_block *sim_block_new(uintptr_t addr, size_t size, enum sim_kind kind, struct sim_device *d) {
    struct sim_block *b = calloc(1, sizeof *b), *old;
    if (!b)
        return NULL;
    *b = (struct sim_block){
        .addr = addr, .size = size, .kind = kind, .device = d, .id = ++last_id, .refs = 1, .state = STATE_LIVE};
    while ((old = sim_block_overlap(addr, size)) != NULL)
        sim_block_untree(old);
    tsearch(b, &tree, compare);
    return b;
}

void sim_block_untree(struct sim_block *b) {
    struct sim_block **found = tfind(b, &tree, compare);
    if (found && *found == b) {
        tdelete(b, &tree, compare);
        sim_block_unref(b);
    }
}

void sim_block_gone(struct sim_block *b) {
    b->state = STATE_FREED;
    sim_block_untree(b);
}

void sim_block_unref(struct sim_block *b) {
    if (b && --b->refs == 0) {
        free(b->advice);
        free(b);
    }
}

bool sim_is_device(const struct sim_block *b) { return b->kind != KIND_HOST && b->kind != KIND_REGISTERED; }

struct walk {
    struct sim_block **list;
    size_t count, room;
};

static __thread struct walk *walking; /* twalk_r is not in glibc 2.28 */

static void collect(const void *node, VISIT which, int depth) {
    struct walk *w = walking;
    if (which != postorder && which != leaf)
        return;
    if (w->count == w->room) {
        w->room = w->room ? 2 * w->room : 64;
        w->list = realloc(w->list, w->room * sizeof *w->list);
    }
    w->list[w->count++] = *(struct sim_block *const *)node;
}

/* fn may remove blocks, also others than its own. */
void sim_blocks_each(void (*fn)(struct sim_block *, void *), void *arg) {
    struct walk w = {0};
    walking = &w;
    twalk(tree, collect);
    for (size_t i = 0; i < w.count; i++)
        w.list[i]->refs++;
    for (size_t i = 0; i < w.count; i++) {
        fn(w.list[i], arg);
        sim_block_unref(w.list[i]);
    }
    free(w.list);
}

void *sim_alias(uintptr_t addr) {
    for (int i = 0; i < sim_opt.devices; i++) {
        for (int k = 0; k < 2; k++) {
            const struct sim_window *w = &sim_devices[i].window[k];
            if (w->va && addr - (uintptr_t)w->va < w->size)
                return w->alias + (addr - (uintptr_t)w->va);
        }
    }
    void *alias = sim_vmm_alias(addr);
    return alias ? alias : (void *)addr;
}

/* Operations on a cache with many free blocks. counted_work.py counts the instructions of measured().
 *
 * usage: free_list_work OPERATION BLOCKS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "idle_driver.h"
#include "shim/base/options.h"

enum { ROUNDS = 256 };

static struct gm_resource *cache;

static struct gm_block get(size_t size) {
    struct gm_request request = {.call = GM_CALL_ALLOC, .size = size, .context = 0x1000, .context_id = contexts[0].id};
    struct gm_block block = {0};
    if (gm_resource_alloc(cache, &request, NULL, &block))
        abort();
    return block;
}

static void give(const struct gm_block *block) {
    static const struct gm_free_request how = {.call = GM_CALL_FREE};
    if (gm_resource_free(cache, block, &how))
        abort();
}

/* ---- operations on a cache with `count` free blocks */

static size_t count;
static struct gm_block *blocks;

static size_t same(size_t i) { return (void)i, 4 * KIB; }
/* Each size is 1 KiB larger than the one before. */
static size_t different(size_t i) { return MIB + i * KIB; }

static int pairs(void) {
    for (size_t i = 0; i < ROUNDS; i++) {
        struct gm_block block = get(different(i * (count / ROUNDS)));
        if (!block.hit)
            return 1;
        give(&block);
    }
    return 0;
}

static int keeps(void) {
    for (size_t i = 0; i < ROUNDS; i++)
        if (cache->ops->keeps(cache, 0x10 + 512 * i) || !cache->ops->keeps(cache, blocks[i * (count / ROUNDS)].address))
            return 1;
    return 0;
}

/* Requests for sizes of which no block was freed: one granule smaller than a free block. */
static int near(void) {
    for (size_t i = 0; i < ROUNDS; i++)
        if (!get(different(1 + i * (count / ROUNDS)) - KIB / 2).hit)
            return 1;
    return 0;
}

static int put(void) {
    for (size_t i = 0; i < count; i++)
        give(&blocks[i]);
    return 0;
}

static int trim_all(void) { return cache->ops->trim(cache, SIZE_MAX) != freed || !freed; }

static int trim_most(void) { return cache->ops->trim(cache, count * MIB) < count * MIB; }

static int releasable(void) {
    for (size_t i = 0; i < ROUNDS; i++)
        if (cache->ops->releasable(cache, 0) == 0)
            return 1;
    return 0;
}

static const struct operation {
    const char *name;
    size_t (*size)(size_t i);
    bool freed_before; /* the blocks are freed before the measurement */
    int (*run)(void);
} operations[] = {
    {"pairs", different, true, pairs},
    {"keeps", same, true, keeps},
    {"near", different, true, near},
    {"put", different, false, put},
    {"trim_all", different, true, trim_all},
    {"trim_most", different, true, trim_most},
    {"releasable", different, true, releasable},
};

__attribute__((noinline)) int measured(const struct operation *operation);
int measured(const struct operation *operation) { return operation->run(); }

int main(int argc, char **argv) {
    const struct operation *operation = operations, *end = operations + sizeof operations / sizeof *operations;
    char *environment[] = {NULL};
    while (argc == 3 && operation < end && strcmp(operation->name, argv[1]))
        operation++;
    if (argc != 3 || operation == end)
        return 2;
    count = strtoul(argv[2], NULL, 10);
    blocks = calloc(count, sizeof *blocks);
    gm_clock_init();
    gm_options_load(environment);
    cache = open_idle_cache();
    if (!cache || !blocks)
        return 2;
    for (size_t i = 0; i < count; i++)
        blocks[i] = get(operation->size(i));
    for (size_t i = 0; operation->freed_before && i < count; i++)
        give(&blocks[i]);
    cache->ops->releasable(cache, 0); /* makes all blocks ready */
    int wrong = measured(operation);
    if (wrong)
        fprintf(stderr, "free_list_work: %s had a wrong result\n", operation->name);
    return wrong;
}

/* Measured work: a registry drops the blocks of one context among those of another. counted_work.py counts the
 * instructions of measured().
 *
 * usage: registry_work BLOCKS */
#include <stdlib.h>

#include "shim/resource/registry.h"

static size_t dropped;

static void visit(const struct gm_block *block, void *arg) { dropped += block->context_id == 7; }

__attribute__((noinline)) void measured(struct gm_registry *registry);
void measured(struct gm_registry *registry) { gm_registry_drop_context(registry, 7, NULL, visit, NULL); }

int main(int argc, char **argv) {
    size_t count = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
    struct gm_registry *registry = gm_registry_new();
    for (size_t i = 0; i < 2 * count; i++) {
        struct gm_block block = {.address = 0x7d0000000000 + i * 4096, .size = 4096, .context_id = 7 + i % 2};
        gm_registry_add(registry, &block, NULL);
    }
    measured(registry);
    return !count || dropped != count || gm_registry_count(registry) != count;
}

/* A kind of memory that add_kind.py adds to a copy of the sources: a maker with addresses of its own. */
#include "shim/resource/block.h"
#include "shim/resource/rows.h"

static gm_status toy_alloc(struct gm_resource *self, const struct gm_request *request,
                           const struct gm_decision *decision, struct gm_block *block) {
    static uint64_t next = 0x100000;
    const struct gm_piece piece = {.address = next += 4096, .reserved = request->size};
    gm_block_fill(block, self, request, &piece);
    return GM_OK;
}

static gm_status toy_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    return GM_OK;
}

const struct gm_resource_ops gm_resource_toy = {
    .name = "toy",
    .summary = "a kind that is added",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_READY_ANYWHERE | GM_PROP_STREAM_ORDERED,
    .breaks = "nothing",
    .kind = GM_KIND_TOY,
    .serves = "toy",
    .alloc = toy_alloc,
    .free = toy_free,
};

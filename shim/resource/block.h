/* What every maker writes into a block it serves. */
#ifndef GM_RESOURCE_BLOCK_H
#define GM_RESOURCE_BLOCK_H

#include "shim/resource/resource.h"

/* Memory a maker obtained for a request. */
struct gm_piece {
    uint64_t address;
    size_t reserved; /* bytes counted for it */
    size_t pitch;    /* pitched memory, else 0 */
};

/* True for the calls that a maker of device memory can stand in for. */
static inline bool gm_request_is_device(const struct gm_request *request) {
    return request->call == GM_CALL_ALLOC || request->call == GM_CALL_ALLOC_PITCH ||
           request->call == GM_CALL_ALLOC_ASYNC;
}

/* Writes what the maker knows; times, sequence and policy bits are the pipeline's and stay untouched. */
static inline void gm_block_fill(struct gm_block *block, struct gm_resource *owner, const struct gm_request *request,
                                 const struct gm_piece *piece) {
    block->address = piece->address;
    block->size = request->size;
    block->reserved = piece->reserved;
    block->pitch = piece->pitch;
    block->owner = owner;
    block->context = request->context;
    block->context_id = request->context_id;
    block->stream = request->call == GM_CALL_ALLOC_ASYNC ? request->stream : 0;
    block->site = request->site;
    block->device = (int16_t)request->device;
    block->call = (uint8_t)request->call;
    block->kind = (uint8_t)owner->kind;
    block->hit = 0;
    block->pinned_native = 0;
}

#endif

/* Functions that makers share: which requests they serve, and what they write into a block. */
#ifndef GM_RESOURCE_BLOCK_H
#define GM_RESOURCE_BLOCK_H

#include "shim/resource/resource.h"

/* Memory that a maker allocated for a request. */
struct gm_piece {
    uint64_t address;
    size_t reserved; /* bytes that the memory takes */
    size_t pitch;    /* pitched memory: bytes between rows; else 0 */
};

/* True for the calls whose memory a maker of device memory can replace. */
static inline bool gm_request_is_device(const struct gm_request *request) {
    return request->call == GM_CALL_ALLOC || request->call == GM_CALL_ALLOC_PITCH ||
           request->call == GM_CALL_ALLOC_ASYNC;
}

/* The same, without a capture. */
static inline bool gm_request_is_uncaptured(const struct gm_request *request) {
    return gm_request_is_device(request) && request->size && !request->capturing &&
           !(request->promises & GM_PROMISE_CAPTURE);
}

/* Fills in what the maker knows. The fields that the pipeline owns (times, sequence, policy bits) stay untouched. */
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
    block->in_range = 0;
    block->pinned_native = 0;
}

#endif

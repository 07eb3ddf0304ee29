/* Adaptor "aligned": gives each block at least an alignment, and more where a request asks for more. Where the wrapped
 * resource does not align so by itself, the adaptor requests more bytes and moves the start of the block. */
#include "shim/base/options.h"
#include "shim/base/error.h"
#include "shim/resource/adaptor.h"
#include "shim/resource/kept.h"
#include "shim/resource/registry.h"
#include "shim/resource/rows.h"

struct state {
    uint64_t bytes;
    uint8_t least; /* log2 of it */
};

static const struct gm_option argument_row = {.type = GM_OPTION_BYTES, .name = "aligned", .initial = "4KiB"};

static gm_status align_open(struct gm_resource *self, const char *argument, char *error, size_t error_size) {
    struct state *state = self->state;
    if (!state->bytes || state->bytes & (state->bytes - 1))
        return gm_refuse(error, error_size, "\"%s\" is not an alignment: write a power of two", argument);
    state->least = (uint8_t)__builtin_ctzll(state->bytes);
    return gm_adaptor_remember(self, NULL, error, error_size);
}

/* Remembers the wrapped resource's block under the moved address. `sequence` is the distance. */
static gm_status remember_moved(struct gm_registry *moved, const struct gm_block *got, uint64_t address) {
    struct gm_block noted = *got;
    noted.address = address;
    noted.sequence = address - got->address;
    return gm_registry_add(moved, &noted, NULL);
}

/* Of the wrapped resource's block all is reserved while it is kept, and the program's part while it lives. */
static void count_room(const struct gm_block *own, size_t reserved, bool kept) {
    int64_t room = (int64_t)(own->reserved - reserved);
    gm_kept_reserved(own, kept ? room : -room);
}

/* Allocates `room` bytes more than requested, so that an aligned start lies in the block. */
static gm_status alloc_larger(struct gm_resource *self, const struct gm_request *request,
                              const struct gm_decision *decision, uint8_t wanted, size_t room, struct gm_block *block) {
    struct gm_request larger = *request;
    struct gm_block got = *block;
    uint64_t mask = ((uint64_t)1 << wanted) - 1;
    if (request->call == GM_CALL_ALLOC_PITCH) { /* in whole rows, which have at least 32 bytes */
        size_t rows = room / (request->width > 32 ? request->width : 32) + 1;
        larger.height += rows;
        room = rows * request->width;
    }
    if (__builtin_add_overflow(request->size, room, &larger.size))
        return GM_OUT_OF_MEMORY;
    larger.alignment = 0;
    gm_status status = gm_adaptor_alloc(self, &larger, decision, &got);
    if (status)
        return status;
    uint64_t address = (got.address + mask) & ~mask;
    status = remember_moved(self->blocks, &got, address);
    if (status) {
        gm_adaptor_undo(self, request, &got);
        return status;
    }
    const struct gm_block own = got;
    got.address = address;
    got.size = request->size;
    got.reserved = got.pitch ? got.pitch * request->height : request->size;
    if (own.hit)
        count_room(&own, got.reserved, false);
    *block = got;
    return GM_OK;
}

static gm_status align_alloc(struct gm_resource *self, const struct gm_request *request,
                             const struct gm_decision *decision, struct gm_block *block) {
    const struct state *state = self->state;
    uint8_t wanted = request->alignment > state->least ? request->alignment : state->least;
    uint8_t least = self->upstream->alignment;
    if (wanted <= least || !request->size) {
        struct gm_request same = *request;
        same.alignment = wanted;
        return gm_adaptor_alloc(self, &same, decision, block);
    }
    return alloc_larger(self, request, decision, wanted, ((size_t)1 << wanted) - ((size_t)1 << least), block);
}

/* The wrapped resource's own block. */
static bool take_moved(struct gm_registry *moved, uint64_t address, struct gm_block *block) {
    bool found = gm_registry_take(moved, address, block);
    if (found) {
        block->address -= block->sequence;
        block->sequence = 0;
    }
    return found;
}

static gm_status align_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    struct gm_block own;
    if (!take_moved(self->blocks, block->address, &own))
        return gm_adaptor_free(self, block, how);
    bool kept = false;
    struct gm_free_request noted = *how;
    noted.kept = &kept;
    gm_status status = gm_adaptor_free(self, &own, &noted);
    if (status)
        remember_moved(self->blocks, &own, block->address);
    if (kept)
        count_room(&own, block->reserved, true);
    if (how->kept)
        *how->kept = kept;
    return status;
}

static gm_status align_grow(struct gm_resource *self, struct gm_block *block, size_t size) {
    struct gm_block own;
    if (!take_moved(self->blocks, block->address, &own))
        return gm_adaptor_grow(self, block, size);
    size_t before = block->address - own.address;
    gm_status status = gm_adaptor_grow(self, &own, size + before);
    remember_moved(self->blocks, &own, block->address);
    if (!status) {
        block->size = size;
        block->reserved = size;
    }
    return status;
}

const struct gm_resource_ops gm_resource_aligned = {
    .name = "aligned",
    .summary = "aligns each block of the wrapped resource to at least so many bytes, a power of two",
    .properties = ~0u,
    .breaks = "a block that is aligned beyond what its resource does takes up to one alignment more",
    .adaptor = true,
    .arguments = "BYTES",
    .number = &argument_row,
    .alignment = GM_ALIGNMENT_ANY,
    .state_size = sizeof(struct state),
    .open = align_open,
    .alloc = align_alloc,
    .free = align_free,
    .grow = align_grow,
    GM_ADAPTOR_REMEMBERS,
};

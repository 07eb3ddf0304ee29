/* Translates requests to the functions of the program's own maker (own_resource.h). */
#include "shim/api/own_resource.h"

#include "shim/base/base.h"
#include "shim/resource/block.h"
#include "shim/resource/stack.h"

enum { DEFAULT_ALIGNMENT = 4 }; /* log2 of the header's default alignment */

_Static_assert(_Alignof(max_align_t) == 1 << DEFAULT_ALIGNMENT, "as the header says");

struct state {
    struct gpumem_resource_author author;
    char name[32];
};

static const struct gpumem_resource_author *author_of(const struct gm_resource *self) {
    return &((const struct state *)self->state)->author;
}

static size_t alignment_of(uint8_t log2) { return (size_t)1 << (log2 > DEFAULT_ALIGNMENT ? log2 : DEFAULT_ALIGNMENT); }

static struct gpumem_stream_view stream_of(uint64_t stream) {
    return gpumem_stream((struct CUstream_st *)(uintptr_t)stream);
}

/* What the program's functions return is used as it is, so a mistake of theirs must not become a block. */
static gm_status check_memory(struct gm_resource *self, const struct gm_request *request, void *memory,
                              size_t alignment) {
    const struct gpumem_resource_author *author = author_of(self);
    if (!memory) {
        gm_log(GM_LOG_ERROR, "the resource %s returned success and NULL for %zu bytes", author->name, request->size);
        return GM_INVALID_VALUE;
    }
    if (!((uintptr_t)memory & (alignment - 1)))
        return GM_OK;
    gm_log(GM_LOG_ERROR, "the resource %s returned %p for %zu bytes that are to be aligned to %zu", author->name,
           memory, request->size, alignment);
    if (request->call == GM_CALL_ALLOC_ASYNC && author->deallocate_async)
        author->deallocate_async(author->self, memory, request->size, alignment, stream_of(request->stream));
    else
        author->deallocate(author->self, memory, request->size, alignment);
    return GM_INVALID_VALUE;
}

static gm_status own_alloc(struct gm_resource *self, const struct gm_request *request,
                           const struct gm_decision *decision, struct gm_block *block) {
    const struct gpumem_resource_author *author = author_of(self);
    size_t alignment = alignment_of(request->alignment);
    void *memory = NULL;
    gm_status status = GM_NOT_SUPPORTED;
    if (request->call == GM_CALL_ALLOC)
        status = author->allocate(author->self, request->size, alignment, &memory);
    else if (request->call == GM_CALL_ALLOC_ASYNC && author->allocate_async)
        status = author->allocate_async(author->self, request->size, alignment, stream_of(request->stream), &memory);
    if (!status)
        status = check_memory(self, request, memory, alignment);
    if (status)
        return status;
    gm_block_fill(block, self, request,
                  &(struct gm_piece){.address = (uint64_t)(uintptr_t)memory, .reserved = request->size});
    block->alignment = request->alignment;
    return GM_OK;
}

/* A cache hands a block out for smaller requests, too: `reserved` is the size of the allocation. */
static gm_status own_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    const struct gpumem_resource_author *author = author_of(self);
    size_t alignment = alignment_of(block->alignment);
    void *memory = (void *)(uintptr_t)block->address;
    if (how->call == GM_CALL_FREE_ASYNC && author->deallocate_async)
        return author->deallocate_async(author->self, memory, block->reserved, alignment, stream_of(how->stream));
    return author->deallocate(author->self, memory, block->reserved, alignment);
}

static void own_close(struct gm_resource *self) {
    const struct gpumem_resource_author *author = author_of(self);
    if (author->destroy)
        author->destroy(author->self);
}

static const struct gm_resource_ops own = {
    .name = "own",
    .summary = "memory of the program's own resource",
    .breaks = "",
    .alignment = GM_ALIGNMENT_ANY,
    .state_size = sizeof(struct state),
    .alloc = own_alloc,
    .free = own_free,
    .close = own_close,
};

static enum gm_kind kind_of_author(enum gpumem_kind kind) {
    switch (kind) {
    case GPUMEM_KIND_DEVICE: return GM_KIND_POOL;
    case GPUMEM_KIND_MANAGED: return GM_KIND_MANAGED;
    default: return GM_KIND_HOST;
    }
}

struct gm_resource *gm_own_resource(const struct gpumem_resource_author *author, uint64_t of_kind) {
    struct gm_resource *resource = gm_stack_of(&own);
    if (!resource)
        return NULL;
    struct state *state = resource->state;
    state->author = *author;
    gm_format(state->name, sizeof state->name, "%s", author->name);
    state->author.name = state->name;
    resource->properties = (uint32_t)(of_kind | author->properties);
    resource->kind = kind_of_author(author->kind);
    return resource;
}

void gm_own_resource_ends(struct gm_resource *resource, void (*destroy)(void *self)) {
    ((struct state *)resource->state)->author.destroy = destroy;
}

const struct gpumem_resource_author *gm_own_resource_author(const struct gm_resource *resource) {
    return resource->ops == &own ? author_of(resource) : NULL;
}

/* The public calls of gpumem_resource.h. A public resource is a stack (stack.h) with one more adaptor around it, which
 * aligns a block further than the stack does by itself. Its live blocks are in the registry, with the stack as their
 * owner. */
#include "shim/gpumem_resource.h"

#include <stdlib.h>
#include <string.h>

#include "shim/base/base.h"
#include "shim/base/error.h"
#include "shim/base/libraries.h"
#include "shim/core/own_resource.h"
#include "shim/core/pipeline.h"
#include "shim/core/resources.h"
#include "shim/core/site.h"
#include "shim/resource/registry.h"
#include "shim/resource/rows.h"
#include "shim/resource/stack.h"
#include "shim/resource/statistics.h"
#include "shim/resource/stream_bound.h"
#include "shim/resource/track.h"
#ifdef GM_HAVE_CUDA
#include "shim/driver/driver.h"
#endif

#define PUBLIC __attribute__((visibility("default")))

enum { TRACKED_FRAMES = 16 };

struct gpumem_resource {
    struct gm_resource *stack; /* as the text says */
    struct gm_resource *top;   /* `stack`, or "aligned" around it */
    bool tracked;              /* "track" is in it: the call stack of each allocation is needed */
    unsigned holds;            /* the caller's and those of resources composed of it */
    unsigned users;            /* resources composed of it */
    uint64_t mismatches;
    unsigned given_count;
    struct gpumem_resource *given[GM_STACK_GIVEN];
    char text[];
};

/* ---- kinds and properties */

#define SAME(ours, theirs) _Static_assert((uint64_t)(ours) == (uint64_t)(theirs), "one set of properties")
SAME(GM_PROP_HOST_ACCESSIBLE, GPUMEM_HOST_ACCESSIBLE);
SAME(GM_PROP_DEVICE_ACCESSIBLE, GPUMEM_DEVICE_ACCESSIBLE);
SAME(GM_PROP_PEER, GPUMEM_CROSS_DEVICE_ACCESSIBLE);
SAME(GM_PROP_OVERSUBSCRIBABLE, GPUMEM_OVERSUBSCRIBABLE);
SAME(GM_PROP_RESIDENT, GPUMEM_RESIDENT);
SAME(GM_PROP_HOST_STORAGE, GPUMEM_HOST_STORAGE);
SAME(GM_PROP_DEVICE_STORAGE, GPUMEM_DEVICE_STORAGE);
SAME(GM_PROP_STREAM_ORDERED, GPUMEM_STREAM_ORDERED);
SAME(GM_PROP_IPC, GPUMEM_IPC_EXPORTABLE);
SAME(GM_PROP_GROWABLE, GPUMEM_GROWABLE);
SAME(GM_PROP_READY_ANYWHERE, GPUMEM_ANY_CONTEXT);

static const uint64_t kinds[] = {
    [GPUMEM_KIND_HOST] = GPUMEM_HOST_ACCESSIBLE | GPUMEM_OVERSUBSCRIBABLE | GPUMEM_HOST_STORAGE,
    [GPUMEM_KIND_PINNED] = GPUMEM_HOST_ACCESSIBLE | GPUMEM_DEVICE_ACCESSIBLE | GPUMEM_RESIDENT | GPUMEM_HOST_STORAGE,
    [GPUMEM_KIND_DEVICE] = GPUMEM_DEVICE_ACCESSIBLE | GPUMEM_RESIDENT | GPUMEM_DEVICE_STORAGE,
    [GPUMEM_KIND_MANAGED] = GPUMEM_HOST_ACCESSIBLE | GPUMEM_DEVICE_ACCESSIBLE | GPUMEM_OVERSUBSCRIBABLE |
                            GPUMEM_HOST_STORAGE | GPUMEM_DEVICE_STORAGE,
};
enum { KINDS = sizeof kinds / sizeof *kinds };

PUBLIC uint64_t gpumem_kind_properties(enum gpumem_kind kind) { return (unsigned)kind < KINDS ? kinds[kind] : 0; }

PUBLIC const char *gpumem_property_name(uint64_t property) {
    const char *name = property & (property - 1) ? NULL : gm_property_name(property & GM_PROPERTIES_PUBLIC);
    return name ? name : "unknown property";
}

/* The properties of managed memory contain those of host memory, so the last kind comes first. */
PUBLIC enum gpumem_kind gpumem_resource_kind(const struct gpumem_resource *resource) {
    for (unsigned kind = KINDS - 1; kind; kind--)
        if (!(kinds[kind] & ~gpumem_resource_properties(resource)))
            return (enum gpumem_kind)kind;
    return GPUMEM_KIND_MIXED;
}

PUBLIC uint64_t gpumem_resource_properties(const struct gpumem_resource *resource) {
    return resource->stack->properties & GM_PROPERTIES_PUBLIC;
}

PUBLIC const char *gpumem_resource_text(const struct gpumem_resource *resource) { return resource->text; }

/* Only a stack-bound adaptor and a program's own maker lack any-context, and no stack has two of them. */
static struct gpumem_stream_view bound_stream(struct gm_resource *at) {
    for (; at; at = at->upstream) {
        const struct gpumem_resource_author *author = gm_own_resource_author(at);
        if (at->ops == &gm_resource_stream_bound)
            return gpumem_stream((struct CUstream_st *)(uintptr_t)gm_stream_bound_to(at));
        if (author)
            return author->stream;
    }
    return gpumem_stream(NULL);
}

PUBLIC struct gpumem_resource_context gpumem_resource_get_context(const struct gpumem_resource *resource) {
    struct gpumem_resource_context context = {.any = 1};
    if (!(resource->stack->properties & GM_PROP_READY_ANYWHERE))
        context = (struct gpumem_resource_context){.any = 0, .stream = bound_stream(resource->stack)};
    return context;
}

/* ---- views */

static gm_status require(const char *what, const char *text, uint64_t has, uint64_t wanted) {
    uint64_t lacks = wanted & ~has;
    return lacks ? gm_fail(GM_INVALID_VALUE, "%s %s is not %s", what, text, gpumem_property_name(lacks & -lacks))
                 : GM_OK;
}

PUBLIC enum gpumem_status gpumem_resource_view_of(struct gpumem_resource *resource, uint64_t properties,
                                                  struct gpumem_resource_view *view) {
    gm_status status = require("the resource", resource->text, gpumem_resource_properties(resource), properties);
    if (!status)
        *view = (struct gpumem_resource_view){resource, properties};
    return (enum gpumem_status)status;
}

PUBLIC enum gpumem_status gpumem_resource_view_convert(struct gpumem_resource_view from, uint64_t properties,
                                                       struct gpumem_resource_view *to) {
    gm_status status = require("the view of", from.resource->text, from.properties, properties);
    if (!status)
        *to = (struct gpumem_resource_view){from.resource, properties};
    return (enum gpumem_status)status;
}

/* ---- create */

/* Length of the text with the texts of the resources given; writes it where `out` is not NULL. */
static size_t expand(const char *text, struct gpumem_resource *const *given, size_t count, char *out) {
    size_t length = 0;
    for (; *text; text++) {
        size_t index = *text == '$' ? (size_t)(text[1] - '1') : SIZE_MAX;
        const char *part = index < count ? given[index]->text : text;
        size_t bytes = index < count ? strlen(part) : 1;
        if (out)
            memcpy(out + length, part, bytes);
        length += bytes;
        text += index < count;
    }
    return length;
}

static struct gpumem_resource *new_resource(const char *text, struct gpumem_resource *const *given, size_t count) {
    size_t length = expand(text, given, count, NULL);
    struct gpumem_resource *made = calloc(1, sizeof *made + length + 1);
    if (!made)
        return NULL;
    expand(text, given, count, made->text);
    made->holds = 1;
    made->given_count = (unsigned)count;
    for (size_t i = 0; i < count; i++)
        made->given[i] = given[i];
    return made;
}

static void log_frame(const struct dl_phdr_info *module, void *frame) {
    gm_log(GM_LOG_WARN, "    %s + 0x%llx", module->dlpi_name[0] ? module->dlpi_name : "the program",
           (unsigned long long)(*(const uintptr_t *)frame - module->dlpi_addr));
}

static void log_stack(uint32_t site) {
    const uintptr_t *frames;
    unsigned count = gm_site_frames(site, &frames);
    for (unsigned i = 0; i < count; i++) {
        uintptr_t frame = frames[i];
        gm_library_at(frame, log_frame, &frame);
    }
}

void gm_resources_track(unsigned frames) {
    static gm_spin lock;
    gm_spin_lock(&lock);
    if (!gm_sites_on)
        gm_site_setup(frames > TRACKED_FRAMES ? frames : TRACKED_FRAMES, false);
    gm_track_log_stack = log_stack;
    gm_spin_unlock(&lock);
}

/* Puts "aligned" around the stack where the stack does not align by itself, and registers it. The new resource owns the
 * stack, also after a failure. */
static gm_status complete(struct gpumem_resource *made) {
    char error[16];
    made->top = made->stack->alignment == GM_ALIGNMENT_ANY
                    ? made->stack
                    : gm_stack_build("aligned(1,$1)", &made->stack, 1, error, sizeof error);
    made->tracked = gm_stack_find(made->stack, &gm_resource_track) != NULL;
    if (made->top && made->tracked)
        gm_resources_track(0);
    if (made->top && gm_pipeline_watch(made->top))
        return GM_OK;
    if (made->top != made->stack)
        gm_stack_discard(made->top);
    gm_stack_discard(made->stack);
    return gm_fail(GM_OUT_OF_MEMORY, "no host memory for a resource");
}

static gm_status no_router(struct gm_resource *stack) {
    return gm_stack_find(stack, &gm_resource_router)
               ? gm_fail(GM_INVALID_VALUE, "\"router\" serves unmodified programs only")
               : GM_OK;
}

static gm_status build(struct gpumem_resource *made, const char *text) {
    struct gm_resource *stacks[GM_STACK_GIVEN];
    char error[320] = "";
    for (unsigned i = 0; i < made->given_count; i++)
        stacks[i] = made->given[i]->stack;
    made->stack = gm_stack_build(text, stacks, made->given_count, error, sizeof error);
    if (!made->stack)
        return gm_fail(GM_INVALID_VALUE, "%s", error);
    gm_status status = no_router(made->stack);
    if (status) {
        gm_stack_discard(made->stack);
        return status;
    }
    return complete(made);
}

/* A stack is watched where it is outermost: what it wraps learns from it. */
static void use(struct gpumem_resource *resource) {
    __atomic_add_fetch(&resource->holds, 1, __ATOMIC_RELAXED);
    if (__atomic_fetch_add(&resource->users, 1, __ATOMIC_ACQ_REL) == 0)
        gm_pipeline_unwatch(resource->top);
}

PUBLIC enum gpumem_status gpumem_resource_compose(const char *text, struct gpumem_resource *const *given, size_t count,
                                                  struct gpumem_resource **resource) {
    if (count > GM_STACK_GIVEN)
        return (enum gpumem_status)gm_fail(GM_INVALID_VALUE, "%zu resources are given, at most %d can be", count,
                                           GM_STACK_GIVEN);
    struct gpumem_resource *made = new_resource(text, given, count);
    if (!made)
        return (enum gpumem_status)gm_fail(GM_OUT_OF_MEMORY, "no host memory for a resource");
    gm_status status = build(made, text);
    if (status) {
        free(made);
        return (enum gpumem_status)status;
    }
    for (size_t i = 0; i < count; i++)
        use(given[i]);
    *resource = made;
    return GPUMEM_OK;
}

PUBLIC enum gpumem_status gpumem_resource_create(const char *text, struct gpumem_resource **resource) {
    return gpumem_resource_compose(text, NULL, 0, resource);
}

PUBLIC enum gpumem_status gpumem_resource_bind(struct gpumem_resource *upstream, struct gpumem_stream_view stream,
                                               struct gpumem_resource **resource) {
    char text[64];
    gm_format(text, sizeof text, "stream-bound(0x%llx,$1)", (unsigned long long)(uintptr_t)stream.stream);
    return gpumem_resource_compose(text, &upstream, 1, resource);
}

/* ---- the program's own resources */

static bool is_name(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t length = name ? strlen(name) : 0;
    return length && length < 32 && strspn(name, letters) == length;
}

static gm_status check_author(const struct gpumem_resource_author *author) {
    const uint64_t may_add =
        GPUMEM_CROSS_DEVICE_ACCESSIBLE | GPUMEM_STREAM_ORDERED | GPUMEM_IPC_EXPORTABLE | GPUMEM_ANY_CONTEXT;
    uint64_t kind = gpumem_kind_properties(author->kind), wrong = author->properties & ~(kind | may_add);
    bool ordered = author->properties & GPUMEM_STREAM_ORDERED;
    if (!kind)
        return gm_fail(GM_INVALID_VALUE, "%d is not a kind of memory", (int)author->kind);
    if (!is_name(author->name))
        return gm_fail(GM_INVALID_VALUE, "a resource needs a name of 1 to 31 letters, digits, - and _");
    if (wrong)
        return gm_fail(GM_INVALID_VALUE, "%s: memory of its kind cannot be %s", author->name,
                       gpumem_property_name(wrong & -wrong));
    if (!author->allocate || !author->deallocate)
        return gm_fail(GM_INVALID_VALUE, "%s has no function allocate or deallocate", author->name);
    if (ordered && (!author->allocate_async || !author->deallocate_async))
        return gm_fail(GM_INVALID_VALUE, "%s is stream-ordered, but has no function allocate_async or deallocate_async",
                       author->name);
    return GM_OK;
}

PUBLIC enum gpumem_status gpumem_resource_create_own(const struct gpumem_resource_author *author,
                                                     struct gpumem_resource **resource) {
    struct gpumem_resource_author known;
    gm_status status = gm_struct_read("gpumem_resource_author", &known, sizeof known, author);
    if (!status)
        status = check_author(&known);
    if (status)
        return (enum gpumem_status)status;
    struct gpumem_resource *made = new_resource(known.name, NULL, 0);
    void (*destroy)(void *) = known.destroy;
    known.destroy = NULL; /* not called after a failure */
    struct gm_resource *stack = made ? gm_own_resource(&known) : NULL;
    if (!stack) {
        free(made);
        return (enum gpumem_status)gm_fail(GM_OUT_OF_MEMORY, "no host memory for a resource");
    }
    made->stack = stack;
    status = complete(made);
    if (status) {
        free(made);
        return (enum gpumem_status)status;
    }
    gm_own_resource_ends(stack, destroy);
    *resource = made;
    return GPUMEM_OK;
}

/* ---- live blocks */

struct census {
    const struct gm_resource *owner;
    uint64_t count, bytes;
};

static void count_block(const struct gm_block *block, void *arg) {
    struct census *census = arg;
    if (block->owner != census->owner)
        return;
    census->count++;
    census->bytes += block->size;
}

static struct census live_blocks(const struct gpumem_resource *resource) {
    struct census census = {.owner = resource->top};
    struct gm_registry *registry = gm_registry_shared();
    if (registry)
        gm_registry_each(registry, count_block, &census);
    return census;
}

/* ---- destroy */

static bool a_stream_captures(void) {
#ifdef GM_HAVE_CUDA
    return gm_capture_any();
#else
    return false;
#endif
}

static void let_go(struct gpumem_resource *resource);

static void discard(struct gpumem_resource *resource) {
    gm_pipeline_unwatch(resource->top);
    if (resource->top->ops->trim)
        resource->top->ops->trim(resource->top, SIZE_MAX);
    if (resource->top != resource->stack)
        gm_stack_discard(resource->top);
    gm_stack_discard(resource->stack);
    for (unsigned i = 0; i < resource->given_count; i++) {
        struct gpumem_resource *given = resource->given[i];
        if (__atomic_sub_fetch(&given->users, 1, __ATOMIC_ACQ_REL) == 0)
            gm_pipeline_watch(given->top);
        let_go(given);
    }
    free(resource);
}

static void let_go(struct gpumem_resource *resource) {
    if (__atomic_sub_fetch(&resource->holds, 1, __ATOMIC_ACQ_REL) == 0)
        discard(resource);
}

PUBLIC enum gpumem_status gpumem_resource_destroy(struct gpumem_resource *resource) {
    if (!resource)
        return GPUMEM_OK;
    struct census live = live_blocks(resource);
    if (live.count) {
        if (resource->tracked)
            resource->top->ops->report(resource->top);
        return (enum gpumem_status)gm_fail(GM_INVALID_VALUE, "the resource %s has %llu live blocks of %llu bytes",
                                           resource->text, (unsigned long long)live.count,
                                           (unsigned long long)live.bytes);
    }
    if (a_stream_captures())
        return (enum gpumem_status)gm_fail(GPUMEM_STREAM_CAPTURE, "the resource %s: a stream captures", resource->text);
    let_go(resource);
    return GPUMEM_OK;
}

/* ---- allocate */

/* One call of the program. */
struct call {
    struct gpumem_resource *resource;
    size_t bytes, alignment;
    bool ordered; /* in the order of `stream` */
    struct gpumem_stream_view stream;
    uint32_t site;
};

/* The caller's caller. */
#define SITE_OF(resource) (GM_UNLIKELY((resource)->tracked || gm_trace_on) ? GM_SITE_HERE() : 0)

static gm_status check_call(const struct call *call) {
    const struct gpumem_resource *resource = call->resource;
    if (!call->alignment || call->alignment & (call->alignment - 1))
        return gm_fail(GM_INVALID_VALUE, "the alignment %zu is not a power of two", call->alignment);
    return call->ordered ? require("the resource", resource->text, resource->stack->properties, GPUMEM_STREAM_ORDERED)
                         : GM_OK;
}

static bool needs_context(const struct gpumem_resource *resource) {
    return resource->stack->properties & GM_PROP_DEVICE_ACCESSIBLE && resource->stack->kind != GM_KIND_SIM;
}

#ifdef GM_HAVE_CUDA
/* Without the preloaded library captures are not reported, so the driver is queried. */
static bool captures(struct gpumem_stream_view stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
#ifdef GM_SHIM
    if (GM_LIKELY(!gm_capture_any()))
        return false;
#endif
    return gm_drv.stream_is_capturing(stream.stream, &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static gm_status find_context(const struct call *call, struct gm_request *request) {
    struct gm_context context;
    if (!needs_context(call->resource))
        return GM_OK;
    if (!gm_driver_ready(true))
        return gm_fail(GM_NOT_INITIALIZED, "no driver: libcuda.so.1 cannot be loaded");
    if (!gm_context_current(&context))
        return gm_fail(GM_INVALID_CONTEXT, "no context is current in this thread");
    request->context = (uint64_t)(uintptr_t)context.handle;
    request->context_id = context.id;
    request->context_number = context.number;
    request->device = context.device;
    request->capturing = call->ordered ? captures(call->stream) : gm_capture_any();
    return GM_OK;
}

static void find_free(const struct gpumem_resource *resource, size_t *free_bytes) {
    size_t total;
    if (!needs_context(resource) || gm_drv.mem_get_info(free_bytes, &total))
        *free_bytes = 0;
}
#else
static gm_status find_context(const struct call *call, struct gm_request *request) {
    return needs_context(call->resource) ? gm_fail(GM_NOT_INITIALIZED, "this build has no CUDA") : GM_OK;
}

static void find_free(const struct gpumem_resource *resource, size_t *free_bytes) { *free_bytes = 0; }
#endif

static gm_status serve(struct gm_scope *scope, const struct call *call) {
    static const struct gm_decision none;
    struct gm_resource *top = call->resource->top;
    struct gm_request *request = &scope->request;
    gm_status status = GM_NOT_SUPPORTED;
    if (!request->capturing || top->properties & GM_PROP_CAPTURABLE)
        status = top->ops->alloc(top, request, &none, &scope->block);
    scope->block.asked = request->alignment;
    scope->block.kind = status ? (uint8_t)top->kind : scope->block.kind;
    gm_pipeline_made(scope, status);
    return status;
}

static gm_status served(const struct call *call, gm_status status) {
    size_t free_bytes = 0;
    if (!status)
        return GM_OK;
    if (status == GM_OUT_OF_MEMORY)
        find_free(call->resource, &free_bytes);
    return gm_fail(status, "the resource %s: %zu bytes requested, %zu bytes of the device free: %s",
                   call->resource->text, call->bytes, free_bytes, gpumem_status_name((enum gpumem_status)status));
}

static enum gpumem_status allocate(const struct call *call, void **memory) {
    struct gm_scope scope = {.request = gm_request_blank};
    gm_status status = check_call(call);
    if (status)
        return (enum gpumem_status)status;
    if (!call->bytes) {
        *memory = NULL;
        return GPUMEM_OK;
    }
    gm_scope_begin(&scope, call->ordered ? GM_CALL_ALLOC_ASYNC : GM_CALL_ALLOC, call->bytes, call->site);
    scope.request.promises = GM_PROMISE_DEVICE_ACCESS;
    scope.request.promises |= call->ordered ? GM_PROMISE_STREAM_ORDER : GM_PROMISE_READY_ANYWHERE;
    scope.request.alignment = (uint8_t)__builtin_ctzll(call->alignment);
    scope.request.stream = (uint64_t)(uintptr_t)call->stream.stream;
    status = find_context(call, &scope.request);
    if (status)
        return (enum gpumem_status)status;
    status = served(call, serve(&scope, call));
    if (!status)
        *memory = (void *)(uintptr_t)scope.block.address;
    return (enum gpumem_status)status;
}

PUBLIC enum gpumem_status gpumem_resource_allocate(struct gpumem_resource *resource, size_t bytes, size_t alignment,
                                                   void **memory) {
    struct call call = {.resource = resource, .bytes = bytes, .alignment = alignment, .site = SITE_OF(resource)};
    return allocate(&call, memory);
}

PUBLIC enum gpumem_status gpumem_resource_allocate_async(struct gpumem_resource *resource, size_t bytes,
                                                         struct gpumem_stream_view stream, void **memory) {
    struct call call = {resource, bytes, GPUMEM_DEFAULT_ALIGNMENT, true, stream, SITE_OF(resource)};
    return allocate(&call, memory);
}

PUBLIC enum gpumem_status gpumem_resource_allocate_async_aligned(struct gpumem_resource *resource, size_t bytes,
                                                                 size_t alignment, struct gpumem_stream_view stream,
                                                                 void **memory) {
    struct call call = {resource, bytes, alignment, true, stream, SITE_OF(resource)};
    return allocate(&call, memory);
}

/* ---- free */

static gm_status find_block(const struct gpumem_resource *resource, const void *memory, struct gm_block *block) {
    struct gm_registry *registry = gm_registry_shared();
    if (registry && gm_registry_find(registry, (uint64_t)(uintptr_t)memory, block) && block->owner == resource->top)
        return GM_OK;
    return gm_fail(GPUMEM_NOT_FOUND, "no live block of the resource %s begins at %p", resource->text, memory);
}

/* A tracked error: the block is freed all the same. */
static gm_status check_match(const struct call *call, const void *memory, const struct gm_block *block) {
    size_t alignment = (size_t)1 << block->asked;
    if (call->bytes == block->size && call->alignment == alignment)
        return GM_OK;
    __atomic_add_fetch(&call->resource->mismatches, 1, __ATOMIC_RELAXED);
    gm_fail(GM_INVALID_VALUE,
            "%p was allocated with %zu bytes and alignment %zu, and is freed with %zu bytes and alignment %zu", memory,
            block->size, alignment, call->bytes, call->alignment);
    gm_log(GM_LOG_WARN, "%s", gpumem_last_error());
    return GM_INVALID_VALUE;
}

static enum gpumem_status deallocate(const struct call *call, void *memory) {
    struct gm_scope scope = {.request = gm_request_blank};
    struct gm_resource *top = call->resource->top;
    uint64_t key = (uint64_t)(uintptr_t)memory;
    gm_status status = memory ? check_call(call) : GM_OK;
    if (status || !memory)
        return (enum gpumem_status)status;
    gm_scope_begin(&scope, call->ordered ? GM_CALL_FREE_ASYNC : GM_CALL_FREE, 0, call->site);
    status = find_block(call->resource, memory, &scope.block);
    if (status)
        return (enum gpumem_status)status;
    struct gm_free_request how = {.call = scope.request.call, .stream = (uint64_t)(uintptr_t)call->stream.stream};
    scope.request.stream = how.stream;
    gm_pipeline_free_begin(&scope, key);
    gm_status match = check_match(call, memory, &scope.block);
    status = top->ops->free(top, &scope.block, &how);
    gm_pipeline_free_end(&scope, GM_ACT_FREE, key, status);
    if (status)
        return (enum gpumem_status)gm_fail(status, "the resource %s cannot free %p: %s", call->resource->text, memory,
                                           gpumem_status_name((enum gpumem_status)status));
    return (enum gpumem_status)match;
}

PUBLIC enum gpumem_status gpumem_resource_deallocate(struct gpumem_resource *resource, void *memory, size_t bytes,
                                                     size_t alignment) {
    struct call call = {.resource = resource, .bytes = bytes, .alignment = alignment, .site = SITE_OF(resource)};
    return deallocate(&call, memory);
}

PUBLIC enum gpumem_status gpumem_resource_deallocate_async(struct gpumem_resource *resource, void *memory, size_t bytes,
                                                           struct gpumem_stream_view stream) {
    struct call call = {resource, bytes, GPUMEM_DEFAULT_ALIGNMENT, true, stream, SITE_OF(resource)};
    return deallocate(&call, memory);
}

PUBLIC enum gpumem_status gpumem_resource_deallocate_async_aligned(struct gpumem_resource *resource, void *memory,
                                                                   size_t bytes, size_t alignment,
                                                                   struct gpumem_stream_view stream) {
    struct call call = {resource, bytes, alignment, true, stream, SITE_OF(resource)};
    return deallocate(&call, memory);
}

/* ---- grow and trim */

/* The trace shows a growth as a free and an allocation at the same address. */
static gm_status grow_block(struct gpumem_resource *resource, struct gm_scope *scope, size_t wanted) {
    struct gm_resource *top = resource->top;
    uint64_t key = scope->block.address;
    gm_pipeline_free_begin(scope, key);
    struct gm_block grown = scope->block;
    gm_status status = top->ops->grow(top, &grown, wanted);
    if (status) {
        gm_registry_add(gm_registry_shared(), &scope->block, NULL);
        return status;
    }
    gm_pipeline_free_end(scope, GM_ACT_FREE, key, GM_OK);
    scope->block = grown;
    scope->request.call = grown.call;
    scope->request.size = wanted;
    scope->request.context_number = grown.context_number;
    scope->sequence = 0;
    gm_pipeline_made(scope, GM_OK);
    return GM_OK;
}

PUBLIC enum gpumem_status gpumem_resource_grow(struct gpumem_resource *resource, void *memory, size_t bytes,
                                               size_t wanted) {
    struct call call = {.resource = resource, .bytes = wanted, .site = SITE_OF(resource)};
    struct gm_scope scope = {.request = gm_request_blank};
    gm_status status = require("the resource", resource->text, resource->stack->properties, GPUMEM_GROWABLE);
    gm_scope_begin(&scope, GM_CALL_FREE, 0, call.site);
    if (!status)
        status = find_block(resource, memory, &scope.block);
    if (status)
        return (enum gpumem_status)status;
    if (bytes != scope.block.size || wanted < bytes)
        return (enum gpumem_status)gm_fail(GM_INVALID_VALUE, "%p has %zu bytes: it cannot grow from %zu to %zu", memory,
                                           scope.block.size, bytes, wanted);
    return (enum gpumem_status)served(&call, grow_block(resource, &scope, wanted));
}

PUBLIC enum gpumem_status gpumem_resource_trim(struct gpumem_resource *resource, size_t bytes, size_t *released) {
    struct gm_resource *top = resource->top;
    size_t given = top->ops->trim ? top->ops->trim(top, bytes) : 0;
    if (released)
        *released = given;
    return GPUMEM_OK;
}

/* ---- counters */

PUBLIC enum gpumem_status gpumem_resource_get_info(const struct gpumem_resource *resource,
                                                   struct gpumem_resource_info *info) {
    struct census live = live_blocks(resource);
    struct gpumem_resource_info shown = {
        .live_count = live.count,
        .live_bytes = live.bytes,
        .mismatches = __atomic_load_n(&resource->mismatches, __ATOMIC_RELAXED),
    };
    return (enum gpumem_status)gm_struct_write("gpumem_resource_info", info, &shown, sizeof shown);
}

PUBLIC enum gpumem_status gpumem_resource_get_statistics(const struct gpumem_resource *resource,
                                                         struct gpumem_statistics *statistics) {
    struct gm_resource *found = gm_stack_find(resource->stack, &gm_resource_statistics);
    struct gm_resource_counts counts;
    if (!found)
        return (enum gpumem_status)gm_fail(GPUMEM_NOT_FOUND, "the resource %s has no adaptor statistics",
                                           resource->text);
    gm_statistics_of(found, &counts);
    struct gpumem_statistics shown = {
        .allocations = counts.allocations,
        .failures = counts.failures,
        .deallocations = counts.deallocations,
        .total_bytes = counts.total_bytes,
        .live_count = counts.live_count,
        .live_bytes = counts.live_bytes,
        .peak_count = counts.peak_count,
        .peak_bytes = counts.peak_bytes,
    };
    return (enum gpumem_status)gm_struct_write("gpumem_statistics", statistics, &shown, sizeof shown);
}

struct tracked {
    struct gpumem_tracked *blocks;
    size_t count, room;
    bool full;
};

static void collect(const struct gm_block *block, void *arg) {
    struct tracked *tracked = arg;
    if (tracked->count == tracked->room) {
        size_t room = tracked->room ? tracked->room * 2 : 64;
        struct gpumem_tracked *more = tracked->full ? NULL : realloc(tracked->blocks, room * sizeof *more);
        tracked->full = !more;
        if (!more)
            return;
        tracked->blocks = more;
        tracked->room = room;
    }
    struct gpumem_tracked *next = &tracked->blocks[tracked->count++];
    *next = (struct gpumem_tracked){
        .memory = (void *)(uintptr_t)block->address,
        .bytes = block->size,
        .number = block->sequence,
    };
    next->frame_count = gm_site_frames(block->site, &next->frames);
}

static int by_number(const void *a, const void *b) {
    const struct gpumem_tracked *one = a, *other = b;
    return (one->number > other->number) - (one->number < other->number);
}

PUBLIC enum gpumem_status gpumem_resource_tracked(const struct gpumem_resource *resource,
                                                  int (*visit)(const struct gpumem_tracked *block, void *arg),
                                                  void *arg, size_t *count) {
    struct gm_resource *found = gm_stack_find(resource->stack, &gm_resource_track);
    struct tracked tracked = {0};
    if (!found)
        return (enum gpumem_status)gm_fail(GPUMEM_NOT_FOUND, "the resource %s has no adaptor track", resource->text);
    gm_track_each(found, collect, &tracked);
    if (tracked.full) {
        free(tracked.blocks);
        return (enum gpumem_status)gm_fail(GM_OUT_OF_MEMORY, "no host memory for a list of blocks");
    }
    if (tracked.count)
        qsort(tracked.blocks, tracked.count, sizeof *tracked.blocks, by_number);
    for (size_t i = 0; visit && i < tracked.count && !visit(&tracked.blocks[i], arg); i++)
        ;
    if (count)
        *count = tracked.count;
    free(tracked.blocks);
    return GPUMEM_OK;
}

/* The program ends: its resources say what leaked. The preloaded library does it after the program's last free. */
#ifndef GM_SHIM
__attribute__((destructor)) static void report(void) { gm_pipeline_report(); }
#endif

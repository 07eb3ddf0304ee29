/* The calls of gpumem_resource.h that allocate, free, grow and trim (resources.h). */
#include "shim/gpumem_resource.h"

#include "shim/base/base.h"
#include "shim/base/error.h"
#include "shim/pipeline/parts.h"
#include "shim/api/resources.h"
#include "shim/sites/site.h"
#include "shim/resource/registry.h"
#ifdef GM_HAVE_CUDA
#include "shim/driver/internal_stream.h"
#include "shim/driver/program_driver.h"
#endif

/* ---- allocate */

/* One call of the program. */
struct call {
    struct gpumem_resource *resource;
    size_t bytes, alignment;
    bool ordered; /* in the order of `stream` */
    struct gpumem_stream_view stream;
    uint32_t site;
};

/* The caller's caller. A thread that sees a trace may not see the tables of call sites yet, which are made before it.
 */
#define SITE_OF(resource) \
    (GM_UNLIKELY((resource)->tracked || (gm_trace_is_on() && gm_sites_are_on())) ? GM_SITE_HERE() : 0)

static gm_status check_order(const struct call *call) {
    const struct gpumem_resource *resource = call->resource;
    return call->ordered
               ? gm_resource_require("the resource", resource->text, resource->stack->properties, GPUMEM_STREAM_ORDERED)
               : GM_OK;
}

static bool needs_context(const struct gpumem_resource *resource) {
    return resource->stack->properties & GM_PROP_DEVICE_ACCESSIBLE && resource->stack->kind != GM_KIND_SIM;
}

#ifdef GM_HAVE_CUDA
/* Without the preloaded library captures are not reported, so the driver is queried. */
static bool captures(struct gpumem_stream_view stream) {
#ifdef GM_SHIM
    if (GM_LIKELY(!gm_capture_any()))
        return false;
#endif
    return gm_capture_on(stream.stream, false);
}

static gm_status find_context(const struct call *call, struct gm_request *request) {
    struct gm_context context;
    if (!needs_context(call->resource))
        return GM_OK;
    gm_status status = gm_program_context(&context);
    if (status)
        return status;
    request->context = (uint64_t)(uintptr_t)context.handle;
    request->context_id = context.id;
    request->context_number = context.number;
    request->device = context.device;
    request->capturing = call->ordered ? captures(call->stream) : gm_capture_any();
    return GM_OK;
}

/* A thread without a context may free and grow memory, as it may call cudaFree. */
static void enter_context_of(const struct call *call, const struct gm_block *block, bool *pushed) {
    *pushed = false;
    if (block->context && needs_context(call->resource) && !gm_context_handle())
        (void)gm_context_enter((CUcontext)(uintptr_t)block->context, pushed);
}

static void leave_context(bool pushed) { gm_context_leave(pushed); }

/* False: not known, or of no meaning, as for host memory. */
static bool find_free(const struct gpumem_resource *resource, size_t *free_bytes) {
    size_t total;
    return resource->stack->properties & GM_PROP_DEVICE_STORAGE && needs_context(resource) &&
           !gm_drv.mem_get_info(free_bytes, &total);
}
#else
static gm_status find_context(const struct call *call, struct gm_request *request) {
    return needs_context(call->resource) ? gm_fail(GM_NOT_INITIALIZED, "this build has no CUDA") : GM_OK;
}

static void enter_context_of(const struct call *call, const struct gm_block *block, bool *pushed) { *pushed = false; }
static void leave_context(bool pushed) {}

static bool find_free(const struct gpumem_resource *resource, size_t *free_bytes) { return false; }
#endif

enum { REASON = 320 }; /* all of an error text */

static const char *reason(char out[REASON]) {
    *out = '\0';
    if (*gm_error_by_author())
        gm_format(out, REASON, ": %s", gpumem_last_error());
    return out;
}

static gm_status serve(struct gm_scope *scope, const struct call *call) {
    static const struct gm_decision none;
    struct gm_resource *top = call->resource->top;
    struct gm_request *request = &scope->request;
    gm_status status = GM_NOT_SUPPORTED;
    uint64_t open = gm_devices_open();
    *gm_error_by_author() = false;
    if (!request->capturing || top->properties & GM_PROP_CAPTURABLE)
        status = gm_resource_alloc(top, request, &none, &scope->block);
    scope->block.requested = request->alignment;
    scope->block.kind = status ? (uint8_t)top->kind : scope->block.kind;
    gm_pipeline_made(scope, status);
    if (!status)
        gm_open_to_new(&scope->block, open);
    return status;
}

static gm_status served(const struct call *call, gm_status status) {
    size_t free_bytes;
    char of_device[48] = "", why[REASON];
    if (!status)
        return GM_OK;
    if (status == GM_OUT_OF_MEMORY && !*gm_error_by_author() && find_free(call->resource, &free_bytes))
        gm_format(of_device, sizeof of_device, ", %zu bytes of the device free", free_bytes);
    return gm_fail(status, "the resource %s: %zu bytes requested%s: %s%s", call->resource->text, call->bytes, of_device,
                   gpumem_status_name((enum gpumem_status)status), reason(why));
}

GM_PUBLIC enum gpumem_status gpumem_resource_fail(enum gpumem_status status, const char *text) {
    *gm_error_by_author() = text != NULL;
    return text ? (enum gpumem_status)gm_fail((gm_status)status, "%s", text) : status;
}

static enum gpumem_status allocate(const struct call *call, void **memory) {
    struct gm_scope scope = {.request = gm_request_blank};
    if (!call->alignment || call->alignment & (call->alignment - 1))
        return gm_fail(GM_INVALID_VALUE, "the alignment %zu is not a power of two", call->alignment);
    gm_status status = check_order(call);
    if (status)
        return status;
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
        return status;
    status = served(call, serve(&scope, call));
    if (!status)
        *memory = (void *)(uintptr_t)scope.block.address;
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_resource_allocate(struct gpumem_resource *resource, size_t bytes, size_t alignment,
                                                      void **memory) {
    GM_NEED(resource);
    GM_NEED(memory);
    struct call call = {.resource = resource, .bytes = bytes, .alignment = alignment, .site = SITE_OF(resource)};
    return allocate(&call, memory);
}

GM_PUBLIC enum gpumem_status gpumem_resource_allocate_async(struct gpumem_resource *resource, size_t bytes,
                                                            struct gpumem_stream_view stream, void **memory) {
    GM_NEED(resource);
    GM_NEED(memory);
    struct call call = {resource, bytes, GPUMEM_DEFAULT_ALIGNMENT, true, stream, SITE_OF(resource)};
    return allocate(&call, memory);
}

GM_PUBLIC enum gpumem_status gpumem_resource_allocate_async_aligned(struct gpumem_resource *resource, size_t bytes,
                                                                    size_t alignment, struct gpumem_stream_view stream,
                                                                    void **memory) {
    GM_NEED(resource);
    GM_NEED(memory);
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

/* The text is stored. Deallocations of C++ have no other way to tell than the log. */
static gm_status logged(gm_status status) {
    gm_log(GM_LOG_WARN, "%s", gpumem_last_error());
    return status;
}

/* Counts an error of the program. */
static gm_status tracked(const struct call *call, gm_status status) {
    __atomic_add_fetch(&call->resource->mismatches, 1, __ATOMIC_RELAXED);
    return logged(status);
}

/* A tracked error: the block is freed all the same. */
static gm_status check_match(const struct call *call, const void *memory, const struct gm_block *block) {
    size_t alignment = (size_t)1 << block->requested;
    gm_status status = GM_OK;
    if (check_order(call))
        status =
            gm_fail(GM_INVALID_VALUE, "%p is freed in the order of a stream: the resource %s is not stream-ordered",
                    memory, call->resource->text);
    if (call->bytes != block->size || call->alignment != alignment)
        status = gm_fail(GM_INVALID_VALUE,
                         "%p was allocated with %zu bytes and alignment %zu, and is freed with %zu bytes and alignment "
                         "%zu",
                         memory, block->size, alignment, call->bytes, call->alignment);
    return status ? tracked(call, status) : GM_OK;
}

static enum gpumem_status deallocate(const struct call *call, void *memory) {
    struct gm_scope scope = {.request = gm_request_blank};
    struct gm_resource *top = call->resource->top;
    uint64_t key = (uint64_t)(uintptr_t)memory;
    if (!memory)
        return GPUMEM_OK;
    gm_scope_begin(&scope, call->ordered ? GM_CALL_FREE_ASYNC : GM_CALL_FREE, 0, call->site);
    gm_status status = find_block(call->resource, memory, &scope.block);
    if (status)
        return tracked(call, status);
    struct gm_free_request how = {
        .call = scope.request.call, .stream = (uint64_t)(uintptr_t)call->stream.stream, .kept = &scope.kept};
    scope.request.stream = how.stream;
    gm_pipeline_free_begin(&scope, key);
    gm_status match = check_match(call, memory, &scope.block);
    bool pushed;
    enter_context_of(call, &scope.block, &pushed);
    *gm_error_by_author() = false;
    status = gm_resource_free(top, &scope.block, &how);
    leave_context(pushed);
    gm_pipeline_free_end(&scope, GM_ACT_FREE, key, status);
    if (!status)
        return match;
    char why[REASON];
    gm_fail(status, "the resource %s cannot free %p: %s%s", call->resource->text, memory,
            gpumem_status_name((enum gpumem_status)status), reason(why));
    return logged(status);
}

static GM_RARE enum gpumem_status no_resource(void) {
    return logged(gm_fail(GM_INVALID_VALUE, "memory cannot be freed: resource is NULL"));
}

GM_PUBLIC enum gpumem_status gpumem_resource_deallocate(struct gpumem_resource *resource, void *memory, size_t bytes,
                                                        size_t alignment) {
    if (GM_UNLIKELY(!resource))
        return no_resource();
    struct call call = {.resource = resource, .bytes = bytes, .alignment = alignment, .site = SITE_OF(resource)};
    return deallocate(&call, memory);
}

GM_PUBLIC enum gpumem_status gpumem_resource_deallocate_async(struct gpumem_resource *resource, void *memory,
                                                              size_t bytes, struct gpumem_stream_view stream) {
    if (GM_UNLIKELY(!resource))
        return no_resource();
    struct call call = {resource, bytes, GPUMEM_DEFAULT_ALIGNMENT, true, stream, SITE_OF(resource)};
    return deallocate(&call, memory);
}

GM_PUBLIC enum gpumem_status gpumem_resource_deallocate_async_aligned(struct gpumem_resource *resource, void *memory,
                                                                      size_t bytes, size_t alignment,
                                                                      struct gpumem_stream_view stream) {
    if (GM_UNLIKELY(!resource))
        return no_resource();
    struct call call = {resource, bytes, alignment, true, stream, SITE_OF(resource)};
    return deallocate(&call, memory);
}

/* ---- grow and trim */

/* The trace shows a growth as a free and an allocation at the same address. */
static gm_status grow_block(const struct call *call, struct gm_scope *scope, size_t wanted) {
    struct gm_resource *top = call->resource->top;
    struct gm_block grown = scope->block;
    bool pushed;
    enter_context_of(call, &grown, &pushed);
    gm_status status = top->ops->grow(top, &grown, wanted);
    leave_context(pushed);
    if (status)
        return status;
    gm_pipeline_free_begin(scope, grown.address);
    gm_pipeline_free_end(scope, GM_ACT_FREE, grown.address, GM_OK);
    scope->block = grown;
    scope->request.call = grown.call;
    scope->request.size = wanted;
    scope->request.context_number = grown.context_number;
    scope->sequence = 0;
    gm_pipeline_made(scope, GM_OK);
    return GM_OK;
}

GM_PUBLIC enum gpumem_status gpumem_resource_grow(struct gpumem_resource *resource, void *memory, size_t bytes,
                                                  size_t wanted) {
    GM_NEED(resource);
    struct call call = {.resource = resource, .bytes = wanted, .site = SITE_OF(resource)};
    struct gm_scope scope = {.request = gm_request_blank};
    gm_status status =
        gm_resource_require("the resource", resource->text, resource->stack->properties, GPUMEM_GROWABLE);
    gm_scope_begin(&scope, GM_CALL_FREE, 0, call.site);
    if (!status)
        status = find_block(resource, memory, &scope.block);
    if (status)
        return status;
    if (bytes != scope.block.size || wanted < bytes)
        return gm_fail(GM_INVALID_VALUE, "%p has %zu bytes: it cannot grow from %zu to %zu", memory, scope.block.size,
                       bytes, wanted);
    return served(&call, grow_block(&call, &scope, wanted));
}

GM_PUBLIC enum gpumem_status gpumem_resource_trim(struct gpumem_resource *resource, size_t bytes, size_t *released) {
    GM_NEED(resource);
    size_t given = gm_stack_trim(resource->top, bytes);
    if (released)
        *released = given;
    return GPUMEM_OK;
}

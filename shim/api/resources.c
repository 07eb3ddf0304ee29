/* The calls of gpumem_resource.h that create, describe, count and destroy resources (resources.h). */
#include "shim/base/events.h"
#include "shim/gpumem_resource.h"

#include <stdlib.h>
#include <string.h>

#include "shim/base/base.h"
#include "shim/base/error.h"
#include "shim/base/libraries.h"
#include "shim/api/own_resource.h"
#include "shim/pipeline/pipeline.h"
#include "shim/api/resources.h"
#include "shim/sites/site.h"
#include "shim/resource/asked.h"
#include "shim/resource/registry.h"
#include "shim/resource/rows.h"
#include "shim/resource/stack.h"
#ifdef GM_HAVE_CUDA
#include "shim/driver/driver.h"
#endif

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

GM_PUBLIC uint64_t gpumem_kind_properties(enum gpumem_kind kind) { return (unsigned)kind < KINDS ? kinds[kind] : 0; }

GM_PUBLIC const char *gpumem_property_name(uint64_t property) {
    const char *name = property & (property - 1) ? NULL : gm_property_name(property & GM_PROPERTIES_PUBLIC);
    return name ? name : "unknown property";
}

/* The properties of managed memory contain those of host memory, so the last kind comes first. */
GM_PUBLIC enum gpumem_kind gpumem_resource_kind(const struct gpumem_resource *resource) {
    for (unsigned kind = KINDS - 1; kind; kind--)
        if (!(kinds[kind] & ~gpumem_resource_properties(resource)))
            return (enum gpumem_kind)kind;
    return GPUMEM_KIND_MIXED;
}

GM_PUBLIC uint64_t gpumem_resource_properties(const struct gpumem_resource *resource) {
    return resource ? resource->stack->properties & GM_PROPERTIES_PUBLIC : 0;
}

GM_PUBLIC const char *gpumem_resource_text(const struct gpumem_resource *resource) {
    return resource ? resource->text : "";
}

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

GM_PUBLIC struct gpumem_resource_context gpumem_resource_get_context(const struct gpumem_resource *resource) {
    struct gpumem_resource_context context = {.any = 1};
    if (resource && !(resource->stack->properties & GM_PROP_READY_ANYWHERE))
        context = (struct gpumem_resource_context){.any = 0, .stream = bound_stream(resource->stack)};
    return context;
}

/* ---- views */

gm_status gm_resource_require(const char *what, const char *text, uint64_t has, uint64_t wanted) {
    uint64_t lacks = wanted & ~has;
    return lacks ? gm_fail(GM_INVALID_VALUE, "%s %s is not %s", what, text, gpumem_property_name(lacks & -lacks))
                 : GM_OK;
}

GM_PUBLIC enum gpumem_status gpumem_resource_view_of(struct gpumem_resource *resource, uint64_t properties,
                                                     struct gpumem_resource_view *view) {
    GM_NEED(resource);
    GM_NEED(view);
    gm_status status =
        gm_resource_require("the resource", resource->text, gpumem_resource_properties(resource), properties);
    if (!status)
        *view = (struct gpumem_resource_view){resource, properties};
    return status;
}

GM_PUBLIC enum gpumem_status gpumem_resource_view_convert(struct gpumem_resource_view from, uint64_t properties,
                                                          struct gpumem_resource_view *to) {
    GM_NEED_AS(from.resource, "the resource of the view");
    GM_NEED(to);
    gm_status status = gm_resource_require("the view of", from.resource->text, from.properties, properties);
    if (!status)
        *to = (struct gpumem_resource_view){from.resource, properties};
    return status;
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
    made->holds = made->owners = 1;
    made->given_count = (unsigned)count;
    for (size_t i = 0; i < count; i++)
        made->given[i] = given[i];
    return made;
}

static void log_frame(const struct dl_phdr_info *module, void *frame) {
    gm_log(GM_LOG_WARN, "    %s + 0x%llx", module->dlpi_name[0] ? module->dlpi_name : "the program",
           (unsigned long long)(*(const uintptr_t *)frame - module->dlpi_addr));
}

void gm_resources_log_stack(uint32_t site) {
    const uintptr_t *frames;
    unsigned count = gm_site_frames(site, &frames);
    for (unsigned i = 0; i < count; i++) {
        uintptr_t frame = frames[i];
        gm_library_at(frame, log_frame, &frame);
    }
}

enum { TRACKED_FRAMES = 16 };

void gm_resources_track(unsigned frames) {
    if (!gm_sites_are_on())
        gm_site_setup(frames > TRACKED_FRAMES ? frames : TRACKED_FRAMES, false);
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
    return gm_fail(GM_OUT_OF_MEMORY, "no host memory for a resource, or 1024 resources exist");
}

static gm_status check_rows(struct gm_resource *stack) {
    if (gm_stack_find(stack, &gm_resource_router))
        return gm_fail(GM_INVALID_VALUE, "\"router\" serves unmodified programs only");
    return gm_stack_find(stack, &gm_resource_sim)
               ? gm_fail(GM_INVALID_VALUE, "\"sim\" has no memory: it serves tests only")
               : GM_OK;
}

static gm_status build_resource(struct gpumem_resource *made, const char *text) {
    struct gm_resource *stacks[GM_STACK_GIVEN];
    char error[320] = "";
    for (unsigned i = 0; i < made->given_count; i++)
        stacks[i] = made->given[i]->stack;
    made->stack = gm_stack_build(text, stacks, made->given_count, error, sizeof error);
    if (!made->stack)
        return gm_fail(GM_INVALID_VALUE, "%s", error);
    gm_status status = check_rows(made->stack);
    if (status) {
        gm_stack_discard(made->stack);
        return status;
    }
    return complete(made);
}

/* A stack is watched where it is outermost: what it wraps learns from it. */
static void use(struct gpumem_resource *resource) {
    __atomic_add_fetch(&resource->holds, 1, __ATOMIC_RELAXED);
    gm_pipeline_wrap(resource->top, &resource->users);
}

GM_PUBLIC enum gpumem_status gpumem_resource_compose(const char *text, struct gpumem_resource *const *given,
                                                     size_t count, struct gpumem_resource **resource) {
    GM_NEED(text);
    GM_NEED(resource);
    GM_NEED_ARRAY(given, count);
    if (count > GM_STACK_GIVEN)
        return gm_fail(GM_INVALID_VALUE, "%zu resources are given, at most %d can be", count, GM_STACK_GIVEN);
    for (size_t i = 0; i < count; i++)
        GM_NEED(given[i]);
    struct gpumem_resource *made = new_resource(text, given, count);
    if (!made)
        return gm_fail(GM_OUT_OF_MEMORY, "no host memory for a resource");
    gm_status status = build_resource(made, text);
    if (status) {
        free(made);
        return status;
    }
    for (size_t i = 0; i < count; i++)
        use(given[i]);
    *resource = made;
    return GPUMEM_OK;
}

GM_PUBLIC enum gpumem_status gpumem_resource_create(const char *text, struct gpumem_resource **resource) {
    GM_NEED(text);
    GM_NEED(resource);
    return gpumem_resource_compose(text, NULL, 0, resource);
}

GM_PUBLIC enum gpumem_status gpumem_resource_bind(struct gpumem_resource *upstream, struct gpumem_stream_view stream,
                                                  struct gpumem_resource **resource) {
    GM_NEED(upstream);
    GM_NEED(resource);
    char text[64];
    gm_format(text, sizeof text, "stream-bound(0x%llx,$1)", (unsigned long long)(uintptr_t)stream.stream);
    return gpumem_resource_compose(text, &upstream, 1, resource);
}

GM_PUBLIC enum gpumem_status gpumem_resource_on_failure(struct gpumem_resource *upstream,
                                                        int (*callback)(size_t bytes, void *user), void *user,
                                                        struct gpumem_resource **resource) {
    GM_NEED(upstream);
    GM_NEED(callback);
    GM_NEED(resource);
    gm_status status = gpumem_resource_compose("retry($1)", &upstream, 1, resource);
    if (!status)
        gm_retry_by((*resource)->stack, callback, user);
    return status;
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

GM_PUBLIC enum gpumem_status gpumem_resource_create_own(const struct gpumem_resource_author *author,
                                                        struct gpumem_resource **resource) {
    GM_NEED(resource);
    struct gpumem_resource_author known;
    gm_status status = gm_struct_read("gpumem_resource_author", &known, sizeof known, author);
    if (!status)
        status = check_author(&known);
    if (status)
        return status;
    struct gpumem_resource *made = new_resource(known.name, NULL, 0);
    void (*destroy)(void *) = known.destroy;
    known.destroy = NULL; /* not called after a failure */
    struct gm_resource *stack = made ? gm_own_resource(&known, gpumem_kind_properties(known.kind)) : NULL;
    if (!stack) {
        free(made);
        return gm_fail(GM_OUT_OF_MEMORY, "no host memory for a resource");
    }
    made->stack = stack;
    status = complete(made);
    if (status) {
        free(made);
        return status;
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
    gm_stack_trim(resource->top, SIZE_MAX);
    if (resource->top != resource->stack)
        gm_stack_discard(resource->top);
    gm_stack_discard(resource->stack);
    for (unsigned i = 0; i < resource->given_count; i++) {
        gm_pipeline_unwrap(resource->given[i]->top, &resource->given[i]->users);
        let_go(resource->given[i]);
    }
    free(resource);
}

static void let_go(struct gpumem_resource *resource) {
    if (__atomic_sub_fetch(&resource->holds, 1, __ATOMIC_ACQ_REL) == 0)
        discard(resource);
}

static gm_status check_end(struct gpumem_resource *resource) {
    struct census live = live_blocks(resource);
    if (live.count) {
        if (resource->tracked)
            GM_TELL(resource->top, report);
        return gm_fail(GM_INVALID_VALUE, "the resource %s has %llu live blocks of %llu bytes", resource->text,
                       (unsigned long long)live.count, (unsigned long long)live.bytes);
    }
    if (a_stream_captures())
        return gm_fail(GPUMEM_STREAM_CAPTURE, "the resource %s: a stream captures", resource->text);
    return GM_OK;
}

GM_PUBLIC enum gpumem_status gpumem_resource_share(struct gpumem_resource *resource) {
    GM_NEED(resource);
    __atomic_add_fetch(&resource->owners, 1, __ATOMIC_RELAXED);
    return GPUMEM_OK;
}

GM_PUBLIC enum gpumem_status gpumem_resource_destroy(struct gpumem_resource *resource) {
    if (!resource || __atomic_sub_fetch(&resource->owners, 1, __ATOMIC_ACQ_REL))
        return GPUMEM_OK;
    gm_status status = check_end(resource);
    if (status)
        __atomic_add_fetch(&resource->owners, 1, __ATOMIC_RELAXED);
    else
        let_go(resource);
    return status;
}

GM_PUBLIC void gpumem_resource_abandon(struct gpumem_resource *resource) {
    if (gpumem_resource_destroy(resource))
        gm_log(GM_LOG_WARN, "%s: it cannot be destroyed, and stays until the process ends", gpumem_last_error());
}

/* ---- counters */

GM_PUBLIC enum gpumem_status gpumem_resource_get_info(const struct gpumem_resource *resource,
                                                      struct gpumem_resource_info *info) {
    GM_NEED(resource);
    GM_NEED(info);
    struct census live = live_blocks(resource);
    struct gpumem_resource_info shown = {
        .live_count = live.count,
        .live_bytes = live.bytes,
        .mismatches = __atomic_load_n(&resource->mismatches, __ATOMIC_RELAXED),
    };
    return gm_struct_write("gpumem_resource_info", info, &shown, sizeof shown);
}

GM_PUBLIC enum gpumem_status gpumem_resource_get_statistics(const struct gpumem_resource *resource,
                                                            struct gpumem_statistics *statistics) {
    GM_NEED(resource);
    GM_NEED(statistics);
    struct gm_resource *found = gm_stack_find(resource->stack, &gm_resource_statistics);
    struct gpumem_statistics counts;
    if (!found)
        return gm_fail(GPUMEM_NOT_FOUND, "the resource %s has no adaptor statistics", resource->text);
    gm_statistics_of(found, &counts);
    return gm_struct_write("gpumem_statistics", statistics, &counts, sizeof counts);
}

struct tracked {
    struct gpumem_tracked *blocks;
    size_t count, room;
    bool full;
};

static void collect_tracked(const struct gm_block *block, void *arg) {
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

GM_PUBLIC enum gpumem_status gpumem_resource_tracked(const struct gpumem_resource *resource,
                                                     int (*visit)(const struct gpumem_tracked *block, void *arg),
                                                     void *arg, size_t *count) {
    GM_NEED(resource);
    struct gm_resource *found = gm_stack_find(resource->stack, &gm_resource_track);
    struct tracked tracked = {0};
    if (!found)
        return gm_fail(GPUMEM_NOT_FOUND, "the resource %s has no adaptor track", resource->text);
    gm_track_each(found, collect_tracked, &tracked);
    if (tracked.full) {
        free(tracked.blocks);
        return gm_fail(GM_OUT_OF_MEMORY, "no host memory for a list of blocks");
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

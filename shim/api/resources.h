/* The resources of programs (gpumem_resource.h). Such a resource is a stack (stack.h) with one more adaptor around it,
 * which aligns a block further than the stack does by itself. Its live blocks are in the registry, with that adaptor as
 * their owner. */
#ifndef GM_RESOURCES_H
#define GM_RESOURCES_H

#include "shim/base/base.h"
#include "shim/gpumem_resource.h"
#include "shim/resource/stack.h"

struct gpumem_resource {
    struct gm_resource *stack; /* as the text says */
    struct gm_resource *top;   /* `stack`, or "aligned" around it */
    bool tracked;              /* "track" is in it: the call stack of each allocation is needed */
    unsigned owners;           /* that destroy it */
    unsigned holds;            /* of all owners, and those of resources composed of it */
    unsigned users;            /* resources composed of it (gm_pipeline_wrap) */
    uint64_t mismatches;
    unsigned given_count;
    struct gpumem_resource *given[GM_STACK_GIVEN];
    char text[];
};

/* GM_INVALID_VALUE where `wanted` is not a part of `has`; the error text names `what`, `text` and the property. */
GM_INTERNAL gm_status gm_resource_require(const char *what, const char *text, uint64_t has, uint64_t wanted);

/* The adaptor "track" is in use: call stacks of at least `frames` frames are stored from now on, and its reports show
 * them. May be called again. */
GM_INTERNAL void gm_resources_track(unsigned frames);

#endif

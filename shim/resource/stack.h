/* The parser of stack texts, which gm_resource_build uses, and the destruction of stacks for callers that build many.
 */
#ifndef GM_RESOURCE_STACK_H
#define GM_RESOURCE_STACK_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

#define GM_STACK_DEPTH    16 /* resources inside each other */
#define GM_STACK_ITEMS    32 /* resources in one stack */
#define GM_STACK_ARGUMENT 64 /* bytes of one argument with its end of string */
#define GM_STACK_GIVEN    9  /* $1 to $9 */

/* A parsed text: each resource before the ones that it wraps. */
struct gm_stack_plan {
    unsigned count;
    struct {
        const struct gm_resource_ops *ops; /* NULL: a resource that was given */
        unsigned given;                    /* its index */
        unsigned second;                   /* index of the second wrapped resource; 0: none */
        bool has_argument;
        char argument[GM_STACK_ARGUMENT];
    } items[GM_STACK_ITEMS];
};

/* Reads `text` into *plan. "$1" to "$9" stand for `given` resources, 0 of them in the text of an option. GM_OK, or
 * GM_INVALID_VALUE and a one-line error that names the wrong word and what is accepted. */
GM_INTERNAL gm_status gm_stack_parse(const char *text, unsigned given, struct gm_stack_plan *plan, char *error,
                                     size_t error_size);

/* As gm_resource_build, with the tops of other stacks for $1 to $9. They must outlive the new stack. */
GM_INTERNAL struct gm_resource *gm_stack_build(const char *text, struct gm_resource *const *given, unsigned count,
                                               char *error, size_t error_size);
/* A stack of one maker that is in no table. NULL: no memory. */
GM_INTERNAL struct gm_resource *gm_stack_of(const struct gm_resource_ops *maker);

/* The outermost resource of the row in a stack, also inside the stacks given to it; NULL: none. Of two wrapped
 * resources the first is searched first. */
GM_INTERNAL struct gm_resource *gm_stack_find(struct gm_resource *top, const struct gm_resource_ops *row);

/* Closes the resources and unmaps the stack. It must hold no block, and no thread may use it. NULL is accepted. */
GM_INTERNAL void gm_stack_discard(struct gm_resource *top);

#endif

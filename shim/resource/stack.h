/* The parser of stack texts, which gm_resource_build uses, and the destruction of stacks for callers that build many.
 */
#ifndef GM_RESOURCE_STACK_H
#define GM_RESOURCE_STACK_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

#define GM_STACK_DEPTH    16 /* resources in one stack */
#define GM_STACK_ARGUMENT 64 /* bytes of one argument with its end of string */

/* A parsed text: the outermost resource first, the maker last. */
struct gm_stack_plan {
    unsigned count;
    struct {
        const struct gm_resource_ops *ops;
        bool has_argument;
        char argument[GM_STACK_ARGUMENT];
    } items[GM_STACK_DEPTH];
};

/* Reads `text` into *plan. GM_OK, or GM_INVALID_VALUE and a one-line error that names the wrong word and
 * what is accepted. */
GM_INTERNAL gm_status gm_stack_parse(const char *text, struct gm_stack_plan *plan, char *error, size_t error_size);

/* Unmaps the stack. It must hold no block, and no thread may use it. NULL is accepted. */
GM_INTERNAL void gm_stack_discard(struct gm_resource *top);

#endif

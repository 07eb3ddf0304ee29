/* Stack texts taken apart: what gm_resource_build does in two steps, and its undoing for callers that build many. */
#ifndef GM_RESOURCE_STACK_H
#define GM_RESOURCE_STACK_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

#define GM_STACK_DEPTH    16 /* resources in one stack */
#define GM_STACK_ARGUMENT 64 /* bytes of one argument with its end */

/* Outermost first; the last is the maker. */
struct gm_stack_plan {
    unsigned count;
    struct {
        const struct gm_resource_ops *ops;
        bool has_argument;
        char argument[GM_STACK_ARGUMENT];
    } items[GM_STACK_DEPTH];
};

/* Reads `text` into *plan. GM_OK, or GM_INVALID_VALUE and a one-line error naming the offending word and what is
 * accepted. */
GM_INTERNAL gm_status gm_stack_parse(const char *text, struct gm_stack_plan *plan, char *error, size_t error_size);

/* Gives the stack's pages back. Only for a stack that holds no block and that no thread uses; NULL is fine. */
GM_INTERNAL void gm_stack_discard(struct gm_resource *top);

#endif

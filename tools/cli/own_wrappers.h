/* Finds a program's own allocation wrappers. Nearly all call stacks pass through such a function, and what calls it
 * says more about the memory than its own line. */
#ifndef GM_OWN_WRAPPERS_H
#define GM_OWN_WRAPPERS_H

#include <stddef.h>
#include <stdint.h>

enum { GM_OWN_LEVELS = 24, GM_OWN_WRAPPERS = 8 };

struct gm_own_frame {
    uint64_t function; /* the same for all frames of a function; 0 = unknown */
    uint64_t line;     /* the same for all frames at one place of the code */
    const char *name;  /* of the function */
};

/* One call stack from its call site outwards, without known wrappers and system code. */
struct gm_own_stack {
    unsigned count, at; /* at: the frame that names the stack; 0 at first */
    struct gm_own_frame frames[GM_OWN_LEVELS];
};

struct gm_own_wrappers {
    unsigned count;
    uint64_t functions[GM_OWN_WRAPPERS];
    char names[GM_OWN_WRAPPERS][128];
    size_t passing, stacks; /* so many of all stacks pass through them */
};

/* Steps outwards as long as one function, or several that have at least four times as many callers as lines, request
 * for three quarters of the stacks. The steps count once the stacks have at least twice as many different frames as
 * before: else nothing is gained. `stacks` is changed. Without memory nothing is found. */
void gm_own_wrappers_find(struct gm_own_wrappers *found, struct gm_own_stack *stacks, size_t count);

#endif

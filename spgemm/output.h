/* An array on the device that grows: made, appended to, released. */
#ifndef SPG_OUTPUT_H
#define SPG_OUTPUT_H

#include "spgemm/gpu.h"

struct gpumem_region;

/* vmm: a region of gpumem.h, which maps what is missing behind what is there (thesis, 3.1.1): the array stays
 * where it is. copy: a larger block, a copy, the old block freed, at least doubling, as a vector of Thrust
 * grows (2.4.4). */
struct spg_output {
    enum spg_vector vector;
    struct spg_memory *memory;
    const char *what;             /* in errors */
    void *at;                     /* may change by growing */
    size_t size;                  /* bytes asked for so far */
    size_t there;                 /* bytes that have memory */
    struct gpumem_region *region; /* vmm */
};

/* Makes an empty array, in the current context. On failure there is nothing to release. */
bool spg_output_make(struct spg_output *o, enum spg_vector vector, struct spg_memory *memory, const char *what,
                     struct spg_error *error);
/* `more` bytes behind those that are there; new bytes are not set. On failure the array is what it was. Work
 * that uses the array need not be finished. */
bool spg_output_append(struct spg_output *o, size_t more, struct spg_error *error);
/* Makes it the caller's block, as long as the first `size` bytes and what its last handle has beyond: the
 * rest is given back, which waits for the device. Only of a region; size 0 makes no block. On failure it is
 * what it was. */
bool spg_output_keep(struct spg_output *o, size_t size, struct spg_block *block, struct spg_error *error);
/* Waits for the device, gives everything back. A zeroed or released one is fine. */
void spg_output_release(struct spg_output *o);

#endif

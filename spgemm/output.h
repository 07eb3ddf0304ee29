/* An array on the device that grows: made, appended to, released. */
#ifndef GM_SPGEMM_OUTPUT_H
#define GM_SPGEMM_OUTPUT_H

#include "spgemm/gpu.h"

struct gpumem_region;

/* vmm: a region of gpumem.h, which maps what is missing behind what is there (thesis, 3.1.1): the array stays
 * where it is. copy: a larger block, a copy, the old block freed, at least doubling, as a vector of Thrust
 * grows (2.4.4). */
struct gm_output {
    enum gm_vector vector;
    struct gm_memory *memory;
    const char *what;             /* in errors */
    void *at;                     /* may change by growing */
    size_t size;                  /* bytes asked for so far */
    size_t there;                 /* bytes that have memory */
    struct gpumem_region *region; /* vmm */
};

/* Makes an empty array, in the current context. On failure there is nothing to release. */
bool gm_output_make(struct gm_output *o, enum gm_vector vector, struct gm_memory *memory, const char *what,
                    struct gm_spgemm_error *error);
/* `more` bytes behind those that are there; new bytes are not set. On failure the array is what it was. Work
 * that uses the array need not be finished. */
bool gm_output_append(struct gm_output *o, size_t more, struct gm_spgemm_error *error);
/* Makes it the caller's block, as long as the first `size` bytes and what its last handle has beyond: the
 * rest is given back, which waits for the device. Only of a region; size 0 makes no block. On failure it is
 * what it was. */
bool gm_output_keep(struct gm_output *o, size_t size, struct gm_block *block, struct gm_spgemm_error *error);
/* Waits for the device, gives everything back. A zeroed or released one is fine. */
void gm_output_release(struct gm_output *o);

#endif

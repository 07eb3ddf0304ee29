/* An array on the device that grows: reserved, appended to, released. Made so that a region of gpumem.h can
 * take its place. */
#ifndef GM_SPGEMM_OUTPUT_H
#define GM_SPGEMM_OUTPUT_H

#include "spgemm/gpu.h"

/* vmm: a range of addresses is reserved once and physical memory is mapped behind what is there
 * (thesis, 3.1.1): the array stays where it is. copy: a larger block, a copy, the old block freed, at least
 * doubling, as a vector of Thrust grows (2.4.4). */
struct gm_output {
    enum gm_vector vector;
    struct gm_memory *memory;
    const char *what; /* in errors */
    void *at;         /* changes by growing where vector is copy */
    size_t size;      /* bytes asked for so far */
    size_t there;     /* bytes that have memory */
    /* vmm */
    size_t reserved, granularity;
    unsigned long long *handles;
    size_t *sizes; /* of the handles */
    int count, capacity;
};

/* Makes an empty array that may grow to `most` bytes (vmm; more address space than the device has memory is
 * never needed). On failure there is nothing to release. */
bool gm_output_reserve(struct gm_output *o, enum gm_vector vector, struct gm_memory *memory, size_t most,
                       const char *what, struct gm_spgemm_error *error);
/* `more` bytes behind those that are there; new bytes are not set. On failure the array is what it was. Work
 * that uses the array need not be finished. */
bool gm_output_append(struct gm_output *o, size_t more, struct gm_spgemm_error *error);
/* Waits for the device, gives everything back. A zeroed or released one is fine. */
void gm_output_release(struct gm_output *o);

#endif

/* An array in device memory that grows.
 *
 * vmm: a region of gpumem.h. It maps the missing memory after the existing memory, so the array does not move (thesis,
 * 3.1.1). copy: a larger block is allocated, the content is copied, the old block is freed. The size at least doubles,
 * as in Thrust's vector (2.4.4). */
#ifndef SPG_OUTPUT_H
#define SPG_OUTPUT_H

#include "spgemm/gpu.h"

struct gpumem_region;

struct spg_output {
    enum spg_vector vector;
    struct spg_memory *memory;
    const char *what;             /* name in errors */
    void *at;                     /* growth may change it */
    size_t size;                  /* requested bytes */
    size_t capacity;              /* bytes that have memory */
    struct gpumem_region *region; /* vmm only */
};

/* Makes an empty array in the current context. After a failure there is nothing to release. */
bool spg_output_make(struct spg_output *o, enum spg_vector vector, struct spg_memory *memory, const char *what,
                     struct spg_error *error);
/* Appends `more` bytes, not initialised. On failure the array is unchanged. Work that uses the array may still run. */
bool spg_output_append(struct spg_output *o, size_t more, struct spg_error *error);
/* Grows the array to `count` elements of `element` bytes, unless it is that large. Else as spg_output_append. */
bool spg_output_ensure(struct spg_output *o, int64_t count, size_t element, struct spg_error *error);
/* Turns the array, a region, into a block that the caller owns. The block has the first `size` bytes and the rest of
 * their last physical handle; all memory after it is unmapped, which waits for the device, unless the memory has a
 * cache. Size 0 makes no block. On failure the array is unchanged. */
bool spg_output_to_block(struct spg_output *o, size_t size, struct spg_block *block, struct spg_error *error);
/* Waits for the device and frees the memory. Accepts a zeroed or released array. */
void spg_output_release(struct spg_output *o);

#endif

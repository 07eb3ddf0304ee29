/* Products of short rows (SPG_SHORT in bins.h) in one pass: see gpu_short.c. */
#ifndef SPG_GPU_SHORT_H
#define SPG_GPU_SHORT_H

#include "spgemm/kernels.h"

/* What a multiplier knows of matrices of these sizes from its last product of them. Zeroed: nothing. */
struct spg_short_memory {
    int64_t sizes[5];
    bool known;
    int64_t stored; /* entries of C; -1 = rows are not short */
};

/* Only tests change these. */
struct spg_short_settings {
    double margin;           /* memory is mapped for so many times the sampled prediction */
    int64_t halving_entries; /* from so many entries on the second half is mapped while rows are computed */
    int64_t capacity;        /* a pass writes at most so many entries */
};
extern struct spg_short_settings spg_short_settings;

enum spg_short_outcome {
    SPG_SHORT_FAILED,   /* `error` says why */
    SPG_SHORT_COMPUTED, /* g->c is C, and *products its intermediate products */
    SPG_SHORT_NOT       /* rows are not short, or C has `most` entries or more; nothing was changed */
};
/* C = A B in memory of g, which needs a region for each array. */
enum spg_short_outcome spg_short_compute(struct spg_gpu *g, struct spg_short_memory *memory, int64_t most,
                                         int64_t *products, struct spg_error *error);
/* The values and columns of a product of known structure, where C's offsets say. Does not wait. */
bool spg_short_recompute(const struct spg_gpu *g, int32_t *offsets, int64_t stored, int32_t *indices, void *values,
                         struct spg_error *error);

#endif

/* State of mode rounds: the two arrays that grow, and the layout of the rows in them. The modules gpu_dots.c and
 * gpu_spread.c compute rows into the arrays, gpu_compact.c makes C of them, and gpu_rounds.c runs these steps. */
#ifndef SPG_GPU_LOOP_H
#define SPG_GPU_LOOP_H

#include "spgemm/gpu_rows.h"
#include "spgemm/output.h"

struct spg_loop {
    struct spg_work w;
    const struct spg_job *job;
    size_t value_size;                 /* bytes of a value */
    int32_t chunk_size, rounds;        /* slots of a chunk (size_per_row); completed rounds */
    int64_t chunks;                    /* of all rows, without the gap */
    int64_t expected_entries;          /* nnz(C) by the sample; 0 = not known */
    struct spg_histogram sample;       /* of row sizes; rows 0 = no sample was taken */
    double grow_ms;                    /* host time spent in growing */
    struct spg_output columns, values; /* one element for each slot */
    /* layout of the hash accumulator (spread.h) */
    struct spg_spread spread;
    int64_t gap;          /* chunks before the first slab that belong to no row */
    bool moves;           /* slabs are moved while later ones are computed (gpu_move.h); there is a gap then */
    int32_t early_slabs;  /* computed before all memory is mapped; 0 = all memory is mapped first */
    int64_t early_chunks; /* mapped before the first slab is computed */
    /* layout of the thesis' kernel (chunks.h) */
    struct spg_output owner;
    struct spg_block first;      /* first chunk of each round */
    struct spg_block resume;     /* column where each row resumes */
    struct spg_block unfinished; /* persistent: rows that each round leaves unfinished */
};

/* Makes two empty output arrays. A cache recognises them, so all methods that grow share the kept memory. Release both
 * after a failure too; they must be zeroed before. */
bool spg_loop_arrays(struct spg_output *columns, struct spg_output *values, enum spg_vector vector,
                     struct spg_memory *memory, struct spg_error *error);
/* Makes C's arrays of them, when they are regions: what lies behind C's entries is returned. */
bool spg_loop_arrays_to_result(struct spg_output *columns, struct spg_output *values, size_t value_size,
                               struct spg_result *c, struct spg_error *error);
/* Prepares helper arrays and, with `arrays`, two empty output arrays. Call spg_loop_drop after a failure too. */
bool spg_loop_make(struct spg_loop *l, struct spg_method *method, bool arrays, struct spg_error *error);
void spg_loop_drop(struct spg_loop *l);
/* Grows both output arrays to `slots` slots, unless they are that large. Only takes host time when the arrays are
 * regions: the device may compute meanwhile. */
bool spg_loop_ensure(struct spg_loop *l, int64_t slots, struct spg_error *error);

#endif

/* Mode rounds in hand: arrays of places that grow, rows formed in them, and what makes C of them. */
#ifndef SPG_GPU_ROUNDS_H
#define SPG_GPU_ROUNDS_H

#include "spgemm/gpu_rows.h"
#include "spgemm/output.h"

struct spg_loop {
    struct spg_work w;
    const struct spg_job *job;
    size_t value;                /* bytes */
    int32_t size, rounds;        /* places of a piece; rounds done */
    int64_t pieces;              /* of all rounds begun; without the gap */
    int64_t gap;                 /* pieces before them that are no row's */
    int64_t first_pieces;        /* that are there when the first slabs begin */
    int32_t first_slabs;         /* formed while more is mapped; 0 = everything is there */
    int64_t expected;            /* nnz(C) by the sample; 0 = not known */
    struct spg_histogram sample; /* of row sizes; rows 0 = none was taken */
    double grow_ms;
    struct spg_output columns, values;
    /* the fast accumulator */
    struct spg_spread spread;
    /* the kernel of the thesis */
    struct spg_output owner;
    struct spg_block first;      /* first piece of each round */
    struct spg_block resume;     /* where a row goes on */
    struct spg_block unfinished; /* persistent: rows that each round leaves */
};

/* Makes the places `count`, unless there are as many. What it takes is the host's time, which the device may
 * have work in. */
bool spg_loop_grow(struct spg_loop *l, int64_t count, struct spg_error *error);

/* Only tests change it. */
struct spg_spread_settings {
    int64_t slab_entries;  /* nnz(C) for each slab: what smaller ones save is less than what their launches take */
    double margin;         /* further pieces that memory is made for, times what the sample says */
    int64_t halved_places; /* as many of one round are made in two halves */
};
extern struct spg_spread_settings spg_spread_settings;

/* Forms all rows by the fast accumulator: sets rounds, pieces, gap. */
bool spg_loop_spread(struct spg_loop *l, struct spg_error *error);

/* C, exact, of the rows where they lie; its offsets and number of entries are there. */
bool spg_loop_compact(struct spg_loop *l, struct spg_error *error);
/* Makes C's arrays the result's; gives back what else the places took. */
bool spg_loop_trim(struct spg_loop *l, struct spg_error *error);

#endif

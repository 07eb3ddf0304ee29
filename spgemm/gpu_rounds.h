/* Mode rounds in hand: arrays of places that grow, rows formed in them, and what makes C of them. */
#ifndef GM_SPGEMM_GPU_ROUNDS_H
#define GM_SPGEMM_GPU_ROUNDS_H

#include "spgemm/gpu_rows.h"
#include "spgemm/output.h"

struct gm_loop {
    struct gm_work w;
    const struct gm_job *job;
    size_t value;               /* bytes */
    int32_t size, rounds;       /* places of a piece; rounds done */
    int64_t pieces;             /* of all rounds begun; without the gap */
    int64_t gap;                /* pieces before them that are no row's */
    int64_t first_pieces;       /* that are there when the first slabs begin */
    int32_t first_slabs;        /* formed while more is mapped; 0 = everything is there */
    int64_t expected;           /* nnz(C) by the sample; 0 = not known */
    struct gm_histogram sample; /* of row sizes; rows 0 = none was taken */
    double grow_ms;
    struct gm_output columns, values;
    /* the fast accumulator */
    struct gm_spread spread;
    /* the kernel of the thesis */
    struct gm_output owner;
    struct gm_block first;      /* first piece of each round */
    struct gm_block resume;     /* where a row goes on */
    struct gm_block unfinished; /* persistent: rows that each round leaves */
};

/* Makes the places `count`, unless there are as many. What it takes is the host's time, which the device may
 * have work in. */
bool gm_loop_grow(struct gm_loop *l, int64_t count, struct gm_spgemm_error *error);

/* Only tests change it. */
struct gm_spread_settings {
    int64_t slab_entries;  /* nnz(C) for each slab: what smaller ones save is less than what their launches take */
    double margin;         /* further pieces that memory is made for, times what the sample says */
    int64_t halved_places; /* as many of one round are made in two halves */
};
extern struct gm_spread_settings gm_spread_settings;

/* Forms all rows by the fast accumulator: sets rounds, pieces, gap. */
bool gm_loop_spread(struct gm_loop *l, struct gm_spgemm_error *error);

/* C, exact, of the rows where they lie; its offsets and number of entries are there. */
bool gm_loop_compact(struct gm_loop *l, struct gm_spgemm_error *error);
/* Makes C's arrays the result's; gives back what else the places took. */
bool gm_loop_trim(struct gm_loop *l, struct gm_spgemm_error *error);

#endif

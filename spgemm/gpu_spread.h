/* Mode rounds with the hash accumulator. */
#ifndef SPG_GPU_SPREAD_H
#define SPG_GPU_SPREAD_H

#include "spgemm/gpu_loop.h"

/* Only tests change these. */
struct spg_spread_settings {
    int64_t slab_entries;  /* a unit of entries of C for slabs; smaller slabs save less time than their launches take */
    double margin;         /* factor on the predicted number of extra chunks */
    int64_t halving_slots; /* one round of at least so many slots is computed in two halves */
    double gap;            /* factor on the predicted size of the gap */
};
extern struct spg_spread_settings spg_spread_settings;

/* Computes all rows; sets chunk_size, rounds, chunks, gap and spread. */
bool spg_loop_spread(struct spg_loop *l, struct spg_error *error);

#endif

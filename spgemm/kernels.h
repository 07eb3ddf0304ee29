/* Launches of the device kernels.
 *
 * A launch returns without waiting. All pointers are device memory unless a comment says otherwise. Each function
 * returns the CUDA status of its launch; a launch of no work succeeds. Implementations: kernels_*.cu. */
#ifndef SPG_KERNELS_H
#define SPG_KERNELS_H

#include "spgemm/bins.h"
#include "spgemm/chunks.h"
#include "spgemm/gpu.h"
#include "spgemm/spread.h"
#include "spgemm/tiles.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether kernels for the semiring min-plus are compiled (the option `semirings`). */
extern const bool spg_semirings;

/* Where rows of C are written. Exactly one of start, chunks and spread is used. */
struct spg_target {
    void *values; /* NULL: symbolic phase, rows are only counted. Not used for patterns, but not NULL either */
    int32_t *columns;
    const int64_t *start; /* first slot of each row */
    int32_t *size; /* out: entries of each row. A row that exceeds its chunks gets one more than they hold. In: the
                    * exact size, when ranges write rows into a spread. */
    struct spg_chunks chunks; /* layout of the thesis' kernel */
    struct spg_spread spread; /* layout of the hash accumulator. A row without memory for its extra chunks is not
                               * written: its size is set and the row is deferred. Rows that ranges only count are
                               * deferred too. */
};

/* ---- bounds and estimates: kernels_arrays.cu, kernels_cohen.cu */

struct spg_bound_totals {
    int64_t bound;     /* intermediate products of all rows: the upper bound on nnz(C) */
    int64_t alike;     /* rows of A whose pattern is that of the row before */
    int32_t row_max;   /* the most intermediate products of one row, capped at INT32_MAX */
    int32_t not_short; /* whether a row of A, or a row of B that it meets, has more than SPG_SHORT entries */
};
/* Writes the intermediate products of each row, capped at INT32_MAX, to `bound`, and whether the row's pattern is that
 * of the row before to `alike`; adds both to *totals, which must be zeroed. */
cudaError_t spg_launch_bounds(const struct spg_operand *a, const struct spg_operand *b, int32_t *bound, uint8_t *alike,
                              struct spg_bound_totals *totals, cudaStream_t stream);

/* Writes to `alike` whether the row's pattern is that of the row before; rows of many entries are not compared. */
cudaError_t spg_launch_alike(const struct spg_operand *b, uint8_t *alike, cudaStream_t stream);

/* Adds Cohen's estimate of nnz(C) (estimate.h) to *total. `drawn` has SPG_COHEN_KEYS floats for each column of B,
 * `reached` as many for each row of B. The keys are those of the host's estimator. */
cudaError_t spg_launch_cohen(const struct spg_operand *a, const struct spg_operand *b, uint64_t seed, float *drawn,
                             float *reached, double *total, cudaStream_t stream);

/* ---- the fast accumulator: kernels_table.cu, kernels_ranges.cu; bins: kernels_arrays.cu */

/* What decides a row's bin. A row without entries gets none. */
struct spg_bin_rule {
    const int32_t *offsets; /* of A */
    const uint8_t *alike;   /* only the first row of a group gets a bin, if the bin serves groups; NULL = no groups */
    const int32_t *bound;   /* intermediate products of each row */
    const int32_t *size;    /* exact sizes; NULL = not known */
    int32_t columns;        /* of C */
    float share;            /* of spg_entries_expected(); 1 with exact sizes */
    int32_t slab;           /* rows of a slab; each slab has its own bins. INT32_MAX: all rows are one slab */
    int32_t tables;         /* spg_bins_of_tables(): longer rows are computed by ranges */
    bool narrow;            /* rows are for spg_launch_narrow_rows(): only `offsets` decides */
};
/* Counts the rows of each bin of each slab in count[], and writes them to `binned`, bin by bin. count[] and taken[]
 * have SPG_SLABS x SPG_BINS elements and must be zeroed. `list` NULL: rows 0 to rows - 1. */
cudaError_t spg_launch_bins(const int32_t *list, int32_t rows, const struct spg_bin_rule *rule, int32_t *count,
                            int32_t *taken, int32_t *binned, cudaStream_t stream);
/* Rows whose tables were too small, as a list. Numbers are positions in it. */
struct spg_overflows {
    int32_t listed;   /* rows in the list */
    int32_t repeated; /* rows before this one have been computed again, or are computed again now */
    int32_t from;     /* first row that is computed again now */
    int32_t count;    /* number of these rows */
    int32_t left;     /* rows that were listed before them, or with them, and are not computed again yet */
};
/* Places the first chunks of this slab after all chunks granted so far. The rows that earlier slabs have listed since
 * the last call shall be computed again now, or not yet if they are more than `most`. */
cudaError_t spg_launch_start_slab(struct spg_chunk_counts *chunk_counts, struct spg_overflows *overflows, int32_t most,
                                  int slab, cudaStream_t stream);
/* Computes or counts rows with tables of the bin's size. A row that does not fit its table is appended to `overflow`
 * and counted in overflows->listed. `alike`, unless NULL: a listed row stands for its group, if the bin serves groups.
 * `b_alike`: of B's rows, for groups; may be NULL. `list` NULL: computes those rows of `overflow` again that *overflows
 * names, at most `rows`. */
cudaError_t spg_launch_table(int bin, enum spg_precision precision, const struct spg_operand *a,
                             const struct spg_operand *b, const int32_t *list, int32_t rows, const uint8_t *alike,
                             const uint8_t *b_alike, const struct spg_target *c, int32_t *overflow,
                             struct spg_overflows *overflows, cudaStream_t stream);
/* Counts all rows of a C of at most SPG_NARROW columns (kernels_narrow.cu): their entries and intermediate products.
 * Sets totals like spg_launch_bounds(), which must be zeroed, too, but counts no rows of equal pattern. A row's mask
 * has a bit for each column, in spg_mask_words() words. `b_masks` is scratch memory for those of B. */
struct spg_narrow_count {
    const int32_t *list, *bins; /* all rows, bin by bin, and how many are in each */
    int32_t *bound, *size;
    uint64_t *masks; /* of C's rows; those that are in no bin are not set */
    struct spg_bound_totals *totals;
};
cudaError_t spg_launch_narrow_count(const struct spg_operand *a, const struct spg_operand *b, uint64_t *b_masks,
                                    const struct spg_narrow_count *to, cudaStream_t stream);
/* Computes these rows, whose sizes and masks are set. They are listed bin by bin, with count[bin] in each; `count` is
 * memory of the host. */
cudaError_t spg_launch_narrow_rows(enum spg_precision precision, const struct spg_operand *a,
                                   const struct spg_operand *b, const int32_t *list, const int32_t *count,
                                   const uint64_t *masks, const struct spg_target *c, cudaStream_t stream);
/* The numeric phase for complex values and patterns, whose rows have exact sizes. Rows do not share tables. */
cudaError_t spg_launch_table_other(int bin, enum spg_precision precision, const struct spg_operand *a,
                                   const struct spg_operand *b, const int32_t *list, int32_t rows,
                                   const struct spg_target *c, cudaStream_t stream);
/* The same by merging, where no row of A has more than SPG_SHORT entries, nor any row of B that they meet, and C has at
 * most SPG_SHORT_COLUMNS columns (kernels_short.cu). */
cudaError_t spg_launch_short(enum spg_precision precision, const struct spg_operand *a, const struct spg_operand *b,
                             const int32_t *list, int32_t rows, const struct spg_target *c, cudaStream_t stream);
/* All rows of such a product in one launch, in the order of rows, in tiles of SPG_SHORT_TILE rows. */
#define SPG_SHORT_TILE 32
static inline int32_t spg_short_tiles(int32_t rows) { return rows ? (rows - 1) / SPG_SHORT_TILE + 1 : 0; }

struct spg_short_c {
    int32_t *offsets, *columns;
    void *values;
    int64_t capacity; /* entries for which columns and values have memory */
};
/* Must be zeroed. */
struct spg_short_totals {
    int64_t stored;                        /* nnz(C) */
    unsigned long long products;           /* intermediate products of all rows */
    int32_t not_short;                     /* a row is too long: the product must be computed in another way */
    int32_t unwritten;                     /* entries were not written, because they exceed the capacity */
    unsigned long long sampled_entries[2]; /* of C, in the sampled rows: first half, second half of the rows */
    unsigned long long sampled_terms;      /* of A, in all sampled rows */
};
struct spg_short_pass {
    unsigned long long *tiles; /* a word for each tile, zeroed (look_back.cuh) */
    struct spg_short_totals *totals;
};
/* Checks the lengths of all rows of A and B, and counts SPG_SAMPLE_ROWS rows. */
cudaError_t spg_launch_short_sample(const struct spg_operand *a, const struct spg_operand *b,
                                    struct spg_short_totals *totals, cudaStream_t stream);
/* Counts and writes the rows of so many tiles from tile `first` on, whose predecessors were launched before. Sets C's
 * offsets, and stored, products and the two flags of the totals. A tile that exceeds the capacity is only counted. Rows
 * that are too long are cut off. */
cudaError_t spg_launch_short_tiles(enum spg_precision precision, const struct spg_operand *a,
                                   const struct spg_operand *b, int32_t first, int32_t tiles,
                                   const struct spg_short_c *c, const struct spg_short_pass *pass, cudaStream_t stream);
/* Writes columns and values of all rows where C's offsets say. */
cudaError_t spg_launch_short_values(enum spg_precision precision, const struct spg_operand *a,
                                    const struct spg_operand *b, const struct spg_short_c *c, cudaStream_t stream);
/* The same by ranges of columns. `progress` has rows + 1 elements. */
cudaError_t spg_launch_ranges(enum spg_precision precision, const struct spg_operand *a, const struct spg_operand *b,
                              const int32_t *list, int32_t rows, const struct spg_target *c,
                              unsigned long long *progress, cudaStream_t stream);

/* The same by sorting: kernels_sorted.cu. */
struct spg_sort_batch {
    const int32_t *list;
    int32_t rows;
    const int64_t *terms, *products; /* exclusive sums over the rows of the list, which may begin with any number */
    int32_t entries, count;          /* of A's rows; intermediate products of all rows, at most SPG_SORT_MAX */
};
/* Writes the number of entries of A and of intermediate products of each listed row. */
cudaError_t spg_launch_row_lengths(const struct spg_operand *a, const struct spg_operand *b, const int32_t *list,
                                   int32_t rows, int32_t *terms, int32_t *products, cudaStream_t stream);
/* Needs *bytes bytes of scratch memory. With scratch NULL it only sets *bytes; only the numbers of the batch are used
 * then. */
cudaError_t spg_launch_sorted(enum spg_precision precision, const struct spg_operand *a, const struct spg_operand *b,
                              const struct spg_sort_batch *batch, const struct spg_target *c, void *scratch,
                              size_t *bytes, cudaStream_t stream);

/* ---- the kernel of the thesis: kernels_dots.cu */

/* Computes or counts the rows of the list (NULL: 0 to rows - 1), one thread for each row. `by_columns` is B transposed.
 * With chunks, rows are written into the chunks of the last round. A row resumes at column resume[row], where the round
 * before stopped. */
cudaError_t spg_launch_dots(enum spg_precision precision, const struct spg_operand *a, const struct spg_operand *b,
                            const struct spg_operand *by_columns, const int32_t *list, int32_t rows,
                            const struct spg_target *c, int32_t *resume, cudaStream_t stream);

/* Runs all rounds for which `slots` slots suffice in one cooperative launch; the grid synchronises between rounds.
 * *progress describes the next round, which has not started. */
struct spg_progress {
    int64_t first;        /* its first chunk */
    int32_t rows, rounds; /* unfinished rows, already listed as owners; completed rounds */
};
cudaError_t spg_launch_dots_persistent(enum spg_precision precision, const struct spg_operand *a,
                                       const struct spg_operand *b, const struct spg_operand *by_columns,
                                       const struct spg_target *c, int32_t *resume, int32_t *owner, int64_t *first,
                                       int64_t slots, struct spg_progress *progress, int32_t *unfinished,
                                       cudaStream_t stream);

/* ---- whole arrays: kernels_arrays.cu */

/* Exclusive scan: start[i] = size[0] + ... + size[i - 1] for i = 0 to count; size[count] must be readable. Needs *bytes
 * bytes of scratch memory. With scratch NULL it only sets *bytes. */
cudaError_t spg_scan(void *scratch, size_t *bytes, const int32_t *size, int64_t *start, int32_t count,
                     cudaStream_t stream);
/* Copies the rows of the list with size[row] > above to `chosen`, in order, and their number to *number. `scratch` and
 * `bytes` as in spg_scan. */
cudaError_t spg_select_above(void *scratch, size_t *bytes, const int32_t *list, int32_t rows, const int32_t *size,
                             int64_t above, int32_t *chosen, int32_t *number, cudaStream_t stream);
cudaError_t spg_launch_count_up(int32_t *list, int32_t rows, cudaStream_t stream); /* list[i] = i */
cudaError_t spg_launch_gather(const int32_t *list, int32_t rows, const int32_t *from, int32_t *to, cudaStream_t stream);
/* Copies the 64-bit row offsets c_offset[0] to c_offset[rows] to 32-bit `offsets`, and sets *totals, which must be
 * zeroed. There are at most SPG_SLABS slabs of `slab` rows. */
struct spg_c_totals {
    int64_t stored;              /* nnz(C) */
    int64_t slab_end[SPG_SLABS]; /* offset of C after the last row of each slab */
    int32_t longest;             /* entries of the longest row */
};
cudaError_t spg_launch_offsets(const int64_t *c_offset, const int32_t *size, int32_t rows, int32_t *offsets,
                               int32_t slab, struct spg_c_totals *totals, cudaStream_t stream);

/* ---- operands of other forms: kernels_operands.cu. `to` has memory for the result; values that a scale or the
 * identity multiplies are of the precision. A scale lies on the host; NULL: 1. */

/* Needs *bytes bytes of scratch memory. With scratch NULL it only sets *bytes. */
cudaError_t spg_launch_transpose(enum spg_precision precision, const struct spg_operand *m, const void *scale,
                                 bool conjugated, const struct spg_operand *to, void *scratch, size_t *bytes,
                                 cudaStream_t stream);
cudaError_t spg_launch_scale(enum spg_precision precision, const void *from, int64_t stored, const void *scale,
                             void *to, cudaStream_t stream);
/* [A | beta I] */
cudaError_t spg_launch_beside(enum spg_precision precision, const struct spg_operand *a, const void *beta,
                              const struct spg_operand *to, cudaStream_t stream);
/* Offsets of B with D below it. */
cudaError_t spg_launch_below(const struct spg_operand *b, const struct spg_operand *d, int32_t *offsets,
                             cudaStream_t stream);
cudaError_t spg_launch_identity(enum spg_precision precision, const struct spg_operand *to, cudaStream_t stream);

/* ---- patterns: kernels_check.cu */

/* The first row that is wrong; INT32_MAX before the check: none is. [0] of the offsets, [1] of the columns. */
struct spg_flaws {
    int32_t row;
};
/* `wide`: the offsets, if they have 64 bits. */
cudaError_t spg_launch_check(const struct spg_operand *m, const int64_t *wide, bool columns, struct spg_flaws flaws[2],
                             cudaStream_t stream);
/* Adds the number of the pattern to *hash. */
cudaError_t spg_launch_hash(const struct spg_operand *m, unsigned long long *hash, cudaStream_t stream);

/* ---- slabs of rows: kernels_split.cu */

/* Cuts the rows into `parts` slabs of about equal work: cut[0] = 0 to cut[parts] = rows. start[0] to start[rows] are
 * the intermediate products before each row. */
cudaError_t spg_launch_even_cuts(const int64_t *start, int32_t rows, int32_t parts, int32_t *cut, cudaStream_t stream);
/* Cuts the rows into slabs of at most `most` by `start`, or of one row. *parts is their number, at most
 * 2 x start[rows] / most + 1. */
cudaError_t spg_launch_limited_cuts(const int64_t *start, int32_t rows, int64_t most, int32_t *cut, int32_t *parts,
                                    cudaStream_t stream);
/* Offsets of 64 bits to 32 bits, less `base`; and back, plus `base`. */
cudaError_t spg_launch_narrow(const int64_t *from, int64_t base, int64_t count, int32_t *to, cudaStream_t stream);
cudaError_t spg_launch_widen(const int32_t *from, int64_t base, int64_t count, int64_t *to, cudaStream_t stream);

/* ---- rows of a matrix in host memory: kernels_host.cu. `offsets` are those of the whole matrix, on the device. */

/* Sets length[row] for each of the rows that one of the columns names. */
cudaError_t spg_launch_name_rows(const int32_t *columns, int64_t count, const int64_t *offsets, int32_t rows,
                                 int32_t *length, cudaStream_t stream);
/* Copies the entries of the rows that are not empty in `to`, whose offsets are set. `indices` and `values` are those of
 * the whole matrix, in memory that kernels can read. */
cudaError_t spg_launch_fetch_rows(size_t value_size, const struct spg_operand *to, const int64_t *offsets,
                                  const int32_t *indices, const void *values, cudaStream_t stream);

/* Copies words of 32 bits to pinned memory of the host. */
cudaError_t spg_launch_post(const void *from, size_t size, void *to, cudaStream_t stream);

/* ---- compaction: row i's size[i] elements move to c_offset[i]; elements have 4 or 8 bytes */

/* From rows that begin at start[i]. kernels_arrays.cu */
cudaError_t spg_launch_move_rows(size_t element, const void *from, void *to, const int64_t *start,
                                 const int64_t *c_offset, const int32_t *size, int32_t rows, cudaStream_t stream);
/* From the layout of the thesis' kernel. kernels_arrays.cu */
cudaError_t spg_launch_move_chunks(size_t element, const void *from, void *to, const struct spg_chunks *chunks,
                                   int64_t count, const int64_t *c_offset, const int32_t *size, cudaStream_t stream);
/* From a spread: rows first to first + rows - 1. The written memory must not hold any of these rows' chunks.
 * kernels_move.cu */
struct spg_array_move {
    const void *from; /* NULL: this array is not moved */
    void *to;
};
cudaError_t spg_launch_move_spread(size_t element, const struct spg_array_move *columns,
                                   const struct spg_array_move *values, const struct spg_spread *spread, int32_t first,
                                   int32_t rows, const int64_t *c_offset, const int32_t *size, cudaStream_t stream);
/* Moves one slab in place, while later slabs are computed. The slab must not be the last one. kernels_move.cu */
struct spg_moves {
    int64_t base[SPG_SLABS + 1]; /* offset of C before each slab that was moved, and after the last one */
    int32_t moved;               /* slabs that were moved, or are moved now */
};
/* Decides whether the slab is moved: if all of its rows are complete, all slabs before it were moved, and its rows of C
 * end before the slab's first chunk. If so, writes the offsets of its rows to `offsets`. `sections` has SPG_SECTIONS
 * elements. */
#define SPG_SECTIONS 256
cudaError_t spg_launch_place_slab(const struct spg_spread *spread, const struct spg_overflows *overflows, int slab,
                                  const int32_t *size, int32_t *offsets, int64_t *sections, struct spg_moves *moves,
                                  cudaStream_t stream);
cudaError_t spg_launch_move_slab(size_t element, int32_t *columns, void *values, const struct spg_spread *spread,
                                 int slab, const int32_t *offsets, const int32_t *size, const struct spg_moves *moves,
                                 cudaStream_t stream);
/* Packs both arrays in place (tiles.h); a value has `element` bytes. *ticket and read[spg_tiles()] must be zeroed.
 * kernels_pack.cu */
cudaError_t spg_launch_pack(size_t element, int32_t *columns, void *values, const struct spg_tiling *tiling,
                            unsigned *ticket, unsigned *read, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif

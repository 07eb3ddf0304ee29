/* Work on the device. Launches go to the default stream unless they name another, and return at once; arrays
 * are on the device unless said. Each returns what cudaGetLastError says of its launch; a launch of nothing
 * is fine. */
#ifndef SPG_KERNELS_H
#define SPG_KERNELS_H

#include "spgemm/gpu.h"
#include "spgemm/pieces.h"
#include "spgemm/spread.h"
#include "spgemm/tiles.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where rows of C go. */
struct spg_target {
    void *values; /* NULL: rows are counted, not formed */
    int32_t *columns;
    const int64_t *start; /* first place of each row; not with pieces */
    int32_t *size;        /* out: entries of each row; of one that does not fit its pieces, as one more than fits. In
                           * when ranges form rows into a spread. */
    struct spg_pieces pieces; /* by the thread-for-a-row kernel */
    struct spg_spread spread; /* by the fast accumulator: a row that gets no pieces is not written, but listed
                               * and its size told; rows by ranges that are counted are listed, too */
};

/* ---- estimates */

struct spg_totals {
    int64_t bound; /* multiplications */
    int32_t most;  /* of one row; INT32_MAX stands for more, too */
};
/* Multiplications of each row, capped at INT32_MAX, and their totals, which must be zeroed. */
cudaError_t spg_launch_bounds(const struct spg_operand *a, const struct spg_operand *b, int32_t *bound,
                              struct spg_totals *totals);

/* Adds Cohen's estimate of nnz(C) (estimate.h) to *total; `drawn` has SPG_COHEN_KEYS for each column of B,
 * `reached` for each row. The same keys as on the host. */
cudaError_t spg_launch_cohen(const struct spg_operand *a, const struct spg_operand *b, uint64_t seed, float *drawn,
                             float *reached, double *total);

/* ---- the fast accumulator */

/* What decides a row's bin, and whether it is formed at all. */
struct spg_need {
    const int32_t *bound; /* multiplications */
    const int32_t *size;  /* exact */
    int32_t columns;      /* of C */
    float share;          /* spg_entries_expected(); 1 with exact sizes */
    int32_t slab;         /* rows of a slab, each with bins of its own; INT32_MAX = all rows are one */
};
/* Rows of each bin into count[SPG_BINS] for each slab, which must be zeroed. `list` NULL: rows 0 to rows - 1.
 * Rows of no entries are in no bin. */
cudaError_t spg_launch_bin_count(const int32_t *list, int32_t rows, const struct spg_need *need, int32_t *count);
/* First pieces of this slab's rows lie behind what rows before have got. */
cudaError_t spg_launch_begin_slab(struct spg_spill *spill, int slab);
/* The rows, bin by bin, into `binned`; `next` has the first place of each bin and is moved. */
cudaError_t spg_launch_bin_fill(const int32_t *list, int32_t rows, const struct spg_need *need, int32_t *next,
                                int32_t *binned);
/* Forms (or counts) rows with tables of the bin's size. Rows that do not fit their table are listed in
 * overflow, counted in *overflowed. */
cudaError_t spg_launch_table(int bin, enum spg_precision precision, const struct spg_operand *a,
                             const struct spg_operand *b, const int32_t *list, int32_t rows, const struct spg_target *c,
                             int32_t *overflow, int32_t *overflowed, cudaStream_t stream);
/* The same by ranges of columns. cursor: one for each entry of A. */
cudaError_t spg_launch_ranges(enum spg_precision precision, const struct spg_operand *a, const struct spg_operand *b,
                              const int32_t *list, int32_t rows, const struct spg_target *c, int32_t *cursor,
                              cudaStream_t stream);

/* ---- the kernel of the thesis (listing 2.1) */

/* Forms or counts the rows of the list (NULL: 0 to rows - 1), a thread for a row; `by_columns` is B
 * transposed. With pieces, rows go on in the last round's at the column resume[row] where they left off in
 * the round before; columns are looked at from that of the row's first product to that of its last. */
cudaError_t spg_launch_dots(enum spg_precision precision, const struct spg_operand *a, const struct spg_operand *b,
                            const struct spg_operand *by_columns, const int32_t *list, int32_t rows,
                            const struct spg_target *c, int32_t *resume);

/* All rounds that the memory holds in one cooperative launch, the grid synchronised between them. In
 * *progress: what the next round, which has not begun, starts with. */
struct spg_progress {
    int64_t first;        /* its first piece */
    int32_t rows, rounds; /* unfinished rows, whose owners are listed; rounds done */
};
cudaError_t spg_launch_dots_persistent(enum spg_precision precision, const struct spg_operand *a,
                                       const struct spg_operand *b, const struct spg_operand *by_columns,
                                       const struct spg_target *c, int32_t *resume, int32_t *owner, int64_t *first,
                                       int64_t places, struct spg_progress *progress, int32_t *unfinished);

/* ---- whole arrays */

/* start[i] = sum of size[0] to size[i - 1], for i up to count inclusive; size[count] must be there. *bytes of
 * `space` are used; with space NULL only *bytes is set. */
cudaError_t spg_scan(void *space, size_t *bytes, const int32_t *size, int64_t *start, int32_t count);
/* Rows of the list whose size is above `above`, in their order, into `chosen`, their number into *number. As
 * spg_scan. */
cudaError_t spg_select_above(void *space, size_t *bytes, const int32_t *list, int32_t rows, const int32_t *size,
                             int64_t above, int32_t *chosen, int32_t *number);
cudaError_t spg_launch_count_up(int32_t *list, int32_t rows); /* list[i] = i */
cudaError_t spg_launch_gather(const int32_t *list, int32_t rows, const int32_t *from, int32_t *to);
/* place[0] to place[rows] as `offsets`, and what the host wants to know: the last of them, that behind each
 * slab of `slab` rows, of which there are SPG_SLABS at most, and the longest row, which must be zeroed. */
struct spg_ends {
    int64_t stored, slab[SPG_SLABS];
    int32_t longest;
};
cudaError_t spg_launch_offsets(const int64_t *place, const int32_t *size, int32_t rows, int32_t *offsets, int32_t slab,
                               struct spg_ends *ends);

/* ---- compaction: elements of 4 or 8 bytes; row i's size[i] elements to place[i] */

/* from where rows begin at start[i] */
cudaError_t spg_launch_move_rows(size_t element, const void *from, void *to, const int64_t *start, const int64_t *place,
                                 const int32_t *size, int32_t rows);
/* from pieces */
cudaError_t spg_launch_move_pieces(size_t element, const void *from, void *to, const struct spg_pieces *pieces,
                                   int64_t count, const int64_t *place, const int32_t *size);
/* from a spread: rows first to first + rows - 1; what they are written over must belong to none of them */
struct spg_moved {
    const void *from; /* NULL: this array is not moved */
    void *to;
};
cudaError_t spg_launch_move_spread(size_t element, const struct spg_moved *columns, const struct spg_moved *values,
                                   const struct spg_spread *spread, int32_t first, int32_t rows, const int64_t *place,
                                   const int32_t *size);
/* Both arrays where they are, a value having `element` bytes. *ticket and read[spg_tiles()] must be zeroed; a
 * piece has at most SPG_TILE places. */
cudaError_t spg_launch_pack(size_t element, int32_t *columns, void *values, const struct spg_padded *padded,
                            unsigned *ticket, unsigned *read);

#ifdef __cplusplus
}
#endif

#endif

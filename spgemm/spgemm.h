/* gpumem-spgemm: products of sparse matrices on a GPU, C = A B.
 *
 *     struct gpumem_spgemm *multiplier;
 *     struct gpumem_spgemm_csr a = {sizeof a, rows, inner, a_stored, a_offsets, a_indices, a_values}, b = {...};
 *     struct gpumem_spgemm_result c = {.struct_size = sizeof c};
 *     gpumem_spgemm_create(NULL, &multiplier);
 *     gpumem_spgemm_multiply(multiplier, &a, &b, NULL, 0, stream, &c);
 *     use<<<grid, block, 0, stream>>>(c.rows, c.offsets, c.indices, c.values);
 *
 * Link with -lgpumem-spgemm (pkg-config gpumem-spgemm). The size of C is not known before the product is computed: C
 * grows in arrays of the multiplier while it is computed, or it is counted first and written to memory of the caller.
 *
 * Matrices are compressed rows (CSR) in device memory: 32-bit offsets that begin with 0, 32-bit columns from 0, which
 * ascend and are unique in each row. C has the same form; an entry whose products cancel stays. The content of A and B
 * is not checked. A matrix that 32-bit offsets cannot describe is refused with GPUMEM_NOT_SUPPORTED: A or B before any
 * work, C before memory is allocated for its entries.
 *
 * Three kinds of calls, by their cost:
 * - cold: the first call of a multiplier, or the first after gpumem_spgemm_trim(). It allocates all its memory.
 * - warm: any later call. The multiplier keeps its helper arrays and the memory of C, and allocates only what is
 *   missing.
 * - same structure (GPUMEM_SPGEMM_SAME_STRUCTURE): only the values of A and B have changed since the last product. Rows
 *   are not counted, nothing is allocated, and the columns of C stay as they are.
 *
 * Errors. Each call that can fail returns enum gpumem_status of gpumem.h and writes its results only on success;
 * gpumem_spgemm_last_error() has the text. After a failed product the multiplier has no product and can be used as
 * before. After GPUMEM_OUT_OF_MEMORY it has also freed all device memory that it kept. Each call may return the error
 * of earlier work of the device.
 *
 * Streams. The product runs in the legacy default stream and in own streams that synchronise with it. It begins after
 * the work submitted to `stream` so far, and work submitted to `stream` later begins after the product: the caller
 * orders nothing. The call returns when the size of C is known; C itself may still be computed. A call while `stream`
 * is captured returns GPUMEM_STREAM_CAPTURE.
 *
 * Threads. One multiplier is used by one thread at a time. Threads with a multiplier each may call at the same time.
 * A multiplier belongs to the device that was current when it was created; a call with another device current returns
 * GPUMEM_INVALID_CONTEXT.
 *
 * Structs begin with struct_size, as in gpumem.h. */
#ifndef GPUMEM_SPGEMM_H
#define GPUMEM_SPGEMM_H

#include "gpumem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpumem_spgemm;

enum gpumem_spgemm_precision { GPUMEM_SPGEMM_DOUBLE = 0, GPUMEM_SPGEMM_FLOAT = 1 };

/* Zero in all fields but the first means the defaults. */
struct gpumem_spgemm_options {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_options), set by the caller */
    size_t limit;       /* bytes of device memory that the multiplier may hold; 0: no limit */
    uint64_t precision; /* enum gpumem_spgemm_precision, of the values of A, B and C */
};

/* The text of the calling thread's last call here that failed; "" when none failed. Valid until the next one. */
const char *gpumem_spgemm_last_error(void);

/* options NULL: the defaults. Allocates no device memory yet. Errors: GPUMEM_NOT_INITIALIZED (no CUDA device),
 * GPUMEM_INVALID_VALUE (no such precision), GPUMEM_NOT_SUPPORTED (an option that this version does not know),
 * GPUMEM_OUT_OF_MEMORY, and those of struct_size. */
enum gpumem_status gpumem_spgemm_create(const struct gpumem_spgemm_options *options, struct gpumem_spgemm **multiplier);

/* Waits for the device and frees all memory, also that of C. NULL is no error. */
void gpumem_spgemm_destroy(struct gpumem_spgemm *multiplier);

/* A or B. */
struct gpumem_spgemm_csr {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_csr), set by the caller */
    int64_t rows, columns;
    int64_t stored;         /* entries: the last offset */
    const int32_t *offsets; /* rows + 1 */
    const int32_t *indices; /* columns of the entries; NULL without entries */
    const void *values;     /* double or float; NULL without entries */
};

/* What a product will need. */
struct gpumem_spgemm_workspace {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_workspace), set by the caller */
    size_t helpers;     /* bytes of helper arrays; rows that exceed the largest hash table need more */
    int64_t products;   /* intermediate products: the upper bound on the entries of C, exact */
    int64_t expected;   /* entries of C, estimated from 1024 sampled rows */
    size_t output;      /* bytes of C with the expected entries */
};

/* Counts intermediate products and samples rows. Waits for the result. The multiplier keeps the helper arrays for the
 * next product; its last product ends. Errors: as gpumem_spgemm_multiply(). */
enum gpumem_status gpumem_spgemm_workspace(struct gpumem_spgemm *multiplier, const struct gpumem_spgemm_csr *a,
                                           const struct gpumem_spgemm_csr *b, struct CUstream_st *stream,
                                           struct gpumem_spgemm_workspace *workspace);

/* Memory of the caller for C: either three arrays, or three regions, which grow as needed and never shrink. */
struct gpumem_spgemm_output {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_output), set by the caller */
    int32_t *offsets;   /* rows + 1; NULL: the three regions are used */
    int32_t *indices;
    void *values;
    int64_t capacity; /* entries that fit indices and values */
    struct gpumem_region *offsets_region, *indices_region, *values_region;
};

struct gpumem_spgemm_result {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_result), set by the caller */
    int64_t rows, columns, stored;
    int32_t *offsets, *indices; /* in the memory of the caller, or in that of the multiplier until its next call */
    void *values;
    int64_t products; /* intermediate products */
    size_t peak;      /* the most bytes of device memory that the multiplier held during the call */
};

enum gpumem_spgemm_flags {
    /* The positions of A and B are those of the last product. Their addresses may be others. */
    GPUMEM_SPGEMM_SAME_STRUCTURE = 1,
};

/* Computes C. `output` NULL: into growing arrays of the multiplier, which stay until its next call. Else rows are
 * counted first, and C is written to the caller's memory.
 *
 * Errors: GPUMEM_INVALID_VALUE (sizes that do not fit together; NULL where entries are; unknown flags; C does not fit
 * the capacity: then result->stored is the number that it needs; same structure without a last product or with other
 * sizes), GPUMEM_NOT_SUPPORTED (beyond 32 bits; a field that this version does not know), GPUMEM_OUT_OF_MEMORY,
 * GPUMEM_INVALID_CONTEXT, GPUMEM_STREAM_CAPTURE, and those of struct_size. */
enum gpumem_status gpumem_spgemm_multiply(struct gpumem_spgemm *multiplier, const struct gpumem_spgemm_csr *a,
                                          const struct gpumem_spgemm_csr *b, const struct gpumem_spgemm_output *output,
                                          uint64_t flags, struct CUstream_st *stream,
                                          struct gpumem_spgemm_result *result);

/* Waits for the device and frees all memory but that of the last C, whose unused end is returned too. C stays where it
 * is. The next call is a cold one. Errors: GPUMEM_STREAM_CAPTURE. */
enum gpumem_status gpumem_spgemm_trim(struct gpumem_spgemm *multiplier);

#ifdef __cplusplus
}
#endif

#endif

/* gpumem-spgemm: products of sparse matrices on a GPU, C = A B.
 *
 *     struct gpumem_spgemm *multiplier;
 *     struct gpumem_spgemm_csr a = {sizeof a, rows, inner, a_stored, a_offsets, a_indices, a_values}, b = {...};
 *     struct gpumem_spgemm_result c = {.struct_size = sizeof c};
 *     gpumem_spgemm_create(NULL, &multiplier);
 *     gpumem_spgemm_multiply(multiplier, &a, &b, NULL, 0, stream, &c);
 *     use<<<grid, block, 0, stream>>>(c.rows, c.offsets, c.indices, c.values);
 *
 * Link with -lgpumem-spgemm (pkg-config gpumem-spgemm). The size of C is not known before the product is computed. C
 * grows in arrays of the multiplier while it is computed, or it is counted first and written to memory of the caller.
 *
 * Matrices are compressed rows (CSR) in device memory: 32-bit offsets that begin with 0, 32-bit columns from 0, which
 * ascend and are unique in each row. C has the same form; an entry whose products cancel stays. The content of A and B
 * is not checked. A matrix that 32-bit offsets cannot describe is refused with GPUMEM_NOT_SUPPORTED: A or B before any
 * work, C before memory is allocated for its entries. With GPUMEM_SPGEMM_WIDE the offsets of C, and if the caller likes
 * those of A and B, have 64 bits. A and C may then have any number of entries, B must still have fewer than 2^31 -
 * 1024.
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
 * Streams. The product runs in the legacy default stream and in own streams that are ordered with it. It begins after
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
    int64_t stored;              /* entries: the last offset */
    const int32_t *offsets;      /* rows + 1 */
    const int32_t *indices;      /* columns of the entries; NULL without entries */
    const void *values;          /* double or float; NULL without entries */
    const int64_t *wide_offsets; /* with GPUMEM_SPGEMM_WIDE: rows + 1, instead of offsets, which is NULL then */
};

/* What a product will need. */
struct gpumem_spgemm_workspace {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_workspace), set by the caller */
    size_t helpers;     /* bytes of helper arrays; rows that exceed the largest hash table need more, rows of stencils
                         * almost none */
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
    int64_t *wide_offsets; /* with GPUMEM_SPGEMM_WIDE: instead of offsets */
};

struct gpumem_spgemm_result {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_result), set by the caller */
    int64_t rows, columns, stored;
    int32_t *offsets, *indices; /* in the memory of the caller, or in that of the multiplier until its next call */
    void *values;
    int64_t products;      /* intermediate products */
    size_t peak;           /* the most bytes of device memory that the multiplier held during the call */
    int64_t *wide_offsets; /* with GPUMEM_SPGEMM_WIDE: instead of offsets */
};

enum gpumem_spgemm_flags {
    /* The positions of A and B are those of the last product. Their addresses may be others. */
    GPUMEM_SPGEMM_SAME_STRUCTURE = 1,
    /* C has 64-bit offsets. It is computed in slabs of rows of at most 2^31 - 1 intermediate products; the entries of
     * each slab are counted first. Not together with GPUMEM_SPGEMM_SAME_STRUCTURE, and not as its last product. */
    GPUMEM_SPGEMM_WIDE = 4,
};

/* Computes C. `output` NULL: into growing arrays of the multiplier, which stay until its next call. Else rows are
 * counted first, and C is written to the caller's memory.
 *
 * Errors: GPUMEM_NOT_SUPPORTED (more than 32 bits; a field that this version does not know), GPUMEM_OUT_OF_MEMORY,
 * GPUMEM_INVALID_CONTEXT, GPUMEM_STREAM_CAPTURE, GPUMEM_INVALID_VALUE, and those of struct_size. GPUMEM_INVALID_VALUE:
 * sizes do not fit together, a pointer to entries is NULL, or flags are unknown. Also: the flags want the same
 * structure without a last product or with other sizes. Also: C does not fit the capacity; then result->stored is the
 * number of entries that it needs. */
enum gpumem_status gpumem_spgemm_multiply(struct gpumem_spgemm *multiplier, const struct gpumem_spgemm_csr *a,
                                          const struct gpumem_spgemm_csr *b, const struct gpumem_spgemm_output *output,
                                          uint64_t flags, struct CUstream_st *stream,
                                          struct gpumem_spgemm_result *result);

/* Waits for the device and frees all memory but that of the last C, whose unused end is returned too. C stays where it
 * is. The next call is a cold one. Errors: GPUMEM_STREAM_CAPTURE. */
enum gpumem_status gpumem_spgemm_trim(struct gpumem_spgemm *multiplier);

/* ---- several devices
 *
 * A group multiplies on several devices, of one process or of several. Device 0 to n - 1 of the group each compute a
 * range of rows of C, which stays where it was computed:
 *
 *     gpumem_spgemm_group_create(NULL, &group);
 *     gpumem_spgemm_group_distribute(group, &a, &b, 0, stream);
 *     gpumem_spgemm_group_multiply(group, 0);
 *     for (int i = 0; i < n; i++)
 *         gpumem_spgemm_group_part(group, i, &part[i]);
 *
 * The rows are cut so that the devices have equal numbers of intermediate products. A device gets a copy of its rows of
 * A and of all of B: by NCCL if libnccl.so.2 is there, else by copies between devices. The first device uses A and B
 * where they are, so a group of one device copies nothing and costs nothing.
 *
 * Several processes, on one host or on several, make one group together (by NCCL only): one calls
 * gpumem_spgemm_group_id(), the others get these bytes by other means, for instance by MPI. Each process gives its own
 * rows of A, which stay in the process; the process of the group's first device gives B. All of them make the same
 * calls in the same order.
 *
 * Offsets have 32 bits, those of C in each part: C as a whole may have more than 2^31 entries.
 *
 * The calls leave the current device as it was. A group is used by one thread at a time; inside, each device has a
 * thread for the time of a call. Errors are those of the calls for one device, and begin with the device's number. */

struct gpumem_spgemm_group;

#define GPUMEM_SPGEMM_ID_BYTES 128

struct gpumem_spgemm_group_options {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_group_options), set by the caller */
    const int *devices; /* of this process; NULL: all that CUDA shows */
    size_t count;
    size_t limit;        /* of each device, as in struct gpumem_spgemm_options; copies of A and B are not counted */
    uint64_t precision;  /* enum gpumem_spgemm_precision */
    const void *id;      /* of gpumem_spgemm_group_id(), the same in all processes; NULL: there is one process */
    size_t first, total; /* with an id: the first of these devices in the group; devices of all processes */
};

/* Writes GPUMEM_SPGEMM_ID_BYTES bytes. Errors: GPUMEM_NOT_SUPPORTED (no NCCL). */
enum gpumem_status gpumem_spgemm_group_id(void *id);

/* options NULL: the defaults. With an id it waits for the other processes. Errors: as gpumem_spgemm_create();
 * GPUMEM_INVALID_VALUE (a device that is not there or is named twice; places that do not fit together);
 * GPUMEM_NOT_SUPPORTED (several processes without NCCL). */
enum gpumem_status gpumem_spgemm_group_create(const struct gpumem_spgemm_group_options *options,
                                              struct gpumem_spgemm_group **group);
/* Waits for the devices and frees all memory. NULL is no error. */
void gpumem_spgemm_group_destroy(struct gpumem_spgemm_group *group);
/* Devices of this process. */
int gpumem_spgemm_group_count(const struct gpumem_spgemm_group *group);

enum gpumem_spgemm_group_flags {
    /* Beside GPUMEM_SPGEMM_SAME_STRUCTURE. Devices without enough memory for B read it where it is, over the
     * connection of the devices. B is then memory of cudaMalloc(), managed memory or pinned host memory. One process
     * only. */
    GPUMEM_SPGEMM_B_IN_PLACE = 2,
};

/* Cuts A and copies A and B. Both are memory of the first device of this process, or accessible from it, and must stay
 * until the last product. Copies to other devices need memory of cudaMalloc(), or regions that those devices may access
 * (gpumem_region_allow()). In processes without the group's first device, B has sizes but no arrays. Begins after the
 * work submitted to `stream` of that device, and waits until the copies are complete. With
 * GPUMEM_SPGEMM_SAME_STRUCTURE only values are copied. After a failure the group has no operands. Errors: as
 * gpumem_spgemm_multiply(). */
enum gpumem_status gpumem_spgemm_group_distribute(struct gpumem_spgemm_group *group, const struct gpumem_spgemm_csr *a,
                                                  const struct gpumem_spgemm_csr *b, uint64_t flags,
                                                  struct CUstream_st *stream);

/* Computes C from the operands that were distributed last, and waits until it is complete. flags: 0 or
 * GPUMEM_SPGEMM_SAME_STRUCTURE. After a failure on any device the group has no product, but still its operands. Errors:
 * as gpumem_spgemm_multiply(); GPUMEM_INVALID_VALUE (no operands). */
enum gpumem_status gpumem_spgemm_group_multiply(struct gpumem_spgemm_group *group, uint64_t flags);

enum gpumem_spgemm_b {
    GPUMEM_SPGEMM_B_OWN = 0,
    GPUMEM_SPGEMM_B_COPIED,
    GPUMEM_SPGEMM_B_BROADCAST,
    GPUMEM_SPGEMM_B_READ
};

/* The rows of C on one device. */
struct gpumem_spgemm_part {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_part), set by the caller */
    int64_t device;
    int64_t first_row; /* of C; of the rows of this process when there are several */
    int64_t rows, columns, stored;
    int32_t *offsets, *indices; /* offsets begin with 0; both until the next call with the group */
    void *values;
    int64_t products; /* intermediate products */
    size_t peak;      /* as in struct gpumem_spgemm_result */
    uint64_t b;       /* enum gpumem_spgemm_b: where this device reads B: the caller's memory, a copy made by copies or
                       * by NCCL, the memory of another device or of the host */
};

/* Errors: GPUMEM_INVALID_VALUE (no such device in the group; no product), and those of struct_size. */
enum gpumem_status gpumem_spgemm_group_part(const struct gpumem_spgemm_group *group, int index,
                                            struct gpumem_spgemm_part *part);

/* Waits for the devices and frees all memory but the communicator's: C and copies of A and B, too. */
enum gpumem_status gpumem_spgemm_group_trim(struct gpumem_spgemm_group *group);

#ifdef __cplusplus
}
#endif

#endif

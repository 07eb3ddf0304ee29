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
 * is checked only with GPUMEM_SPGEMM_CHECK. Without it C is undefined if they hold something else, but no kernel leaves
 * the arrays of the call, provided that these have the sizes that the structs say. A matrix that 32-bit offsets cannot
 * describe is refused with GPUMEM_NOT_SUPPORTED: A or B before any work, C before memory is allocated for its entries.
 * With GPUMEM_SPGEMM_WIDE the offsets of C, and if the caller likes those of A and B, have 64 bits. A and C may then
 * have any number of entries, B must still have fewer than 2^31 - 1024.
 *
 * Kinds of calls, by their cost:
 * - cold: the first call of a multiplier, or the first after gpumem_spgemm_trim(). It allocates all its memory.
 * - warm: any later call. The multiplier keeps its helper arrays and the memory of C, and allocates only what is
 *   missing.
 * - same structure (GPUMEM_SPGEMM_SAME_STRUCTURE): only the values of A and B have changed since the last product. Rows
 *   are not counted, nothing is allocated, and the columns of C stay as they are.
 * - numeric (gpumem_spgemm_numeric()): the same for a structure that is an object, so that there may be many.
 *
 * Errors. Each call that can fail returns enum gpumem_status of gpumem.h and writes its results only on success. A
 * handle or a place for a result that is NULL is refused with GPUMEM_INVALID_VALUE. gpumem_spgemm_last_error() has the
 * text. After a failed product the multiplier has no product and can be used as before. After GPUMEM_OUT_OF_MEMORY it
 * has also freed all device memory that it kept. Each call may return the error of earlier work of the device.
 *
 * Streams. All work is ordered in `stream`, the caller's, as the caller's own kernels are. The library has streams of
 * its own beside it, which fork from `stream` and join it. No call uses the legacy default stream, unless it is given
 * as `stream` (NULL), and none waits for other streams. A call that finds a structure waits until its own work has told
 * it the sizes; C itself may still be computed when it returns. A call whose structure is known does not wait. Calls of
 * one multiplier follow each other on the device, also in different streams; different multipliers overlap. Without
 * functions for memory of the caller, a call that allocates or frees may wait for the device, as cudaMalloc() does.
 *
 * Captures. gpumem_spgemm_numeric(), and gpumem_spgemm_multiply() with GPUMEM_SPGEMM_SAME_STRUCTURE after one such call
 * outside, can be captured in a graph. What they use must outlive the graph: structure, operands, C, and the
 * multiplier. Other calls return GPUMEM_STREAM_CAPTURE while `stream` is captured.
 *
 * Threads. One multiplier is used by one thread at a time. Threads with a multiplier each may call at the same time,
 * and may share structures. A multiplier belongs to the device that was current when it was created; a call with
 * another device current returns GPUMEM_INVALID_CONTEXT.
 *
 * The environment changes neither results nor choices. C has the same bits in every run on the same card.
 *
 * Structs begin with struct_size, as in gpumem.h. */
#ifndef GPUMEM_SPGEMM_H
#define GPUMEM_SPGEMM_H

#include "gpumem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct gpumem_spgemm;
struct gpumem_resource;

/* Values of A, B and C. A pattern has positions only; its `values` are not read, and those of C are NULL. So a product
 * of patterns is one of the semiring or-and.
 *
 * In the semiring min-plus a sum is the minimum and a product is the sum: an entry of A B is the length of a shortest
 * path of two edges. Everything that adds or multiplies does so, also scales, D and doubled entries. Values are finite
 * or +infinity. GPUMEM_NOT_SUPPORTED: the library was built without the option `semirings`. */
enum gpumem_spgemm_precision {
    GPUMEM_SPGEMM_DOUBLE = 0,
    GPUMEM_SPGEMM_FLOAT = 1,
    GPUMEM_SPGEMM_COMPLEX_DOUBLE = 2, /* pairs of double: real, imaginary */
    GPUMEM_SPGEMM_COMPLEX_FLOAT = 3,
    GPUMEM_SPGEMM_PATTERN = 4,
    GPUMEM_SPGEMM_MIN_PLUS_DOUBLE = 5,
    GPUMEM_SPGEMM_MIN_PLUS_FLOAT = 6,
};

/* Zero in all fields but the first means the defaults. */
struct gpumem_spgemm_options {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_options), set by the caller */
    size_t limit;       /* bytes of device memory that the multiplier may hold; 0: no limit */
    uint64_t precision; /* enum gpumem_spgemm_precision, of the values of A, B and C */
    /* Device memory of the caller: two functions, or a resource (gpumem_resource.h), which the caller keeps alive. The
     * library then allocates in no other way. Memory is aligned to 256 bytes, and used in the order of `stream` only.
     * `allocate` returns NULL when there is none. `free` gets the size, and the stream of the multiplier's last call,
     * which must still exist. In a captured call they must serve the graph, as PyTorch's pools do. C cannot grow
     * then, so it is counted first. */
    void *(*allocate)(void *context, size_t size, struct CUstream_st *stream);
    void (*free)(void *context, void *memory, size_t size, struct CUstream_st *stream);
    void *context;
    struct gpumem_resource *resource;
};

/* The text of the calling thread's last call here that failed; "" when none failed. Valid until the next one. */
const char *gpumem_spgemm_last_error(void);

/* options NULL: the defaults. Allocates no device memory yet. Errors: GPUMEM_NOT_INITIALIZED (no CUDA device),
 * GPUMEM_NOT_SUPPORTED (an option that this version does not know), GPUMEM_OUT_OF_MEMORY, and those of struct_size.
 * GPUMEM_INVALID_VALUE: there is no such precision, or one function without the other, or functions beside a resource.
 */
enum gpumem_status gpumem_spgemm_create(const struct gpumem_spgemm_options *options, struct gpumem_spgemm **multiplier);

/* Waits for the multiplier's last call, and frees all memory, also that of C. NULL is no error. */
void gpumem_spgemm_destroy(struct gpumem_spgemm *multiplier);

enum gpumem_spgemm_operation { GPUMEM_SPGEMM_PLAIN = 0, GPUMEM_SPGEMM_TRANSPOSE = 1, GPUMEM_SPGEMM_CONJUGATE = 2 };

/* A factor or an addend: scale x op(matrix). Sizes and arrays are those of the matrix, not of op(matrix). */
struct gpumem_spgemm_csr {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_csr), set by the caller */
    int64_t rows, columns;
    int64_t stored;              /* entries: the last offset */
    const int32_t *offsets;      /* rows + 1 */
    const int32_t *indices;      /* columns of the entries; NULL without entries */
    const void *values;          /* of the multiplier's precision; NULL without entries, and for patterns */
    const int64_t *wide_offsets; /* with GPUMEM_SPGEMM_WIDE: rows + 1, instead of offsets, which is NULL then */
    /* enum gpumem_spgemm_operation: the matrix, its transpose, or its conjugate transpose. The call makes a transposed
     * copy in memory of the multiplier, by a sort of the entries: 28 bytes for each entry in double precision. */
    uint64_t operation;
    /* One value of the multiplier's precision in host memory, read during the call; NULL: 1, in min-plus 0. Any
     * other than NULL costs a copy of the values. */
    const void *scale;
};

/* What a product will need. */
struct gpumem_spgemm_needs {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_needs), set by the caller */
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
                                           struct gpumem_spgemm_needs *workspace);

/* Memory of the caller for C: either three arrays, or three regions, which grow as needed and never shrink. */
struct gpumem_spgemm_output {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_output), set by the caller */
    int32_t *offsets;   /* rows + 1; NULL: the three regions are used */
    int32_t *indices;
    void *values;     /* NULL for patterns */
    int64_t capacity; /* entries that fit indices and values */
    struct gpumem_region *offsets_region, *indices_region, *values_region;
    int64_t *wide_offsets; /* with GPUMEM_SPGEMM_WIDE: instead of offsets */
};

struct gpumem_spgemm_result {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_result), set by the caller */
    int64_t rows, columns, stored;
    int32_t *offsets, *indices; /* in the memory of the caller, or in that of the multiplier until its next call has
                                 * returned: C may be a matrix of that call */
    void *values;
    int64_t products;      /* intermediate products */
    size_t peak;           /* the most bytes of device memory that the multiplier held during the call */
    int64_t *wide_offsets; /* with GPUMEM_SPGEMM_WIDE: instead of offsets */
};

enum gpumem_spgemm_flags {
    /* The positions of A and B are those of the last product. Their addresses may be others. */
    GPUMEM_SPGEMM_SAME_STRUCTURE = 1,
    /* C has 64-bit offsets. It is computed in slabs of rows of at most 2^31 - 1 intermediate products; the entries of
     * each slab are counted first. Not together with GPUMEM_SPGEMM_SAME_STRUCTURE, and not as its last product. With
     * memory of the caller's functions, C needs an output. */
    GPUMEM_SPGEMM_WIDE = 4,
    /* Operands are read before they are used, and wrong ones are refused. Offsets must ascend from 0 to the number of
     * entries. Columns must be in range, sorted and unique in each row. gpumem_spgemm_numeric() compares the patterns
     * with those of the structure instead, and a call with GPUMEM_SPGEMM_SAME_STRUCTURE with those of the last product,
     * which must have been checked. Waits for the result. */
    GPUMEM_SPGEMM_CHECK = 8,
};

/* Computes C = A B. `output` NULL: into growing arrays of the multiplier, which stay until its next call. Else rows are
 * counted first, and C is written to the caller's memory.
 *
 * Errors: GPUMEM_NOT_SUPPORTED (more than 32 bits; a field that this version does not know), GPUMEM_OUT_OF_MEMORY,
 * GPUMEM_INVALID_CONTEXT, GPUMEM_STREAM_CAPTURE, GPUMEM_INVALID_VALUE, GPUMEM_TOO_SMALL, and those of struct_size.
 * GPUMEM_INVALID_VALUE: sizes do not fit together, a pointer to entries is NULL, or flags are unknown. Also: the flags
 * want the same structure without a last product or with other sizes; a check found a wrong matrix. GPUMEM_TOO_SMALL: C
 * exceeds the capacity, and result->stored is the number of entries that it needs. The sizes of C's rows are kept then:
 * a call with GPUMEM_SPGEMM_SAME_STRUCTURE and a larger output does not count again.
 *
 * A matrix may lie in the multiplier's last C: then this C stays until the call has returned, beside the new one. It is
 * refused with GPUMEM_INVALID_VALUE where the call would overwrite it: with GPUMEM_SPGEMM_SAME_STRUCTURE and `output`
 * NULL, and where a matrix lies in the output. */
enum gpumem_status gpumem_spgemm_multiply(struct gpumem_spgemm *multiplier, const struct gpumem_spgemm_csr *a,
                                          const struct gpumem_spgemm_csr *b, const struct gpumem_spgemm_output *output,
                                          uint64_t flags, struct CUstream_st *stream,
                                          struct gpumem_spgemm_result *result);

/* Computes C = A B + D, where each matrix has its operation and its scale: C = alpha A B + beta D. C has the positions
 * of both. `d` NULL: as gpumem_spgemm_multiply(),
 * and errors as there. Memory: copies of A, B and D for the time of the call. Not with GPUMEM_SPGEMM_WIDE. */
enum gpumem_status gpumem_spgemm_multiply_add(struct gpumem_spgemm *multiplier, const struct gpumem_spgemm_csr *a,
                                              const struct gpumem_spgemm_csr *b, const struct gpumem_spgemm_csr *d,
                                              const struct gpumem_spgemm_output *output, uint64_t flags,
                                              struct CUstream_st *stream, struct gpumem_spgemm_result *result);

/* Computes C = R A P, as (R A) P. R A lies in memory of the multiplier, which keeps it for the next call. `r` NULL: the
 * transpose of P. With GPUMEM_SPGEMM_SAME_STRUCTURE the last call was one of this function. products and peak are those
 * of both products. Errors: as gpumem_spgemm_multiply(). Not with GPUMEM_SPGEMM_WIDE. */
enum gpumem_status gpumem_spgemm_triple(struct gpumem_spgemm *multiplier, const struct gpumem_spgemm_csr *r,
                                        const struct gpumem_spgemm_csr *a, const struct gpumem_spgemm_csr *p,
                                        const struct gpumem_spgemm_output *output, uint64_t flags,
                                        struct CUstream_st *stream, struct gpumem_spgemm_result *result);

/* C = op(A) with ascending columns; the values of doubled ones are added in their order in the row. Every other call
 * needs such matrices. A is multiplied by an identity. Errors: as gpumem_spgemm_multiply(). flags: 0 or
 * GPUMEM_SPGEMM_SAME_STRUCTURE. */
enum gpumem_status gpumem_spgemm_sort(struct gpumem_spgemm *multiplier, const struct gpumem_spgemm_csr *a,
                                      const struct gpumem_spgemm_output *output, uint64_t flags,
                                      struct CUstream_st *stream, struct gpumem_spgemm_result *result);

/* Waits for the multiplier's last call and frees all memory but that of the last C, whose unused end is returned too. C
 * stays where it is. The next call is a cold one. Errors: GPUMEM_STREAM_CAPTURE. */
enum gpumem_status gpumem_spgemm_trim(struct gpumem_spgemm *multiplier);

/* ---- C as an object */

struct gpumem_spgemm_matrix;

/* Hands over the last C, which lies in memory of the multiplier: it stays until gpumem_spgemm_matrix_destroy(), at the
 * addresses of `result`. The multiplier has no product then. Does not wait. Memory behind C that a larger product left
 * mapped goes with it; gpumem_spgemm_trim() before returns it. Errors: GPUMEM_INVALID_VALUE (there is no C in memory of
 * the multiplier), GPUMEM_OUT_OF_MEMORY (of the host). */
enum gpumem_status gpumem_spgemm_detach(struct gpumem_spgemm *multiplier, struct gpumem_spgemm_matrix **matrix);

/* Frees the memory of a C: to the caller's functions, in the order of `stream`; other memory waits for the device. The
 * multiplier may have been destroyed before. Any thread may call. NULL is no error. */
void gpumem_spgemm_matrix_destroy(struct gpumem_spgemm_matrix *matrix, struct CUstream_st *stream);

/* ---- structures: one symbolic step, many numeric ones
 *
 *     gpumem_spgemm_symbolic(multiplier, &a, &b, NULL, 0, stream, &structure);
 *     gpumem_spgemm_structure_result(structure, &c);            sizes, and offsets in memory of the structure
 *     output = arrays for c.stored entries
 *     gpumem_spgemm_numeric(multiplier, structure, &a, &b, NULL, &output, 0, stream);
 *     gpumem_spgemm_numeric(multiplier, structure, &a2, &b2, NULL, &output2, 0, stream);
 *
 * A structure is not changed by numeric calls: several multipliers may use it at one time. It is made on the device of
 * its multiplier, takes its memory from the same source, and may outlive the multiplier. Memory: 37 bytes for each
 * row of C. */

struct gpumem_spgemm_structure;

/* Counts the entries of C = A B + D (`d` NULL: A B). Waits until the structure is made, so that it may be used in any
 * stream. The multiplier's last product ends. flags: 0 or GPUMEM_SPGEMM_CHECK. Errors: as gpumem_spgemm_multiply(). */
enum gpumem_status gpumem_spgemm_symbolic(struct gpumem_spgemm *multiplier, const struct gpumem_spgemm_csr *a,
                                          const struct gpumem_spgemm_csr *b, const struct gpumem_spgemm_csr *d,
                                          uint64_t flags, struct CUstream_st *stream,
                                          struct gpumem_spgemm_structure **structure);

/* Sizes of C, its offsets in memory of the structure, and the intermediate products. The other arrays are NULL. Errors:
 * those of struct_size. */
enum gpumem_status gpumem_spgemm_structure_result(const struct gpumem_spgemm_structure *structure,
                                                  struct gpumem_spgemm_result *result);

/* Writes columns and values of C for operands that have the positions and operations of the structure's. Values and
 * scales are those of this call. `output` has arrays, and needs no offsets. Does not wait without GPUMEM_SPGEMM_CHECK,
 * and can be captured. The multiplier's last product stays. Errors: as gpumem_spgemm_multiply(); GPUMEM_INVALID_VALUE
 * (other sizes, operations or precision than the structure's; a check found other positions); GPUMEM_TOO_SMALL. */
enum gpumem_status gpumem_spgemm_numeric(struct gpumem_spgemm *multiplier,
                                         const struct gpumem_spgemm_structure *structure,
                                         const struct gpumem_spgemm_csr *a, const struct gpumem_spgemm_csr *b,
                                         const struct gpumem_spgemm_csr *d, const struct gpumem_spgemm_output *output,
                                         uint64_t flags, struct CUstream_st *stream);

/* Frees the structure's memory as gpumem_spgemm_matrix_destroy(). Numeric calls that use it were submitted to `stream`,
 * or have ended. NULL is no error. */
void gpumem_spgemm_structure_destroy(struct gpumem_spgemm_structure *structure, struct CUstream_st *stream);

/* ---- matrices in host memory
 *
 * Computes C = A B for matrices that exceed the device: A, B and C lie in host memory. The product is computed in slabs
 * of rows, while other slabs are copied in both directions. B lies on the device if half of the memory holds it.
 * Otherwise each slab gets the rows of B that it needs, so that B may have any size. C has the bits of
 * gpumem_spgemm_multiply(). */

/* Some rows of C. */
struct gpumem_spgemm_rows {
    size_t struct_size; /* set by the library, as the next four fields */
    int64_t first_row, rows;
    int64_t before;   /* entries of C in the rows before these */
    int64_t stored;   /* entries of these rows */
    int32_t *indices; /* set by the caller: host memory for `stored` entries */
    void *values;     /* the same; not read for patterns */
};

struct gpumem_spgemm_host_output {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_host_output), set by the caller */
    int64_t *offsets;   /* host memory for rows + 1 */
    /* Provides memory for rows of C. It is called by the thread of the call, in the order of the rows, which are not
     * yet computed. The memory is complete when the call returns. Any other status than GPUMEM_OK ends the call. */
    enum gpumem_status (*place)(void *context, struct gpumem_spgemm_rows *rows);
    void *context;
};

struct gpumem_spgemm_host_result {
    size_t struct_size; /* sizeof(struct gpumem_spgemm_host_result), set by the caller */
    int64_t rows, columns, stored;
    int64_t products;       /* intermediate products */
    int64_t slabs;          /* of rows */
    int64_t sent, received; /* bytes that were copied to the device and from it */
    size_t peak;            /* at most so many bytes of device memory were held at one time */
};

/* Computes C = A B for plain matrices in host memory. Their offsets have 32 bits, or 64 bits (wide_offsets); those of C
 * have 64. Waits until C is complete, and frees all memory of the multiplier, whose last product ends. flags: 0.
 *
 * Device memory: at most the `limit` of the multiplier; without one, 90 % of the memory that is free. Copies are fast
 * and overlap with kernels only if the host memory is pinned. B must be pinned if it exceeds half of the device memory,
 * because kernels then read it. Each row of A, the rows of B that it names, and its row of C must fit into a quarter.
 * Memory of the caller's functions is also used in a stream of the library, which exists during the call.
 *
 * Errors: as gpumem_spgemm_multiply(), and the status of `place`. GPUMEM_INVALID_VALUE also: the offsets do not go from
 * 0 to the number of entries; `place` set no array; B exceeds half of the memory and is not pinned. After an error,
 * rows of C may have been written, and no copy runs any more. */
enum gpumem_status gpumem_spgemm_multiply_host(struct gpumem_spgemm *multiplier, const struct gpumem_spgemm_csr *a,
                                               const struct gpumem_spgemm_csr *b,
                                               const struct gpumem_spgemm_host_output *output, uint64_t flags,
                                               struct CUstream_st *stream, struct gpumem_spgemm_host_result *result);

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
    const char *nccl;    /* NCCL's library. NULL: libnccl.so.2; "": none. A process opens the first one that it needs */
};

/* Writes GPUMEM_SPGEMM_ID_BYTES bytes. `nccl` as in the options. Errors: GPUMEM_NOT_SUPPORTED (no NCCL). */
enum gpumem_status gpumem_spgemm_group_id(const char *nccl, void *id);

/* options NULL: the defaults. With an id it waits for the other processes. Errors: as gpumem_spgemm_create();
 * GPUMEM_INVALID_VALUE (a device that is not there or is named twice; places that do not fit together);
 * GPUMEM_NOT_SUPPORTED (several processes without NCCL). */
enum gpumem_status gpumem_spgemm_group_create(const struct gpumem_spgemm_group_options *options,
                                              struct gpumem_spgemm_group **group);
/* Waits for the devices and frees all memory. NULL is no error. */
void gpumem_spgemm_group_destroy(struct gpumem_spgemm_group *group);
/* Devices of this process; 0 for NULL. */
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
 * GPUMEM_SPGEMM_SAME_STRUCTURE only values are copied. Parts of the group's last product are refused as A or B. After a
 * failure the group has no operands. Errors: as gpumem_spgemm_multiply(). */
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

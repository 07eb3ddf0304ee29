/* gpumem_workspace: device memory that a handle-based library lends to its own calls (rocBLAS Device Memory
 * Management, L. Killough, 2019).
 *
 * Many functions of such a library need temporary device memory. A workspace lies in the library's handle. Each
 * function borrows from it and returns the memory before it returns. Later functions reuse the same memory, because
 * all work of a handle runs in one stream. So a function needs no parameters for temporary memory, and a call with
 * enough memory makes no driver call for it.
 *
 * A workspace is managed or fixed. A managed workspace starts with 1 MiB and grows when a loan needs more. The user of
 * the library fixes the size by gpumem_workspace_set_size() or GPUMEM_WORKSPACE_SIZE. A fixed workspace never grows and
 * never synchronises. A loan that needs more fails.
 *
 * The user asks for the best size by a query: between start_query and stop_query the functions of the library do no
 * work. They report the bytes that they would like to borrow, and the largest number is kept.
 *
 *     enum gpumem_workspace_status solve(struct handle *handle, size_t m, size_t n, ...) {
 *         size_t fast = m * n * sizeof(float), slow = m * sizeof(float);
 *         if (gpumem_workspace_is_query(handle->workspace))
 *             return GPUMEM_WORKSPACE_SET_OPTIMAL(handle->workspace, fast);
 *         GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(handle->workspace, fast);
 *         if (loan)
 *             return solve_fast(handle, gpumem_loan_next(loan, fast), ...);
 *         loan = GPUMEM_WORKSPACE_BORROW(handle->workspace, slow);
 *         if (!loan)
 *             return GPUMEM_WORKSPACE_MEMORY_ERROR;
 *         solve_slow(handle, gpumem_loan_next(loan, slow), ...);
 *         return GPUMEM_WORKSPACE_PERF_DEGRADED;
 *     }
 *
 * Threads. One workspace is used by one thread at a time, as the handle of the library.
 *
 * Errors. gpumem_last_error() has the text of the calling thread's last call that failed. A call writes its results
 * only on success. GPUMEM_WORKSPACE_INVALID_POINTER: a pointer that must not be NULL is NULL; every call may return it.
 * A call that returns no status answers NULL, 0 or the initial state for a workspace that is NULL.
 *
 * Units. Sizes are bytes. gpumem.h states the rules for structs. */
#ifndef GPUMEM_WORKSPACE_H
#define GPUMEM_WORKSPACE_H

#include "gpumem_resource.h"

#ifdef __cplusplus
extern "C" {
#endif

/* No CUresult has these numbers, so a library can return either in one int. */
enum gpumem_workspace_status {
    GPUMEM_WORKSPACE_SUCCESS = 0,
    GPUMEM_WORKSPACE_SIZE_INCREASED = 1001,      /* a query: the largest optimal size increased */
    GPUMEM_WORKSPACE_SIZE_UNCHANGED = 1002,      /* a query: it did not */
    GPUMEM_WORKSPACE_SIZE_QUERY_MISMATCH = 1003, /* start during a query, or stop without one */
    GPUMEM_WORKSPACE_INVALID_POINTER = 1004,
    GPUMEM_WORKSPACE_INTERNAL_ERROR = 1005, /* the library made a mistake, or the driver failed */
    GPUMEM_WORKSPACE_MEMORY_ERROR = 1006,   /* too little memory for any algorithm */
    GPUMEM_WORKSPACE_PERF_DEGRADED = 1007,  /* done, by a slower algorithm for lack of memory */
};

/* "GPUMEM_WORKSPACE_SUCCESS" and so on; "unknown status" for other numbers. Static storage. */
const char *gpumem_workspace_status_name(enum gpumem_workspace_status status);

/* ---- the workspace of a handle */

struct gpumem_workspace;

/* Zero in all fields but the first: the legacy default stream, managed unless GPUMEM_WORKSPACE_SIZE is set, memory of
 * the current device. */
struct gpumem_workspace_options {
    size_t struct_size;         /* sizeof(struct gpumem_workspace_options), set by the caller */
    struct CUstream_st *stream; /* of the handle; the caller keeps it alive while the workspace uses it */
    size_t size;                /* > 0: fixed at this size; 0: GPUMEM_WORKSPACE_SIZE, else managed */
    /* Memory from elsewhere, both or none. `allocate` returns an address aligned to at least 64 bytes and usable in
     * `stream`, or NULL. `release` must not give the memory to others before the work in `stream` is done. The context
     * of the workspace is current in both. */
    void *(*allocate)(size_t size, struct CUstream_st *stream, void *user);
    void (*release)(void *address, size_t size, struct CUstream_st *stream, void *user);
    void *user;
};

/* Alignment of a workspace in a resource: that of cudaMalloc. */
enum { GPUMEM_WORKSPACE_ALIGNMENT = 256 };

static inline int gpumem_workspace_is_ordered_(const struct gpumem_resource *resource) {
    return (gpumem_resource_properties(resource) & GPUMEM_STREAM_ORDERED) != 0;
}
static inline void *gpumem_workspace_allocate_(size_t size, struct CUstream_st *stream, void *resource) {
    struct gpumem_resource *from = GPUMEM_RESOURCE_OF_(resource);
    void *memory = NULL;
    (void)(gpumem_workspace_is_ordered_(from)
               ? gpumem_resource_allocate_async_aligned(from, size, GPUMEM_WORKSPACE_ALIGNMENT, gpumem_stream(stream),
                                                        &memory)
               : gpumem_resource_allocate(from, size, GPUMEM_WORKSPACE_ALIGNMENT, &memory));
    return memory;
}
static inline void gpumem_workspace_release_(void *address, size_t size, struct CUstream_st *stream, void *resource) {
    struct gpumem_resource *to = GPUMEM_RESOURCE_OF_(resource);
    (void)(gpumem_workspace_is_ordered_(to)
               ? gpumem_resource_deallocate_async_aligned(to, address, size, GPUMEM_WORKSPACE_ALIGNMENT,
                                                          gpumem_stream(stream))
               : gpumem_resource_deallocate(to, address, size, GPUMEM_WORKSPACE_ALIGNMENT));
}
/* The memory of the workspace is that of the resource, in the order of the stream where the resource has it. The caller
 * keeps the resource until the workspace is destroyed. */
static inline void gpumem_workspace_use_resource(struct gpumem_workspace_options *options,
                                                 struct gpumem_resource *resource) {
    options->allocate = gpumem_workspace_allocate_;
    options->release = gpumem_workspace_release_;
    options->user = resource;
}

/* Makes a workspace of the current context and allocates its memory: the fixed size, or 1 MiB. The memory comes from
 * the device's memory pool in the order of the stream, and from cuMemAlloc where the device has no pools. options NULL:
 * all fields zero. Errors: MEMORY_ERROR; INTERNAL_ERROR (no driver, no device, wrong options, an error of the
 * driver). After a failure there is nothing to destroy. */
enum gpumem_workspace_status gpumem_workspace_create(const struct gpumem_workspace_options *options,
                                                     struct gpumem_workspace **workspace);

/* Frees the memory in the order of the stream. Waits for the work of the context only where the device has no pools.
 * Context and stream must still exist. NULL is no error. INTERNAL_ERROR: a loan is alive, or the stream is being
 * captured; the workspace is as it was. */
enum gpumem_workspace_status gpumem_workspace_destroy(struct gpumem_workspace *workspace);
/* The same for an owner who cannot take an error. It is logged, and the workspace stays until the process ends. */
void gpumem_workspace_abandon(struct gpumem_workspace *workspace);

/* Frees the memory. size > 0: allocates `size` bytes, rounded up to 64, and fixes the size. size 0: the workspace is
 * managed from now on, and the next loan allocates. MEMORY_ERROR: the workspace has no memory, and is fixed at 0 bytes
 * unless size is 0. INTERNAL_ERROR: a loan is alive, the stream is being captured (the workspace is as it was in both
 * cases), or an error of the driver. */
enum gpumem_workspace_status gpumem_workspace_set_size(struct gpumem_workspace *workspace, size_t size);
/* Frees the memory, and lends `size` bytes at `address` from now on, as cublasSetWorkspace and rocblas_set_workspace
 * do. The memory is the caller's, is aligned to 64 bytes, and is usable in the stream. The size is fixed, rounded down
 * to 64. The caller keeps the memory until the work in the stream is done and the workspace has other memory or is
 * destroyed. gpumem_workspace_set_size() returns to memory of the workspace. address NULL: size is 0, and the workspace
 * has no memory. INTERNAL_ERROR: the alignment, or as gpumem_workspace_set_size(); the workspace is as it was. */
enum gpumem_workspace_status gpumem_workspace_set(struct gpumem_workspace *workspace, void *address, size_t size);
enum gpumem_workspace_status gpumem_workspace_get_size(const struct gpumem_workspace *workspace, size_t *size);
/* 1: gpumem chooses the size. 0: it is fixed, or workspace is NULL. */
int gpumem_workspace_is_managed(const struct gpumem_workspace *workspace);

/* Later loans are used in `stream`. Its later work waits for the work submitted to the former stream, which must still
 * exist. The host does not wait. INTERNAL_ERROR: a loan is alive, one of the streams is being captured, or an error of
 * the driver; the stream is the former one. */
enum gpumem_workspace_status gpumem_workspace_set_stream(struct gpumem_workspace *workspace,
                                                         struct CUstream_st *stream);
struct CUstream_st *gpumem_workspace_stream(const struct gpumem_workspace *workspace);

/* ---- queries: the user starts and stops them, the library answers */

/* SIZE_QUERY_MISMATCH: a query is in progress. */
enum gpumem_workspace_status gpumem_workspace_start_query(struct gpumem_workspace *workspace);
/* *size: the largest optimal size of the calls since the start, 0 when none needs memory. gpumem_workspace_set_size()
 * of a size > 0 then suffices for each of them. SIZE_QUERY_MISMATCH: no query is in progress. INVALID_POINTER: `size`
 * is NULL, and the query goes on. */
enum gpumem_workspace_status gpumem_workspace_stop_query(struct gpumem_workspace *workspace, size_t *size);

/* 1: the call must report its optimal size instead of doing its work. */
int gpumem_workspace_is_query(const struct gpumem_workspace *workspace);

/* Reports the optimal sizes of the buffers of one call. A library function returns what this returns: SIZE_INCREASED or
 * SIZE_UNCHANGED, never SUCCESS. INTERNAL_ERROR: no query is in progress. */
enum gpumem_workspace_status gpumem_workspace_set_optimal(struct gpumem_workspace *workspace, size_t count,
                                                          const size_t *sizes);

/* ---- loans */

/* Memory lent to one call of the library. It belongs to the workspace; only gpumem makes this struct, and later
 * versions may add fields at its end. */
struct gpumem_loan {
    struct gpumem_workspace *workspace;
    char *address;
    size_t size, next; /* bytes lent; bytes that gpumem_loan_next() gave out */
};

/* Lends memory for buffers of these sizes from one allocation, and writes the address of each buffer, aligned to 64
 * bytes; NULL for a buffer of 0 bytes. The work that uses them is ordered in the stream of the workspace. `site` names
 * the borrower in error texts: static storage, may be NULL.
 *
 * Returns NULL, and writes no address, when the memory does not suffice and cannot grow, while another loan of the
 * workspace is alive, and during a query. gpumem_last_error() says which. A loan that fits makes no driver call.
 *
 * Growth of a managed workspace frees its memory and allocates anew, both in the order of the stream: neither waits.
 * Where the device has no pools, the free waits for the work of the context. When the larger size cannot be had, the
 * former size is allocated again. Growth is refused while the stream is being captured. */
struct gpumem_loan *gpumem_workspace_borrow(struct gpumem_workspace *workspace, size_t count, const size_t *sizes,
                                            void **buffers, const char *site) __attribute__((warn_unused_result));
/* The same with the sum of the rounded sizes; gpumem_loan_next() then gives out the buffers. */
struct gpumem_loan *gpumem_workspace_borrow_bytes(struct gpumem_workspace *workspace, size_t bytes, const char *site)
    __attribute__((warn_unused_result));
enum gpumem_workspace_status gpumem_workspace_set_optimal_bytes(struct gpumem_workspace *workspace, size_t bytes);

/* Ends a loan. Work that was submitted to the stream may still use the memory. NULL is no error. A loan that was
 * returned before is reported in the log. */
void gpumem_loan_return(struct gpumem_loan *loan);

/* The next buffer of the loan: `size` bytes aligned to 64. NULL when size is 0, or when the loan holds no more. */
static inline void *gpumem_loan_next(struct gpumem_loan *loan, size_t size) {
    size_t left = loan->size - loan->next, rounded = (size + 63) / 64 * 64;
    if (!size || size > left || rounded > left)
        return NULL;
    loan->next += rounded;
    return loan->address + loan->next - rounded;
}

/* A loan that ends with its scope, however the scope is left:
 *
 *     GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, size1, size2); */
#define GPUMEM_LOAN __attribute__((cleanup(gpumem_loan_end), unused)) struct gpumem_loan *
static inline void gpumem_loan_end(struct gpumem_loan **loan) {
    gpumem_loan_return(*loan);
    *loan = NULL;
}

/* ---- sizes: buffers are rounded up to chunks of 64 bytes, so that each is aligned. Sizes from 2^56 bytes on count as
 * 2^56, which no device has, so that up to 255 sizes cannot overflow. Optimised code folds constant sizes:
 * GPUMEM_WORKSPACE_BYTES(1024, 256, size, 512) becomes the rounded size + 1792. */
enum { GPUMEM_WORKSPACE_CHUNK = 64 };

#ifdef __cplusplus
#define GPUMEM_WORKSPACE_CONSTANT_ constexpr inline
#else
#define GPUMEM_WORKSPACE_CONSTANT_ static inline
#endif

GPUMEM_WORKSPACE_CONSTANT_ size_t gpumem_workspace_rounded(size_t size) {
    return size > SIZE_MAX / 256
               ? SIZE_MAX / 256 + 1
               : (size + GPUMEM_WORKSPACE_CHUNK - 1) / GPUMEM_WORKSPACE_CHUNK * GPUMEM_WORKSPACE_CHUNK;
}

#ifndef __cplusplus /* gpumem_workspace.hpp has what takes the place of these */
static inline size_t gpumem_workspace_total(size_t count, const size_t *sizes) {
    size_t total = 0;
    _Pragma("GCC unroll 16") for (size_t i = 0; i < count; i++) total += gpumem_workspace_rounded(sizes[i]);
    return total;
}

#define GPUMEM_WORKSPACE_BYTES(...) \
    gpumem_workspace_total(sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t), (size_t[]){__VA_ARGS__})
#define GPUMEM_WORKSPACE_BORROW(workspace, ...) \
    gpumem_workspace_borrow_bytes(workspace, GPUMEM_WORKSPACE_BYTES(__VA_ARGS__), GPUMEM_WORKSPACE_SITE)
#define GPUMEM_WORKSPACE_SET_OPTIMAL(workspace, ...) \
    gpumem_workspace_set_optimal_bytes(workspace, GPUMEM_WORKSPACE_BYTES(__VA_ARGS__))
#endif

#define GPUMEM_WORKSPACE_TEXT_(line) #line
#define GPUMEM_WORKSPACE_LINE_(line) GPUMEM_WORKSPACE_TEXT_(line)
#define GPUMEM_WORKSPACE_SITE        __FILE__ ":" GPUMEM_WORKSPACE_LINE_(__LINE__)

/* At the beginning of functions that need no memory: in a query they return here. */
#define GPUMEM_WORKSPACE_RETURN_ZERO_IF_QUERIED(workspace) \
    do {                                                   \
        if (gpumem_workspace_is_query(workspace))          \
            return GPUMEM_WORKSPACE_SIZE_UNCHANGED;        \
    } while (0)

/* ---- sizes of data types that are known at run time. The temporary arrays of a function may have the input, the
 * output or the compute type: use the type of each array, and not an upper bound. */

/* Bits of a cudaDataType (input and output types); 0 for an unknown number. */
static inline unsigned gpumem_workspace_bits_of_datatype(int type) {
    enum { LAST = 33 };
    static const unsigned char bits[LAST + 1] = {
        32, 64,  16, 8,   /* R_32F, R_64F, R_16F, R_8I */
        64, 128, 32, 16,  /* C_32F, C_64F, C_16F, C_8I */
        8,  16,  32, 64,  /* R_8U, C_8U, R_32I, C_32I */
        32, 64,  16, 32,  /* R_32U, C_32U, R_16BF, C_16BF */
        4,  8,   4,  8,   /* R_4I, C_4I, R_4U, C_4U */
        16, 32,  16, 32,  /* R_16I, C_16I, R_16U, C_16U */
        64, 128, 64, 128, /* R_64I, C_64I, R_64U, C_64U */
        8,  8,   8,       /* R_8F_E4M3, R_8F_E5M2, R_8F_UE8M0 */
        6,  6,   4,       /* R_6F_E2M3, R_6F_E3M2, R_4F_E2M1 */
    };
    return type < 0 || type > LAST ? 0 : bits[type];
}

/* Bytes of one element of a cudaDataType; 0 for an unknown number and for types of less than a byte. */
static inline size_t gpumem_workspace_sizeof_datatype(int type) { return gpumem_workspace_bits_of_datatype(type) / 8; }

/* Bytes of one element of a cublasComputeType_t; 0 for an unknown number. */
static inline size_t gpumem_workspace_sizeof_compute_type(int type) {
    switch (type) {
    case 64:
    case 65: return 2; /* 16F */
    case 68:
    case 69:
    case 74:
    case 75:
    case 77:
    case 78: return 4; /* 32F */
    case 70:
    case 71:
    case 79: return 8; /* 64F */
    case 72:
    case 73: return 4; /* 32I */
    default: return 0;
    }
}

/* ---- pointer mode: whether scalars such as alpha lie in host or device memory. A function that passes constants of
 * its own on switches to the host's mode, and the scope's end restores the former mode:
 *
 *     GPUMEM_SAVED_POINTER_MODE saved = gpumem_workspace_push_pointer_mode(workspace, GPUMEM_POINTER_MODE_HOST);
 *     float value = saved.mode == GPUMEM_POINTER_MODE_HOST ? *alpha : copied(alpha); */
enum gpumem_pointer_mode { GPUMEM_POINTER_MODE_HOST = 0, GPUMEM_POINTER_MODE_DEVICE = 1 };

struct gpumem_saved_pointer_mode {
    struct gpumem_workspace *workspace;
    enum gpumem_pointer_mode mode; /* the former mode */
};

/* A new workspace is in the host's mode. Errors: INTERNAL_ERROR (`mode` is neither of the two; it stays as it was). */
enum gpumem_pointer_mode gpumem_workspace_pointer_mode(const struct gpumem_workspace *workspace);
enum gpumem_workspace_status gpumem_workspace_set_pointer_mode(struct gpumem_workspace *workspace,
                                                               enum gpumem_pointer_mode mode);

static inline struct gpumem_saved_pointer_mode gpumem_workspace_push_pointer_mode(struct gpumem_workspace *workspace,
                                                                                  enum gpumem_pointer_mode mode) {
    struct gpumem_saved_pointer_mode saved = {workspace, gpumem_workspace_pointer_mode(workspace)};
    gpumem_workspace_set_pointer_mode(workspace, mode);
    return saved;
}

#define GPUMEM_SAVED_POINTER_MODE \
    __attribute__((cleanup(gpumem_workspace_pop_pointer_mode), unused)) struct gpumem_saved_pointer_mode
static inline void gpumem_workspace_pop_pointer_mode(struct gpumem_saved_pointer_mode *saved) {
    gpumem_workspace_set_pointer_mode(saved->workspace, saved->mode);
}

#ifdef __cplusplus
}
#endif

#endif

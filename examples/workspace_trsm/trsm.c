/* Method: the inverses of the diagonal blocks (32 x 32) turn the solve into products. For each block row k,
 *
 *     X(k) = inverse(k) B(k),   B(i) -= A(i, k) X(k) for the rows i below.
 *
 * A product cannot write over its input, so X is computed in temporary memory and copied over B at the end. Memory:
 * 32 m elements for the inverses, and m p for X, where p columns are solved at a time. The fast algorithm solves all n
 * columns at once. The other solves one column at a time: it needs n times less memory for X, and n times the calls.
 * (The example trsm_ex of rocBLAS Device Memory Management has the same two sizes.) */
#include "trsm.h"

#include <cublas_v2.h>
#include <stdlib.h>

enum { BLOCK = 32 };

struct trsm_handle {
    struct gpumem_workspace *workspace;
    cublasHandle_t cublas; /* always in the host's pointer mode */
    cudaStream_t stream;
    float *identity; /* BLOCK x BLOCK */
};

struct system {
    int m, n, lda, ldb;
    float alpha;
    const float *a;
    float *b;
};

static int least(int a, int b) { return a < b ? a : b; }

static const float *at(const float *matrix, int ld, int row, int column) { return matrix + (size_t)column * ld + row; }

/* ---- handle */

static int make_identity(struct trsm_handle *handle) {
    float identity[BLOCK * BLOCK] = {0};
    for (int i = 0; i < BLOCK; i++)
        identity[i * BLOCK + i] = 1;
    return cudaMalloc((void **)&handle->identity, sizeof identity) ||
           cudaMemcpy(handle->identity, identity, sizeof identity, cudaMemcpyHostToDevice);
}

enum gpumem_workspace_status trsm_create(cudaStream_t stream, struct trsm_handle **handle) {
    struct gpumem_workspace_options options = {.struct_size = sizeof options, .stream = stream};
    struct trsm_handle *made = calloc(1, sizeof *made);
    if (!made)
        return GPUMEM_WORKSPACE_INTERNAL_ERROR;
    made->stream = stream;
    enum gpumem_workspace_status status = GPUMEM_WORKSPACE_INTERNAL_ERROR;
    if (!make_identity(made) && !cublasCreate(&made->cublas) && !cublasSetStream(made->cublas, stream))
        status = gpumem_workspace_create(&options, &made->workspace);
    if (status)
        trsm_destroy(made);
    else
        *handle = made;
    return status;
}

void trsm_destroy(struct trsm_handle *handle) {
    gpumem_workspace_destroy(handle->workspace);
    if (handle->cublas)
        cublasDestroy(handle->cublas);
    cudaFree(handle->identity);
    free(handle);
}

struct gpumem_workspace *trsm_workspace(struct trsm_handle *handle) {
    return handle->workspace;
}

/* ---- the solve; each function returns 0, or an error of cuBLAS or CUDA */

/* inverse: BLOCK x m, the inverses of the diagonal blocks side by side. */
static int invert_blocks(struct trsm_handle *handle, const struct system *s, float *inverse) {
    const float one = 1;
    int failed = 0;
    for (int k = 0; k < s->m && !failed; k += BLOCK) {
        int rows = least(BLOCK, s->m - k);
        float *block = inverse + (size_t)k * BLOCK;
        failed = cudaMemcpyAsync(block, handle->identity, BLOCK * rows * sizeof *block, cudaMemcpyDeviceToDevice,
                                 handle->stream);
        if (!failed)
            failed = cublasStrsm(handle->cublas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                                 CUBLAS_DIAG_NON_UNIT, rows, rows, &one, at(s->a, s->lda, k, k), s->lda, block, BLOCK);
    }
    return failed;
}

static int multiply(struct trsm_handle *handle, int m, int n, int k, float alpha, const float *a, int lda,
                    const float *b, int ldb, float beta, float *c, int ldc) {
    return cublasSgemm(handle->cublas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &alpha, a, lda, b, ldb, &beta, c, ldc);
}

/* Solves `columns` columns from b on, through x, which is m x columns. */
static int solve_columns(struct trsm_handle *handle, const struct system *s, const float *inverse, float *x, float *b,
                         int columns) {
    int failed = 0;
    for (int k = 0; k < s->m && !failed; k += BLOCK) {
        int rows = least(BLOCK, s->m - k), below = s->m - k - rows;
        float scale = k ? 1 : s->alpha; /* the first step scales all of B */
        failed = multiply(handle, rows, columns, rows, scale, inverse + (size_t)k * BLOCK, BLOCK, b + k, s->ldb, 0,
                          x + k, s->m);
        if (!failed && below)
            failed = multiply(handle, below, columns, rows, -1, at(s->a, s->lda, k + rows, k), s->lda, x + k, s->m,
                              scale, b + k + rows, s->ldb);
    }
    return failed ? failed
                  : (int)cudaMemcpy2DAsync(b, s->ldb * sizeof *b, x, s->m * sizeof *x, s->m * sizeof *x, columns,
                                           cudaMemcpyDeviceToDevice, handle->stream);
}

static int solve(struct trsm_handle *handle, const struct system *s, float *inverse, float *x, int columns) {
    int failed = invert_blocks(handle, s, inverse);
    for (int j = 0; j < s->n && !failed; j += columns)
        failed = solve_columns(handle, s, inverse, x, s->b + (size_t)j * s->ldb, columns);
    return failed;
}

static int read_alpha(struct trsm_handle *handle, const float *alpha, float *value) {
    GPUMEM_SAVED_POINTER_MODE saved = gpumem_workspace_push_pointer_mode(handle->workspace, GPUMEM_POINTER_MODE_HOST);
    if (saved.mode == GPUMEM_POINTER_MODE_HOST) {
        *value = *alpha;
        return 0;
    }
    int failed = cudaMemcpyAsync(value, alpha, sizeof *value, cudaMemcpyDeviceToHost, handle->stream);
    return failed ? failed : (int)cudaStreamSynchronize(handle->stream);
}

enum gpumem_workspace_status trsm_solve(struct trsm_handle *handle, int m, int n, const float *alpha, const float *a,
                                        int lda, float *b, int ldb) {
    struct gpumem_workspace *workspace = handle->workspace;
    if (!m || !n) {
        GPUMEM_WORKSPACE_RETURN_ZERO_IF_QUERIED(workspace);
        return GPUMEM_WORKSPACE_SUCCESS;
    }
    size_t element = gpumem_workspace_sizeof_datatype(CUDA_R_32F);
    size_t inverses = element * BLOCK * (size_t)m, all_columns = element * (size_t)m * (size_t)n;
    if (gpumem_workspace_is_query(workspace))
        return GPUMEM_WORKSPACE_SET_OPTIMAL(workspace, inverses, all_columns);

    enum gpumem_workspace_status done = GPUMEM_WORKSPACE_SUCCESS;
    size_t solution = all_columns;
    GPUMEM_LOAN loan = GPUMEM_WORKSPACE_BORROW(workspace, inverses, solution);
    if (!loan) {
        solution = element * (size_t)m;
        done = GPUMEM_WORKSPACE_PERF_DEGRADED;
        loan = GPUMEM_WORKSPACE_BORROW(workspace, inverses, solution);
    }
    if (!loan)
        return GPUMEM_WORKSPACE_MEMORY_ERROR;
    struct system system = {.m = m, .n = n, .lda = lda, .ldb = ldb, .a = a, .b = b};
    float *inverse = gpumem_loan_next(loan, inverses), *x = gpumem_loan_next(loan, solution);
    int failed = read_alpha(handle, alpha, &system.alpha);
    if (!failed)
        failed = solve(handle, &system, inverse, x, solution == all_columns ? n : 1);
    return failed ? GPUMEM_WORKSPACE_INTERNAL_ERROR : done;
}

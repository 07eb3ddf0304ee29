/* The functions of cuBLAS that the example calls, for the simulated CUDA: simulated kernels do the work on the host, in
 * the order of the handle's stream. */
#include <cublas_v2.h>
#include <cuda.h>
#include <stdlib.h>

#include "simcuda.h"

struct cublasContext {
    CUstream stream;
    CUfunction gemm, trsm;
};

#define ARG(type, at) (*(type *)launch->args[at])

/* C = alpha A B + beta C; beta 0 does not read C. */
static void gemm(const struct simcuda_launch *launch) {
    const float *a = ARG(float *, 0), *b = ARG(float *, 1);
    float *c = ARG(float *, 2), alpha = ARG(float, 9), beta = ARG(float, 10);
    int m = ARG(int, 3), n = ARG(int, 4), depth = ARG(int, 5), lda = ARG(int, 6), ldb = ARG(int, 7), ldc = ARG(int, 8);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double sum = 0;
            for (int k = 0; k < depth; k++)
                sum += (double)a[(size_t)k * lda + i] * b[(size_t)j * ldb + k];
            float *element = &c[(size_t)j * ldc + i];
            *element = (float)(alpha * sum + (beta != 0 ? beta * *element : 0));
        }
}

/* B = alpha inverse(A) B for a lower triangular A. */
static void trsm(const struct simcuda_launch *launch) {
    const float *a = ARG(float *, 0);
    float *b = ARG(float *, 1), alpha = ARG(float, 6);
    int m = ARG(int, 2), n = ARG(int, 3), lda = ARG(int, 4), ldb = ARG(int, 5);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            double sum = (double)alpha * b[(size_t)j * ldb + i];
            for (int k = 0; k < i; k++)
                sum -= (double)a[(size_t)k * lda + i] * b[(size_t)j * ldb + k];
            b[(size_t)j * ldb + i] = (float)(sum / a[(size_t)i * lda + i]);
        }
}

static cublasStatus_t launch(CUfunction kernel, CUstream stream, void **arguments) {
    return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL) ? CUBLAS_STATUS_EXECUTION_FAILED
                                                                                : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    CUmodule module;
    struct cublasContext *made = calloc(1, sizeof *made);
    if (!made || simcuda_register_kernel("fake_gemm", "ppp44444444", gemm) ||
        simcuda_register_kernel("fake_trsm", "pp44444", trsm) ||
        cuModuleLoadData(&module, "kernels of a fake cuBLAS") ||
        cuModuleGetFunction(&made->gemm, module, "fake_gemm") ||
        cuModuleGetFunction(&made->trsm, module, "fake_trsm")) {
        free(made);
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    *handle = made;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transposed_a, cublasOperation_t transposed_b,
                              int m, int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb,
                              const float *beta, float *c, int ldc) {
    float scale = *alpha, keep = *beta;
    void *arguments[] = {&a, &b, &c, &m, &n, &k, &lda, &ldb, &ldc, &scale, &keep};
    if (transposed_a != CUBLAS_OP_N || transposed_b != CUBLAS_OP_N)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return launch(handle->gemm, handle->stream, arguments);
}

cublasStatus_t cublasStrsm_v2(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,
                              cublasOperation_t transposed, cublasDiagType_t diagonal, int m, int n, const float *alpha,
                              const float *a, int lda, float *b, int ldb) {
    float scale = *alpha;
    void *arguments[] = {&a, &b, &m, &n, &lda, &ldb, &scale};
    if (side != CUBLAS_SIDE_LEFT || fill != CUBLAS_FILL_MODE_LOWER || transposed != CUBLAS_OP_N ||
        diagonal != CUBLAS_DIAG_NON_UNIT)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return launch(handle->trsm, handle->stream, arguments);
}

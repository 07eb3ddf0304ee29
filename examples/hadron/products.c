#include "examples/hadron/products.h"
#include "examples/check.h"

#include <cublas_v2.h>
#include <dlfcn.h>
#include <string.h>

#define FUNCTIONS(X)      \
    X(cublasCreate_v2)    \
    X(cublasDestroy_v2)   \
    X(cublasSetStream_v2) \
    X(cublasZgemmBatched) \
    X(cublasGetStatusString)
#define POINTER(name) __typeof__(&name) name;
static struct {
    void *library;
    FUNCTIONS(POINTER)
} blas;

static bool find(const char *name, void *function) {
    void *found = dlsym(blas.library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

bool products_open(const char **why) {
    /* The folder of the toolkit is often not in the loader's search path. */
    static const char *const names[] = {"libcublas.so.13", HADRON_CUDA_FOLDER "/libcublas.so.13", "libcublas.so.12"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !blas.library; i++)
        blas.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!blas.library) {
        *why = dlerror();
        return false;
    }
#define FIND(name) &&find(#name, &blas.name)
    if (true FUNCTIONS(FIND))
        return true;
    *why = "libcublas lacks a function";
    return false;
}

static void worked(cublasStatus_t status, const char *what) {
    if (status != CUBLAS_STATUS_SUCCESS) {
        fprintf(stderr, "hadron: %s: %s\n", what, blas.cublasGetStatusString(status));
        exit(1);
    }
}

struct cublasContext *products_handle(cudaStream_t stream) {
    cublasHandle_t handle;
    worked(blas.cublasCreate_v2(&handle), "cublasCreate");
    worked(blas.cublasSetStream_v2(handle, stream), "cublasSetStream");
    return handle;
}

void products_close(struct cublasContext *handle) {
    if (handle)
        worked(blas.cublasDestroy_v2(handle), "cublasDestroy");
}

void products_launch(struct cublasContext *handle, cudaStream_t stream, const struct tensors *t,
                     struct pointers *pointers) {
    if (!handle) {
        CHECK(launch_multiply(stream, pointers, t->rows, t->inner, t->columns, t->products));
        return;
    }
    const cuDoubleComplex one = {1, 0}, zero = {0, 0};
    worked(blas.cublasZgemmBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, t->rows, t->columns, t->inner, &one,
                                   (const cuDoubleComplex *const *)pointers->left, t->rows,
                                   (const cuDoubleComplex *const *)pointers->right, t->inner, &zero,
                                   (cuDoubleComplex *const *)pointers->product, t->rows, t->products),
           "cublasZgemmBatched");
}

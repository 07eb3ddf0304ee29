#include "examples/hadron/products.h"
#include "examples/check.h"

#include <dlfcn.h>
#include <string.h>

/* As cublas_v2.h declares them, which a toolkit without cuBLAS lacks. */
enum { WORKED = 0, AS_IT_IS = 0 };
typedef const struct complex_number number;
static struct {
    void *library;
    int (*cublasCreate_v2)(struct cublasContext **handle);
    int (*cublasDestroy_v2)(struct cublasContext *handle);
    int (*cublasSetStream_v2)(struct cublasContext *handle, cudaStream_t stream);
    int (*cublasZgemmBatched)(struct cublasContext *handle, int left_as, int right_as, int rows, int columns, int inner,
                              number *factor, number *const *left, int left_rows, number *const *right, int right_rows,
                              number *kept, struct complex_number *const *product, int product_rows, int count);
    const char *(*cublasGetStatusString)(int status);
} blas;

static bool find(const char *name, void *function) {
    void *found = dlsym(blas.library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

#define FIND(name) find(#name, &blas.name)

bool products_open(const char **why) {
    /* The folder of the toolkit is often not in the loader's search path. */
    static const char *const names[] = {"libcublas.so.13", HADRON_CUDA_FOLDER "/libcublas.so.13", "libcublas.so.12"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !blas.library; i++)
        blas.library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!blas.library) {
        *why = dlerror();
        return false;
    }
    if (FIND(cublasCreate_v2) && FIND(cublasDestroy_v2) && FIND(cublasSetStream_v2) && FIND(cublasZgemmBatched) &&
        FIND(cublasGetStatusString))
        return true;
    *why = "libcublas lacks a function";
    return false;
}

static void worked(int status, const char *what) {
    if (status != WORKED) {
        fprintf(stderr, "hadron: %s: %s\n", what, blas.cublasGetStatusString(status));
        exit(1);
    }
}

struct cublasContext *products_handle(cudaStream_t stream) {
    struct cublasContext *handle;
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
    const struct complex_number one = {1, 0}, zero = {0, 0};
    worked(blas.cublasZgemmBatched(handle, AS_IT_IS, AS_IT_IS, t->rows, t->columns, t->inner, &one,
                                   (number *const *)pointers->left, t->rows, (number *const *)pointers->right, t->inner,
                                   &zero, pointers->product, t->rows, t->products),
           "cublasZgemmBatched");
}

/* Mode cusparse: cusparseSpGEMM. Its buffers are allocated within the timed call, as in a program that multiplies once.
 * The library is opened when the mode is used, so that the driver also starts on machines without it. */
#include "spgemm/gpu.h"

#include <cusparse.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X)                 \
    X(cusparseCreate)                \
    X(cusparseDestroy)               \
    X(cusparseCreateCsr)             \
    X(cusparseDestroySpMat)          \
    X(cusparseCsrSetPointers)        \
    X(cusparseSpMatGetSize)          \
    X(cusparseGetErrorString)        \
    X(cusparseSpGEMM_createDescr)    \
    X(cusparseSpGEMM_destroyDescr)   \
    X(cusparseSpGEMM_workEstimation) \
    X(cusparseSpGEMM_estimateMemory) \
    X(cusparseSpGEMM_compute)        \
    X(cusparseSpGEMM_copy)
#define POINTER(name) __typeof__(&name) name;
static struct {
    void *library;
    FUNCTIONS(POINTER)
} sparse;

#define CHUNK_FRACTION 0.2f /* of the intermediate products at one time, for alg3 */

struct state {
    struct spg_gpu gpu;
    cusparseHandle_t handle;
    cusparseSpMatDescr_t a, b;
    cusparseSpGEMMAlg_t algorithm;
    cudaDataType type;
};

/* What a call allocates in addition to C. */
struct call {
    cusparseSpMatDescr_t c;
    cusparseSpGEMMDescr_t description;
    struct spg_block work, estimate, compute;
};

static bool find(const char *name, void *function) {
    void *found = dlsym(sparse.library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static bool open_library(struct spg_error *error) {
    if (sparse.library)
        return true;
    sparse.library = dlopen(SPG_CUSPARSE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    /* The folder of the toolkit is often not in the loader's search path. */
    if (!sparse.library)
        sparse.library = dlopen(SPG_CUDA_LIBRARIES "/" SPG_CUSPARSE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!sparse.library)
        return spg_fail(error, "%s", dlerror());
#define FIND(name) &&find(#name, &sparse.name)
    if (true FUNCTIONS(FIND))
        return true;
    dlclose(sparse.library);
    sparse.library = NULL;
    return spg_fail(error, "%s is too old", SPG_CUSPARSE_LIBRARY);
}

static bool worked(cusparseStatus_t status, const char *what, struct spg_error *error) {
    if (status == CUSPARSE_STATUS_SUCCESS)
        return true;
    if (status == CUSPARSE_STATUS_ALLOC_FAILED || status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES)
        return spg_fail(error, "out of device memory: %s: %s", what, sparse.cusparseGetErrorString(status));
    return spg_fail(error, "%s: %s", what, sparse.cusparseGetErrorString(status));
}

static bool describe(cusparseSpMatDescr_t *description, const struct spg_operand *m, cudaDataType type,
                     struct spg_error *error) {
    return worked(sparse.cusparseCreateCsr(description, m->rows, m->columns, m->stored, m->offsets, m->indices,
                                           m->values, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                                           type),
                  "cusparseCreateCsr", error);
}

static void close_cusparse(void *pointer) {
    struct state *s = pointer;
    if (!s)
        return;
    if (s->a)
        sparse.cusparseDestroySpMat(s->a);
    if (s->b)
        sparse.cusparseDestroySpMat(s->b);
    if (s->handle)
        sparse.cusparseDestroy(s->handle);
    spg_gpu_close(&s->gpu);
    free(s);
}

static cusparseSpGEMMAlg_t algorithm_of(const char *argument) {
    if (!strcmp(argument, "alg1"))
        return CUSPARSE_SPGEMM_ALG1;
    if (!strcmp(argument, "alg2"))
        return CUSPARSE_SPGEMM_ALG2;
    return !strcmp(argument, "alg3") ? CUSPARSE_SPGEMM_ALG3 : CUSPARSE_SPGEMM_DEFAULT;
}

static void *open_cusparse(const struct spg_job *job, struct spg_error *error) {
    struct state *s = calloc(1, sizeof *s);
    if (!s) {
        spg_fail(error, "out of memory");
        return NULL;
    }
    if (!spg_gpu_open(&s->gpu, job, error)) {
        free(s);
        return NULL;
    }
    s->algorithm = algorithm_of(job->argument);
    s->type = job->precision == SPG_FLOAT ? CUDA_R_32F : CUDA_R_64F;
    if (open_library(error) && worked(sparse.cusparseCreate(&s->handle), "cusparseCreate", error) &&
        describe(&s->a, s->gpu.a, s->type, error) && describe(&s->b, s->gpu.b, s->type, error))
        return s;
    close_cusparse(s);
    return NULL;
}

static const double one = 1, zero = 0;
static const float one_float = 1, zero_float = 0;

#define COMMON                                                                     \
    s->handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, \
        s->type == CUDA_R_32F ? (const void *)&one_float : &one, s->a, s->b,       \
        s->type == CUDA_R_32F ? (const void *)&zero_float : &zero, c->c, s->type, s->algorithm, c->description

/* workEstimation counts the intermediate products. For alg2 and alg3, estimateMemory then reports the buffer size. */
static bool estimate(struct state *s, struct call *c, struct spg_error *error) {
    struct spg_memory *memory = &s->gpu.memory;
    size_t size = 0, compute = 0;
    if (!worked(sparse.cusparseSpGEMM_workEstimation(COMMON, &size, NULL), "workEstimation", error) ||
        !spg_block_make(&c->work, memory, size, "cuSPARSE's first buffer", error) ||
        !worked(sparse.cusparseSpGEMM_workEstimation(COMMON, &size, c->work.at), "workEstimation", error))
        return false;
    if (s->algorithm != CUSPARSE_SPGEMM_ALG2 && s->algorithm != CUSPARSE_SPGEMM_ALG3) {
        if (!worked(sparse.cusparseSpGEMM_compute(COMMON, &compute, NULL), "compute", error))
            return false;
        return spg_block_make(&c->compute, memory, compute, "cuSPARSE's buffer", error);
    }
    if (!worked(sparse.cusparseSpGEMM_estimateMemory(COMMON, CHUNK_FRACTION, &size, NULL, NULL), "estimateMemory",
                error) ||
        !spg_block_make(&c->estimate, memory, size, "cuSPARSE's second buffer", error) ||
        !worked(sparse.cusparseSpGEMM_estimateMemory(COMMON, CHUNK_FRACTION, &size, c->estimate.at, &compute),
                "estimateMemory", error))
        return false;
    spg_block_drop(&c->estimate, memory);
    return spg_block_make(&c->compute, memory, compute, "cuSPARSE's buffer", error);
}

static bool compute(struct state *s, struct call *c, struct spg_error *error) {
    struct spg_result *result = &s->gpu.c;
    struct spg_memory *memory = &s->gpu.memory;
    size_t size = c->compute.size;
    int64_t rows, columns, stored;
    if (!worked(sparse.cusparseSpGEMM_compute(COMMON, &size, c->compute.at), "compute", error) ||
        !worked(sparse.cusparseSpMatGetSize(c->c, &rows, &columns, &stored), "size of C", error))
        return false;
    result->stored = stored;
    if (!stored) /* there are no arrays to copy to */
        return spg_cuda(cudaMemsetAsync(result->offsets.at, 0, result->offsets.size, NULL), "offsets of C", error);
    return spg_block_make(&result->indices, memory, (size_t)stored * sizeof(int32_t), "columns of C", error) &&
           spg_block_make(&result->values, memory, (size_t)stored * spg_value_size(s->gpu.job->precision),
                          "values of C", error) &&
           worked(sparse.cusparseCsrSetPointers(c->c, result->offsets.at, result->indices.at, result->values.at),
                  "cusparseCsrSetPointers", error) &&
           worked(sparse.cusparseSpGEMM_copy(COMMON), "copy", error);
}

static bool describe_result(struct state *s, struct call *c, struct spg_error *error) {
    struct spg_result *result = &s->gpu.c;
    result->rows = s->gpu.a->rows;
    result->columns = s->gpu.b->columns;
    return spg_block_make(&result->offsets, &s->gpu.memory, ((size_t)result->rows + 1) * sizeof(int32_t),
                          "offsets of C", error) &&
           worked(sparse.cusparseCreateCsr(&c->c, result->rows, result->columns, 0, result->offsets.at, NULL, NULL,
                                           CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, s->type),
                  "cusparseCreateCsr", error) &&
           worked(sparse.cusparseSpGEMM_createDescr(&c->description), "cusparseSpGEMM_createDescr", error);
}

static bool run_cusparse(void *pointer, struct spg_run *run, struct spg_error *error) {
    struct state *s = pointer;
    struct spg_memory *memory = &s->gpu.memory;
    struct call call = {0};
    *run = (struct spg_run){0};
    bool done = spg_gpu_start(&s->gpu, error) && describe_result(s, &call, error) && estimate(s, &call, error) &&
                spg_cuda(cudaEventRecord(s->gpu.estimated, NULL), "event", error) && compute(s, &call, error) &&
                spg_gpu_stop(&s->gpu, true, false, run, error);
    run->entries = s->gpu.c.stored;
    double trim_start = spg_now_ms();
    if (call.description)
        sparse.cusparseSpGEMM_destroyDescr(call.description);
    if (call.c)
        sparse.cusparseDestroySpMat(call.c);
    spg_block_drop(&call.work, memory);
    spg_block_drop(&call.estimate, memory);
    spg_block_drop(&call.compute, memory);
    run->trim_ms = spg_now_ms() - trim_start;
    if (!done)
        spg_result_drop(&s->gpu.c, memory);
    return done;
}

static bool fetch_cusparse(void *pointer, struct spg_csr *c, struct spg_error *error) {
    struct state *s = pointer;
    return spg_result_fetch(&s->gpu.c, s->gpu.job->precision, c, error);
}

const struct spg_mode_ops spg_mode_cusparse = {open_cusparse, run_cusparse, fetch_cusparse, close_cusparse, NULL};

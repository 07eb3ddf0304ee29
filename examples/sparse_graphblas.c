/* GrB_mxm over plus and times, on the GPU: matrices of GraphBLAS go to the device and back by their export and import.
 * The program counts paths of two steps in a graph, and compares C and the times with those of GraphBLAS itself.
 *
 *     sparse_graphblas [VERTICES] [EDGES-OF-EACH]
 *
 * Skips (77) without a GPU. */
#include "check.h"

#include <GraphBLAS.h>
#include <spgemm/spgemm.h>
#include <time.h>

static void graphblas(GrB_Info info) {
    if (info != GrB_SUCCESS) {
        fprintf(stderr, "GraphBLAS: error %d\n", (int)info);
        exit(1);
    }
}

static void worked(enum gpumem_status status) {
    if (status) {
        fprintf(stderr, "%s\n", gpumem_spgemm_last_error());
        exit(1);
    }
}

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void *on_device(const void *host, size_t size) {
    void *at;
    CHECK(cudaMalloc(&at, size ? size : 1));
    CHECK(cudaMemcpy(at, host, size, cudaMemcpyHostToDevice));
    return at;
}

static int *narrow(const GrB_Index *from, GrB_Index count) {
    int *to = malloc(sizeof *to * (size_t)(count + 1));
    for (GrB_Index i = 0; i < count; i++)
        to[i] = (int)from[i];
    return to;
}

static GrB_Index *widen(const int *from, GrB_Index count) {
    GrB_Index *to = malloc(sizeof *to * (size_t)(count + 1));
    for (GrB_Index i = 0; i < count; i++)
        to[i] = (GrB_Index)from[i];
    return to;
}

/* The matrix on the device. GraphBLAS sorts columns in an export. */
static struct gpumem_spgemm_csr exported(GrB_Matrix m) {
    GrB_Index rows, columns, lengths[3];
    graphblas(GrB_Matrix_nrows(&rows, m));
    graphblas(GrB_Matrix_ncols(&columns, m));
    graphblas(GrB_Matrix_exportSize(&lengths[0], &lengths[1], &lengths[2], GrB_CSR_FORMAT, m));
    GrB_Index *offsets = malloc(sizeof *offsets * (size_t)lengths[0]),
              *indices = malloc(sizeof *indices * (size_t)(lengths[1] + 1));
    double *values = malloc(sizeof *values * (size_t)(lengths[2] + 1));
    graphblas(
        GrB_Matrix_export_FP64(offsets, indices, values, &lengths[0], &lengths[1], &lengths[2], GrB_CSR_FORMAT, m));
    int *short_offsets = narrow(offsets, rows + 1), *short_indices = narrow(indices, lengths[1]);
    struct gpumem_spgemm_csr csr = {.struct_size = sizeof csr,
                                    .rows = (int64_t)rows,
                                    .columns = (int64_t)columns,
                                    .stored = (int64_t)lengths[1],
                                    .offsets = on_device(short_offsets, sizeof(int) * (size_t)(rows + 1)),
                                    .indices = on_device(short_indices, sizeof(int) * (size_t)lengths[1]),
                                    .values = on_device(values, sizeof(double) * (size_t)lengths[1])};
    free(offsets), free(indices), free(values), free(short_offsets), free(short_indices);
    return csr;
}

static GrB_Matrix imported(const struct gpumem_spgemm_result *c) {
    GrB_Index rows = (GrB_Index)c->rows, stored = (GrB_Index)c->stored;
    int *offsets = malloc(sizeof(int) * (size_t)(rows + 1)), *indices = malloc(sizeof(int) * (size_t)(stored + 1));
    double *values = malloc(sizeof(double) * (size_t)(stored + 1));
    CHECK(cudaMemcpy(offsets, c->offsets, sizeof(int) * (size_t)(rows + 1), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(indices, c->indices, sizeof(int) * (size_t)stored, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(values, c->values, sizeof(double) * (size_t)stored, cudaMemcpyDeviceToHost));
    GrB_Index *wide_offsets = widen(offsets, rows + 1), *wide_indices = widen(indices, stored);
    GrB_Matrix m;
    graphblas(GrB_Matrix_import_FP64(&m, GrB_FP64, rows, (GrB_Index)c->columns, wide_offsets, wide_indices, values,
                                     rows + 1, stored, stored, GrB_CSR_FORMAT));
    free(offsets), free(indices), free(values), free(wide_offsets), free(wide_indices);
    return m;
}

static GrB_Matrix graph(GrB_Index vertices, GrB_Index each) {
    GrB_Matrix m;
    uint64_t state = 1;
    graphblas(GrB_Matrix_new(&m, GrB_FP64, vertices, vertices));
    for (GrB_Index k = 0; k < vertices * each; k++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        graphblas(GrB_Matrix_setElement_FP64(m, 1, k / each, (state >> 33) % vertices));
    }
    graphblas(GrB_Matrix_wait(m, GrB_MATERIALIZE));
    return m;
}

int main(int argc, char **argv) {
    GrB_Index vertices = argc > 1 ? (GrB_Index)atoll(argv[1]) : 200000, each = argc > 2 ? (GrB_Index)atoll(argv[2]) : 8;
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices || !vertices) {
        printf("sparse_graphblas: no GPU\n");
        return 77;
    }
    graphblas(GrB_init(GrB_NONBLOCKING));
    GrB_Matrix a = graph(vertices, each), wanted;
    double begin = now();
    graphblas(GrB_Matrix_new(&wanted, GrB_FP64, vertices, vertices));
    graphblas(GrB_mxm(wanted, NULL, NULL, GrB_PLUS_TIMES_SEMIRING_FP64, a, a, NULL));
    graphblas(GrB_Matrix_wait(wanted, GrB_MATERIALIZE));
    double theirs = now() - begin, ours = 0;
    struct gpumem_spgemm *multiplier;
    struct gpumem_spgemm_csr operand = exported(a);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    worked(gpumem_spgemm_create(NULL, &multiplier));
    for (int run = 0; run < 3; run++) {
        CHECK(cudaDeviceSynchronize());
        begin = now();
        worked(gpumem_spgemm_multiply(multiplier, &operand, &operand, NULL, 0, cudaStreamPerThread, &c));
        CHECK(cudaStreamSynchronize(cudaStreamPerThread));
        ours = now() - begin;
    }
    GrB_Matrix found = imported(&c), differs;
    /* Paths are whole numbers: C is exact. */
    bool same = true;
    GrB_Index there = 0, both = 0;
    graphblas(GrB_Matrix_new(&differs, GrB_BOOL, vertices, vertices));
    graphblas(GrB_Matrix_eWiseMult_BinaryOp(differs, NULL, NULL, GrB_EQ_FP64, found, wanted, NULL));
    graphblas(GrB_Matrix_reduce_BOOL(&same, NULL, GrB_LAND_MONOID_BOOL, differs, NULL));
    graphblas(GrB_Matrix_nvals(&there, wanted));
    graphblas(GrB_Matrix_nvals(&both, differs));
    same = same && both == there && (GrB_Index)c.stored == there;
    printf("%lld entries, GPU %.3f ms, GraphBLAS %.3f ms, %s\n", (long long)c.stored, ours, theirs,
           same ? "equal" : "different");
    gpumem_spgemm_destroy(multiplier);
    GrB_finalize();
    printf("%s sparse_graphblas\n", same ? "ok" : "FAILED");
    return !same;
}

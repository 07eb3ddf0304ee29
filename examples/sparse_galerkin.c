/* The coarse operator of multigrid, as hypre and PETSc make it: C = P' A P of matrices that have their field names. The
 * pattern of a fine operator stays while its values change from step to step, so C is counted once.
 *
 *     sparse_galerkin [SIDE]
 *
 * A is a 27-point stencil on SIDE x SIDE x SIDE points (48), P has a column for each 2 x 2 x 2 of them. Each step is
 * compared with a product on the host. Skips (77) without a GPU. */
#include "check.h"

#include <gpumem.h>
#include <math.h>
#include <spgemm/spgemm.h>
#include <time.h>

/* The fields of hypre's hypre_CSRMatrix that a product needs. */
typedef struct {
    int *i, *j; /* row offsets, columns */
    int num_rows, num_cols, num_nonzeros;
    double *data;
} csr_matrix;

static csr_matrix made(int rows, int columns, int most) {
    csr_matrix m = {.num_rows = rows, .num_cols = columns};
    CHECK(cudaMallocManaged((void **)&m.i, sizeof(int) * ((size_t)rows + 1), cudaMemAttachGlobal));
    CHECK(cudaMallocManaged((void **)&m.j, sizeof(int) * (size_t)rows * (size_t)most, cudaMemAttachGlobal));
    CHECK(cudaMallocManaged((void **)&m.data, sizeof(double) * (size_t)rows * (size_t)most, cudaMemAttachGlobal));
    m.i[0] = 0;
    return m;
}

static void append(csr_matrix *m, int column, double value) {
    m->j[m->num_nonzeros] = column;
    m->data[m->num_nonzeros++] = value;
}

static csr_matrix stencil(int side) {
    csr_matrix m = made(side * side * side, side * side * side, 27);
    for (int row = 0; row < m.num_rows; row++) {
        int x = row % side, y = row / side % side, z = row / side / side;
        for (int n = 0; n < 27; n++) {
            int at[] = {x + n % 3 - 1, y + n / 3 % 3 - 1, z + n / 9 - 1};
            if (at[0] >= 0 && at[0] < side && at[1] >= 0 && at[1] < side && at[2] >= 0 && at[2] < side)
                append(&m, (at[2] * side + at[1]) * side + at[0], n == 13 ? 26 : -1);
        }
        m.i[row + 1] = m.num_nonzeros;
    }
    return m;
}

static csr_matrix aggregates(int side) {
    int half = (side + 1) / 2;
    csr_matrix m = made(side * side * side, half * half * half, 1);
    for (int row = 0; row < m.num_rows; row++) {
        int x = row % side / 2, y = row / side % side / 2, z = row / side / side / 2;
        append(&m, (z * half + y) * half + x, 1);
        m.i[row + 1] = m.num_nonzeros;
    }
    return m;
}

static struct gpumem_spgemm_csr argument(const csr_matrix *m) {
    return (struct gpumem_spgemm_csr){
        sizeof(struct gpumem_spgemm_csr), m->num_rows, m->num_cols, m->num_nonzeros, m->i, m->j, m->data};
}

/* P has one entry of 1 in each row: C[p][q] is the sum of the entries of A between two aggregates. */
static double worst(const csr_matrix *a, const csr_matrix *p, const csr_matrix *c) {
    double *wanted = calloc((size_t)c->num_nonzeros, sizeof *wanted), most = 0;
    for (int row = 0; row < a->num_rows; row++)
        for (int k = a->i[row]; k < a->i[row + 1]; k++) {
            int to = p->j[row], column = p->j[a->j[k]], at = c->i[to];
            while (at < c->i[to + 1] && c->j[at] != column)
                at++;
            if (at == c->i[to + 1]) {
                fprintf(stderr, "C lacks column %d of row %d\n", column, to);
                exit(1);
            }
            wanted[at] += a->data[k];
        }
    for (int k = 0; k < c->num_nonzeros; k++)
        most = fmax(most, fabs(wanted[k] - c->data[k]));
    free(wanted);
    return most;
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

int main(int argc, char **argv) {
    int side = argc > 1 ? atoi(argv[1]) : 48, devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices || side < 1 || side > 400) {
        printf("sparse_galerkin: no GPU, or no SIDE from 1 to 400\n");
        return 77;
    }
    struct gpumem_spgemm *multiplier;
    csr_matrix a = stencil(side), p = aggregates(side), c = {0};
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    worked(gpumem_spgemm_create(NULL, &multiplier));
    for (int step = 0; step < 5; step++) {
        struct gpumem_spgemm_csr fine = argument(&a), prolongation = argument(&p);
        struct gpumem_spgemm_result coarse = {.struct_size = sizeof coarse};
        CHECK(cudaDeviceSynchronize());
        double begin = now();
        worked(gpumem_spgemm_triple(multiplier, NULL, &fine, &prolongation, NULL,
                                    step ? GPUMEM_SPGEMM_SAME_STRUCTURE : 0, stream, &coarse));
        CHECK(cudaStreamSynchronize(stream));
        double ms = now() - begin;
        if (!c.i)
            c = made((int)coarse.rows, (int)coarse.columns, (int)(coarse.stored / coarse.rows) + 1);
        c.num_nonzeros = (int)coarse.stored;
        CHECK(cudaMemcpy(c.i, coarse.offsets, sizeof(int) * ((size_t)coarse.rows + 1), cudaMemcpyDefault));
        CHECK(cudaMemcpy(c.j, coarse.indices, sizeof(int) * (size_t)coarse.stored, cudaMemcpyDefault));
        CHECK(cudaMemcpy(c.data, coarse.values, sizeof(double) * (size_t)coarse.stored, cudaMemcpyDefault));
        double off = worst(&a, &p, &c);
        printf("step %d: %d x %d, %d entries, %.3f ms, off by %.2g\n", step, c.num_rows, c.num_cols, c.num_nonzeros, ms,
               off);
        if (off > 1e-9)
            return 1;
        for (int k = 0; k < a.num_nonzeros; k++)
            a.data[k] *= 1 + 0.01 * (k % 7);
    }
    gpumem_spgemm_destroy(multiplier);
    printf("ok sparse_galerkin\n");
    return 0;
}

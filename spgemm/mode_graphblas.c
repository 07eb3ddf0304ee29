/* Mode graphblas: the product on the host by SuiteSparse:GraphBLAS, as a reference. The copies between its matrices and
 * ours are not timed. */
#include "spgemm/modes.h"

#include <GraphBLAS.h>

#include <stdlib.h>

struct state {
    const struct spg_job *job;
    GrB_Matrix a, b, c;
};

/* GraphBLAS can be initialised once in a process. */
static bool started;

static void finish(void) { GrB_finalize(); }

static GrB_Type type_of(const struct spg_job *job) { return job->precision == SPG_FLOAT ? GrB_FP32 : GrB_FP64; }

static bool worked(GrB_Info info, const char *what, struct spg_error *error) {
    if (info == GrB_SUCCESS)
        return true;
    return spg_fail(error, info == GrB_OUT_OF_MEMORY ? "GraphBLAS: %s: out of memory" : "GraphBLAS: %s: error %d", what,
                    (int)info);
}

static bool start(struct spg_error *error) {
    if (started)
        return true;
    started = worked(GrB_init(GrB_NONBLOCKING), "start", error);
    if (started)
        atexit(finish);
    return started;
}

static bool import(GrB_Matrix *to, const struct spg_csr *m, GrB_Type type, struct spg_error *error) {
    size_t stored = (size_t)spg_csr_stored(m), rows = (size_t)m->rows;
    GrB_Index *offsets = malloc((rows + 1) * sizeof *offsets), *indices = malloc((stored + 1) * sizeof *indices);
    float *narrow = type == GrB_FP32 ? malloc((stored + 1) * sizeof *narrow) : NULL;
    bool done = offsets && indices && (type != GrB_FP32 || narrow);
    for (size_t i = 0; done && i <= rows; i++)
        offsets[i] = (GrB_Index)m->offsets[i];
    for (size_t k = 0; done && k < stored; k++) {
        indices[k] = (GrB_Index)m->indices[k];
        if (narrow)
            narrow[k] = (float)m->values[k];
    }
    if (!done)
        spg_fail(error, "GraphBLAS: import: out of memory");
    else if (narrow)
        done = worked(GrB_Matrix_import_FP32(to, type, rows, (GrB_Index)m->columns, offsets, indices, narrow, rows + 1,
                                             stored, stored, GrB_CSR_FORMAT),
                      "import", error);
    else
        done = worked(GrB_Matrix_import_FP64(to, type, rows, (GrB_Index)m->columns, offsets, indices, m->values,
                                             rows + 1, stored, stored, GrB_CSR_FORMAT),
                      "import", error);
    free(offsets);
    free(indices);
    free(narrow);
    return done;
}

static void close_graphblas(void *pointer) {
    struct state *s = pointer;
    if (!s)
        return;
    GrB_Matrix_free(&s->a);
    GrB_Matrix_free(&s->b);
    GrB_Matrix_free(&s->c);
    free(s);
}

static void *open_graphblas(const struct spg_job *job, struct spg_error *error) {
    struct state *s = calloc(1, sizeof *s);
    if (!s) {
        spg_fail(error, "GraphBLAS: out of memory");
        return NULL;
    }
    s->job = job;
    if (start(error) && import(&s->a, job->a, type_of(job), error) &&
        (job->b == job->a || import(&s->b, job->b, type_of(job), error)))
        return s;
    close_graphblas(s);
    return NULL;
}

static bool run_graphblas(void *pointer, struct spg_run *run, struct spg_error *error) {
    struct state *s = pointer;
    GrB_Index stored = 0;
    GrB_Matrix_free(&s->c);
    double start = spg_now_ms();
    GrB_Semiring semiring =
        s->job->precision == SPG_FLOAT ? GrB_PLUS_TIMES_SEMIRING_FP32 : GrB_PLUS_TIMES_SEMIRING_FP64;
    GrB_Info info = GrB_Matrix_new(&s->c, type_of(s->job), (GrB_Index)s->job->a->rows, (GrB_Index)s->job->b->columns);
    if (info == GrB_SUCCESS)
        info = GrB_mxm(s->c, NULL, NULL, semiring, s->a, s->b ? s->b : s->a, NULL);
    /* Finishes pending work and sorts the rows, as in the other modes. */
    if (info == GrB_SUCCESS)
        info = GrB_Matrix_wait(s->c, GrB_MATERIALIZE);
    double ms = spg_now_ms() - start;
    if (!worked(info, "product", error) || !worked(GrB_Matrix_nvals(&stored, s->c), "product", error)) {
        GrB_Matrix_free(&s->c);
        return false;
    }
    *run = (struct spg_run){.ms = ms, .stored = (int64_t)stored, .entries = (int64_t)stored};
    return true;
}

static bool export(const struct state *s, GrB_Index *offsets, GrB_Index *indices, void *values, GrB_Index lengths[3]) {
    GrB_Format format = GrB_CSR_FORMAT;
    if (s->job->precision == SPG_FLOAT)
        return GrB_Matrix_export_FP32(offsets, indices, values, &lengths[0], &lengths[1], &lengths[2], format, s->c) ==
               GrB_SUCCESS;
    return GrB_Matrix_export_FP64(offsets, indices, values, &lengths[0], &lengths[1], &lengths[2], format, s->c) ==
           GrB_SUCCESS;
}

static bool fetch_graphblas(void *pointer, struct spg_csr *c, struct spg_error *error) {
    struct state *s = pointer;
    GrB_Index lengths[3] = {0}, *offsets = NULL, *indices = NULL;
    void *values = NULL;
    bool done = false;
    *c = (struct spg_csr){0};
    if (!worked(GrB_Matrix_exportSize(&lengths[0], &lengths[1], &lengths[2], GrB_CSR_FORMAT, s->c), "export", error))
        return false;
    offsets = malloc(lengths[0] * sizeof *offsets + 1);
    indices = malloc(lengths[1] * sizeof *indices + 1);
    values = malloc(lengths[2] * spg_value_size(s->job->precision) + 1);
    if (!offsets || !indices || !values || !export(s, offsets, indices, values, lengths)) {
        spg_fail(error, "GraphBLAS: export: out of memory");
        goto out;
    }
    if (!spg_csr_make(c, s->job->a->rows, s->job->b->columns, (int64_t)lengths[1], error))
        goto out;
    for (int32_t i = 0; i <= c->rows; i++)
        c->offsets[i] = (int32_t)offsets[i];
    for (size_t k = 0; k < lengths[1]; k++) {
        c->indices[k] = (int32_t)indices[k];
        c->values[k] = s->job->precision == SPG_FLOAT ? ((float *)values)[k] : ((double *)values)[k];
    }
    done = true;
out:
    free(offsets);
    free(indices);
    free(values);
    return done;
}

const struct spg_mode_ops spg_mode_graphblas = {open_graphblas, run_graphblas, fetch_graphblas, close_graphblas, NULL};

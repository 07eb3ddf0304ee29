/* What spgemm.h can do beside C = A B, on an emulated device: operations and scales of operands, sums, triple products,
 * types of values, patterns, the semiring min-plus, sorting, checks. Every C is compared with a product of dense
 * arrays. */
#include "emulated/driver.h"
#include "pair.h"

#include "spgemm/gpu_rows.h"
#include "spgemm/random.h"
#include "spgemm/spgemm.h"

#include <complex.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define STREAM  ((cudaStream_t)9)
#define LARGEST 70 /* rows or columns */
#define LAST    GPUMEM_SPGEMM_MIN_PLUS_FLOAT

typedef double complex number;
typedef uint64_t precision;

static size_t value_size(precision p) { return (const size_t[]){8, 4, 16, 8, 0, 8, 4}[p]; }

static number stored_value(precision p, const void *values, int64_t at) {
    switch (p) {
    case GPUMEM_SPGEMM_MIN_PLUS_DOUBLE:
    case GPUMEM_SPGEMM_DOUBLE: return ((const double *)values)[at];
    case GPUMEM_SPGEMM_MIN_PLUS_FLOAT:
    case GPUMEM_SPGEMM_FLOAT: return (double)((const float *)values)[at];
    case GPUMEM_SPGEMM_COMPLEX_DOUBLE: return ((const number *)values)[at];
    case GPUMEM_SPGEMM_COMPLEX_FLOAT: return (number)((const float complex *)values)[at];
    default: return 1;
    }
}

static void store_value(precision p, void *values, int64_t at, number value) {
    switch (p) {
    case GPUMEM_SPGEMM_MIN_PLUS_DOUBLE:
    case GPUMEM_SPGEMM_DOUBLE: ((double *)values)[at] = creal(value); break;
    case GPUMEM_SPGEMM_MIN_PLUS_FLOAT:
    case GPUMEM_SPGEMM_FLOAT: ((float *)values)[at] = (float)creal(value); break;
    case GPUMEM_SPGEMM_COMPLEX_DOUBLE: ((number *)values)[at] = value; break;
    case GPUMEM_SPGEMM_COMPLEX_FLOAT: ((float complex *)values)[at] = (float complex)value; break;
    default: break;
    }
}

static bool is_min_plus(precision p) { return p == GPUMEM_SPGEMM_MIN_PLUS_DOUBLE || p == GPUMEM_SPGEMM_MIN_PLUS_FLOAT; }

/* `there`: the sum has a term already. */
static number sum_of(precision p, bool there, number sum, number term) {
    if (!there)
        return term;
    return !is_min_plus(p) ? sum + term : creal(term) < creal(sum) ? term : sum;
}

static number product_of(precision p, number x, number y) { return is_min_plus(p) ? x + y : x * y; }

/* A matrix of entries at chance, whose arrays are memory of the emulated device. */
struct matrix {
    precision p;
    struct gpumem_spgemm_csr csr;
    int32_t *offsets, *indices;
    void *values;
};

static void *device_memory(size_t size) {
    void *at = NULL;
    assert_int_equal(cudaMalloc(&at, size ? size : 8), cudaSuccess);
    return at;
}

static void describe(struct matrix *m, int rows, int columns) {
    m->csr = (struct gpumem_spgemm_csr){.struct_size = sizeof m->csr,
                                        .rows = rows,
                                        .columns = columns,
                                        .stored = m->offsets[rows],
                                        .offsets = m->offsets,
                                        .indices = m->indices,
                                        .values = m->p == GPUMEM_SPGEMM_PATTERN ? NULL : m->values};
}

static number random_value(uint64_t seed, uint64_t at) {
    return spg_unit_at(seed, 2 * at) - 0.4 + I * (spg_unit_at(seed, 2 * at + 1) - 0.6);
}

/* Every `sparse`-th entry in the mean. */
static struct matrix random_matrix(precision p, int rows, int columns, unsigned sparse, uint64_t seed) {
    struct matrix m = {.p = p};
    size_t most = (size_t)rows * (size_t)columns;
    m.offsets = device_memory(((size_t)rows + 1) * sizeof(int32_t));
    m.indices = device_memory(most * sizeof(int32_t));
    m.values = device_memory(most * value_size(p));
    int32_t at = 0;
    m.offsets[0] = 0;
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            uint64_t place = (uint64_t)(i * columns + j);
            if (spg_random_at(seed, place) % sparse)
                continue;
            m.indices[at] = j;
            store_value(p, m.values, at++, random_value(seed + 1, place));
        }
        m.offsets[i + 1] = at;
    }
    describe(&m, rows, columns);
    return m;
}

static void drop(struct matrix *m) {
    cudaFree(m->offsets);
    cudaFree(m->indices);
    cudaFree(m->values);
}

struct dense {
    int rows, columns;
    bool there[LARGEST][LARGEST];
    number value[LARGEST][LARGEST];
};

static number scale_of(precision p, const void *scale) {
    return scale ? stored_value(p, scale, 0) : is_min_plus(p) ? 0 : 1;
}

/* scale x op(matrix) */
static void to_dense(struct dense *d, precision p, const struct gpumem_spgemm_csr *m) {
    bool turned = m->operation != GPUMEM_SPGEMM_PLAIN;
    memset(d, 0, sizeof *d);
    d->rows = (int)(turned ? m->columns : m->rows);
    d->columns = (int)(turned ? m->rows : m->columns);
    for (int i = 0; i < m->rows; i++)
        for (int32_t k = m->offsets[i]; k < m->offsets[i + 1]; k++) {
            int row = turned ? m->indices[k] : i, column = turned ? i : m->indices[k];
            number value = stored_value(p, m->values, k);
            value = product_of(p, scale_of(p, m->scale), m->operation == GPUMEM_SPGEMM_CONJUGATE ? conj(value) : value);
            d->value[row][column] = sum_of(p, d->there[row][column], d->value[row][column], value);
            d->there[row][column] = true;
        }
}

/* Adds A B to C. */
static void add_product(precision p, struct dense *c, const struct dense *a, const struct dense *b) {
    c->rows = a->rows;
    c->columns = b->columns;
    for (int i = 0; i < a->rows; i++)
        for (int k = 0; k < a->columns; k++)
            for (int j = 0; a->there[i][k] && j < b->columns; j++)
                if (b->there[k][j]) {
                    number term = product_of(p, a->value[i][k], b->value[k][j]);
                    c->value[i][j] = sum_of(p, c->there[i][j], c->value[i][j], term);
                    c->there[i][j] = true;
                }
}

static void compare(precision p, const struct dense *wanted, const int32_t *offsets, const int32_t *indices,
                    const void *values) {
    double tolerance = value_size(p) == 4 || p == GPUMEM_SPGEMM_COMPLEX_FLOAT ? 1e-4 : 1e-12;
    int32_t at = 0;
    for (int i = 0; i < wanted->rows; i++) {
        assert_int_equal(offsets[i], at);
        for (int j = 0; j < wanted->columns; j++) {
            if (!wanted->there[i][j])
                continue;
            if (indices[at] != j)
                fail_msg("row %d has column %d, not %d", i, indices[at], j);
            if (p != GPUMEM_SPGEMM_PATTERN && cabs(stored_value(p, values, at) - wanted->value[i][j]) > tolerance)
                fail_msg("precision %d, row %d, column %d: a wrong value, off by %g", (int)p, i, j,
                         cabs(stored_value(p, values, at) - wanted->value[i][j]));
            at++;
        }
    }
    assert_int_equal(offsets[wanted->rows], at);
}

static void worked(enum gpumem_status status) {
    if (status)
        fail_msg("%s", gpumem_spgemm_last_error());
}

/* C = alpha op(A) op(B) + beta op(D), for every precision and operation: by the multiplier, of the same structure, and
 * by a structure, captured. */
static void one_sum(struct gpumem_spgemm *m, precision p, uint64_t op_a, uint64_t op_b, uint64_t op_d, bool scaled,
                    bool with_d) {
    static struct dense a, b, d, c;
    int rows = 45, inner = 31, columns = 57;
    struct matrix ma = random_matrix(p, op_a ? inner : rows, op_a ? rows : inner, 4, 1),
                  mb = random_matrix(p, op_b ? columns : inner, op_b ? inner : columns, 5, 2),
                  md = random_matrix(p, op_d ? columns : rows, op_d ? rows : columns, 9, 3);
    char alpha[16] = {0}, beta[16] = {0};
    struct gpumem_spgemm_csr *addend = with_d ? &md.csr : NULL;
    store_value(p, alpha, 0, 1.5 + 0.25 * I);
    store_value(p, beta, 0, -2.5 + I);
    ma.csr.operation = op_a;
    mb.csr.operation = op_b;
    md.csr.operation = op_d;
    if (scaled) {
        ma.csr.scale = alpha;
        md.csr.scale = beta;
    }
    for (int round = 0; round < 2; round++) {
        struct gpumem_spgemm_result found = {.struct_size = sizeof found};
        to_dense(&a, p, &ma.csr);
        to_dense(&b, p, &mb.csr);
        to_dense(&d, p, &md.csr);
        memset(&c, 0, sizeof c);
        if (with_d)
            c = d;
        add_product(p, &c, &a, &b);
        emulated_legacy_uses();
        worked(gpumem_spgemm_multiply_add(m, &ma.csr, &mb.csr, addend, NULL, round ? GPUMEM_SPGEMM_SAME_STRUCTURE : 0,
                                          STREAM, &found));
        assert_int_equal(emulated_legacy_uses(), 0);
        compare(p, &c, found.offsets, found.indices, found.values);
        for (int64_t k = 0; k < ma.csr.stored; k++)
            store_value(p, ma.values, k, random_value(77, (uint64_t)k));
    }
    /* The last values are new. */
    struct gpumem_spgemm_structure *structure;
    struct gpumem_spgemm_result sizes = {.struct_size = sizeof sizes};
    worked(gpumem_spgemm_symbolic(m, &ma.csr, &mb.csr, addend, GPUMEM_SPGEMM_CHECK, STREAM, &structure));
    worked(gpumem_spgemm_structure_result(structure, &sizes));
    struct gpumem_spgemm_output output = {.struct_size = sizeof output,
                                          .offsets = device_memory((size_t)(rows + 1) * 4),
                                          .indices = device_memory((size_t)sizes.stored * 4),
                                          .values = device_memory((size_t)sizes.stored * value_size(p)),
                                          .capacity = sizes.stored};
    worked(gpumem_spgemm_numeric(m, structure, &ma.csr, &mb.csr, addend, &output, 0, EMULATED_CAPTURING));
    to_dense(&a, p, &ma.csr);
    memset(&c, 0, sizeof c);
    if (with_d)
        c = d;
    add_product(p, &c, &a, &b);
    for (int round = 0; round < 2; round++) {
        memset(output.indices, 0xcd, (size_t)sizes.stored * 4);
        memset(output.values, 0xcd, (size_t)sizes.stored * value_size(p));
        emulated_replay();
        compare(p, &c, output.offsets, output.indices, output.values);
    }
    emulated_forget_graph();
    gpumem_spgemm_structure_destroy(structure, STREAM);
    cudaFree(output.offsets);
    cudaFree(output.indices);
    cudaFree(output.values);
    drop(&ma);
    drop(&mb);
    drop(&md);
}

TEST(sums_of_all_kinds) {
    for (precision p = 0; p <= LAST; p++) {
        struct gpumem_spgemm *m = multiplier_of(p, 0);
        for (uint64_t kind = 0; kind < 9; kind++)
            one_sum(m, p, kind % 3, kind / 3, 0, kind % 2, false);
        one_sum(m, p, 0, 0, 0, true, true);
        one_sum(m, p, 1, 2, 0, false, true);
        one_sum(m, p, 2, 0, 1, true, true);
        one_sum(m, p, 0, 1, 2, true, true);
        gpumem_spgemm_destroy(m);
    }
}

/* R A P, with R and without, and again with other values. */
TEST(triple_products) {
    static struct dense r, a, b, ra, c;
    for (precision p = 0; p <= LAST; p++) {
        size_t live = emulated_live();
        struct gpumem_spgemm *m = multiplier_of(p, 0);
        struct matrix mr = random_matrix(p, 20, 60, 6, 4), ma = random_matrix(p, 60, 60, 7, 5),
                      mp = random_matrix(p, 60, 25, 8, 6);
        for (int round = 0; round < 4; round++) {
            struct gpumem_spgemm_result found = {.struct_size = sizeof found};
            struct gpumem_spgemm_csr adjoint = mp.csr;
            bool given = round < 2;
            adjoint.operation = GPUMEM_SPGEMM_CONJUGATE;
            to_dense(&r, p, given ? &mr.csr : &adjoint);
            to_dense(&a, p, &ma.csr);
            to_dense(&b, p, &mp.csr);
            memset(&ra, 0, sizeof ra);
            memset(&c, 0, sizeof c);
            add_product(p, &ra, &r, &a);
            add_product(p, &c, &ra, &b);
            emulated_legacy_uses();
            worked(gpumem_spgemm_triple(m, given ? &mr.csr : NULL, &ma.csr, &mp.csr, NULL,
                                        round % 2 ? GPUMEM_SPGEMM_SAME_STRUCTURE : 0, STREAM, &found));
            assert_int_equal(emulated_legacy_uses(), 0);
            compare(p, &c, found.offsets, found.indices, found.values);
            assert_true(found.products > found.stored);
            for (int64_t k = 0; k < ma.csr.stored; k++)
                store_value(p, ma.values, k, random_value(78 + (uint64_t)round, (uint64_t)k));
        }
        struct gpumem_spgemm_result none = {.struct_size = sizeof none};
        refused(gpumem_spgemm_multiply(m, &ma.csr, &mp.csr, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE, STREAM, &none),
                GPUMEM_INVALID_VALUE, "no last product of this call");
        mp.csr.operation = GPUMEM_SPGEMM_TRANSPOSE;
        refused(gpumem_spgemm_triple(m, NULL, &ma.csr, &mp.csr, NULL, 0, STREAM, &none), GPUMEM_INVALID_VALUE,
                "must be there, and be plain");
        worked(gpumem_spgemm_trim(m));
        gpumem_spgemm_destroy(m);
        drop(&mr);
        drop(&ma);
        drop(&mp);
        assert_int_equal(emulated_live(), live);
    }
}

/* Turns the entries of each row around, and doubles some. */
static void shuffle(struct matrix *m, int rows) {
    int32_t from[LARGEST * LARGEST], begin[LARGEST + 1], at = 0;
    number value[LARGEST * LARGEST];
    int32_t stored = m->offsets[rows];
    memcpy(from, m->indices, (size_t)stored * sizeof *from);
    memcpy(begin, m->offsets, ((size_t)rows + 1) * sizeof *begin);
    for (int32_t k = 0; k < stored; k++)
        value[k] = stored_value(m->p, m->values, k);
    for (int i = 0; i < rows; i++) {
        for (int32_t k = begin[i + 1] - 1; k >= begin[i]; k--) {
            for (int copies = 0; copies < 1 + (k % 3 == 0); copies++) {
                m->indices[at] = from[k];
                store_value(m->p, m->values, at++, value[k]);
            }
        }
        m->offsets[i + 1] = at;
    }
    describe(m, rows, (int)m->csr.columns);
}

TEST(unsorted_rows) {
    static struct dense wanted;
    for (precision p = 0; p <= LAST; p++) {
        struct gpumem_spgemm *m = multiplier_of(p, 0);
        struct gpumem_spgemm_result found = {.struct_size = sizeof found}, none = {.struct_size = sizeof none};
        struct matrix a = random_matrix(p, 40, 40, 2, 8);
        for (int round = 0; round < 2; round++) {
            shuffle(&a, 40);
            refused(gpumem_spgemm_multiply(m, &a.csr, &a.csr, NULL, GPUMEM_SPGEMM_CHECK, STREAM, &none),
                    GPUMEM_INVALID_VALUE, "row 0 of A has columns that are out of range, unsorted or doubled");
            a.csr.operation = round ? GPUMEM_SPGEMM_CONJUGATE : GPUMEM_SPGEMM_PLAIN;
            to_dense(&wanted, p, &a.csr);
            for (int again = 0; again < 2; again++) {
                worked(gpumem_spgemm_sort(m, &a.csr, NULL, again ? GPUMEM_SPGEMM_SAME_STRUCTURE : 0, STREAM, &found));
                compare(p, &wanted, found.offsets, found.indices, found.values);
            }
            a.csr.operation = GPUMEM_SPGEMM_PLAIN;
            drop(&a);
            a = random_matrix(p, 40, 40, 2, 9);
        }
        /* A sorted matrix passes; wrong offsets and columns do not. */
        worked(gpumem_spgemm_multiply(m, &a.csr, &a.csr, NULL, GPUMEM_SPGEMM_CHECK, STREAM, &found));
        a.indices[a.offsets[8] - 1] = 40;
        refused(gpumem_spgemm_multiply(m, &a.csr, &a.csr, NULL, GPUMEM_SPGEMM_CHECK, STREAM, &none),
                GPUMEM_INVALID_VALUE, "row 7 of A has columns");
        a.offsets[3] = a.offsets[2] - 1;
        refused(gpumem_spgemm_multiply(m, &a.csr, &a.csr, NULL, GPUMEM_SPGEMM_CHECK, STREAM, &none),
                GPUMEM_INVALID_VALUE, "the offsets of A at row 2 do not ascend from 0 to ");
        gpumem_spgemm_destroy(m);
        drop(&a);
    }
}

/* Rows of at most 8 entries, whose products are merged in registers. */
TEST(short_rows) {
    static struct dense a, c;
    for (precision p = 0; p <= LAST; p++) {
        struct gpumem_spgemm *m = multiplier_of(p, 0);
        struct gpumem_spgemm_result found = {.struct_size = sizeof found};
        struct matrix square = random_matrix(p, 70, 70, 35, 12);
        for (int round = 0; round < 2; round++) {
            to_dense(&a, p, &square.csr);
            memset(&c, 0, sizeof c);
            add_product(p, &c, &a, &a);
            worked(gpumem_spgemm_multiply(m, &square.csr, &square.csr, NULL, round ? GPUMEM_SPGEMM_SAME_STRUCTURE : 0,
                                          STREAM, &found));
            compare(p, &c, found.offsets, found.indices, found.values);
            for (int64_t k = 0; k < square.csr.stored; k++)
                store_value(p, square.values, k, random_value(79, (uint64_t)k));
        }
        gpumem_spgemm_destroy(m);
        drop(&square);
    }
}

/* A row that exceeds the largest table: A has one row, and each row of B has an entry in every strip of `strip`
 * columns. */
static void long_row(precision p, int columns, int strip) {
    enum { INNER = 120 };
    int each = columns / strip;
    struct matrix a = random_matrix(p, 1, INNER, 1, 13), b = {.p = p};
    b.offsets = device_memory((INNER + 1) * sizeof(int32_t));
    b.indices = device_memory((size_t)(INNER * each) * sizeof(int32_t));
    b.values = device_memory((size_t)(INNER * each) * value_size(p));
    number *sum = calloc((size_t)columns, sizeof *sum);
    bool *there = calloc((size_t)columns, sizeof *there);
    b.offsets[0] = 0;
    for (int k = 0, at = 0; k < INNER; k++, b.offsets[k] = at)
        for (int i = 0; i < each; i++, at++) {
            int column = i * strip + (int)(spg_random_at(14, (uint64_t)at) % (uint64_t)strip);
            b.indices[at] = column;
            store_value(p, b.values, at, random_value(15, (uint64_t)at));
            number term = product_of(p, stored_value(p, a.values, k), stored_value(p, b.values, at));
            sum[column] = sum_of(p, there[column], sum[column], term);
            there[column] = true;
        }
    describe(&b, INNER, columns);
    struct gpumem_spgemm *m = multiplier_of(p, 0);
    struct gpumem_spgemm_result found = {.struct_size = sizeof found};
    worked(gpumem_spgemm_multiply(m, &a.csr, &b.csr, NULL, 0, STREAM, &found));
    int64_t at = 0;
    for (int j = 0; j < columns; j++) {
        if (!there[j])
            continue;
        assert_int_equal(found.indices[at], j);
        if (p != GPUMEM_SPGEMM_PATTERN)
            assert_true(cabs(stored_value(p, found.values, at) - sum[j]) < 1e-4);
        at++;
    }
    assert_int_equal(found.stored, at);
    gpumem_spgemm_destroy(m);
    free(sum);
    free(there);
    drop(&a);
    drop(&b);
}

/* By ranges of columns, and by sorting. */
TEST(long_rows) {
    for (precision p = 0; p <= LAST; p++) {
        long_row(p, 12000, 100);
        long_row(p, 3000000, 40000);
    }
}

TEST(wrong_matrices) {
    struct gpumem_spgemm *m = multiplier_of(GPUMEM_SPGEMM_DOUBLE, 0);
    struct gpumem_spgemm_result none = {.struct_size = sizeof none};
    struct matrix a = random_matrix(GPUMEM_SPGEMM_DOUBLE, 20, 30, 3, 8),
                  b = random_matrix(GPUMEM_SPGEMM_DOUBLE, 30, 10, 3, 9);
    refused(gpumem_spgemm_multiply_add(m, &a.csr, &b.csr, &a.csr, NULL, 0, STREAM, &none), GPUMEM_INVALID_VALUE,
            "D is 20 x 30, and A B is 20 x 10");
    a.csr.operation = 3;
    refused(gpumem_spgemm_multiply(m, &a.csr, &b.csr, NULL, 0, STREAM, &none), GPUMEM_INVALID_VALUE,
            "A has operation 3, not 0 (plain)");
    a.csr.operation = GPUMEM_SPGEMM_TRANSPOSE;
    refused(gpumem_spgemm_multiply(m, &a.csr, &b.csr, NULL, 0, STREAM, &none), GPUMEM_INVALID_VALUE,
            "A has 20 columns and B has 30 rows");
    b.csr.operation = GPUMEM_SPGEMM_TRANSPOSE;
    refused(gpumem_spgemm_multiply(m, &b.csr, &b.csr, NULL, GPUMEM_SPGEMM_WIDE, STREAM, &none), GPUMEM_INVALID_VALUE,
            "A has 30 columns and B has 10 rows");
    a.csr.operation = GPUMEM_SPGEMM_PLAIN;
    b.csr.operation = GPUMEM_SPGEMM_PLAIN;
    double two = 2;
    a.csr.scale = &two;
    refused(gpumem_spgemm_multiply(m, &a.csr, &b.csr, NULL, GPUMEM_SPGEMM_WIDE, STREAM, &none), GPUMEM_NOT_SUPPORTED,
            "64-bit offsets are for plain A and B");
    gpumem_spgemm_destroy(m);
    drop(&a);
    drop(&b);
}

int main(void) {
    emulated_driver_use();
    /* By tables, and by a sum for each column. */
    for (spg_narrow_columns = 0; spg_narrow_columns <= SPG_NARROW; spg_narrow_columns += SPG_NARROW) {
        int failed = run_all(NULL, NULL);
        if (failed)
            return failed;
    }
    return 0;
}

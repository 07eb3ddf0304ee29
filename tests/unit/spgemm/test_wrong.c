/* Matrices that hold other things than they should: what a check finds, and that no kernel leaves its arrays where
 * nothing is checked. Memory of the emulated device ends at a page that cannot be accessed. */
#include "emulated/driver.h"
#include "pair.h"

#include "spgemm/gpu_rows.h"
#include "spgemm/gpu_spread.h"
#include "spgemm/random.h"
#include "spgemm/wide.h"

#define STREAM ((cudaStream_t)9)

static void worked(enum gpumem_status status) {
    if (status)
        fail_msg("%s", gpumem_spgemm_last_error());
}

static struct pair make_pair(const char *name) {
    return pair_of(name, empty_or_generated(name), empty_or_generated(name), SPG_DOUBLE);
}

/* ---- checks */

/* Another column in row 0, which stays sorted. */
static void move_an_entry(struct pair *p, int by) { p->on_device[1].indices[p->b.offsets[1] - 1] += by; }

TEST(other_positions_in_the_same_structure) {
    const uint64_t check = GPUMEM_SPGEMM_CHECK, same = GPUMEM_SPGEMM_CHECK | GPUMEM_SPGEMM_SAME_STRUCTURE;
    struct pair p = make_pair("cage:5");
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    const struct gpumem_spgemm_csr *a = &p.first, *b = &p.second;
    for (int added = 0; added < 2; added++) {
        const struct gpumem_spgemm_csr *d = added ? a : NULL;
        worked(gpumem_spgemm_multiply_add(m, a, b, d, NULL, 0, STREAM, &c));
        refused(gpumem_spgemm_multiply_add(m, a, b, d, NULL, same, STREAM, &c), GPUMEM_INVALID_VALUE,
                "the last product was not checked, so its positions are not known");
        worked(gpumem_spgemm_multiply_add(m, a, b, d, NULL, check, STREAM, &c));
        worked(gpumem_spgemm_multiply_add(m, a, b, d, NULL, same & ~check, STREAM, &c));
        worked(gpumem_spgemm_multiply_add(m, a, b, d, NULL, same, STREAM, &c));
        move_an_entry(&p, 1);
        refused(gpumem_spgemm_multiply_add(m, a, b, d, NULL, same, STREAM, &c), GPUMEM_INVALID_VALUE,
                "B has other positions than in the last product");
        refused(gpumem_spgemm_multiply_add(m, a, b, d, NULL, same, STREAM, &c), GPUMEM_INVALID_VALUE,
                "there is no last product");
        move_an_entry(&p, -1);
    }
    worked(gpumem_spgemm_triple(m, NULL, a, b, NULL, check, STREAM, &c));
    worked(gpumem_spgemm_triple(m, NULL, a, b, NULL, same, STREAM, &c));
    move_an_entry(&p, 1);
    refused(gpumem_spgemm_triple(m, NULL, a, b, NULL, same, STREAM, &c), GPUMEM_INVALID_VALUE,
            "A has other positions than in the last product");
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

/* The matrix with 64-bit offsets. */
static struct gpumem_spgemm_csr widened(const struct gpumem_spgemm_csr *m) {
    struct gpumem_spgemm_csr wide = *m;
    int64_t *offsets;
    assert_int_equal(cudaMalloc((void **)&offsets, ((size_t)m->rows + 1) * sizeof *offsets), cudaSuccess);
    for (int64_t i = 0; i <= m->rows; i++)
        offsets[i] = m->offsets[i];
    wide.offsets = NULL;
    wide.wide_offsets = offsets;
    return wide;
}

TEST(wide_offsets_are_checked) {
    const uint64_t flags = GPUMEM_SPGEMM_CHECK | GPUMEM_SPGEMM_WIDE;
    struct pair p = make_pair("cage:5");
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    struct gpumem_spgemm_csr a = widened(&p.first), b = widened(&p.second);
    int64_t *offsets = (int64_t *)b.wide_offsets;
    worked(gpumem_spgemm_multiply(m, &a, &b, NULL, flags, STREAM, &c));
    worked(gpumem_spgemm_multiply(m, &p.first, &b, NULL, flags, STREAM, &c));
    move_an_entry(&p, 100);
    refused(gpumem_spgemm_multiply(m, &a, &b, NULL, flags, STREAM, &c), GPUMEM_INVALID_VALUE,
            "row 0 of B has columns that are out of range, unsorted or doubled");
    move_an_entry(&p, -100);
    offsets[3] += (int64_t)1 << 40;
    refused(gpumem_spgemm_multiply(m, &a, &b, NULL, flags, STREAM, &c), GPUMEM_INVALID_VALUE,
            "the offsets of B at row 2 do not ascend from 0 to 233");
    cudaFree(offsets);
    cudaFree((void *)a.wide_offsets);
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

/* ---- wrong matrices that nobody checks */

static void *device_memory(size_t size) {
    void *at;
    assert_int_equal(cudaMalloc(&at, size ? size : 8), cudaSuccess);
    return at;
}

struct matrix {
    struct gpumem_spgemm_csr csr;
    int32_t *offsets, *indices;
    int64_t *wide;
    char *values;
};

/* Rows of `each` entries, `alike` of equal pattern one behind the other. */
static struct matrix rows_of(int rows, int columns, int each, int alike, size_t value_size, uint64_t seed) {
    struct matrix m;
    size_t stored = (size_t)rows * (size_t)each;
    m.offsets = device_memory(((size_t)rows + 1) * sizeof *m.offsets);
    m.wide = device_memory(((size_t)rows + 1) * sizeof *m.wide);
    m.indices = device_memory(stored * sizeof *m.indices);
    m.values = device_memory(stored * value_size);
    memset(m.values, 0, stored * value_size);
    for (int i = 0; i <= rows; i++)
        m.wide[i] = m.offsets[i] = i * each;
    for (int i = 0; i < rows; i++) {
        int first = (int)(spg_random_at(seed, (uint64_t)(i / alike)) % (uint64_t)(columns - each + 1));
        for (int k = 0; k < each; k++)
            m.indices[i * each + k] = first + k;
    }
    m.csr = (struct gpumem_spgemm_csr){.struct_size = sizeof m.csr,
                                       .rows = rows,
                                       .columns = columns,
                                       .stored = (int64_t)stored,
                                       .offsets = m.offsets,
                                       .indices = m.indices,
                                       .values = m.values};
    return m;
}

static void drop(struct matrix *m) {
    cudaFree(m->offsets);
    cudaFree(m->wide);
    cudaFree(m->indices);
    cudaFree(m->values);
}

/* What is wrong with a matrix. */
enum {
    UNSORTED,
    DOUBLED,
    OUT_OF_RANGE,
    NEGATIVE,
    ANY_COLUMN,
    HUGE_OFFSET,
    NEGATIVE_OFFSET,
    DESCENDING,
    ANY_OFFSET,
    KINDS
};

static void spoil(struct matrix *m, int kind, uint64_t seed) {
    int32_t stored = (int32_t)m->csr.stored, rows = (int32_t)m->csr.rows, columns = (int32_t)m->csr.columns;
    for (int32_t k = 0; k < stored; k++) {
        uint64_t chance = spg_random_at(seed, (uint64_t)k);
        int32_t any = (int32_t)(chance >> 32);
        if (kind == UNSORTED)
            m->indices[k] = (int32_t)(chance % (uint64_t)columns);
        else if (kind == DOUBLED)
            m->indices[k] = m->indices[k / 3 * 3];
        else if (chance % 4 == 0 && kind < HUGE_OFFSET)
            m->indices[k] = kind == OUT_OF_RANGE ? columns + any % 1000 + 1000
                            : kind == NEGATIVE   ? -(any & INT32_MAX) - 1
                            : kind == ANY_COLUMN ? any
                                                 : m->indices[k];
    }
    for (int32_t i = 0; i <= rows && kind >= HUGE_OFFSET; i++) {
        uint64_t chance = spg_random_at(seed + 1, (uint64_t)i);
        int32_t any = (int32_t)(chance >> 32);
        if (kind == DESCENDING)
            m->offsets[i] = (int32_t)(chance % (uint64_t)(stored + 1));
        else if (chance % 4 == 0)
            m->offsets[i] = kind == HUGE_OFFSET       ? stored + (any & INT32_MAX) / 2
                            : kind == NEGATIVE_OFFSET ? -(any & INT32_MAX) - 1
                                                      : any;
        m->wide[i] = kind == ANY_OFFSET ? (int64_t)any << 20 : m->offsets[i];
    }
}

/* Shapes of products: which kernels compute them. */
static const struct {
    const char *name;
    int rows, inner, columns, each_a, each_b;
} shapes[] = {
    {"short rows", 40, 50, 1000, 5, 6},
    {"small tables", 12, 30, 2000, 9, 10},
    {"tables of a warp", 6, 40, 9000, 15, 20},
    {"tables of blocks", 2, 50, 30000, 30, 50},
    {"wide tables", 6, 40, 40000000, 15, 20},
    {"few columns", 12, 30, 70, 9, 10},
    {"few columns, long rows", 2, 200, 500, 150, 5},
    {"ranges", 2, 60, 250000, 50, 60},
    {"many ranges", 2, 90, 1200000, 80, 100},
    {"sorted rows", 2, 90, 8000000, 80, 100},
};

/* Products of every kind of call. Whatever they answer, no kernel may end the test. */
static void multiply_all(uint64_t p, const struct matrix *a, const struct matrix *b, const struct matrix *right_a,
                         const struct matrix *right_b) {
    struct gpumem_spgemm *m = multiplier_of(p, 0);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    struct gpumem_spgemm_needs w = {.struct_size = sizeof w};
    struct gpumem_spgemm_structure *s;
    struct gpumem_spgemm_csr turned_a = a->csr, turned_b = b->csr, wide_a = a->csr, wide_b = b->csr;
    turned_a.operation = turned_b.operation = GPUMEM_SPGEMM_TRANSPOSE;
    wide_a.offsets = wide_b.offsets = NULL;
    wide_a.wide_offsets = a->wide;
    wide_b.wide_offsets = b->wide;
    gpumem_spgemm_multiply(m, &a->csr, &b->csr, NULL, 0, STREAM, &c);
    gpumem_spgemm_multiply(m, &a->csr, &b->csr, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE, STREAM, &c);
    gpumem_spgemm_workspace(m, &a->csr, &b->csr, STREAM, &w);
    gpumem_spgemm_multiply(m, &wide_a, &wide_b, NULL, GPUMEM_SPGEMM_WIDE, STREAM, &c);
    gpumem_spgemm_multiply(m, &a->csr, &wide_b, NULL, GPUMEM_SPGEMM_WIDE, STREAM, &c);
    if (a->csr.columns < 1000 && b->csr.columns < 100000) {
        gpumem_spgemm_multiply_add(m, &turned_b, &turned_a, NULL, NULL, 0, STREAM, &c);
        gpumem_spgemm_sort(m, &b->csr, NULL, 0, STREAM, &c);
        gpumem_spgemm_triple(m, NULL, &a->csr, &b->csr, NULL, 0, STREAM, &c);
    }
    /* Counted, then computed from right matrices and from wrong ones. */
    for (int counted = 0; counted < 2; counted++) {
        const struct matrix *first = counted ? right_a : a, *second = counted ? right_b : b;
        if (gpumem_spgemm_symbolic(m, &first->csr, &second->csr, NULL, 0, STREAM, &s))
            continue;
        worked(gpumem_spgemm_structure_result(s, &c));
        struct gpumem_spgemm_output o = {.struct_size = sizeof o,
                                         .offsets = device_memory((size_t)(c.rows + 1) * 4),
                                         .indices = device_memory((size_t)c.stored * 4),
                                         .values = device_memory((size_t)c.stored * 16),
                                         .capacity = c.stored};
        for (int i = 0; i < 4; i++)
            gpumem_spgemm_numeric(m, s, i % 2 ? &right_a->csr : &a->csr, i / 2 ? &right_b->csr : &b->csr, NULL, &o, 0,
                                  STREAM);
        gpumem_spgemm_multiply(m, &first->csr, &second->csr, &o, 0, STREAM, &c);
        gpumem_spgemm_multiply(m, &a->csr, &b->csr, &o, GPUMEM_SPGEMM_SAME_STRUCTURE, STREAM, &c);
        gpumem_spgemm_structure_destroy(s, STREAM);
        cudaFree(o.offsets);
        cudaFree(o.indices);
        cudaFree(o.values);
    }
    gpumem_spgemm_destroy(m);
}

static void spoiled(size_t shape, uint64_t p, int kind, int which, uint64_t seed) {
    int each_a = shapes[shape].each_a, each_b = shapes[shape].each_b,
        alike = kind % 2 || p == GPUMEM_SPGEMM_PATTERN ? 1 : 3;
    size_t size = p == GPUMEM_SPGEMM_COMPLEX_DOUBLE ? 16 : p == GPUMEM_SPGEMM_FLOAT ? 4 : 8;
    struct matrix m[4];
    for (int i = 0; i < 4; i++)
        m[i] = i % 2 ? rows_of(shapes[shape].inner, shapes[shape].columns, each_b, alike, size, seed)
                     : rows_of(shapes[shape].rows, shapes[shape].inner, each_a, alike, size, seed + 7);
    for (int i = 0; i < 2; i++)
        if (which >> i & 1)
            spoil(&m[i], kind, seed + (uint64_t)i);
    multiply_all(p, &m[0], &m[1], &m[2], &m[3]);
    for (int i = 0; i < 4; i++)
        drop(&m[i]);
}

/* The layouts of C: counted first, and growing. */
TEST(no_kernel_leaves_its_arrays) {
    for (size_t shape = 0; shape < sizeof shapes / sizeof shapes[0]; shape++)
        for (int kind = 0; kind < KINDS; kind++) {
            int which = 1 + (kind + (int)shape) % 3;
            uint64_t p = ((uint64_t)kind + shape / 2) % 5;
            if (getenv("WRONG_VERBOSE"))
                fprintf(stderr, "%s, kind %d, matrices %d, precision %d\n", shapes[shape].name, kind, which, (int)p);
            spoiled(shape, p, kind, which, (uint64_t)kind * 31 + shape);
        }
}

int main(void) {
    emulated_driver_use();
    return run_all(NULL, NULL);
}

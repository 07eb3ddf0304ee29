/* Products of short rows in one pass, on an emulated device. Every product is compared with its definition. */
#include "emulated/driver.h"
#include "emulated/look_back.h"
#include "pair.h"

#include "spgemm/multiplier.h"

/* Row i has (i x step) % (most + 1) entries, so every kind of length occurs, 0 too. */
static struct spg_csr uneven(int32_t rows, int32_t columns, int32_t most, int32_t step) {
    struct spg_error error;
    struct spg_csr m;
    int32_t at = 0, stored = 0;
    for (int32_t i = 0; i < rows; i++)
        stored += i * step % (most + 1);
    assert_true(spg_csr_make(&m, rows, columns, stored, &error));
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t k = 0; k < i * step % (most + 1); k++)
            m.indices[at++] = i * 5 % (columns / 2) + k * (columns / 2 / most);
        m.offsets[i + 1] = at;
    }
    spg_csr_fill(&m, 21);
    return m;
}

/* Rows `first` to `first` + 3 have one entry each, in column `column`; the others have none. */
static struct spg_csr lonely(int32_t rows, int32_t columns, int32_t first, int32_t column) {
    struct spg_error error;
    struct spg_csr m;
    assert_true(spg_csr_make(&m, rows, columns, 4, &error));
    for (int32_t i = 0; i < rows; i++)
        m.offsets[i + 1] = i < first ? 0 : i < first + 4 ? i - first + 1 : 4;
    for (int k = 0; k < 4; k++)
        m.indices[k] = column;
    spg_csr_fill(&m, 22);
    return m;
}

/* The same matrix; its row `row` has one entry more, and the row after it one less. */
static struct spg_csr moved_entry(const struct spg_csr *m, int32_t row) {
    struct spg_error error;
    struct spg_csr moved;
    int32_t stored = (int32_t)spg_csr_stored(m);
    assert_true(spg_csr_make(&moved, m->rows, m->columns, stored, &error));
    memcpy(moved.offsets, m->offsets, ((size_t)m->rows + 1) * sizeof *m->offsets);
    memcpy(moved.indices, m->indices, (size_t)stored * sizeof *m->indices);
    memcpy(moved.values, m->values, (size_t)stored * sizeof *m->values);
    moved.offsets[row + 1]++;
    for (int32_t k = m->offsets[row]; k < moved.offsets[row + 1]; k++)
        moved.indices[k] = k - m->offsets[row];
    assert_true(spg_csr_valid(&moved, &error));
    return moved;
}

/* Multiplies, and checks C and whether the rows were taken in one pass. */
static struct gpumem_spgemm_result multiplied(struct gpumem_spgemm *m, const struct pair *p, uint64_t flags,
                                              const struct gpumem_spgemm_output *output, bool one_pass) {
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    if (gpumem_spgemm_multiply(m, &p->first, &p->second, output, flags, NULL, &c))
        fail_msg("%s: %s", p->name, gpumem_spgemm_last_error());
    check_result(p, spg_result_at(c.rows, c.columns, c.stored, c.offsets, c.indices, c.values));
    int64_t products = 0;
    for (int32_t i = 0; i < p->a.rows; i++)
        products += spg_row_bound(&p->a, &p->b, i);
    assert_int_equal(c.products, products);
    assert_int_equal(!m->product.work.block.at, one_pass);
    return c;
}

static void cold_warm_and_same(struct spg_csr a, struct spg_csr b, enum spg_precision precision) {
    size_t live = emulated_live();
    struct pair p = pair_of("short", a, b, precision);
    struct gpumem_spgemm *m = multiplier_of(precision, 0);
    struct gpumem_spgemm_result cold = multiplied(m, &p, 0, NULL, true);
    emulated_fail(0);
    struct gpumem_spgemm_result warm = multiplied(m, &p, 0, NULL, true);
    multiplied(m, &p, GPUMEM_SPGEMM_SAME_STRUCTURE, NULL, true);
    assert_int_equal(emulated_allocations(), 0);
    assert_int_equal(warm.stored, cold.stored);
    assert_int_equal(gpumem_spgemm_trim(m), GPUMEM_OK);
    multiplied(m, &p, 0, NULL, true);
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
    assert_int_equal(emulated_live(), live);
}

static void all_matrices(void) {
    for (enum spg_precision precision = SPG_DOUBLE; precision <= SPG_FLOAT; precision++) {
        cold_warm_and_same(generated("stencil7:1x1x1"), generated("stencil7:1x1x1"), precision);
        cold_warm_and_same(generated("stencil7:8x4x3"), generated("stencil7:8x4x3"), precision);
        cold_warm_and_same(generated("stencil7:11x7x5"), generated("stencil7:11x7x5"), precision);
        cold_warm_and_same(uneven(33, 500, 8, 1), uneven(500, 70, 8, 5), precision);
        cold_warm_and_same(uneven(95, 40, 8, 7), uneven(40, 3000, 8, 2), precision);
        cold_warm_and_same(lonely(70, 50, 66, 49), lonely(50, 5, 46, 4), precision);
        /* A meets only empty rows of B. */
        cold_warm_and_same(lonely(70, 50, 3, 7), lonely(50, 5, 20, 0), precision);
    }
}

TEST(every_shape) { all_matrices(); }

/* C exceeds the memory for the first pass, in the first tile or later; halves are mapped one after the other. */
TEST(too_little_memory) {
    struct spg_short_settings usual = spg_short_settings;
    static const int64_t capacities[] = {0, 1, 20, 200, 2000};
    for (int halves = 0; halves < 2; halves++) {
        spg_short_settings.halving_entries = halves ? 0 : usual.halving_entries;
        for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
            spg_short_settings.capacity = capacities[i];
            all_matrices();
        }
        spg_short_settings.capacity = usual.capacity;
        all_matrices();
    }
    spg_short_settings = usual;
}

/* Matrices of the same sizes, one of which has a row that is too long, of A or of B. */
TEST(sizes_do_not_tell) {
    struct pair p = pair_of("short", uneven(99, 90, 8, 2), uneven(90, 99, 8, 2), SPG_DOUBLE);
    struct pair q = pair_of("long row of A", moved_entry(&p.a, 76), uneven(90, 99, 8, 2), SPG_DOUBLE);
    struct pair r = pair_of("long row of B", uneven(99, 90, 8, 2), moved_entry(&p.b, 40), SPG_DOUBLE);
    struct pair *pairs[] = {&q, &r};
    for (int i = 0; i < 2; i++) {
        struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
        multiplied(m, &p, 0, NULL, true);
        multiplied(m, pairs[i], 0, NULL, false);
        multiplied(m, pairs[i], GPUMEM_SPGEMM_SAME_STRUCTURE, NULL, false);
        multiplied(m, &p, 0, NULL, false);
        gpumem_spgemm_destroy(m);
        m = multiplier_of(SPG_DOUBLE, 0);
        multiplied(m, pairs[i], 0, NULL, false);
        gpumem_spgemm_destroy(m);
        drop_pair(pairs[i]);
    }
    drop_pair(&p);
}

/* Rows are counted first for memory of the caller, and written by the offsets of C. */
TEST(into_arrays) {
    struct pair p = pair_of("stencil", generated("stencil7:7x5x3"), uneven(105, 300, 8, 5), SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct spg_memory uncounted = {0};
    struct spg_block arrays[3];
    struct spg_error error = {""};
    int64_t capacity = multiplied(m, &p, 0, NULL, true).stored;
    assert_true(spg_block_make(&arrays[0], &uncounted, ((size_t)p.a.rows + 1) * 4, "a test", &error) &&
                spg_block_make(&arrays[1], &uncounted, (size_t)capacity * 4, "a test", &error) &&
                spg_block_make(&arrays[2], &uncounted, (size_t)capacity * 8, "a test", &error));
    struct gpumem_spgemm_output output = {.struct_size = sizeof output,
                                          .offsets = arrays[0].at,
                                          .indices = arrays[1].at,
                                          .values = arrays[2].at,
                                          .capacity = capacity};
    for (int own_first = 0; own_first < 2; own_first++) {
        if (own_first)
            multiplied(m, &p, 0, NULL, true);
        else
            multiplied(m, &p, 0, &output, false);
        memset(arrays[1].at, 0, (size_t)capacity * 4);
        memset(arrays[2].at, 0, (size_t)capacity * 8);
        assert_ptr_equal(multiplied(m, &p, GPUMEM_SPGEMM_SAME_STRUCTURE, &output, own_first).values, arrays[2].at);
    }
    gpumem_spgemm_destroy(m);
    for (int i = 0; i < 3; i++)
        spg_block_drop(&arrays[i], &uncounted);
    drop_pair(&p);
}

/* A C that is expected to exceed 32-bit offsets is left to methods that count first, and refused there. */
TEST(too_many_entries) {
    struct spg_product_settings usual = spg_product_settings;
    struct pair p = pair_of("stencil", generated("stencil7:7x5x3"), generated("stencil7:7x5x3"), SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct spg_error error = {""};
    spg_product_settings.entries = 1000;
    multiplied(m, &p, 0, NULL, false);
    spg_product_settings = usual;
    multiplied(m, &p, 0, NULL, true);
    assert_true(spg_result_fits(INT32_MAX, &error));
    assert_false(spg_result_fits((int64_t)INT32_MAX + 1, &error));
    assert_string_equal(error.text, "C has 2147483648 entries, and 32-bit offsets end at 2147483647");
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

#define TILES 1000

/* Every `sums`-th tile publishes an offset, every `late`-th tile publishes its sum late. */
TEST(look_back) {
    static const int64_t counts[] = {0, 1, 31, 32, 33, 127, 128, 129, 500, TILES};
    static const int64_t every[] = {1, 2, 31, 32, 33, 130, TILES + 1};
    int64_t sum[TILES];
    enum emulated_tile tile[TILES];
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (size_t o = 0; o < sizeof every / sizeof every[0]; o++) {
            for (size_t l = 0; l < sizeof every / sizeof every[0]; l++) {
                int64_t wanted = 0;
                for (int64_t i = 0; i < counts[c]; i++) {
                    sum[i] = i % 7 ? (int64_t)1 << (i % 40) : 0;
                    tile[i] = i % every[o] == every[o] - 1   ? EMULATED_OFFSET
                              : i % every[l] == every[l] - 1 ? EMULATED_LATE
                                                             : EMULATED_SUM;
                    wanted += sum[i];
                }
                assert_int_equal(emulated_look_back(counts[c], sum, tile), wanted);
            }
        }
    }
}

int main(void) {
    emulated_driver_use();
    spg_narrow_columns = 0; /* so that small matrices reach the other kernels */
    return run_all(NULL, NULL);
}

/* The calls of spgemm.h on an emulated device. Every product is compared with its definition. */
#include "emulated/driver.h"
#include "pair.h"

#include "spgemm/check.h"
#include "spgemm/check_sums.h"
#include "spgemm/gpu_product.h"
#include "spgemm/gpu_spread.h"
#include "spgemm/modes.h"
#include "spgemm/multiplier.h"
#include "spgemm/wide.h"

/* Host memory fails by the same counter, once a test has switched it on. */
static bool host_fails;
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size) { return host_fails && emulated_fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) {
    return host_fails && emulated_fails() ? NULL : __real_calloc(count, size);
}

/* A and B whose product has rows of 12000 entries, which exceed the largest table. */
#define WIDE_TERMS 40
#define WIDE_RUN   300
static struct spg_csr wide(bool is_a) {
    struct spg_error error;
    struct spg_csr m;
    int32_t rows = is_a ? 3 : WIDE_TERMS, each = is_a ? WIDE_TERMS : WIDE_RUN;
    assert_true(spg_csr_make(&m, rows, is_a ? WIDE_TERMS : WIDE_TERMS * WIDE_RUN, rows * each, &error));
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t k = 0; k < each; k++)
            m.indices[i * each + k] = is_a ? k : k * WIDE_TERMS + i;
        m.offsets[i + 1] = (i + 1) * each;
    }
    spg_csr_fill(&m, 3);
    return m;
}

/* A and B whose product has rows that are computed by ranges and one that is sorted. */
#define APART_ROWS 24
#define APART_RUN  1000
#define APART_STEP 2300
static struct spg_csr apart(bool is_a) {
    static const int32_t terms[] = {APART_ROWS, 7, APART_ROWS, APART_ROWS};
    struct spg_error error;
    struct spg_csr m;
    int32_t rows = is_a ? 4 : APART_ROWS, columns = is_a ? APART_ROWS : APART_RUN * APART_STEP, at = 0;
    assert_true(spg_csr_make(&m, rows, columns, is_a ? 3 * APART_ROWS + 7 : APART_ROWS * APART_RUN, &error));
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t k = 0; k < (is_a ? terms[i] : APART_RUN); k++)
            m.indices[at++] = is_a ? k : k * APART_STEP + i;
        m.offsets[i + 1] = at;
    }
    spg_csr_fill(&m, 25);
    return m;
}

static struct spg_csr matrix(const char *name) {
    if (!strncmp(name, "wide-", 5))
        return wide(name[5] == 'a');
    if (!strncmp(name, "apart-", 6))
        return apart(name[6] == 'a');
    return empty_or_generated(name);
}

static struct pair make_pair(const char *a, const char *b, enum spg_precision precision) {
    return pair_of(a, matrix(a), matrix(b), precision);
}

/* Gives A other values, at the same positions. */
static void change_values(struct pair *p, uint64_t seed) {
    int64_t stored = spg_csr_stored(&p->a);
    spg_csr_fill(&p->a, seed);
    if (p->precision == SPG_FLOAT)
        spg_csr_round_to_float(&p->a);
    for (int64_t k = 0; k < stored; k++) {
        if (p->precision == SPG_FLOAT)
            ((float *)p->on_device[0].values)[k] = (float)p->a.values[k];
        else
            ((double *)p->on_device[0].values)[k] = p->a.values[k];
    }
}

static void check_product(const struct pair *p, const struct gpumem_spgemm_result *c) {
    check_result(p, spg_result_at(c->rows, c->columns, c->stored, c->offsets, c->indices, c->values));
}

static struct gpumem_spgemm_result multiplied(struct gpumem_spgemm *m, const struct pair *p,
                                              const struct gpumem_spgemm_output *output, uint64_t flags) {
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    if (gpumem_spgemm_multiply(m, &p->first, &p->second, output, flags, NULL, &c))
        fail_msg("%s: %s", p->name, gpumem_spgemm_last_error());
    check_product(p, &c);
    return c;
}

/* A cold call, a warm one and one of the same structure; the last two allocate nothing. */
static void all_kinds_of(struct pair p) {
    struct gpumem_spgemm *m = multiplier_of(p.precision, 0);
    struct gpumem_spgemm_needs w = {.struct_size = sizeof w};
    assert_int_equal(gpumem_spgemm_workspace(m, &p.first, &p.second, NULL, &w), GPUMEM_OK);
    struct gpumem_spgemm_result cold = multiplied(m, &p, NULL, 0);
    assert_int_equal(w.products, cold.products);
    assert_true(cold.peak >= w.helpers && w.helpers > 0 && w.expected <= w.products);
    multiplied(m, &p, NULL, 0);
    emulated_fail(0);
    struct gpumem_spgemm_result warm = multiplied(m, &p, NULL, 0);
    change_values(&p, 99);
    struct gpumem_spgemm_result same = multiplied(m, &p, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE);
    if (emulated_allocations())
        fail_msg("%s: %zu allocations in warm calls", p.name, emulated_allocations());
    assert_int_equal(warm.stored, cold.stored);
    assert_ptr_equal(same.indices, warm.indices);
    assert_ptr_equal(same.values, warm.values);
    /* C survives a trim, which leaves nothing else. */
    assert_int_equal(gpumem_spgemm_trim(m), GPUMEM_OK);
    check_product(&p, &same);
    multiplied(m, &p, NULL, 0);
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

static void all_kinds(const char *a, const char *b, enum spg_precision precision) {
    size_t live = emulated_live();
    all_kinds_of(make_pair(a, b, precision));
    assert_int_equal(emulated_live(), live);
}

static void all_matrices(void) {
    static const char *names[][2] = {{"stencil7:1x1x1", "stencil7:1x1x1"},
                                     {"empty:5x5", "empty:5x5"},
                                     {"empty:0x0", "empty:0x0"},
                                     {"empty:4x0", "empty:0x3"},
                                     {"cage:5", "cage:5"},
                                     {"stencil7:7x5x3", "stencil7:7x5x3"},
                                     {"rmat:7:12", "rmat:7:8"},
                                     {"brick27:3:2", "brick27:3:2"},
                                     {"wide-a", "wide-b"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        all_kinds(names[i][0], names[i][1], SPG_DOUBLE);
        all_kinds(names[i][0], names[i][1], SPG_FLOAT);
    }
}

TEST(cold_warm_and_same) { all_matrices(); }

TEST(counted_first) {
    struct spg_product_settings usual = spg_product_settings;
    spg_product_settings.long_row = 0;
    all_matrices();
    spg_product_settings = (struct spg_product_settings){INT64_MAX, 0};
    all_matrices();
    spg_product_settings = usual;
}

/* Rows by ranges are computed beside sorted ones, and use no memory that those still use. */
TEST(ranges_beside_sorted_rows) {
    struct pair p = make_pair("apart-a", "apart-b", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    emulated_behind = true;
    for (int i = 0; i < 2; i++) {
        multiplied(m, &p, NULL, 0);
        multiplied(m, &p, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE);
    }
    emulated_behind = false;
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

/* Only a product that was counted is planned. */
static bool is_counted(const char *a, const char *b) {
    struct pair p = make_pair(a, b, SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    multiplied(m, &p, NULL, 0);
    bool counted = m->product.work.planned;
    multiplied(m, &p, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE);
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
    return counted;
}

TEST(rows_that_hardly_merge_are_short_or_alike_are_counted) {
    struct spg_product_settings usual = spg_product_settings;
    assert_false(is_counted("wide-a", "wide-b")); /* each product is an entry, but C is small */
    assert_false(is_counted("cage:5", "cage:5"));
    spg_product_settings.many_products = 0;
    assert_true(is_counted("wide-a", "wide-b"));
    assert_true(is_counted("cage:5", "cage:5"));           /* its rows have 25 entries */
    assert_true(is_counted("brick27:4:3", "brick27:4:3")); /* rows of a node are alike */
    assert_false(is_counted("brick27:6:1", "brick27:6:1"));
    spg_product_settings = usual;
}

/* For the intermediate products, the sample, the bins, and the sizes of C's rows. */
TEST(host_waits_four_times) {
    struct spg_product_settings usual = spg_product_settings;
    struct pair p = make_pair("brick27:4:3", "brick27:4:3", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    for (int counts = 0; counts < 2; counts++) {
        struct gpumem_spgemm_result c = {.struct_size = sizeof c};
        spg_product_settings.long_row = counts ? 0 : usual.long_row;
        emulated_waits();
        assert_int_equal(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, 0, NULL, &c), GPUMEM_OK);
        assert_int_equal(emulated_waits(), 4);
    }
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
    spg_product_settings = usual;
}

/* One multiplier for matrices of different sizes: larger, smaller, and back; then the same in slabs. */
static void different_sizes_in(int64_t slab_entries) {
    struct spg_spread_settings usual = spg_spread_settings;
    size_t live = emulated_live();
    spg_spread_settings.slab_entries = slab_entries;
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    static const char *names[] = {"cage:5",   "brick27:4:3", "stencil7:7x5x3", "empty:0x0",
                                  "rmat:8:8", "cage:5",      "brick27:4:3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct pair p = make_pair(names[i], names[i], SPG_DOUBLE);
        multiplied(m, &p, NULL, 0);
        multiplied(m, &p, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE);
        drop_pair(&p);
    }
    gpumem_spgemm_destroy(m);
    assert_int_equal(emulated_live(), live);
    spg_spread_settings = usual;
}

TEST(different_sizes) {
    different_sizes_in(spg_spread_settings.slab_entries);
    different_sizes_in(50);
}

/* Most rows have `each` entries, every 40th has as many as there are columns, and every 40th has none. */
static struct spg_csr uneven(int32_t rows, int32_t columns, int32_t each) {
    struct spg_error error;
    struct spg_csr m;
    int32_t long_rows = (rows + 39) / 40, empty = (rows + 19) / 40;
    assert_true(spg_csr_make(&m, rows, columns, long_rows * columns + (rows - long_rows - empty) * each, &error));
    for (int32_t i = 0; i < rows; i++) {
        int32_t here = i % 40 == 0 ? columns : i % 40 == 20 ? 0 : each;
        for (int32_t k = 0; k < here; k++)
            m.indices[m.offsets[i] + k] = here == columns ? k : i % (columns / each) + k * (columns / each);
        m.offsets[i + 1] = m.offsets[i] + here;
    }
    spg_csr_fill(&m, 23);
    assert_true(spg_csr_valid(&m, &error));
    return m;
}

/* A sum for each column. The widths need all sizes of teams, and long rows are shared by the teams of a block. */
TEST(few_columns) {
    static const int32_t widths[] = {1, 5, 64, 130, 300, SPG_NARROW};
    spg_narrow_columns = SPG_NARROW;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        all_kinds_of(
            pair_of("tall", uneven(90, 1500, 9), uneven(1500, widths[i], widths[i] < 12 ? 1 : 12), SPG_DOUBLE));
    all_kinds("brick27:6:1", "brick27:6:1", SPG_DOUBLE); /* rows of several chunks */
    all_matrices();
    different_sizes(state);
    spg_narrow_columns = 0;
}

/* For the sizes of C's rows. */
TEST(few_columns_need_one_wait) {
    struct pair p = make_pair("brick27:4:3", "brick27:4:3", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    spg_narrow_columns = SPG_NARROW;
    emulated_waits();
    assert_int_equal(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, 0, NULL, &c), GPUMEM_OK);
    assert_int_equal(emulated_waits(), 1);
    spg_narrow_columns = 0;
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

/* Two multipliers do not share anything. */
TEST(two_multipliers) {
    struct pair p = make_pair("cage:5", "cage:5", SPG_DOUBLE), q = make_pair("rmat:7:8", "rmat:7:8", SPG_FLOAT);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0), *n = multiplier_of(SPG_FLOAT, 0);
    struct gpumem_spgemm_result c = multiplied(m, &p, NULL, 0);
    for (int i = 0; i < 2; i++) {
        struct gpumem_spgemm_result d = multiplied(n, &q, NULL, 0);
        check_product(&q, &d);
    }
    check_product(&p, &c);
    gpumem_spgemm_destroy(n);
    check_product(&p, &c);
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
    drop_pair(&q);
}

TEST(into_arrays) {
    struct pair p = make_pair("rmat:7:8", "rmat:7:8", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result wanted = multiplied(m, &p, NULL, 0), c = {.struct_size = sizeof c};
    struct spg_memory uncounted = {0};
    struct spg_block offsets, indices, values;
    struct spg_error error;
    assert_true(spg_block_make(&offsets, &uncounted, ((size_t)p.a.rows + 1) * 4, "a test", &error));
    assert_true(spg_block_make(&indices, &uncounted, (size_t)wanted.stored * 4, "a test", &error));
    assert_true(spg_block_make(&values, &uncounted, (size_t)wanted.stored * 8, "a test", &error));
    struct gpumem_spgemm_output output = {.struct_size = sizeof output,
                                          .offsets = offsets.at,
                                          .indices = indices.at,
                                          .values = values.at,
                                          .capacity = wanted.stored - 1};
    assert_int_equal(gpumem_spgemm_multiply(m, &p.first, &p.second, &output, 0, NULL, &c), GPUMEM_TOO_SMALL);
    assert_int_equal(c.stored, wanted.stored);
    assert_non_null(strstr(gpumem_spgemm_last_error(), "the capacity is "));
    output.capacity++;
    c = multiplied(m, &p, &output, 0);
    assert_ptr_equal(c.offsets, offsets.at);
    assert_ptr_equal(c.indices, indices.at);
    assert_ptr_equal(c.values, values.at);
    change_values(&p, 5);
    multiplied(m, &p, &output, GPUMEM_SPGEMM_SAME_STRUCTURE);
    /* The multiplier has no memory of its own for this one. */
    assert_int_equal(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE, NULL, &c),
                     GPUMEM_INVALID_VALUE);
    gpumem_spgemm_destroy(m);
    check_product(&p, &c);
    spg_block_drop(&offsets, &uncounted);
    spg_block_drop(&indices, &uncounted);
    spg_block_drop(&values, &uncounted);
    drop_pair(&p);
}

TEST(into_regions) {
    struct gpumem_spgemm *m = multiplier_of(SPG_FLOAT, 0);
    struct gpumem_spgemm_output output = {.struct_size = sizeof output};
    struct gpumem_region **regions[] = {&output.offsets_region, &output.indices_region, &output.values_region};
    for (int i = 0; i < 3; i++)
        assert_int_equal(gpumem_region_create(NULL, regions[i]), GPUMEM_OK);
    static const char *names[] = {"cage:5", "brick27:4:3", "cage:5"};
    for (int i = 0; i < 3; i++) {
        struct pair p = make_pair(names[i], names[i], SPG_FLOAT);
        struct gpumem_view view = {.struct_size = sizeof view};
        struct gpumem_spgemm_result c = multiplied(m, &p, &output, 0);
        assert_int_equal(gpumem_region_view(output.values_region, &view), GPUMEM_OK);
        assert_ptr_equal(view.base, c.values);
        assert_true(view.size >= (size_t)c.stored * 4);
        drop_pair(&p);
    }
    gpumem_spgemm_destroy(m);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gpumem_region_destroy(*regions[i]), GPUMEM_OK);
}

TEST(wrong_operands) {
    struct pair p = make_pair("cage:5", "cage:5", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    const struct {
        int64_t rows, columns, stored;
        bool array;
        enum gpumem_status status;
        const char *says;
    } rows[] = {
        {-1, 37, 233, true, GPUMEM_INVALID_VALUE, "A is -1 x 37 with 233 entries"},
        {37, 38, 233, true, GPUMEM_INVALID_VALUE, "A has 38 columns and B has 37 rows"},
        {37, 37, 233, false, GPUMEM_INVALID_VALUE, "A has 233 entries, and an array is NULL"},
        {(int64_t)1 << 31, 37, 233, true, GPUMEM_NOT_SUPPORTED, "A is 2147483648 x 37, and 32-bit indices end at"},
        {37, 37, (int64_t)1 << 31, true, GPUMEM_NOT_SUPPORTED, "A has 2147483648 entries, and 32-bit offsets end at"},
        {37, 37, INT32_MAX, true, GPUMEM_NOT_SUPPORTED, "A has 2147483647 entries, and 32-bit offsets end at"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gpumem_spgemm_csr a = p.first;
        a.rows = rows[i].rows;
        a.columns = rows[i].columns;
        a.stored = rows[i].stored;
        a.values = rows[i].array ? a.values : NULL;
        refused(gpumem_spgemm_multiply(m, &a, &p.second, NULL, 0, NULL, &c), rows[i].status, rows[i].says);
    }
    refused(gpumem_spgemm_multiply(m, &p.first, NULL, NULL, 0, NULL, &c), GPUMEM_INVALID_VALUE, "B is NULL");
    refused(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, 6, NULL, &c), GPUMEM_INVALID_VALUE,
            "unknown flags 0x2");
    refused(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, 0, EMULATED_CAPTURING, &c), GPUMEM_STREAM_CAPTURE,
            "the stream is captured");
    emulated_device = 1;
    refused(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, 0, NULL, &c), GPUMEM_INVALID_CONTEXT,
            "device 1 is current, the multiplier belongs to device 0");
    emulated_device = 0;
    refused(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE, NULL, &c),
            GPUMEM_INVALID_VALUE, "there is no last product");
    multiplied(m, &p, NULL, 0);
    struct pair q = make_pair("stencil7:7x5x3", "stencil7:7x5x3", SPG_DOUBLE);
    refused(gpumem_spgemm_multiply(m, &q.first, &q.second, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE, NULL, &c),
            GPUMEM_INVALID_VALUE, "in the last product 37 x 37 with 233");
    struct gpumem_spgemm_output output = {.struct_size = sizeof output};
    refused(gpumem_spgemm_multiply(m, &p.first, &p.second, &output, 0, NULL, &c), GPUMEM_INVALID_VALUE,
            "the output has neither arrays nor three regions");
    output.offsets = p.on_device[0].offsets;
    output.capacity = 1;
    refused(gpumem_spgemm_multiply(m, &p.first, &p.second, &output, 0, NULL, &c), GPUMEM_INVALID_VALUE,
            "the output has capacity 1, and an array is NULL");
    output.capacity = -1;
    refused(gpumem_spgemm_multiply(m, &p.first, &p.second, &output, 0, NULL, &c), GPUMEM_INVALID_VALUE,
            "the output has capacity -1");
    assert_null(strstr(gpumem_spgemm_last_error(), "NULL"));
    /* After all that the last product is still the last product. */
    multiplied(m, &p, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE);
    gpumem_spgemm_destroy(m);
    gpumem_spgemm_destroy(NULL);
    drop_pair(&p);
    drop_pair(&q);
}

TEST(nothing_is_given) {
    struct pair p = make_pair("cage:5", "cage:5", SPG_DOUBLE);
    const struct gpumem_spgemm_csr *a = &p.first;
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    struct gpumem_spgemm_host_result host = {.struct_size = sizeof host};
    struct gpumem_spgemm_needs w = {.struct_size = sizeof w};
    struct gpumem_spgemm_output o = {.struct_size = sizeof o};
    struct gpumem_spgemm_host_output ho = {.struct_size = sizeof ho};
    struct gpumem_spgemm_part part = {.struct_size = sizeof part};
    struct gpumem_spgemm_structure *s;
    struct gpumem_spgemm_matrix *matrix;
    refused(gpumem_spgemm_create(NULL, NULL), GPUMEM_INVALID_VALUE, "the place for the multiplier is NULL");
    refused(gpumem_spgemm_multiply(NULL, a, a, NULL, 0, NULL, &c), GPUMEM_INVALID_VALUE, "the multiplier is NULL");
    refused(gpumem_spgemm_multiply(m, a, a, NULL, 0, NULL, NULL), GPUMEM_INVALID_VALUE,
            "struct gpumem_spgemm_result is NULL");
    refused(gpumem_spgemm_multiply_add(NULL, a, a, a, NULL, 0, NULL, &c), GPUMEM_INVALID_VALUE,
            "the multiplier is NULL");
    refused(gpumem_spgemm_multiply_add(m, a, a, a, NULL, 0, NULL, NULL), GPUMEM_INVALID_VALUE,
            "struct gpumem_spgemm_result is NULL");
    refused(gpumem_spgemm_triple(NULL, a, a, a, NULL, 0, NULL, &c), GPUMEM_INVALID_VALUE, "the multiplier is NULL");
    refused(gpumem_spgemm_triple(m, a, a, a, NULL, 0, NULL, NULL), GPUMEM_INVALID_VALUE,
            "struct gpumem_spgemm_result is NULL");
    refused(gpumem_spgemm_sort(NULL, a, NULL, 0, NULL, &c), GPUMEM_INVALID_VALUE, "the multiplier is NULL");
    refused(gpumem_spgemm_sort(m, a, NULL, 0, NULL, NULL), GPUMEM_INVALID_VALUE, "struct gpumem_spgemm_result is NULL");
    refused(gpumem_spgemm_workspace(NULL, a, a, NULL, &w), GPUMEM_INVALID_VALUE, "the multiplier is NULL");
    refused(gpumem_spgemm_workspace(m, a, a, NULL, NULL), GPUMEM_INVALID_VALUE, "struct gpumem_spgemm_needs is NULL");
    refused(gpumem_spgemm_trim(NULL), GPUMEM_INVALID_VALUE, "the multiplier is NULL");
    refused(gpumem_spgemm_detach(NULL, &matrix), GPUMEM_INVALID_VALUE, "the multiplier is NULL");
    refused(gpumem_spgemm_detach(m, NULL), GPUMEM_INVALID_VALUE, "the place for the matrix is NULL");
    refused(gpumem_spgemm_symbolic(NULL, a, a, NULL, 0, NULL, &s), GPUMEM_INVALID_VALUE, "the multiplier is NULL");
    refused(gpumem_spgemm_symbolic(m, a, a, NULL, 0, NULL, NULL), GPUMEM_INVALID_VALUE,
            "the place for the structure is NULL");
    refused(gpumem_spgemm_structure_result(NULL, &c), GPUMEM_INVALID_VALUE, "the structure is NULL");
    refused(gpumem_spgemm_structure_result(NULL, NULL), GPUMEM_INVALID_VALUE, "the structure is NULL");
    refused(gpumem_spgemm_numeric(NULL, NULL, a, a, NULL, &o, 0, NULL), GPUMEM_INVALID_VALUE, "the multiplier is NULL");
    refused(gpumem_spgemm_numeric(m, NULL, a, a, NULL, &o, 0, NULL), GPUMEM_INVALID_VALUE, "the structure is NULL");
    refused(gpumem_spgemm_multiply_host(NULL, a, a, &ho, 0, NULL, &host), GPUMEM_INVALID_VALUE,
            "the multiplier is NULL");
    refused(gpumem_spgemm_multiply_host(m, a, a, &ho, 0, NULL, NULL), GPUMEM_INVALID_VALUE,
            "struct gpumem_spgemm_host_result is NULL");
    refused(gpumem_spgemm_group_id(NULL, NULL), GPUMEM_INVALID_VALUE, "the place for the id is NULL");
    refused(gpumem_spgemm_group_create(NULL, NULL), GPUMEM_INVALID_VALUE, "the place for the group is NULL");
    refused(gpumem_spgemm_group_distribute(NULL, a, a, 0, NULL), GPUMEM_INVALID_VALUE, "the group is NULL");
    refused(gpumem_spgemm_group_multiply(NULL, 0), GPUMEM_INVALID_VALUE, "the group is NULL");
    refused(gpumem_spgemm_group_part(NULL, 0, &part), GPUMEM_INVALID_VALUE, "the group is NULL");
    refused(gpumem_spgemm_group_trim(NULL), GPUMEM_INVALID_VALUE, "the group is NULL");
    assert_int_equal(gpumem_spgemm_group_count(NULL), 0);
    /* The multiplier still works. */
    multiplied(m, &p, NULL, 0);
    refused(gpumem_spgemm_detach(m, NULL), GPUMEM_INVALID_VALUE, "the place for the matrix is NULL");
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

TEST(sizes_of_structs) {
    struct {
        struct gpumem_spgemm_options known;
        uint64_t later;
    } newer = {{.struct_size = sizeof newer}, 0};
    struct gpumem_spgemm *m = NULL;
    assert_int_equal(gpumem_spgemm_create(&newer.known, &m), GPUMEM_OK);
    gpumem_spgemm_destroy(m);
    newer.later = 1;
    refused(gpumem_spgemm_create(&newer.known, &m), GPUMEM_NOT_SUPPORTED,
            "gpumem_spgemm_options has a field at byte 56");
    struct gpumem_spgemm_options options = {.struct_size = 0};
    refused(gpumem_spgemm_create(&options, &m), GPUMEM_INVALID_VALUE, "struct_size 0: set it to sizeof");
    options = (struct gpumem_spgemm_options){.struct_size = sizeof options, .precision = 7};
    refused(gpumem_spgemm_create(&options, &m), GPUMEM_INVALID_VALUE, "precision 7 is not 0 (double), 1 (float)");
    /* An older caller whose result ends with `values`. */
    struct pair p = make_pair("cage:5", "cage:5", SPG_DOUBLE);
    struct gpumem_spgemm_result c = {.struct_size = offsetof(struct gpumem_spgemm_result, products), .products = 77};
    m = multiplier_of(SPG_DOUBLE, 0);
    assert_int_equal(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, 0, NULL, &c), GPUMEM_OK);
    assert_int_equal(c.products, 77);
    check_product(&p, &c);
    c.struct_size = 4;
    refused(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, 0, NULL, &c), GPUMEM_INVALID_VALUE, "struct_size 4");
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

/* Lets allocation number `fault` of one call fail. Returns whether there was such an allocation. The multiplier then
 * computes the product in the next call. */
static bool survives(const struct pair *p, size_t fault, bool warm, uint64_t flags) {
    size_t live = emulated_live();
    struct gpumem_spgemm_options options = {.struct_size = sizeof options, .precision = p->precision};
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    struct gpumem_spgemm *m = warm ? multiplier_of(p->precision, 0) : NULL;
    struct pair small = make_pair("cage:4", "cage:4", p->precision);
    if (warm)
        multiplied(m, flags ? p : &small, NULL, 0);
    emulated_fail(fault);
    host_fails = true;
    enum gpumem_status status = m ? GPUMEM_OK : gpumem_spgemm_create(&options, &m);
    if (!status)
        status = gpumem_spgemm_multiply(m, &p->first, &p->second, NULL, flags, NULL, &c);
    bool reached = emulated_allocations() >= fault;
    host_fails = false;
    emulated_fail(0);
    if (status && (status != GPUMEM_OUT_OF_MEMORY || !strstr(gpumem_spgemm_last_error(), "out of ")))
        fail_msg("%s, allocation %zu: status %d: %s", p->name, fault, status, gpumem_spgemm_last_error());
    if (!status)
        check_product(p, &c);
    if (m)
        multiplied(m, p, NULL, 0);
    gpumem_spgemm_destroy(m);
    drop_pair(&small);
    assert_int_equal(emulated_live(), live);
    return reached;
}

TEST(every_allocation_fails_once) {
    struct spg_product_settings usual = spg_product_settings;
    struct spg_spread_settings usual_spread = spg_spread_settings;
    static const char *names[][2] = {{"cage:5", "cage:5"},
                                     {"brick27:3:2", "brick27:3:2"},
                                     {"rmat:7:8", "rmat:7:8"},
                                     {"wide-a", "wide-b"},
                                     {"stencil7:7x5x3", "stencil7:7x5x3"}};
    spg_spread_settings.slab_entries = 50; /* slabs, which are moved by a stream of its own */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct pair p = make_pair(names[i][0], names[i][1], SPG_DOUBLE);
        for (int counts = 0; counts < 2; counts++) {
            size_t fault = 0;
            spg_product_settings.long_row = counts ? 0 : usual.long_row;
            while (survives(&p, ++fault, false, 0))
                ;
            assert_true(fault > 10);
            for (fault = 0; survives(&p, ++fault, true, 0);)
                ;
            assert_true(fault > 2);
            assert_false(survives(&p, 1, true, GPUMEM_SPGEMM_SAME_STRUCTURE));
        }
        drop_pair(&p);
    }
    spg_spread_settings = usual_spread;
    spg_product_settings = usual;
}

/* The limit counts what the multiplier keeps; it gives that up before it refuses. */
TEST(limits) {
    struct pair p = make_pair("brick27:4:3", "brick27:4:3", SPG_DOUBLE), q = make_pair("cage:5", "cage:5", SPG_DOUBLE);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    size_t peak = multiplied(m, &p, NULL, 0).peak;
    gpumem_spgemm_destroy(m);
    m = multiplier_of(SPG_DOUBLE, peak);
    multiplied(m, &q, NULL, 0);
    assert_true(multiplied(m, &p, NULL, 0).peak <= peak);
    gpumem_spgemm_destroy(m);
    m = multiplier_of(SPG_DOUBLE, 5000);
    refused(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, 0, NULL, &c), GPUMEM_OUT_OF_MEMORY, "limit 5000");
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
    drop_pair(&q);
}

/* ---- 64-bit offsets */

static struct gpumem_spgemm_result multiplied_wide(struct gpumem_spgemm *m, const struct pair *p,
                                                   const struct gpumem_spgemm_csr *a, const struct gpumem_spgemm_csr *b,
                                                   const struct gpumem_spgemm_output *output) {
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    struct spg_error error;
    if (gpumem_spgemm_multiply(m, a, b, output, GPUMEM_SPGEMM_WIDE, NULL, &c))
        fail_msg("%s: %s", p->name, gpumem_spgemm_last_error());
    /* What checks the product knows 32-bit offsets only. */
    struct spg_memory uncounted = {0};
    struct spg_block offsets;
    assert_null(c.offsets);
    assert_true(spg_block_make(&offsets, &uncounted, ((size_t)c.rows + 1) * 4, "a test", &error));
    for (int64_t i = 0; i <= c.rows; i++)
        ((int32_t *)offsets.at)[i] = (int32_t)c.wide_offsets[i];
    assert_int_equal(c.wide_offsets[c.rows], c.stored);
    struct gpumem_spgemm_result narrow = c;
    narrow.offsets = offsets.at;
    check_product(p, &narrow);
    spg_block_drop(&offsets, &uncounted);
    return c;
}

/* The same matrix with 64-bit offsets. */
static struct gpumem_spgemm_csr widened(const struct gpumem_spgemm_csr *m, struct spg_block *offsets) {
    struct spg_memory uncounted = {0};
    struct spg_error error;
    struct gpumem_spgemm_csr wide = *m;
    assert_true(spg_block_make(offsets, &uncounted, ((size_t)m->rows + 1) * 8, "a test", &error));
    for (int64_t i = 0; i <= m->rows; i++)
        ((int64_t *)offsets->at)[i] = m->offsets[i];
    wide.offsets = NULL;
    wide.wide_offsets = offsets->at;
    return wide;
}

static const char *const wide_names[][2] = {
    {"stencil7:1x1x1", "stencil7:1x1x1"}, {"empty:5x5", "empty:5x5"}, {"empty:0x0", "empty:0x0"},
    {"empty:4x0", "empty:0x3"},           {"cage:5", "cage:5"},       {"rmat:7:12", "rmat:7:8"},
    {"brick27:3:2", "brick27:3:2"},       {"wide-a", "wide-b"},
};

/* Slabs of one row, of a few, and of all rows; and so for the pieces of A. */
static const struct spg_wide_settings slab_sizes[] = {{1, 60}, {500, 60}, {500, 200}, {INT32_MAX, 200}};

TEST(wide_offsets) {
    struct spg_wide_settings usual = spg_wide_settings;
    for (size_t i = 0; i < sizeof wide_names / sizeof wide_names[0]; i++) {
        for (size_t k = 0; k <= sizeof slab_sizes / sizeof slab_sizes[0]; k++) {
            enum spg_precision precision = (i + k) % 2 ? SPG_FLOAT : SPG_DOUBLE;
            size_t live = emulated_live();
            struct pair p = make_pair(wide_names[i][0], wide_names[i][1], precision);
            struct spg_memory uncounted = {0};
            struct spg_block offsets[2];
            struct gpumem_spgemm_csr a = widened(&p.first, &offsets[0]), b = widened(&p.second, &offsets[1]);
            struct gpumem_spgemm *m = multiplier_of(precision, 0);
            struct gpumem_spgemm_result narrow = multiplied(m, &p, NULL, 0);
            spg_wide_settings = k ? slab_sizes[k - 1] : usual;
            struct gpumem_spgemm_result c = multiplied_wide(m, &p, &p.first, &p.second, NULL);
            assert_int_equal(c.stored, narrow.stored);
            assert_int_equal(c.products, narrow.products);
            assert_true(c.peak > 0);
            multiplied_wide(m, &p, &a, &p.second, NULL);
            multiplied_wide(m, &p, &p.first, &b, NULL);
            multiplied_wide(m, &p, &a, &b, NULL);
            emulated_fail(0);
            multiplied_wide(m, &p, &a, &b, NULL);
            /* There is no last product for another one of its structure. */
            assert_int_equal(
                gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE, NULL, &c),
                GPUMEM_INVALID_VALUE);
            c = multiplied_wide(m, &p, &a, &p.second, NULL);
            assert_int_equal(gpumem_spgemm_trim(m), GPUMEM_OK);
            assert_int_equal(c.wide_offsets[c.rows], narrow.stored);
            multiplied(m, &p, NULL, 0);
            gpumem_spgemm_destroy(m);
            spg_block_drop(&offsets[0], &uncounted);
            spg_block_drop(&offsets[1], &uncounted);
            drop_pair(&p);
            assert_int_equal(emulated_live(), live);
        }
    }
    spg_wide_settings = usual;
}

TEST(wide_into_memory_of_the_caller) {
    struct spg_wide_settings usual = spg_wide_settings;
    struct pair p = make_pair("rmat:7:8", "rmat:7:8", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result wanted = multiplied(m, &p, NULL, 0), c = {.struct_size = sizeof c};
    struct spg_memory uncounted = {0};
    struct spg_block offsets, indices, values;
    struct spg_error error;
    spg_wide_settings.products = 500;
    assert_true(spg_block_make(&offsets, &uncounted, ((size_t)p.a.rows + 1) * 8, "a test", &error));
    assert_true(spg_block_make(&indices, &uncounted, (size_t)wanted.stored * 4, "a test", &error));
    assert_true(spg_block_make(&values, &uncounted, (size_t)wanted.stored * 8, "a test", &error));
    struct gpumem_spgemm_output output = {.struct_size = sizeof output,
                                          .wide_offsets = offsets.at,
                                          .indices = indices.at,
                                          .values = values.at,
                                          .capacity = wanted.stored - 1};
    assert_int_equal(gpumem_spgemm_multiply(m, &p.first, &p.second, &output, GPUMEM_SPGEMM_WIDE, NULL, &c),
                     GPUMEM_TOO_SMALL);
    assert_non_null(strstr(gpumem_spgemm_last_error(), "entries or more, and the capacity is "));
    output.capacity++;
    c = multiplied_wide(m, &p, &p.first, &p.second, &output);
    assert_ptr_equal(c.wide_offsets, offsets.at);
    assert_ptr_equal(c.indices, indices.at);
    assert_ptr_equal(c.values, values.at);
    output = (struct gpumem_spgemm_output){.struct_size = sizeof output};
    struct gpumem_region **regions[] = {&output.offsets_region, &output.indices_region, &output.values_region};
    for (int i = 0; i < 3; i++)
        assert_int_equal(gpumem_region_create(NULL, regions[i]), GPUMEM_OK);
    multiplied_wide(m, &p, &p.first, &p.second, &output);
    gpumem_spgemm_destroy(m);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gpumem_region_destroy(*regions[i]), GPUMEM_OK);
    spg_block_drop(&offsets, &uncounted);
    spg_block_drop(&indices, &uncounted);
    spg_block_drop(&values, &uncounted);
    drop_pair(&p);
    spg_wide_settings = usual;
}

TEST(wide_refused) {
    struct pair p = make_pair("cage:5", "cage:5", SPG_DOUBLE);
    struct spg_memory uncounted = {0};
    struct spg_block offsets;
    struct gpumem_spgemm_csr a = widened(&p.first, &offsets), both = a;
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    refused(gpumem_spgemm_multiply(m, &a, &p.second, NULL, 0, NULL, &c), GPUMEM_INVALID_VALUE,
            "A has 64-bit offsets, which need GPUMEM_SPGEMM_WIDE");
    both.offsets = p.first.offsets;
    refused(gpumem_spgemm_multiply(m, &both, &p.second, NULL, GPUMEM_SPGEMM_WIDE, NULL, &c), GPUMEM_INVALID_VALUE,
            "A has both 32-bit and 64-bit offsets");
    refused(gpumem_spgemm_multiply(m, &a, &p.second, NULL, 5, NULL, &c), GPUMEM_INVALID_VALUE,
            "same structure is not for 64-bit offsets");
    /* B is reached by 32-bit offsets, and is refused before it is read. */
    struct gpumem_spgemm_csr b = a;
    b.stored = (int64_t)1 << 31;
    refused(gpumem_spgemm_multiply(m, &a, &b, NULL, GPUMEM_SPGEMM_WIDE, NULL, &c), GPUMEM_NOT_SUPPORTED,
            "B has 2147483648 entries, and at most 2147482623 are possible");
    /* So is A with 32-bit offsets, but not with 64-bit ones: those are read, and only its rows must be short. */
    b = p.first;
    b.stored = (int64_t)1 << 31;
    refused(gpumem_spgemm_multiply(m, &b, &p.second, NULL, GPUMEM_SPGEMM_WIDE, NULL, &c), GPUMEM_NOT_SUPPORTED,
            "A has 2147483648 entries, and 32-bit offsets end at");
    int64_t *offset = offsets.at, usual = offset[1];
    for (int64_t i = 1; i <= a.rows; i++)
        offset[i] += (int64_t)1 << 31;
    a.stored += (int64_t)1 << 31;
    refused(gpumem_spgemm_multiply(m, &a, &p.second, NULL, GPUMEM_SPGEMM_WIDE, NULL, &c), GPUMEM_NOT_SUPPORTED,
            "row 0 of A has 21474836");
    for (int64_t i = 1; i <= a.rows; i++)
        offset[i] -= (int64_t)1 << 31;
    assert_int_equal(offset[1], usual);
    a.stored -= (int64_t)1 << 31;
    multiplied_wide(m, &p, &a, &p.second, NULL);
    gpumem_spgemm_destroy(m);
    spg_block_drop(&offsets, &uncounted);
    drop_pair(&p);
}

TEST(every_allocation_of_a_wide_product_fails_once) {
    struct spg_wide_settings usual = spg_wide_settings;
    struct pair p = make_pair("rmat:6:8", "rmat:6:8", SPG_DOUBLE);
    struct spg_memory uncounted = {0};
    struct spg_block offsets;
    struct gpumem_spgemm_csr a = widened(&p.first, &offsets);
    size_t fault = 0;
    bool reached = true;
    spg_wide_settings = (struct spg_wide_settings){1000, 150};
    while (reached) {
        size_t live = emulated_live();
        struct gpumem_spgemm_result c = {.struct_size = sizeof c};
        struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
        emulated_fail(++fault);
        host_fails = true;
        enum gpumem_status status = gpumem_spgemm_multiply(m, &a, &p.second, NULL, GPUMEM_SPGEMM_WIDE, NULL, &c);
        reached = emulated_allocations() >= fault;
        host_fails = false;
        emulated_fail(0);
        if (status)
            refused(status, GPUMEM_OUT_OF_MEMORY, "out of ");
        multiplied_wide(m, &p, &a, &p.second, NULL);
        gpumem_spgemm_destroy(m);
        assert_int_equal(emulated_live(), live);
    }
    assert_true(fault > 10);
    spg_block_drop(&offsets, &uncounted);
    drop_pair(&p);
    spg_wide_settings = usual;
}

/* What checks products that are too large for the host finds each kind of error. */
struct portions {
    const struct spg_csr *c;
    int64_t column, value; /* the entry that is wrong; -1: none */
};

static bool read_portion(void *context, int64_t first, int64_t count, int32_t *indices, double *values,
                         struct spg_error *error) {
    const struct portions *p = context;
    for (int64_t k = 0; k < count; k++) {
        indices[k] = p->c->indices[first + k] + (first + k == p->column);
        values[k] = p->c->values[first + k] * (first + k == p->value ? 1.001 : 1);
    }
    return true;
}

TEST(checked_by_sums) {
    struct pair p = make_pair("rmat:7:8", "rmat:7:8", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result found = multiplied(m, &p, NULL, 0);
    struct spg_result r = {.rows = p.a.rows,
                           .columns = p.b.columns,
                           .stored = found.stored,
                           .offsets.at = found.offsets,
                           .indices.at = found.indices,
                           .values.at = found.values};
    struct spg_error error;
    struct spg_check check;
    struct spg_csr c;
    int64_t offsets[p.a.rows + 1], usual = spg_check_portion;
    assert_true(spg_result_fetch(&r, SPG_DOUBLE, &c, &error));
    for (int32_t i = 0; i <= c.rows; i++)
        offsets[i] = c.offsets[i];
    for (spg_check_portion = 1; spg_check_portion < 100000; spg_check_portion *= 30) {
        struct portions good = {&c, -1, -1}, bad = {&c, -1, found.stored / 2}, moved = {&c, found.stored / 3, -1};
        if (!spg_check_sums(&p.a, &p.b, offsets, read_portion, &good, SPG_DOUBLE, &check, &error))
            fail_msg("%s", error.text);
        assert_true(check.worst < 1);
        assert_false(spg_check_sums(&p.a, &p.b, offsets, read_portion, &bad, SPG_DOUBLE, &check, &error));
        assert_non_null(strstr(error.text, "C x is "));
        assert_false(spg_check_sums(&p.a, &p.b, offsets, read_portion, &moved, SPG_DOUBLE, &check, &error));
        int32_t row = 0;
        while (offsets[row + 1] == offsets[row])
            row++;
        offsets[row + 1]--;
        assert_false(spg_check_sums(&p.a, &p.b, offsets, read_portion, &good, SPG_DOUBLE, &check, &error));
        assert_non_null(strstr(error.text, " entries, not "));
        offsets[row + 1]++;
    }
    spg_check_portion = usual;
    spg_csr_free(&c);
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

/* The driver's mode auto, which is a client of the library. */
TEST(as_a_mode) {
    static const char *const names[] = {"auto", "auto:cold", "auto:warm", "auto:same"};
    struct spg_csr a = matrix("rmat:7:8"), b = matrix("stencil7:8x4x4");
    size_t live = emulated_live();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct spg_job job = {.a = &a, .b = i % 2 ? &a : &b};
        struct spg_error error = {""};
        struct spg_check check;
        struct spg_run run;
        struct spg_csr c;
        const struct spg_mode *mode = spg_mode_find(names[i], &job.argument, &error);
        assert_non_null(mode);
        void *opened = mode->ops->open(&job, &error);
        for (int k = 0; k < 3; k++)
            if (!opened || !mode->ops->run(opened, &run, &error) || !mode->ops->fetch(opened, &c, &error) ||
                !spg_check_product(job.a, job.b, &c, SPG_DOUBLE, &check, &error))
                fail_msg("%s: %s", names[i], error.text);
            else
                spg_csr_free(&c);
        assert_true(run.ms > 0 && run.peak > 0 && run.stored > 0);
        mode->ops->close(opened);
        job.limit = 4000;
        opened = mode->ops->open(&job, &error);
        assert_false(mode->ops->run(opened, &run, &error));
        assert_non_null(strstr(error.text, "out of device memory"));
        mode->ops->close(opened);
        assert_int_equal(emulated_live(), live);
    }
    spg_csr_free(&a);
    spg_csr_free(&b);
}

int main(void) {
    emulated_driver_use();
    spg_narrow_columns = 0; /* so that small matrices reach the other kernels */
    return run_all(NULL, NULL);
}

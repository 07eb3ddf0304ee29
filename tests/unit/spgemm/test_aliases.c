/* C of a call as a matrix of the next one, and matrices that lie in the output, on an emulated device. Products are
 * compared with their definition. */
#include "emulated/driver.h"
#include "pair.h"

#include "spgemm/gpu_rows.h"

#define STREAM ((cudaStream_t)9)

static const char *const names[] = {"cage:5", "stencil7:7x5x3", "rmat:7:12", "brick27:3:2", "empty:5x5"};
#define NAMES (sizeof names / sizeof names[0])

static void worked(enum gpumem_status status) {
    if (status)
        fail_msg("%s", gpumem_spgemm_last_error());
}

static struct gpumem_spgemm_csr as_operand(const struct gpumem_spgemm_result *c) {
    return (struct gpumem_spgemm_csr){.struct_size = sizeof(struct gpumem_spgemm_csr),
                                      .rows = c->rows,
                                      .columns = c->columns,
                                      .stored = c->stored,
                                      .offsets = c->offsets,
                                      .indices = c->indices,
                                      .values = c->values,
                                      .wide_offsets = c->wide_offsets};
}

static struct spg_csr on_host(const struct pair *p, const struct gpumem_spgemm_result *c) {
    struct spg_error error = {""};
    struct spg_csr m;
    struct spg_result r = spg_result_at(c->rows, c->columns, c->stored, c->offsets, c->indices, c->values);
    if (!spg_result_fetch(&r, p->precision, &m, &error))
        fail_msg("%s", error.text);
    return m;
}

/* Compares C with the product of two matrices on the host. */
static void check(const struct pair *p, const struct spg_csr *a, const struct spg_csr *b,
                  const struct gpumem_spgemm_result *c) {
    struct pair given = {.name = p->name, .precision = p->precision, .a = *a, .b = *b};
    check_result(&given, spg_result_at(c->rows, c->columns, c->stored, c->offsets, c->indices, c->values));
}

static struct gpumem_spgemm_result square_of(struct gpumem_spgemm *m, const struct pair *p) {
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    worked(gpumem_spgemm_multiply(m, &p->first, &p->second, NULL, 0, STREAM, &c));
    return c;
}

static struct pair make_pair(const char *name, enum spg_precision precision) {
    return pair_of(name, empty_or_generated(name), empty_or_generated(name), precision);
}

/* A A, then products of C with A and with itself. */
static void powers(const char *name, enum spg_precision precision) {
    size_t live = emulated_live();
    struct pair p = make_pair(name, precision);
    struct gpumem_spgemm *m = multiplier_of(precision, 0);
    for (int kind = 0; kind < 3; kind++) {
        struct gpumem_spgemm_result c = square_of(m, &p), next = {.struct_size = sizeof next};
        for (int power = 0; power < 2; power++) {
            struct gpumem_spgemm_csr last = as_operand(&c);
            struct spg_csr host = on_host(&p, &c);
            worked(gpumem_spgemm_multiply(m, kind == 1 ? &p.first : &last, kind == 0 ? &p.second : &last, NULL,
                                          GPUMEM_SPGEMM_CHECK, STREAM, &next));
            check(&p, kind == 1 ? &p.a : &host, kind == 0 ? &p.b : &host, &next);
            spg_csr_free(&host);
            c = next;
        }
    }
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
    assert_int_equal(emulated_live(), live);
}

TEST(powers_of_a_matrix) {
    for (size_t i = 0; i < NAMES; i++) {
        powers(names[i], SPG_DOUBLE);
        powers(names[i], SPG_FLOAT);
    }
}

TEST(part_of_the_last_product) {
    struct pair p = make_pair("rmat:7:12", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = square_of(m, &p), next = {.struct_size = sizeof next};
    struct spg_csr host = on_host(&p, &c);
    struct gpumem_spgemm_csr values_only = p.first;
    /* The positions of A, and values of C. */
    values_only.values = c.values;
    for (int64_t k = 0; k < values_only.stored; k++)
        p.a.values[k] = host.values[k];
    worked(gpumem_spgemm_multiply(m, &values_only, &p.second, NULL, 0, STREAM, &next));
    check(&p, &p.a, &p.b, &next);
    gpumem_spgemm_destroy(m);
    spg_csr_free(&host);
    drop_pair(&p);
}

/* The other calls that end the last product, and the addend. */
TEST(other_calls) {
    for (size_t i = 0; i < NAMES; i++) {
        size_t live = emulated_live();
        struct pair p = make_pair(names[i], SPG_DOUBLE);
        struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0), *apart = multiplier_of(SPG_DOUBLE, 0);
        struct gpumem_spgemm_result kept = square_of(apart, &p), c = {.struct_size = sizeof c},
                                    wanted = {.struct_size = sizeof wanted};
        struct gpumem_spgemm_csr outside = as_operand(&kept), inside;
        for (int call = 0; call < 5; call++) {
            struct gpumem_spgemm *other = multiplier_of(SPG_DOUBLE, 0);
            c = square_of(m, &p);
            inside = as_operand(&c);
            for (int own = 0; own < 2; own++) {
                struct gpumem_spgemm *by = own ? m : other;
                struct gpumem_spgemm_csr x = own ? inside : outside, turned = x;
                struct gpumem_spgemm_result *to = own ? &c : &wanted;
                turned.operation = GPUMEM_SPGEMM_TRANSPOSE;
                worked(call == 0   ? gpumem_spgemm_multiply_add(by, &p.first, &p.second, &x, NULL, 0, STREAM, to)
                       : call == 1 ? gpumem_spgemm_triple(by, NULL, &p.first, &x, NULL, 0, STREAM, to)
                       : call == 2 ? gpumem_spgemm_triple(by, &x, &x, &p.first, NULL, 0, STREAM, to)
                       : call == 3 ? gpumem_spgemm_sort(by, &x, NULL, 0, STREAM, to)
                                   : gpumem_spgemm_multiply(by, &turned, &x, NULL, 0, STREAM, to));
            }
            struct spg_csr one = on_host(&p, &c), two = on_host(&p, &wanted);
            assert_true(same_structure(&one, &two) && same_values(&one, &two));
            spg_csr_free(&one);
            spg_csr_free(&two);
            gpumem_spgemm_destroy(other);
        }
        gpumem_spgemm_destroy(m);
        gpumem_spgemm_destroy(apart);
        drop_pair(&p);
        assert_int_equal(emulated_live(), live);
    }
}

TEST(structures_and_estimates) {
    struct pair p = make_pair("rmat:7:12", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0), *n = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = square_of(m, &p), sizes = {.struct_size = sizeof sizes},
                                next = {.struct_size = sizeof next};
    struct gpumem_spgemm_csr last = as_operand(&c);
    struct spg_csr host = on_host(&p, &c);
    struct gpumem_spgemm_structure *s;
    struct gpumem_spgemm_needs w = {.struct_size = sizeof w};
    worked(gpumem_spgemm_multiply(n, &last, &p.second, NULL, 0, STREAM, &next));
    worked(gpumem_spgemm_symbolic(m, &last, &p.second, NULL, GPUMEM_SPGEMM_CHECK, STREAM, &s));
    worked(gpumem_spgemm_structure_result(s, &sizes));
    assert_int_equal(sizes.stored, next.stored);
    gpumem_spgemm_structure_destroy(s, STREAM);
    c = square_of(m, &p);
    last = as_operand(&c);
    worked(gpumem_spgemm_workspace(m, &last, &p.second, STREAM, &w));
    assert_int_equal(w.products, next.products);
    gpumem_spgemm_destroy(m);
    gpumem_spgemm_destroy(n);
    spg_csr_free(&host);
    drop_pair(&p);
}

TEST(wide_offsets) {
    struct pair p = make_pair("rmat:7:12", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0), *n = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c}, square = square_of(n, &p),
                                cube = {.struct_size = sizeof cube};
    struct gpumem_spgemm_csr last = as_operand(&square);
    worked(gpumem_spgemm_multiply(n, &last, &p.second, NULL, 0, STREAM, &cube));
    worked(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, GPUMEM_SPGEMM_WIDE, STREAM, &c));
    last = as_operand(&c);
    worked(gpumem_spgemm_multiply(m, &last, &p.second, NULL, GPUMEM_SPGEMM_WIDE, STREAM, &c));
    assert_int_equal(c.stored, cube.stored);
    assert_memory_equal(c.indices, cube.indices, (size_t)c.stored * sizeof *c.indices);
    assert_memory_equal(c.values, cube.values, (size_t)c.stored * sizeof(double));
    gpumem_spgemm_destroy(m);
    gpumem_spgemm_destroy(n);
    drop_pair(&p);
}

TEST(after_detach) {
    struct pair p = make_pair("rmat:7:12", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = square_of(m, &p), next = {.struct_size = sizeof next};
    struct gpumem_spgemm_csr last = as_operand(&c);
    struct gpumem_spgemm_matrix *matrix;
    struct spg_csr host = on_host(&p, &c);
    worked(gpumem_spgemm_detach(m, &matrix));
    for (int again = 0; again < 2; again++) {
        worked(
            gpumem_spgemm_multiply(m, &last, &p.second, NULL, again ? GPUMEM_SPGEMM_SAME_STRUCTURE : 0, STREAM, &next));
        check(&p, &host, &p.b, &next);
    }
    gpumem_spgemm_matrix_destroy(matrix, STREAM);
    gpumem_spgemm_destroy(m);
    spg_csr_free(&host);
    drop_pair(&p);
}

static struct gpumem_spgemm_output arrays_for(int64_t rows, int64_t stored) {
    struct gpumem_spgemm_output o = {.struct_size = sizeof o, .capacity = stored};
    assert_int_equal(cudaMalloc((void **)&o.offsets, ((size_t)rows + 1) * 4), cudaSuccess);
    assert_int_equal(cudaMalloc((void **)&o.indices, (size_t)stored * 4 + 8), cudaSuccess);
    assert_int_equal(cudaMalloc(&o.values, (size_t)stored * 8 + 8), cudaSuccess);
    return o;
}

static void drop_arrays(struct gpumem_spgemm_output *o) {
    cudaFree(o->offsets);
    cudaFree(o->indices);
    cudaFree(o->values);
}

/* The call that is too small can be repeated with the same matrices, from which it counted. */
TEST(too_small_at_first) {
    size_t live = emulated_live();
    struct pair p = make_pair("rmat:7:12", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = square_of(m, &p), next = {.struct_size = sizeof next};
    struct gpumem_spgemm_csr last = as_operand(&c);
    struct spg_csr host = on_host(&p, &c);
    struct gpumem_spgemm_output o = arrays_for(p.a.rows, 1);
    for (int again = 0; again < 2; again++)
        refused(
            gpumem_spgemm_multiply(m, &last, &p.second, &o, again ? GPUMEM_SPGEMM_SAME_STRUCTURE : 0, STREAM, &next),
            GPUMEM_TOO_SMALL, "and the capacity is 1");
    drop_arrays(&o);
    o = arrays_for(p.a.rows, next.stored);
    worked(gpumem_spgemm_multiply(m, &last, &p.second, &o, GPUMEM_SPGEMM_SAME_STRUCTURE, STREAM, &next));
    check(&p, &host, &p.b, &next);
    gpumem_spgemm_destroy(m);
    drop_arrays(&o);
    spg_csr_free(&host);
    drop_pair(&p);
    assert_int_equal(emulated_live(), live);
}

TEST(refused_in_the_same_structure) {
    struct pair p = make_pair("empty:5x5", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = square_of(m, &p);
    struct gpumem_spgemm_csr last = as_operand(&c);
    refused(gpumem_spgemm_multiply(m, &p.first, &last, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE, STREAM, &c),
            GPUMEM_INVALID_VALUE, "B lies in the last product, which one of the same structure overwrites");
    worked(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE, STREAM, &c));
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

TEST(refused_in_the_output) {
    struct pair p = make_pair("cage:5", SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = square_of(m, &p);
    struct gpumem_spgemm_output o = arrays_for(p.a.rows, c.stored), inside;
    struct gpumem_spgemm_structure *s;
    const char *says = "A lies in the output";
    void *in[3] = {p.on_device[0].offsets, p.on_device[0].indices + 1, (char *)p.on_device[0].values + 8};
    worked(gpumem_spgemm_symbolic(m, &p.first, &p.second, NULL, 0, STREAM, &s));
    for (int array = 0; array < 3; array++) {
        inside = o;
        *(array == 0 ? (void **)&inside.offsets : array == 1 ? (void **)&inside.indices : &inside.values) = in[array];
        refused(gpumem_spgemm_multiply(m, &p.first, &p.second, &inside, 0, STREAM, &c), GPUMEM_INVALID_VALUE, says);
        refused(gpumem_spgemm_numeric(m, s, &p.first, &p.second, NULL, &inside, 0, STREAM), GPUMEM_INVALID_VALUE, says);
    }
    /* A C that lies in regions, as a matrix of a product into the same regions. */
    struct gpumem_region *region[3];
    for (int i = 0; i < 3; i++)
        worked(gpumem_region_create(NULL, &region[i]));
    struct gpumem_spgemm_output grows = {.struct_size = sizeof grows,
                                         .offsets_region = region[0],
                                         .indices_region = region[1],
                                         .values_region = region[2]};
    worked(gpumem_spgemm_multiply(m, &p.first, &p.second, &grows, 0, STREAM, &c));
    struct gpumem_spgemm_csr last = as_operand(&c);
    refused(gpumem_spgemm_multiply(m, &p.first, &last, &grows, 0, STREAM, &c), GPUMEM_INVALID_VALUE,
            "B lies in the output");
    refused(gpumem_spgemm_multiply_add(m, &p.first, &p.second, &last, &grows, 0, STREAM, &c), GPUMEM_INVALID_VALUE,
            "D lies in the output");
    gpumem_spgemm_structure_destroy(s, STREAM);
    gpumem_spgemm_destroy(m);
    for (int i = 0; i < 3; i++)
        gpumem_region_destroy(region[i]);
    drop_arrays(&o);
    drop_pair(&p);
}

/* Each allocation fails once, and nothing is lost. */
TEST(every_allocation_fails_once) {
    struct pair p = make_pair("rmat:7:12", SPG_DOUBLE);
    bool reached = true;
    for (size_t fault = 1; reached; fault++) {
        size_t live = emulated_live();
        struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
        struct gpumem_spgemm_result c = square_of(m, &p);
        struct gpumem_spgemm_csr last = as_operand(&c);
        emulated_fail(fault);
        enum gpumem_status status = gpumem_spgemm_multiply(m, &last, &p.second, NULL, 0, STREAM, &c);
        reached = emulated_allocations() >= fault;
        emulated_fail(0);
        if (status)
            refused(status, GPUMEM_OUT_OF_MEMORY, "out of ");
        c = square_of(m, &p);
        check(&p, &p.a, &p.b, &c);
        gpumem_spgemm_destroy(m);
        assert_int_equal(emulated_live(), live);
    }
    drop_pair(&p);
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

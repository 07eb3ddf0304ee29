/* Manners of spgemm.h, on an emulated device: streams, captures, memory of the caller, C as an object, structures.
 * Every product is compared with its definition. */
#include "emulated/driver.h"
#include "pair.h"

#include "spgemm/gpu_rows.h"

#include "gpumem_resource.h"

#define STREAM ((cudaStream_t)9)
#define OTHER  ((cudaStream_t)10)

static const char *const names[] = {"cage:5", "stencil7:7x5x3", "rmat:7:12", "brick27:3:2", "empty:5x5"};
#define NAMES (sizeof names / sizeof names[0])

static struct pair make_pair(const char *name) {
    return pair_of(name, empty_or_generated(name), empty_or_generated(name), SPG_DOUBLE);
}

static void check_arrays(const struct pair *p, int64_t stored, void *offsets, void *indices, void *values) {
    check_result(p, spg_result_at(p->a.rows, p->b.columns, stored, offsets, indices, values));
}

static void check_product(const struct pair *p, const struct gpumem_spgemm_result *c) {
    check_arrays(p, c->stored, c->offsets, c->indices, c->values);
}

static void change_values(struct pair *p, uint64_t seed) {
    spg_csr_fill(&p->a, seed);
    for (int64_t k = 0; k < spg_csr_stored(&p->a); k++)
        ((double *)p->on_device[0].values)[k] = p->a.values[k];
}

static void worked(enum gpumem_status status) {
    if (status)
        fail_msg("%s", gpumem_spgemm_last_error());
}

static struct gpumem_spgemm *multiplier(void) {
    struct gpumem_spgemm *m;
    worked(gpumem_spgemm_create(NULL, &m));
    return m;
}

static struct gpumem_spgemm_result multiplied(struct gpumem_spgemm *m, const struct pair *p, uint64_t flags) {
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    worked(gpumem_spgemm_multiply(m, &p->first, &p->second, NULL, flags, STREAM, &c));
    return c;
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

/* ---- streams and captures */

TEST(only_the_callers_stream) {
    for (size_t i = 0; i < NAMES; i++) {
        struct pair p = make_pair(names[i]);
        struct gpumem_spgemm_needs w = {.struct_size = sizeof w};
        emulated_legacy_uses();
        struct gpumem_spgemm *m = multiplier();
        worked(gpumem_spgemm_workspace(m, &p.first, &p.second, STREAM, &w));
        struct gpumem_spgemm_result c = multiplied(m, &p, 0);
        assert_int_equal(emulated_legacy_uses(), 0);
        check_product(&p, &c);
        change_values(&p, 5);
        emulated_legacy_uses();
        c = multiplied(m, &p, GPUMEM_SPGEMM_SAME_STRUCTURE);
        worked(gpumem_spgemm_trim(m));
        assert_int_equal(emulated_legacy_uses(), 0);
        check_product(&p, &c);
        emulated_legacy_uses();
        gpumem_spgemm_destroy(m);
        assert_int_equal(emulated_legacy_uses(), 0);
        drop_pair(&p);
    }
}

TEST(captured_products) {
    for (size_t i = 0; i < NAMES; i++) {
        struct pair p = make_pair(names[i]);
        struct gpumem_spgemm *m = multiplier();
        struct gpumem_spgemm_result c = {.struct_size = sizeof c};
        refused(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, 0, EMULATED_CAPTURING, &c), GPUMEM_STREAM_CAPTURE,
                "the stream is captured");
        multiplied(m, &p, 0);
        multiplied(m, &p, GPUMEM_SPGEMM_SAME_STRUCTURE);
        worked(
            gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE, EMULATED_CAPTURING, &c));
        for (uint64_t seed = 3; seed < 5; seed++) {
            change_values(&p, seed);
            emulated_replay();
            check_product(&p, &c);
        }
        emulated_forget_graph();
        /* After the capture calls work as before. */
        c = multiplied(m, &p, 0);
        check_product(&p, &c);
        gpumem_spgemm_destroy(m);
        drop_pair(&p);
    }
}

/* ---- memory of the caller */

struct pool {
    size_t live, calls, most; /* blocks; calls of allocate; no more than so many succeed, 0: all do */
    void *stream;
    size_t size[64];
    void *at[64];
};

static void *pool_allocate(void *context, size_t size, struct CUstream_st *stream) {
    struct pool *pool = context;
    void *at;
    pool->calls++;
    if ((pool->most && pool->live >= pool->most) || pool->live == 64 || cudaMalloc(&at, size) != cudaSuccess)
        return NULL;
    pool->stream = stream;
    pool->size[pool->live] = size;
    pool->at[pool->live++] = at;
    return at;
}

static void pool_free(void *context, void *memory, size_t size, struct CUstream_st *stream) {
    struct pool *pool = context;
    for (size_t i = 0; i < pool->live; i++) {
        if (pool->at[i] != memory)
            continue;
        assert_int_equal(pool->size[i], size);
        pool->live--;
        pool->at[i] = pool->at[pool->live];
        pool->size[i] = pool->size[pool->live];
        cudaFree(memory);
        return;
    }
    fail_msg("memory is freed that is not there");
}

TEST(functions_of_the_caller) {
    for (size_t i = 0; i < NAMES; i++) {
        struct pool pool = {0};
        struct gpumem_spgemm_options options = {
            .struct_size = sizeof options, .allocate = pool_allocate, .free = pool_free, .context = &pool};
        struct pair p = make_pair(names[i]);
        struct gpumem_spgemm *m;
        struct gpumem_spgemm_matrix *matrix;
        struct gpumem_spgemm_result c = {.struct_size = sizeof c};
        size_t live = emulated_live();
        worked(gpumem_spgemm_create(&options, &m));
        multiplied(m, &p, 0);
        multiplied(m, &p, 0);
        size_t calls = pool.calls;
        c = multiplied(m, &p, 0);
        check_product(&p, &c);
        assert_int_equal(pool.calls, calls);
        assert_ptr_equal(pool.stream, STREAM);
        /* Nothing but these functions served device memory: the rest are events and streams. */
        worked(gpumem_spgemm_detach(m, &matrix));
        gpumem_spgemm_destroy(m);
        check_product(&p, &c);
        assert_true(pool.live <= 3);
        gpumem_spgemm_matrix_destroy(matrix, STREAM);
        assert_int_equal(pool.live, 0);
        assert_int_equal(emulated_live(), live);
        drop_pair(&p);
    }
}

TEST(the_pool_is_empty) {
    struct pair p = make_pair("cage:5");
    for (size_t most = 1; most < 8; most++) {
        struct pool pool = {.most = most};
        struct gpumem_spgemm_options options = {
            .struct_size = sizeof options, .allocate = pool_allocate, .free = pool_free, .context = &pool};
        struct gpumem_spgemm_result c = {.struct_size = sizeof c};
        struct gpumem_spgemm *m;
        worked(gpumem_spgemm_create(&options, &m));
        if (gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, 0, STREAM, &c))
            refused(GPUMEM_OUT_OF_MEMORY, GPUMEM_OUT_OF_MEMORY, "out of device memory");
        else
            check_product(&p, &c);
        gpumem_spgemm_destroy(m);
        assert_int_equal(pool.live, 0);
    }
    struct gpumem_spgemm_options half = {.struct_size = sizeof half, .allocate = pool_allocate};
    struct gpumem_spgemm *none;
    refused(gpumem_spgemm_create(&half, &none), GPUMEM_INVALID_VALUE, "one function for memory without the other");
    drop_pair(&p);
}

/* ---- C as an object */

TEST(detached) {
    for (size_t i = 0; i < NAMES; i++) {
        struct pair p = make_pair(names[i]);
        size_t live = emulated_live();
        struct gpumem_spgemm *m = multiplier();
        struct gpumem_spgemm_matrix *matrix[2];
        struct gpumem_spgemm_result c[2], none = {.struct_size = sizeof none};
        for (int k = 0; k < 2; k++) {
            c[k] = multiplied(m, &p, 0);
            worked(gpumem_spgemm_detach(m, &matrix[k]));
            refused(gpumem_spgemm_detach(m, &matrix[k]), GPUMEM_INVALID_VALUE, "there is no product in memory");
            refused(gpumem_spgemm_multiply(m, &p.first, &p.second, NULL, GPUMEM_SPGEMM_SAME_STRUCTURE, STREAM, &none),
                    GPUMEM_INVALID_VALUE, "there is no last product");
        }
        gpumem_spgemm_destroy(m);
        check_product(&p, &c[0]);
        check_product(&p, &c[1]);
        gpumem_spgemm_matrix_destroy(matrix[0], STREAM);
        check_product(&p, &c[1]);
        gpumem_spgemm_matrix_destroy(matrix[1], STREAM);
        gpumem_spgemm_matrix_destroy(NULL, STREAM);
        assert_int_equal(emulated_live(), live);
        drop_pair(&p);
    }
}

TEST(too_small_and_counted_once) {
    struct pair p = make_pair("rmat:7:12");
    struct gpumem_spgemm *m = multiplier();
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    struct gpumem_spgemm_output o = arrays_for(p.a.rows, 1);
    refused(gpumem_spgemm_multiply(m, &p.first, &p.second, &o, 0, STREAM, &c), GPUMEM_TOO_SMALL,
            "and the capacity is 1");
    int64_t stored = c.stored;
    assert_true(stored > 1);
    drop_arrays(&o);
    o = arrays_for(p.a.rows, stored);
    worked(gpumem_spgemm_multiply(m, &p.first, &p.second, &o, GPUMEM_SPGEMM_SAME_STRUCTURE, STREAM, &c));
    check_product(&p, &c);
    /* The structure also survives an array that is too small for it. */
    o.capacity--;
    refused(gpumem_spgemm_multiply(m, &p.first, &p.second, &o, GPUMEM_SPGEMM_SAME_STRUCTURE, STREAM, &c),
            GPUMEM_TOO_SMALL, "and the capacity is ");
    o.capacity++;
    worked(gpumem_spgemm_multiply(m, &p.first, &p.second, &o, GPUMEM_SPGEMM_SAME_STRUCTURE, STREAM, &c));
    check_product(&p, &c);
    assert_string_equal(gpumem_status_name(GPUMEM_TOO_SMALL), "GPUMEM_TOO_SMALL");
    drop_arrays(&o);
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

/* ---- structures */

TEST(structures) {
    for (size_t i = 0; i < NAMES; i++) {
        struct pair p = make_pair(names[i]);
        size_t live = emulated_live();
        struct gpumem_spgemm *m = multiplier(), *n = multiplier();
        struct gpumem_spgemm_structure *s;
        struct gpumem_spgemm_result c = {.struct_size = sizeof c};
        worked(gpumem_spgemm_symbolic(m, &p.first, &p.second, NULL, GPUMEM_SPGEMM_CHECK, STREAM, &s));
        worked(gpumem_spgemm_structure_result(s, &c));
        assert_null(c.indices);
        struct gpumem_spgemm_output one = arrays_for(p.a.rows, c.stored), two = arrays_for(p.a.rows, c.stored);
        /* Two multipliers at one time, and a product of its own between them, which stays. */
        emulated_legacy_uses();
        worked(gpumem_spgemm_numeric(m, s, &p.first, &p.second, NULL, &one, 0, STREAM));
        worked(gpumem_spgemm_numeric(n, s, &p.first, &p.second, NULL, &two, GPUMEM_SPGEMM_CHECK, OTHER));
        assert_int_equal(emulated_legacy_uses(), 0);
        check_arrays(&p, c.stored, one.offsets, one.indices, one.values);
        check_arrays(&p, c.stored, c.offsets, two.indices, two.values);
        struct gpumem_spgemm_result own = multiplied(m, &p, 0);
        change_values(&p, 8);
        cudaFree(one.offsets);
        one.offsets = NULL;
        worked(gpumem_spgemm_numeric(m, s, &p.first, &p.second, NULL, &one, 0, STREAM));
        check_arrays(&p, c.stored, c.offsets, one.indices, one.values);
        own = multiplied(m, &p, GPUMEM_SPGEMM_SAME_STRUCTURE);
        check_product(&p, &own);
        gpumem_spgemm_destroy(m);
        worked(gpumem_spgemm_numeric(n, s, &p.first, &p.second, NULL, &two, 0, OTHER));
        check_arrays(&p, c.stored, c.offsets, two.indices, two.values);
        gpumem_spgemm_destroy(n);
        gpumem_spgemm_structure_destroy(s, STREAM);
        gpumem_spgemm_structure_destroy(NULL, STREAM);
        drop_arrays(&one);
        drop_arrays(&two);
        assert_int_equal(emulated_live(), live);
        drop_pair(&p);
    }
}

/* The structure is complete when the call returns, also for streams that are not ordered with its own, which is late.
 */
TEST(made_in_a_late_stream) {
    struct pair p = make_pair("rmat:7:12");
    cudaStream_t late;
    assert_int_equal(cudaStreamCreateWithFlags(&late, cudaStreamNonBlocking), cudaSuccess);
    for (int i = 0; i < 8; i++) {
        struct gpumem_spgemm *m = multiplier(), *n = multiplier();
        struct gpumem_spgemm_structure *s;
        struct gpumem_spgemm_result c = {.struct_size = sizeof c};
        worked(gpumem_spgemm_symbolic(m, &p.first, &p.second, NULL, 0, late, &s));
        worked(gpumem_spgemm_structure_result(s, &c));
        struct gpumem_spgemm_output o = arrays_for(p.a.rows, c.stored);
        worked(gpumem_spgemm_numeric(n, s, &p.first, &p.second, NULL, &o, 0, OTHER));
        check_arrays(&p, c.stored, o.offsets, o.indices, o.values);
        gpumem_spgemm_structure_destroy(s, OTHER);
        gpumem_spgemm_destroy(m);
        gpumem_spgemm_destroy(n);
        drop_arrays(&o);
    }
    cudaStreamDestroy(late);
    drop_pair(&p);
}

TEST(other_structures) {
    struct pair p = make_pair("cage:5"), q = make_pair("brick27:3:2");
    struct gpumem_spgemm_options options = {.struct_size = sizeof options, .precision = GPUMEM_SPGEMM_FLOAT};
    struct gpumem_spgemm *m = multiplier(), *n;
    struct gpumem_spgemm_structure *s;
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    worked(gpumem_spgemm_create(&options, &n));
    worked(gpumem_spgemm_symbolic(m, &p.first, &p.second, NULL, 0, STREAM, &s));
    worked(gpumem_spgemm_structure_result(s, &c));
    struct gpumem_spgemm_output o = arrays_for(p.a.rows, c.stored);
    refused(gpumem_spgemm_numeric(m, s, &q.first, &q.second, NULL, &o, 0, STREAM), GPUMEM_INVALID_VALUE,
            "in the structure 37 x 37 with 233");
    refused(gpumem_spgemm_numeric(m, s, &p.first, &p.second, &p.first, &o, 0, STREAM), GPUMEM_INVALID_VALUE,
            "3 matrices, and the structure has 2");
    refused(gpumem_spgemm_numeric(n, s, &p.first, &p.second, NULL, &o, 0, STREAM), GPUMEM_INVALID_VALUE,
            "the structure is for precision 0, the multiplier for 1");
    refused(gpumem_spgemm_numeric(m, s, &p.first, &p.second, NULL, NULL, 0, STREAM), GPUMEM_INVALID_VALUE,
            "the output is NULL");
    o.capacity--;
    refused(gpumem_spgemm_numeric(m, s, &p.first, &p.second, NULL, &o, 0, STREAM), GPUMEM_TOO_SMALL,
            "and the capacity is");
    o.capacity++;
    refused(gpumem_spgemm_numeric(m, s, &p.first, &p.second, NULL, &o, GPUMEM_SPGEMM_CHECK, EMULATED_CAPTURING),
            GPUMEM_STREAM_CAPTURE, "this call waits for the stream");
    emulated_replay();
    emulated_forget_graph();
    /* Another pattern of the same sizes: found by its number. */
    int32_t *columns = p.on_device[1].indices, last = p.b.offsets[1] - 1;
    columns[last]++;
    refused(gpumem_spgemm_numeric(m, s, &p.first, &p.second, NULL, &o, GPUMEM_SPGEMM_CHECK, STREAM),
            GPUMEM_INVALID_VALUE, "B has other positions than in the structure");
    columns[last]--;
    worked(gpumem_spgemm_numeric(m, s, &p.first, &p.second, NULL, &o, GPUMEM_SPGEMM_CHECK, STREAM));
    check_arrays(&p, c.stored, o.offsets, o.indices, o.values);
    gpumem_spgemm_structure_destroy(s, STREAM);
    gpumem_spgemm_destroy(m);
    gpumem_spgemm_destroy(n);
    drop_arrays(&o);
    drop_pair(&p);
    drop_pair(&q);
}

/* Each allocation fails once; nothing is lost, and the calls work afterwards. */
TEST(every_allocation_fails_once) {
    struct pair p = make_pair("rmat:7:12");
    struct gpumem_spgemm_csr turned = p.first;
    bool reached = true;
    turned.operation = GPUMEM_SPGEMM_TRANSPOSE;
    for (size_t fault = 1; reached; fault++) {
        size_t live = emulated_live();
        struct gpumem_spgemm *m = multiplier();
        struct gpumem_spgemm_structure *s = NULL;
        struct gpumem_spgemm_result c = {.struct_size = sizeof c};
        emulated_fail(fault);
        enum gpumem_status status =
            gpumem_spgemm_symbolic(m, &turned, &p.second, &p.first, GPUMEM_SPGEMM_CHECK, STREAM, &s);
        reached = emulated_allocations() >= fault;
        if (!status)
            status = gpumem_spgemm_triple(m, NULL, &p.first, &p.second, NULL, 0, STREAM, &c);
        reached = emulated_allocations() >= fault;
        emulated_fail(0);
        if (status)
            refused(status, GPUMEM_OUT_OF_MEMORY, "out of ");
        gpumem_spgemm_structure_destroy(s, STREAM);
        c = multiplied(m, &p, 0);
        check_product(&p, &c);
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

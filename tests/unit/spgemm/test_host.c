/* Products of matrices in host memory, on an emulated device. C must have the bits of the ordinary product. */
#include "emulated/driver.h"
#include "pair.h"

#include "spgemm/host.h"
#include "spgemm/multiplier.h"

/* Pinned memory. */
cudaError_t cudaMallocHost(void **at, size_t size);

/* A and B in pinned memory of the host, with 64-bit offsets, too; and C. */
struct host_pair {
    struct pair pair;
    struct spg_block memory[4];
    struct gpumem_spgemm_csr a[2], b[2]; /* with 32-bit offsets, with 64-bit ones */
};

static int64_t *wide_offsets(const struct spg_csr *m, struct spg_block *block) {
    size_t count = (size_t)m->rows + 1;
    assert_int_equal(cudaMallocHost(&block->at, count * sizeof(int64_t)), cudaSuccess);
    for (size_t i = 0; i < count; i++)
        ((int64_t *)block->at)[i] = m->offsets[i];
    return block->at;
}

/* The emulated device's memory is memory of the host that kernels can read, as pinned memory is. */
static struct host_pair host_pair_of(const char *a, const char *b, enum spg_precision precision) {
    struct host_pair h = {.pair = pair_of(a, empty_or_generated(a), empty_or_generated(b), precision)};
    h.a[0] = h.a[1] = h.pair.first;
    h.b[0] = h.b[1] = h.pair.second;
    h.a[1].offsets = h.b[1].offsets = NULL;
    h.a[1].wide_offsets = wide_offsets(&h.pair.a, &h.memory[0]);
    h.b[1].wide_offsets = wide_offsets(&h.pair.b, &h.memory[1]);
    return h;
}

static void drop_host_pair(struct host_pair *h) {
    cudaFreeHost(h->memory[0].at);
    cudaFreeHost(h->memory[1].at);
    drop_pair(&h->pair);
}

/* C in memory of the host. */
struct found {
    size_t value_size;
    int64_t capacity;
    int64_t *offsets;
    int32_t *indices;
    char *values;
    int calls, fails_at; /* fails_at 0: never */
    int64_t end;         /* of the rows so far */
};

static enum gpumem_status place(void *context, struct gpumem_spgemm_rows *rows) {
    struct found *f = context;
    assert_int_equal(rows->struct_size, sizeof *rows);
    assert_int_equal(rows->first_row, f->end);
    assert_true(rows->rows > 0 && rows->before + rows->stored <= f->capacity);
    if (++f->calls == f->fails_at)
        return GPUMEM_OUT_OF_MEMORY;
    f->end += rows->rows;
    rows->indices = f->indices + rows->before;
    rows->values = f->value_size ? f->values + (size_t)rows->before * f->value_size : NULL;
    return GPUMEM_OK;
}

static struct found room_for(int64_t rows, int64_t capacity, enum spg_precision precision) {
    struct found f = {.value_size = spg_value_size(precision), .capacity = capacity};
    f.offsets = malloc(((size_t)rows + 1) * sizeof *f.offsets);
    f.indices = malloc((size_t)capacity * sizeof *f.indices + 1);
    f.values = malloc((size_t)capacity * f.value_size + 1);
    assert_true(f.offsets && f.indices && f.values);
    return f;
}

static void drop_found(struct found *f) {
    free(f->offsets);
    free(f->indices);
    free(f->values);
}

static enum gpumem_status multiply_host(struct gpumem_spgemm *m, const struct gpumem_spgemm_csr *a,
                                        const struct gpumem_spgemm_csr *b, struct found *f,
                                        struct gpumem_spgemm_host_result *c) {
    struct gpumem_spgemm_host_output output = {
        .struct_size = sizeof output, .offsets = f->offsets, .place = place, .context = f};
    c->struct_size = sizeof *c;
    f->calls = 0;
    f->end = 0;
    return gpumem_spgemm_multiply_host(m, a, b, &output, 0, NULL, c);
}

static void compare(const char *name, const struct found *f, const struct gpumem_spgemm_result *wanted) {
    for (int64_t row = 0; row <= wanted->rows; row++)
        if (f->offsets[row] != wanted->offsets[row])
            fail_msg("%s: row %lld begins at %lld, not at %d", name, (long long)row, (long long)f->offsets[row],
                     wanted->offsets[row]);
    assert_memory_equal(f->indices, wanted->indices, (size_t)wanted->stored * sizeof *f->indices);
    if (f->value_size)
        assert_memory_equal(f->values, wanted->values, (size_t)wanted->stored * f->value_size);
}

/* Both widths of offsets, with B on the device and by rows. Returns the least number of slabs. */
static int64_t all_ways(const char *a, const char *b, enum spg_precision precision, size_t limit) {
    size_t live = emulated_live(), all_of_b = spg_host_settings.whole;
    int64_t least = INT64_MAX;
    struct host_pair h = host_pair_of(a, b, precision);
    struct gpumem_spgemm *usual = multiplier_of(precision, 0), *m = multiplier_of(precision, limit);
    struct gpumem_spgemm_result wanted = {.struct_size = sizeof wanted};
    assert_int_equal(gpumem_spgemm_multiply(usual, &h.a[0], &h.b[0], NULL, 0, NULL, &wanted), GPUMEM_OK);
    struct found f = room_for(wanted.rows, wanted.stored, precision);
    for (int way = 0; way < 8; way++) {
        struct gpumem_spgemm_host_result c;
        struct gpumem_spgemm_result other = {.struct_size = sizeof other};
        if (!limit) /* what the multiplier keeps of another product does not count */
            assert_int_equal(gpumem_spgemm_multiply(m, &h.a[0], &h.b[0], NULL, 0, NULL, &other), GPUMEM_OK);
        memset(f.offsets, 0xcd, ((size_t)wanted.rows + 1) * sizeof *f.offsets);
        memset(f.values, 0xcd, (size_t)wanted.stored * f.value_size);
        spg_host_settings.whole = way & 4 ? 0 : all_of_b;
        if (multiply_host(m, &h.a[way & 1], &h.b[way >> 1 & 1], &f, &c))
            fail_msg("%s, way %d: %s", a, way, gpumem_spgemm_last_error());
        compare(a, &f, &wanted);
        assert_int_equal(c.rows, wanted.rows);
        assert_int_equal(c.columns, wanted.columns);
        assert_int_equal(c.stored, wanted.stored);
        assert_int_equal(c.products, wanted.products);
        assert_int_equal(c.slabs, f.calls);
        assert_int_equal(c.received, c.stored * (int64_t)(4 + f.value_size) + c.rows * 8);
        assert_true(c.peak > 0 && c.peak <= (limit ? limit : 2 << 20));
        least = c.slabs < least ? c.slabs : least;
        /* The multiplier keeps nothing. */
        assert_int_equal(m->product.method.gpu.memory.now, 0);
        assert_int_equal(m->product.method.gpu.memory.limit, limit);
    }
    spg_host_settings.whole = all_of_b;
    assert_int_equal(gpumem_spgemm_multiply(m, &h.a[0], &h.b[0], NULL, 0, NULL, &wanted),
                     limit ? GPUMEM_OUT_OF_MEMORY : GPUMEM_OK);
    gpumem_spgemm_destroy(m);
    gpumem_spgemm_destroy(usual);
    drop_found(&f);
    drop_host_pair(&h);
    assert_int_equal(emulated_live(), live);
    return least;
}

TEST(same_bits) {
    struct spg_host_settings usual = spg_host_settings;
    static const char *names[][2] = {
        {"stencil7:1x1x1", "stencil7:1x1x1"}, {"empty:5x5", "empty:5x5"}, {"empty:0x0", "empty:0x0"},
        {"empty:4x0", "empty:0x3"},           {"cage:5", "cage:5"},       {"stencil7:7x5x3", "stencil7:7x5x3"}};
    spg_host_settings.slab = spg_host_settings.fetching_slab = 1 << 20;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int precision = SPG_DOUBLE; precision <= SPG_FLOAT; precision++)
            all_ways(names[i][0], names[i][1], precision, 0);
    spg_host_settings = usual;
}

/* The limits are too small for an ordinary product. */
TEST(many_slabs) {
    assert_in_range(all_ways("cage:6", "cage:6", SPG_DOUBLE, 64 << 10), 3, 1000);
    assert_in_range(all_ways("rmat:8:8", "rmat:8:8", SPG_FLOAT, 160 << 10), 3, 1000);
    assert_in_range(all_ways("stencil7:7x5x3", "stencil7:7x5x3", SPG_DOUBLE, 48 << 10), 4, 1000);
}

/* Slabs need not be as large as the memory allows. */
TEST(small_slabs) {
    struct spg_host_settings usual = spg_host_settings;
    spg_host_settings.slab = spg_host_settings.fetching_slab = 4096;
    assert_in_range(all_ways("brick27:4:3", "brick27:4:3", SPG_DOUBLE, 0), 10, 1000);
    spg_host_settings = usual;
}

/* Slabs that do not fit are halved. What was sent for them is sent again. */
TEST(halved_slabs) {
    const size_t limits[] = {0, 1 << 20};
    struct host_pair h = host_pair_of("rmat:9:8", "rmat:9:8", SPG_DOUBLE);
    struct found f = room_for(h.pair.a.rows, 200000, SPG_DOUBLE);
    struct gpumem_spgemm_host_result c;
    for (int i = 0; i < 2; i++) {
        struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, limits[i]);
        assert_int_equal(multiply_host(m, &h.a[1], &h.b[0], &f, &c), GPUMEM_OK);
        int64_t once = h.a[0].stored * 12 + (h.a[0].rows + c.slabs) * 8 + h.b[0].stored * 12 + (h.b[0].rows + 1) * 4;
        assert_true(limits[i] ? c.sent > once : c.sent == once);
        gpumem_spgemm_destroy(m);
    }
    drop_found(&f);
    drop_host_pair(&h);
}

/* Where a row alone does not fit, the call fails, and the next one can work. */
TEST(a_row_that_does_not_fit) {
    struct host_pair h = host_pair_of("cage:6", "cage:6", SPG_DOUBLE);
    struct found f = room_for(h.pair.a.rows, 100000, SPG_DOUBLE);
    struct gpumem_spgemm_host_result c;
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 16 << 10);
    assert_int_equal(multiply_host(m, &h.a[0], &h.b[0], &f, &c), GPUMEM_OUT_OF_MEMORY);
    assert_non_null(strstr(gpumem_spgemm_last_error(), "out of device memory: "));
    assert_int_equal(m->product.method.gpu.memory.now, 0);
    gpumem_spgemm_destroy(m);
    drop_found(&f);
    drop_host_pair(&h);
}

/* `place` fails in each of its calls. Its status is no reason for smaller slabs. */
TEST(place_fails) {
    struct host_pair h = host_pair_of("cage:6", "cage:6", SPG_FLOAT);
    struct found f = room_for(h.pair.a.rows, 100000, SPG_FLOAT);
    struct gpumem_spgemm_host_result c;
    struct gpumem_spgemm *m = multiplier_of(SPG_FLOAT, 48 << 10);
    assert_int_equal(multiply_host(m, &h.a[0], &h.b[0], &f, &c), GPUMEM_OK);
    int calls = f.calls;
    assert_in_range(calls, 3, 1000);
    for (f.fails_at = 1; f.fails_at <= calls; f.fails_at++) {
        assert_int_equal(multiply_host(m, &h.a[0], &h.b[0], &f, &c), GPUMEM_OUT_OF_MEMORY);
        assert_int_equal(f.calls, f.fails_at);
        assert_non_null(strstr(gpumem_spgemm_last_error(), "the caller has no memory for rows "));
        assert_int_equal(m->product.method.gpu.memory.now, 0);
    }
    assert_int_equal(multiply_host(m, &h.a[0], &h.b[0], &f, &c), GPUMEM_OK);
    gpumem_spgemm_destroy(m);
    drop_found(&f);
    drop_host_pair(&h);
}

/* Each allocation fails once, of the device and of events and streams. A smaller slab may still find memory. */
TEST(every_allocation_fails_once) {
    struct spg_host_settings usual = spg_host_settings;
    size_t live = emulated_live();
    struct host_pair h = host_pair_of("cage:5", "cage:5", SPG_DOUBLE);
    struct gpumem_spgemm *ordinary = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result wanted = {.struct_size = sizeof wanted};
    assert_int_equal(gpumem_spgemm_multiply(ordinary, &h.a[0], &h.b[0], NULL, 0, NULL, &wanted), GPUMEM_OK);
    struct found f = room_for(wanted.rows, wanted.stored, SPG_DOUBLE);
    spg_host_settings.slab = spg_host_settings.fetching_slab = 8192;
    for (int way = 0; way < 2; way++) {
        bool reached = true;
        size_t fault = 0;
        spg_host_settings.whole = way ? 0 : usual.whole;
        while (reached) {
            struct gpumem_spgemm_host_result c;
            struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
            emulated_fail(++fault);
            enum gpumem_status status = multiply_host(m, &h.a[1], &h.b[1], &f, &c);
            reached = emulated_allocations() >= fault;
            emulated_fail(0);
            if (status) {
                assert_int_equal(status, GPUMEM_OUT_OF_MEMORY);
                assert_int_equal(m->product.method.gpu.memory.now, 0);
                assert_int_equal(multiply_host(m, &h.a[1], &h.b[1], &f, &c), GPUMEM_OK);
            }
            compare("cage:5", &f, &wanted);
            gpumem_spgemm_destroy(m);
        }
        assert_true(fault > 20);
    }
    gpumem_spgemm_destroy(ordinary);
    drop_found(&f);
    drop_host_pair(&h);
    assert_int_equal(emulated_live(), live);
    spg_host_settings = usual;
}

static enum gpumem_status place_nothing(void *context, struct gpumem_spgemm_rows *rows) { return GPUMEM_OK; }

TEST(wrong_arguments) {
    struct spg_host_settings usual = spg_host_settings;
    struct host_pair h = host_pair_of("cage:5", "cage:5", SPG_DOUBLE);
    struct found f = room_for(h.pair.a.rows, 100000, SPG_DOUBLE);
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_host_result c = {.struct_size = sizeof c};
    struct gpumem_spgemm_host_output output = {
        .struct_size = sizeof output, .offsets = f.offsets, .place = place_nothing};
    double two = 2;
    struct gpumem_spgemm_csr transposed = h.a[0], scaled = h.a[1], shorter = h.a[0], tall = h.b[0], pageable = h.b[0];
    transposed.operation = GPUMEM_SPGEMM_TRANSPOSE;
    scaled.scale = &two;
    shorter.stored--;
    tall.rows++;
    pageable.values = h.pair.b.values;
    const struct {
        const struct gpumem_spgemm_csr *a, *b;
        uint64_t flags;
        struct CUstream_st *stream;
        enum gpumem_status status;
        const char *says;
    } rows[] = {
        {&transposed, &h.b[0], 0, NULL, GPUMEM_NOT_SUPPORTED, "matrices in host memory must be plain"},
        {&h.a[0], &transposed, 0, NULL, GPUMEM_NOT_SUPPORTED, "matrices in host memory must be plain"},
        {&scaled, &h.b[0], 0, NULL, GPUMEM_NOT_SUPPORTED, "matrices in host memory must be plain"},
        {&shorter, &h.b[0], 0, NULL, GPUMEM_INVALID_VALUE, "the offsets of A go from 0 to 233, not from 0 to 232"},
        {&h.a[0], &tall, 0, NULL, GPUMEM_INVALID_VALUE, "A has 37 columns and B has 38 rows"},
        {&h.a[0], NULL, 0, NULL, GPUMEM_INVALID_VALUE, "B is NULL"},
        {&h.a[0], &h.b[0], GPUMEM_SPGEMM_WIDE, NULL, GPUMEM_INVALID_VALUE, "unknown flags 0x4"},
        {&h.a[0], &h.b[0], 0, EMULATED_CAPTURING, GPUMEM_STREAM_CAPTURE, "the stream is captured"},
        {&h.a[0], &h.b[0], 0, NULL, GPUMEM_INVALID_VALUE, "an array for rows 0 to 36 of C is NULL"},
        {&h.a[0], &pageable, 0, NULL, GPUMEM_INVALID_VALUE, "its arrays are not in pinned memory"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        spg_host_settings.whole = rows[i].b == &pageable ? 0 : usual.whole;
        enum gpumem_status status =
            gpumem_spgemm_multiply_host(m, rows[i].a, rows[i].b, &output, rows[i].flags, rows[i].stream, &c);
        if (status != rows[i].status || !strstr(gpumem_spgemm_last_error(), rows[i].says))
            fail_msg("row %zu: status %d: '%s', not '%s'", i, status, gpumem_spgemm_last_error(), rows[i].says);
        assert_int_equal(m->product.method.gpu.memory.now, 0);
    }
    assert_int_equal(gpumem_spgemm_multiply_host(m, &h.a[0], &h.b[0], NULL, 0, NULL, &c), GPUMEM_INVALID_VALUE);
    output.place = NULL;
    assert_int_equal(gpumem_spgemm_multiply_host(m, &h.a[0], &h.b[0], &output, 0, NULL, &c), GPUMEM_INVALID_VALUE);
    assert_string_equal(gpumem_spgemm_last_error(), "the output has no offsets, or no function");
    /* B in pageable memory can be copied, if it fits. */
    spg_host_settings = usual;
    assert_int_equal(multiply_host(m, &h.a[0], &pageable, &f, &c), GPUMEM_OK);
    gpumem_spgemm_destroy(m);
    drop_found(&f);
    drop_host_pair(&h);
}

/* Complex values and patterns: values of 16, 8 and 0 bytes. */
TEST(other_values) {
    struct spg_host_settings usual = spg_host_settings;
    struct spg_csr a = generated("cage:5");
    struct spg_memory uncounted = {0};
    struct spg_block values;
    struct spg_error error;
    struct pair p = pair_of("cage:5", a, generated("cage:5"), SPG_DOUBLE);
    int64_t stored = p.first.stored;
    assert_true(spg_block_make(&values, &uncounted, (size_t)stored * 16, "a test", &error));
    for (int64_t k = 0; k < 2 * stored; k++)
        ((double *)values.at)[k] = 1 / (double)(k + 1);
    for (int64_t k = 0; k < 2 * stored; k++) /* any bits are values of complex float, too, but no NaN */
        assert_true(((float *)values.at)[k] == ((float *)values.at)[k]);
    spg_host_settings.slab = spg_host_settings.fetching_slab = 8192;
    for (int precision = SPG_COMPLEX_DOUBLE; precision <= SPG_PATTERN; precision++)
        for (int way = 0; way < 2; way++) {
            struct gpumem_spgemm *m = multiplier_of(precision, 0), *ordinary = multiplier_of(precision, 0);
            struct gpumem_spgemm_csr first = p.first, second = p.second;
            struct gpumem_spgemm_result wanted = {.struct_size = sizeof wanted};
            struct gpumem_spgemm_host_result c;
            first.values = second.values = precision == SPG_PATTERN ? NULL : values.at;
            assert_int_equal(gpumem_spgemm_multiply(ordinary, &first, &second, NULL, 0, NULL, &wanted), GPUMEM_OK);
            struct found f = room_for(wanted.rows, wanted.stored, precision);
            spg_host_settings.whole = way ? 0 : usual.whole;
            if (multiply_host(m, &first, &second, &f, &c))
                fail_msg("%s", gpumem_spgemm_last_error());
            compare("cage:5", &f, &wanted);
            drop_found(&f);
            gpumem_spgemm_destroy(m);
            gpumem_spgemm_destroy(ordinary);
        }
    spg_block_drop(&values, &uncounted);
    drop_pair(&p);
    spg_host_settings = usual;
}

int main(void) {
    emulated_driver_use();
    spg_narrow_columns = 0; /* so that small matrices reach the other kernels */
    return run_all(NULL, NULL);
}

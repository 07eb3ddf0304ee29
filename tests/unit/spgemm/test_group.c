/* Products on several emulated devices, by the calls of spgemm.h for groups, and the cuts of rows. Every product is
 * gathered and compared with its definition. The memory of a device cannot be accessed while another one is current. */
#include "emulated/driver.h"
#include "pair.h"

#include "spgemm/check.h"
#include "spgemm/gpu_rows.h"
#include "spgemm/gpu_split.h"

#include <errno.h>
#include <pthread.h>

/* The emulation has no threads: the group then calls one device after the other. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    return EAGAIN;
}

static const char *nccl = ""; /* no NCCL, before the last test */

/* Row i of "rows:LENGTH:LENGTH..." has so many entries. */
static struct spg_csr of_lengths(const char *lengths) {
    struct spg_error error;
    struct spg_csr m;
    int length[32], rows = 0, stored = 0, used;
    for (; sscanf(lengths, ":%d%n", &length[rows], &used) == 1; lengths += used)
        stored += length[rows++];
    assert_true(spg_csr_make(&m, rows, rows, stored, &error));
    for (int i = 0, at = 0; i < rows; i++) {
        for (int k = 0; k < length[i]; k++)
            m.indices[at++] = k;
        m.offsets[i + 1] = at;
    }
    spg_csr_fill(&m, 11);
    return m;
}

static struct spg_csr matrix(const char *name) {
    if (!strncmp(name, "rows:", 5))
        return of_lengths(name + 4);
    return empty_or_generated(name);
}

static struct pair make_pair(const char *a, const char *b, enum spg_precision precision) {
    return pair_of(a, matrix(a), matrix(b), precision);
}

static void change_values(struct pair *p, uint64_t seed) {
    spg_csr_fill(&p->a, seed);
    spg_csr_fill(&p->b, seed + 1);
    if (p->precision == SPG_FLOAT) {
        spg_csr_round_to_float(&p->a);
        spg_csr_round_to_float(&p->b);
    }
    /* Other addresses, too. */
    struct spg_operand old[2] = {p->on_device[0], p->on_device[1]};
    put_pair_on_device(p);
    spg_operand_drop(&old[0]);
    spg_operand_drop(&old[1]);
}

static void worked(enum gpumem_status status, const char *name) {
    if (status)
        fail_msg("%s: %s", name, gpumem_spgemm_last_error());
}

static struct gpumem_spgemm_group *group_of(int count, enum spg_precision precision) {
    static const int devices[] = {0, 1, 2, 3};
    struct gpumem_spgemm_group_options options = {.nccl = nccl,
                                                  .struct_size = sizeof options,
                                                  .devices = devices,
                                                  .count = (size_t)count,
                                                  .precision = precision};
    struct gpumem_spgemm_group *g;
    worked(gpumem_spgemm_group_create(&options, &g), "create");
    assert_int_equal(gpumem_spgemm_group_count(g), count);
    return g;
}

/* Joins the parts to one matrix and compares it with the product. */
static void check_parts(const struct pair *p, const struct gpumem_spgemm_group *g, int *filled) {
    struct spg_error error = {""};
    struct spg_check check;
    struct spg_csr c = {0};
    int64_t stored = 0, row = 0;
    int count = gpumem_spgemm_group_count(g);
    struct gpumem_spgemm_part part = {.struct_size = sizeof part};
    for (int i = 0; i < count; i++) {
        worked(gpumem_spgemm_group_part(g, i, &part), p->name);
        stored += part.stored;
    }
    assert_true(spg_csr_make(&c, p->a.rows, p->b.columns, stored, &error));
    stored = 0;
    *filled = 0;
    for (int i = 0; i < count; i++) {
        struct spg_csr rows;
        worked(gpumem_spgemm_group_part(g, i, &part), p->name);
        assert_int_equal(part.first_row, row);
        assert_int_equal(part.columns, c.columns);
        struct spg_result r =
            spg_result_at(part.rows, part.columns, part.stored, part.offsets, part.indices, part.values);
        int device;
        assert_int_equal(cudaGetDevice(&device), cudaSuccess);
        assert_int_equal(cudaSetDevice((int)part.device), cudaSuccess);
        assert_true(spg_result_fetch(&r, p->precision, &rows, &error));
        assert_int_equal(cudaSetDevice(device), cudaSuccess);
        for (int64_t k = 0; k < part.rows; k++)
            c.offsets[row + k + 1] = (int32_t)stored + rows.offsets[k + 1];
        memcpy(c.indices + stored, rows.indices, (size_t)part.stored * sizeof *rows.indices);
        memcpy(c.values + stored, rows.values, (size_t)part.stored * sizeof *rows.values);
        stored += part.stored;
        row += part.rows;
        *filled += part.rows > 0;
        spg_csr_free(&rows);
    }
    assert_int_equal(row, c.rows);
    if (!spg_check_product(&p->a, &p->b, &c, p->precision, &check, &error))
        fail_msg("%s: %s", p->name, error.text);
    spg_csr_free(&c);
}

static uint64_t b_of(const struct gpumem_spgemm_group *g, int index) {
    struct gpumem_spgemm_part part = {.struct_size = sizeof part};
    worked(gpumem_spgemm_group_part(g, index, &part), "part");
    return part.b;
}

static void multiplied(struct gpumem_spgemm_group *g, const struct pair *p, uint64_t flags) {
    int filled;
    worked(gpumem_spgemm_group_distribute(g, &p->first, &p->second, flags, NULL), p->name);
    worked(gpumem_spgemm_group_multiply(g, flags & GPUMEM_SPGEMM_SAME_STRUCTURE), p->name);
    assert_int_equal(emulated_device, 0);
    check_parts(p, g, &filled);
}

static const char *const names[][2] = {
    {"stencil7:1x1x1", "stencil7:1x1x1"},
    {"empty:5x5", "empty:5x5"},
    {"empty:0x0", "empty:0x0"},
    {"empty:4x0", "empty:0x3"},
    {"cage:5", "cage:5"},
    {"stencil7:7x5x3", "stencil7:7x5x3"},
    {"rmat:7:12", "rmat:7:8"},
    {"brick27:3:2", "brick27:3:2"},
    {"rows:1", "rows:1"},
    {"rows:2:2", "rows:2:2"},
    {"rows:9:0:0:0:0:0:0:0:0", "rows:9:0:0:0:0:0:0:0:0"},
    {"rows:0:0:0:0:0:0:0:0:9", "rows:0:0:0:0:0:0:0:0:9"},
    {"rows:0:0:0:0:9:0:0:0:0", "rows:1:2:3:4:5:6:7:8:9"},
};

/* The devices cannot reach each other's memory, except by copies. */
static void each_matrix(int count, uint64_t expected_b) {
    emulated_devices(4);
    setenv("EMULATED_NO_PEERS", "1", 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        enum spg_precision precision = i % 2 ? SPG_FLOAT : SPG_DOUBLE;
        size_t live = emulated_live();
        struct pair p = make_pair(names[i][0], names[i][1], precision);
        struct gpumem_spgemm_group *g = group_of(count, precision);
        multiplied(g, &p, 0);
        assert_int_equal(b_of(g, 0), GPUMEM_SPGEMM_B_OWN);
        for (int k = 1; k < count; k++)
            assert_int_equal(b_of(g, k), expected_b);
        multiplied(g, &p, 0);
        change_values(&p, 99);
        multiplied(g, &p, GPUMEM_SPGEMM_SAME_STRUCTURE);
        worked(gpumem_spgemm_group_trim(g), p.name);
        multiplied(g, &p, 0);
        gpumem_spgemm_group_destroy(g);
        drop_pair(&p);
        assert_int_equal(emulated_live(), live);
    }
    unsetenv("EMULATED_NO_PEERS");
}

TEST(by_copies) {
    for (int count = 1; count <= 4; count++)
        each_matrix(count, GPUMEM_SPGEMM_B_COPIED);
}

/* A group of one device makes no copies of the operands, no other allocation than a multiplier, and no cuts. */
TEST(lone_device) {
    struct pair p = make_pair("rmat:7:8", "rmat:7:8", SPG_DOUBLE);
    struct gpumem_spgemm_group *g = group_of(1, SPG_DOUBLE);
    emulated_fail(0);
    worked(gpumem_spgemm_group_distribute(g, &p.first, &p.second, 0, NULL), p.name);
    assert_int_equal(emulated_allocations(), 0);
    multiplied(g, &p, 0);
    multiplied(g, &p, 0);
    emulated_fail(0);
    multiplied(g, &p, 0);
    assert_int_equal(emulated_allocations(), 0);
    gpumem_spgemm_group_destroy(g);
    drop_pair(&p);
}

/* Warm products and distributions allocate one block for the cuts' helpers at most; the second one none. */
TEST(warm) {
    struct pair p = make_pair("cage:5", "cage:5", SPG_DOUBLE);
    struct gpumem_spgemm_group *g = group_of(3, SPG_DOUBLE);
    multiplied(g, &p, 0);
    multiplied(g, &p, 0);
    emulated_fail(0);
    multiplied(g, &p, 0);
    multiplied(g, &p, GPUMEM_SPGEMM_SAME_STRUCTURE);
    assert_int_equal(emulated_allocations(), 0);
    gpumem_spgemm_group_destroy(g);
    drop_pair(&p);
}

TEST(different_sizes) {
    static const char *const some[] = {"cage:5", "brick27:4:3", "empty:0x0", "rmat:7:8", "cage:4"};
    struct gpumem_spgemm_group *g = group_of(2, SPG_DOUBLE);
    for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
        struct pair p = make_pair(some[i], some[i], SPG_DOUBLE);
        multiplied(g, &p, 0);
        drop_pair(&p);
    }
    gpumem_spgemm_group_destroy(g);
}

/* ---- cuts */

static void slabs_of(const char *name, int32_t parts, int64_t most, struct spg_slabs *slabs) {
    struct spg_job job = {0};
    struct spg_method method = {0};
    struct spg_error error = {""};
    struct pair p = make_pair(name, name, SPG_DOUBLE);
    assert_true(spg_gpu_prepare(&method.gpu, &job, &error));
    method.gpu.a = &p.on_device[0];
    method.gpu.b = &p.on_device[1];
    if (!(parts ? spg_slabs_even(slabs, &method, parts, &error) : spg_slabs_limited(slabs, &method, most, &error)))
        fail_msg("%s: %s", name, error.text);
    for (int32_t i = 0; i <= slabs->parts; i++)
        assert_int_equal(slabs->at[i], p.a.offsets[slabs->cut[i]]);
    spg_gpu_close(&method.gpu);
    drop_pair(&p);
}

static void expect_cuts(const char *name, int32_t parts, int64_t most, int32_t count, const int32_t *cut) {
    struct spg_slabs slabs;
    slabs_of(name, parts, most, &slabs);
    assert_int_equal(slabs.parts, count);
    for (int32_t i = 0; i <= count; i++)
        if (slabs.cut[i] != cut[i])
            fail_msg("%s: cut %d is row %d, not %d", name, i, slabs.cut[i], cut[i]);
    spg_slabs_free(&slabs);
}

/* With B = A, a row of "rows:1:..." that has only column 0 has as many products as row 0 has entries. */
TEST(even_cuts) {
    /* The work of a row is its products and one more. */
    expect_cuts("rows:1:1:1:1:1:1", 2, 0, 2, (int32_t[]){0, 3, 6});
    expect_cuts("rows:1:1:1:1:1:1", 4, 0, 4, (int32_t[]){0, 2, 3, 5, 6});
    expect_cuts("rows:0:0:0:0", 2, 0, 2, (int32_t[]){0, 2, 4});
    expect_cuts("empty:0x0", 3, 0, 3, (int32_t[]){0, 0, 0, 0});
    expect_cuts("rows:1", 3, 0, 3, (int32_t[]){0, 0, 1, 1});
    /* 9 products in the first row, then 8 rows of 0: the work is 10, then 1 each. */
    expect_cuts("rows:9:0:0:0:0:0:0:0:0", 2, 0, 2, (int32_t[]){0, 1, 9});
    expect_cuts("rows:9:0:0:0:0:0:0:0:0", 4, 0, 4, (int32_t[]){0, 1, 1, 4, 9});
}

TEST(limited_cuts) {
    expect_cuts("rows:1:1:1:1:1:1", 0, 1, 6, (int32_t[]){0, 1, 2, 3, 4, 5, 6});
    expect_cuts("rows:1:1:1:1:1:1", 0, 4, 2, (int32_t[]){0, 4, 6});
    expect_cuts("rows:1:1:1:1:1:1", 0, 6, 1, (int32_t[]){0, 6});
    expect_cuts("rows:1:1:1:1:1:1", 0, INT32_MAX, 1, (int32_t[]){0, 6});
    /* A row beyond the limit is a slab of its own; rows without products fill a slab. */
    expect_cuts("rows:0:0:4:0:0:0", 0, 1, 3, (int32_t[]){0, 2, 3, 6});
    expect_cuts("rows:3:3:0:0", 0, 5, 3, (int32_t[]){0, 1, 2, 4});
    expect_cuts("rows:2:2:2", 0, 3, 3, (int32_t[]){0, 1, 2, 3});
    expect_cuts("empty:0x0", 0, 5, 0, (int32_t[]){0});
    expect_cuts("rows:0:0:0:0", 0, 1, 1, (int32_t[]){0, 4});
}

/* Slabs and offsets beyond 32 bits: no such matrix fits here, but sums of row lengths do. */
TEST(cuts_beyond_32_bits) {
    enum { ROWS = 12, MOST = 40 };
    struct spg_block block, cuts;
    struct spg_memory none = {0};
    struct spg_error error;
    assert_true(spg_block_make(&block, &none, (ROWS + 1) * sizeof(int64_t), "sums", &error));
    assert_true(spg_block_make(&cuts, &none, (MOST + 1) * sizeof(int32_t), "cuts", &error));
    int64_t *start = block.at;
    int32_t *cut = cuts.at;
    for (int32_t i = 0; i <= ROWS; i++)
        start[i] = (int64_t)i * (INT32_MAX / 2 + 1); /* two rows are one too many */
    assert_int_equal(spg_launch_limited_cuts(start, ROWS, INT32_MAX, cut + 1, cut, NULL), cudaSuccess);
    assert_int_equal(cut[0], ROWS);
    for (int32_t i = 0; i <= ROWS; i++)
        start[i] = (int64_t)i * (INT32_MAX / 2); /* two rows fit */
    assert_int_equal(spg_launch_limited_cuts(start, ROWS, INT32_MAX, cut + 1, cut, NULL), cudaSuccess);
    assert_int_equal(cut[0], ROWS / 2);
    for (int32_t i = 0; i <= ROWS / 2; i++)
        assert_int_equal(cut[1 + i], 2 * i);
    for (int32_t i = 0; i <= ROWS; i++)
        start[i] = (int64_t)i * INT32_MAX; /* one row fits exactly */
    assert_int_equal(spg_launch_limited_cuts(start, ROWS, INT32_MAX, cut + 1, cut, NULL), cudaSuccess);
    assert_int_equal(cut[0], ROWS);
    assert_int_equal(spg_launch_even_cuts(start, ROWS, 3, cut, NULL), cudaSuccess);
    for (int32_t i = 0; i <= 3; i++)
        assert_int_equal(cut[i], 4 * i);
    /* The product of the work and the number of slabs exceeds 64 bits. */
    for (int32_t i = 0; i <= ROWS; i++)
        start[i] = (INT64_MAX - 1000) / ROWS * i;
    assert_int_equal(spg_launch_even_cuts(start, ROWS, 6, cut, NULL), cudaSuccess);
    for (int32_t i = 0; i <= 6; i++)
        assert_int_equal(cut[i], 2 * i);
    spg_block_drop(&block, &none);
    spg_block_drop(&cuts, &none);
}

TEST(widths) {
    static const int64_t bases[] = {0, 1, INT32_MAX, (int64_t)INT32_MAX + 1, (int64_t)UINT32_MAX, (int64_t)1 << 40};
    enum { COUNT = 300 };
    struct spg_block wide, narrow;
    struct spg_memory none = {0};
    struct spg_error error;
    assert_true(spg_block_make(&wide, &none, COUNT * sizeof(int64_t), "wide", &error));
    assert_true(spg_block_make(&narrow, &none, COUNT * sizeof(int32_t), "narrow", &error));
    int64_t *offsets = wide.at;
    int32_t *small = narrow.at;
    for (size_t k = 0; k < sizeof bases / sizeof bases[0]; k++) {
        for (int i = 0; i < COUNT; i++)
            small[i] = (int32_t)((int64_t)INT32_MAX * i / (COUNT - 1));
        assert_int_equal(spg_launch_widen(small, bases[k], COUNT, offsets, NULL), cudaSuccess);
        for (int i = 0; i < COUNT; i++)
            assert_true(offsets[i] == bases[k] + (int64_t)INT32_MAX * i / (COUNT - 1));
        memset(small, 0, COUNT * sizeof *small);
        assert_int_equal(spg_launch_narrow(offsets, bases[k], COUNT, small, NULL), cudaSuccess);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(small[i], (int64_t)INT32_MAX * i / (COUNT - 1));
    }
    assert_int_equal(spg_launch_widen(small, 0, 0, offsets, NULL), cudaSuccess);
    spg_block_drop(&wide, &none);
    spg_block_drop(&narrow, &none);
}

/* Equal work, not equal rows. */
TEST(shares) {
    struct pair p = make_pair("rmat:8:8", "rmat:8:8", SPG_DOUBLE);
    struct gpumem_spgemm_group *g = group_of(4, SPG_DOUBLE);
    struct gpumem_spgemm_part part = {.struct_size = sizeof part};
    int64_t least = INT64_MAX, most = 0, rows = 0;
    multiplied(g, &p, 0);
    for (int i = 0; i < 4; i++) {
        worked(gpumem_spgemm_group_part(g, i, &part), p.name);
        least = part.products < least ? part.products : least;
        most = part.products > most ? part.products : most;
        rows = part.rows > rows ? part.rows : rows;
        assert_int_equal(part.device, i);
        assert_true(part.peak > 0);
    }
    assert_true(most < least + least / 2);
    assert_true(rows > p.a.rows / 4 + p.a.rows / 8);
    gpumem_spgemm_group_destroy(g);
    drop_pair(&p);
}

/* ---- failures */

/* Lets one allocation fail. The group then multiplies in the next calls, and nothing is lost. */
static bool survives(const struct pair *p, size_t fault, uint64_t flags) {
    size_t live = emulated_live();
    struct gpumem_spgemm_group_options options = {.struct_size = sizeof options, .nccl = nccl};
    struct gpumem_spgemm_group *g = NULL;
    int filled;
    emulated_fail(fault);
    enum gpumem_status status = gpumem_spgemm_group_create(&options, &g);
    if (!status)
        status = gpumem_spgemm_group_distribute(g, &p->first, &p->second, flags, NULL);
    if (!status)
        status = gpumem_spgemm_group_multiply(g, 0);
    bool reached = emulated_allocations() >= fault;
    emulated_fail(0);
    if (status)
        refused(status, GPUMEM_OUT_OF_MEMORY, "out of ");
    else
        check_parts(p, g, &filled);
    assert_int_equal(emulated_device, 0);
    if (g)
        multiplied(g, p, 0);
    gpumem_spgemm_group_destroy(g);
    assert_int_equal(emulated_live(), live);
    return reached;
}

TEST(every_allocation_fails_once) {
    struct pair p = make_pair("rmat:6:8", "rmat:6:8", SPG_DOUBLE);
    size_t fault = 0;
    while (survives(&p, ++fault, 0))
        ;
    assert_true(fault > 40);
    drop_pair(&p);
}

/* A device without memory for B reads it where it is, if the caller allows. */
TEST(in_place) {
    struct pair p = make_pair("rmat:6:8", "rmat:6:8", SPG_DOUBLE);
    struct gpumem_spgemm_group *g = group_of(3, SPG_DOUBLE);
    emulated_fail(2); /* the first array of the first copy is made, the second is not */
    refused(gpumem_spgemm_group_distribute(g, &p.first, &p.second, 0, NULL), GPUMEM_OUT_OF_MEMORY,
            "device 1: out of device memory");
    refused(gpumem_spgemm_group_multiply(g, 0), GPUMEM_INVALID_VALUE, "the group has no operands");
    emulated_fail(2);
    worked(gpumem_spgemm_group_distribute(g, &p.first, &p.second, GPUMEM_SPGEMM_B_IN_PLACE, NULL), p.name);
    worked(gpumem_spgemm_group_multiply(g, 0), p.name);
    assert_int_equal(b_of(g, 1), GPUMEM_SPGEMM_B_READ);
    assert_int_equal(b_of(g, 2), GPUMEM_SPGEMM_B_COPIED);
    int filled;
    check_parts(&p, g, &filled);
    change_values(&p, 3);
    multiplied(g, &p, GPUMEM_SPGEMM_SAME_STRUCTURE | GPUMEM_SPGEMM_B_IN_PLACE);
    setenv("EMULATED_NO_PEERS", "1", 1);
    worked(gpumem_spgemm_group_trim(g), p.name);
    emulated_fail(2);
    refused(gpumem_spgemm_group_distribute(g, &p.first, &p.second, GPUMEM_SPGEMM_B_IN_PLACE, NULL),
            GPUMEM_OUT_OF_MEMORY, "device 1: out of device memory: a copy of B, and the device cannot read");
    unsetenv("EMULATED_NO_PEERS");
    emulated_fail(0);
    multiplied(g, &p, 0);
    gpumem_spgemm_group_destroy(g);
    drop_pair(&p);
}

TEST(wrong_arguments) {
    struct gpumem_spgemm_group_options o = {.struct_size = sizeof o, .devices = (int[]){0, 4}, .count = 2};
    struct gpumem_spgemm_group *g = NULL;
    refused(gpumem_spgemm_group_create(&o, &g), GPUMEM_INVALID_VALUE, "device 4: there are 0 to 3");
    o.devices = (int[]){1, 1};
    refused(gpumem_spgemm_group_create(&o, &g), GPUMEM_INVALID_VALUE, "device 1 is named twice");
    o.count = 5;
    refused(gpumem_spgemm_group_create(&o, &g), GPUMEM_INVALID_VALUE, "5 devices: a group has 1 to 4 here");
    o = (struct gpumem_spgemm_group_options){.struct_size = sizeof o, .total = 8};
    refused(gpumem_spgemm_group_create(&o, &g), GPUMEM_INVALID_VALUE, "place 0 of 8 without an id");
    o = (struct gpumem_spgemm_group_options){.struct_size = sizeof o, .id = "id", .first = 6, .total = 8};
    refused(gpumem_spgemm_group_create(&o, &g), GPUMEM_INVALID_VALUE, "4 devices from place 6 do not fit a group of 8");
    o = (struct gpumem_spgemm_group_options){.struct_size = sizeof o, .precision = 7};
    refused(gpumem_spgemm_group_create(&o, &g), GPUMEM_INVALID_VALUE, "device 0: precision 7 is not 0");
    char id[GPUMEM_SPGEMM_ID_BYTES] = "";
    refused(gpumem_spgemm_group_id("", id), GPUMEM_NOT_SUPPORTED, "NCCL is switched off");
    o = (struct gpumem_spgemm_group_options){.struct_size = sizeof o, .id = id, .first = 0, .total = 8, .nccl = ""};
    refused(gpumem_spgemm_group_create(&o, &g), GPUMEM_NOT_SUPPORTED, "NCCL is switched off");
    struct pair p = make_pair("cage:5", "cage:5", SPG_DOUBLE);
    struct gpumem_spgemm_part part = {.struct_size = sizeof part};
    g = group_of(2, SPG_DOUBLE);
    refused(gpumem_spgemm_group_multiply(g, 0), GPUMEM_INVALID_VALUE, "the group has no operands");
    refused(gpumem_spgemm_group_part(g, 0, &part), GPUMEM_INVALID_VALUE, "the group has no product");
    refused(gpumem_spgemm_group_distribute(g, &p.first, NULL, 0, NULL), GPUMEM_INVALID_VALUE, "B is NULL");
    refused(gpumem_spgemm_group_distribute(g, &p.first, &p.second, 8, NULL), GPUMEM_INVALID_VALUE, "unknown flags 0x8");
    refused(gpumem_spgemm_group_distribute(g, &p.first, &p.second, GPUMEM_SPGEMM_SAME_STRUCTURE, NULL),
            GPUMEM_INVALID_VALUE, "same structure: ");
    refused(gpumem_spgemm_group_distribute(g, &p.first, &p.second, 0, EMULATED_CAPTURING), GPUMEM_STREAM_CAPTURE,
            "the stream is captured");
    worked(gpumem_spgemm_group_distribute(g, &p.first, &p.second, 0, NULL), p.name);
    refused(gpumem_spgemm_group_multiply(g, GPUMEM_SPGEMM_SAME_STRUCTURE), GPUMEM_INVALID_VALUE, "no last product");
    refused(gpumem_spgemm_group_multiply(g, 4), GPUMEM_INVALID_VALUE, "unknown flags 0x4");
    multiplied(g, &p, 0);
    refused(gpumem_spgemm_group_part(g, 2, &part), GPUMEM_INVALID_VALUE, "part 2: there are 0 to 1");
    worked(gpumem_spgemm_group_part(g, 0, &part), p.name);
    struct gpumem_spgemm_csr rows = {sizeof rows,  part.rows,    part.columns, part.stored,
                                     part.offsets, part.indices, part.values};
    refused(gpumem_spgemm_group_distribute(g, &rows, &p.second, 0, NULL), GPUMEM_INVALID_VALUE,
            "A lies in part 0 of the group's last product");
    gpumem_spgemm_group_destroy(g);
    gpumem_spgemm_group_destroy(NULL);
    drop_pair(&p);
}

/* ---- NCCL, by a library that plays it; the last test, because the library stays open */

TEST(by_nccl) {
    char log[] = "/tmp/spgemm-group-XXXXXX", line[80];
    int lines = 0, file = mkstemp(log);
    assert_true(file >= 0);
    nccl = FAKE_NCCL;
    setenv("FAKE_NCCL_LOG", log, 1);
    each_matrix(2, GPUMEM_SPGEMM_B_BROADCAST);
    each_matrix(4, GPUMEM_SPGEMM_B_BROADCAST);
    FILE *read = fdopen(file, "r");
    while (fgets(line, sizeof line, read))
        lines += strstr(line, " to 3\n") != NULL;
    assert_true(lines > 20);
    fclose(read);
    remove(log);
    /* A device that reads B in place takes no part in a broadcast, so all are served by copies. */
    in_place(state);
}

int main(void) {
    setenv("SIMCUDA_DEVICES", "4", 1);
    emulated_driver_use();
    emulated_prompt = true;
    spg_narrow_columns = 0; /* so that small matrices reach the other kernels */
    emulated_devices(4);
    return run_all(NULL, NULL);
}

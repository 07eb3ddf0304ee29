/* The modes and kernels of the GPU on an emulated device. Every product is compared with its definition; slots and
 * rounds are compared with the model. */
#include "emulated/driver.h"
#include "spgemm_test.h"

#include "spgemm/check.h"
#include "spgemm/estimate.h"
#include "spgemm/generators.h"
#include "spgemm/gpu_move.h"
#include "spgemm/gpu_spread.h"
#include "spgemm/model.h"
#include "spgemm/modes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Rows of every kind: empty, one entry, two, all columns; and columns that no other row has. */
static bool dense_row(struct spg_csr *m, int32_t rows, struct spg_error *error) {
    if (!spg_csr_make(m, rows, rows, 3 * rows, error))
        return false;
    int32_t at = 0;
    for (int32_t i = 0; i < rows; i++) {
        int32_t count = i == rows / 2 ? rows : i % 3;
        for (int32_t k = 0; k < count; k++)
            m->indices[at + k] = count == rows ? k : (i * 7 + k * 5) % (rows - 8);
        if (count == 2 && m->indices[at] > m->indices[at + 1]) {
            int32_t moved = m->indices[at];
            m->indices[at] = m->indices[at + 1];
            m->indices[at + 1] = moved;
        }
        at += count;
        m->offsets[i + 1] = at;
    }
    spg_csr_fill(m, 3);
    return true;
}

/* A and B whose product has rows of 1024 intermediate products that become 64 entries. Only the last row has 1024
 * entries: it overflows the table that suits the other rows. */
#define UNLIKE_ROWS  100
#define UNLIKE_TERMS 16
#define UNLIKE_RUN   64
static bool unlike(struct spg_csr *m, bool is_a, struct spg_error *error) {
    int32_t rows = is_a ? UNLIKE_ROWS : 2 * UNLIKE_TERMS, columns = is_a ? 2 * UNLIKE_TERMS : UNLIKE_TERMS * UNLIKE_RUN;
    int32_t each = is_a ? UNLIKE_TERMS : UNLIKE_RUN;
    if (!spg_csr_make(m, rows, columns, rows * each, error))
        return false;
    for (int32_t i = 0; i < rows; i++) {
        int32_t first = is_a               ? (i == rows - 1 ? UNLIKE_TERMS : 0)
                        : i < UNLIKE_TERMS ? 0
                                           : (i - UNLIKE_TERMS) * UNLIKE_RUN;
        for (int32_t k = 0; k < each; k++)
            m->indices[i * each + k] = first + k;
        m->offsets[i + 1] = (i + 1) * each;
    }
    spg_csr_fill(m, 5);
    return true;
}

/* A and B whose product has a row that fills a table of a warp to its last slot: FULL_ROWS rows of 32 entries, and one
 * of `entries` entries, each with 4 intermediate products. */
#define FULL_ROWS 40
#define FULL_RUN  32
static bool full_table(struct spg_csr *m, bool is_a, int32_t entries, struct spg_error *error) {
    int32_t blocks = entries / FULL_RUN, rows = is_a ? FULL_ROWS + 1 : 4 * blocks, at = 0;
    if (!spg_csr_make(m, rows, is_a ? 4 * blocks : entries, is_a ? 4 * (FULL_ROWS + blocks) : 4 * blocks * FULL_RUN,
                      error))
        return false;
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t k = 0; k < (is_a ? (i == FULL_ROWS ? 4 * blocks : 4) : FULL_RUN); k++)
            m->indices[at++] = is_a ? k : i / 4 * FULL_RUN + k;
        m->offsets[i + 1] = at;
    }
    spg_csr_fill(m, 15);
    return true;
}

/* A and B whose product has rows of 1, 4, 7 entries and so on, up to LADDER_LONGEST, with columns in no order. */
#define LADDER_LONGEST 436
#define LADDER_RUN     8
#define LADDER_TERMS   (LADDER_LONGEST / LADDER_RUN)
static bool ladder(struct spg_csr *m, bool is_a, struct spg_error *error) {
    int32_t inner = LADDER_TERMS + LADDER_RUN, rows = is_a ? LADDER_LONGEST / 3 + 1 : inner, at = 0;
    if (!spg_csr_make(m, rows, is_a ? inner : LADDER_RUN * (LADDER_TERMS + 1),
                      is_a ? rows * (LADDER_TERMS + 1) : inner * LADDER_RUN, error))
        return false;
    for (int32_t i = 0; i < rows; i++) {
        int32_t length = 3 * i + 1, rest = i - LADDER_TERMS;
        for (int32_t k = 0; is_a && k < length / LADDER_RUN; k++)
            m->indices[at++] = k;
        if (is_a && length % LADDER_RUN)
            m->indices[at++] = LADDER_TERMS + length % LADDER_RUN;
        for (int32_t k = 0; !is_a && k < (rest < 0 ? LADDER_RUN : rest); k++)
            m->indices[at++] = k * (LADDER_TERMS + 1) + (rest < 0 ? i : LADDER_TERMS);
        m->offsets[i + 1] = at;
    }
    spg_csr_fill(m, 19);
    return true;
}

/* Rows of `each` entries from column i x step on, and behind them a row of `last` entries, unless that is 0. */
static bool band(struct spg_csr *m, int32_t rows, int32_t each, int32_t step, int32_t last, struct spg_error *error) {
    int32_t at = 0;
    if (!spg_csr_make(m, rows + (last > 0), rows, rows * each + last, error))
        return false;
    for (int32_t i = 0; i < m->rows; i++) {
        for (int32_t k = 0; k < (i < rows ? each : last); k++)
            m->indices[at++] = i * step % (rows - 9) + k;
        m->offsets[i + 1] = at;
    }
    spg_csr_fill(m, 17);
    return true;
}

/* A and B whose product has rows of up to 12000 entries: of two windows, and of several segments, one of them empty. */
#define WIDE_TERMS     40
#define WIDE_RUN       300
#define WIDE_STEP      61
#define LONG_STEP      1100  /* several segments */
#define FAR_STEP       61000 /* so many columns that these rows are sorted */
#define WIDE_GAP(step) ((step) == LONG_STEP ? 2 * SPG_SEGMENT : 30000)
static bool wide(struct spg_csr *m, bool is_a, int32_t step, struct spg_error *error) {
    static const int32_t terms[] = {WIDE_TERMS, 0, 1, 30, WIDE_TERMS};
    int32_t rows = is_a ? 5 : WIDE_TERMS, columns = is_a ? WIDE_TERMS : WIDE_GAP(step) + (WIDE_RUN + 1) * step, at = 0;
    if (!spg_csr_make(m, rows, columns, is_a ? 111 : WIDE_TERMS * WIDE_RUN, error))
        return false;
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t k = 0; k < (is_a ? terms[i] : WIDE_RUN); k++)
            m->indices[at++] = is_a ? k : (k < WIDE_RUN / 2 ? 0 : WIDE_GAP(step)) + k * step + i * 7 % WIDE_STEP;
        m->offsets[i + 1] = at;
    }
    spg_csr_fill(m, 7);
    return true;
}

/* A and B whose product has rows of 1000, 4000 and 8000 entries, most of them sums of several products:
 * for tables of blocks, and for tasks of several ranges. */
#define CROWD_ROWS  100
#define CROWD_TERMS 60
#define CROWD_RUN   1000
static bool crowd(struct spg_csr *m, bool is_a, struct spg_error *error) {
    static const int32_t step[] = {1, 2, 4, 1, 2};
    int32_t rows = is_a ? CROWD_ROWS : CROWD_TERMS, columns = is_a ? CROWD_TERMS : 12 * CROWD_RUN, at = 0;
    if (!spg_csr_make(m, rows, columns, is_a ? CROWD_ROWS / 5 * 195 : CROWD_TERMS * CROWD_RUN, error))
        return false;
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t k = 0; k < (is_a ? CROWD_TERMS / step[i % 5] : CROWD_RUN); k++)
            m->indices[at++] = is_a ? k * step[i % 5] : 12 * k + i % 8;
        m->offsets[i + 1] = at;
    }
    spg_csr_fill(m, 11);
    return true;
}

/* A and B whose product has rows of 14000 intermediate products and some 10000 entries: A's rows have more entries than
 * a block has threads, and rows of B lie across the border of two windows. The second row is a short one. */
#define HUB_TERMS 700
#define HUB_RUN   20
static bool hub(struct spg_csr *m, bool is_a, struct spg_error *error) {
    int32_t rows = is_a ? 3 : HUB_TERMS, columns = is_a ? HUB_TERMS : 40000, at = 0;
    if (!spg_csr_make(m, rows, columns, is_a ? 2 * HUB_TERMS + 2 : HUB_TERMS * HUB_RUN, error))
        return false;
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t k = 0; k < (is_a ? (i == 1 ? 2 : HUB_TERMS) : HUB_RUN); k++)
            m->indices[at++] = is_a ? k : k * 1900 + i % 500 * 3;
        m->offsets[i + 1] = at;
    }
    spg_csr_fill(m, 13);
    return true;
}

/* A and B whose product has so many columns that a column and a slot of a larger table exceed 32 bits.
 * Row i has i x i entries for
 * i up to 39: tables of many sizes. */
#define VAST_ROWS 40
#define VAST_RUN  39
static bool vast(struct spg_csr *m, bool is_a, struct spg_error *error) {
    int32_t columns = is_a ? VAST_ROWS : 9000000, at = 0;
    if (!spg_csr_make(m, VAST_ROWS, columns, is_a ? VAST_ROWS * (VAST_ROWS - 1) / 2 : VAST_ROWS * VAST_RUN, error))
        return false;
    for (int32_t i = 0; i < VAST_ROWS; i++) {
        for (int32_t k = 0; k < (is_a ? i : VAST_RUN); k++)
            m->indices[at++] = is_a ? k : k * 230000 + i % 33 * 1000;
        m->offsets[i + 1] = at;
    }
    spg_csr_fill(m, 9);
    return true;
}

/* A and B whose product has rows of 520 and 1200 entries, for tables of blocks: each `step` columns, from `first` on.
 */
#define SPACED_ROWS 60
#define SPACED_RUN  20
static bool spaced(struct spg_csr *m, bool is_a, int32_t step, int32_t first, struct spg_error *error) {
    static const int32_t terms[] = {26, SPACED_ROWS};
    int32_t rows = is_a ? 2 : SPACED_ROWS, at = 0;
    if (!spg_csr_make(m, rows, is_a ? SPACED_ROWS : first + SPACED_ROWS * SPACED_RUN * step,
                      is_a ? terms[0] + terms[1] : SPACED_ROWS * SPACED_RUN, error))
        return false;
    for (int32_t i = 0; i < rows; i++) {
        for (int32_t k = 0; k < (is_a ? terms[i] : SPACED_RUN); k++)
            m->indices[at++] = is_a ? k : first + (k * SPACED_ROWS + i) * step;
        m->offsets[i + 1] = at;
    }
    spg_csr_fill(m, 21);
    return true;
}

/* A and B whose product has rows of several kinds, by chance. Most rows of A meet up to 16 rows of B that have the same
 * 64 columns. One in `every` meets 16 rows of other columns each, so that it overflows the table that suits the others.
 * One in `longer` exceeds the largest table. 0: there are none. */
#define MIXED_TERMS 16
#define MIXED_RUN   64
#define MIXED_LONG  500
static int32_t mixed_kind(uint64_t random, int32_t every, int32_t longer) {
    if (longer && (random >> 32) % (unsigned)longer == 0)
        return 2;
    return every && (random >> 40) % (unsigned)every == 0;
}

static bool mixed_a(struct spg_csr *m, int32_t rows, int32_t seed, int32_t every, int32_t longer,
                    struct spg_error *error) {
    int32_t at = 0;
    if (!spg_csr_make(m, rows, 3 * MIXED_TERMS, rows * MIXED_TERMS, error))
        return false;
    for (int32_t i = 0; i < rows; i++) {
        uint64_t random = spg_random_at((uint64_t)seed, (uint64_t)i);
        int32_t kind = mixed_kind(random, every, longer), count = MIXED_TERMS;
        if (!kind)
            count = random % 8 ? MIXED_TERMS - (int32_t)(random % 3) : 0;
        for (int32_t k = 0; k < count; k++)
            m->indices[at++] = kind * MIXED_TERMS + k;
        m->offsets[i + 1] = at;
    }
    spg_csr_fill(m, 23);
    return true;
}

static bool mixed_b(struct spg_csr *m, struct spg_error *error) {
    int32_t at = 0;
    if (!spg_csr_make(m, 3 * MIXED_TERMS, MIXED_TERMS * MIXED_LONG, MIXED_TERMS * (2 * MIXED_RUN + MIXED_LONG), error))
        return false;
    for (int32_t i = 0; i < m->rows; i++) {
        int32_t kind = i / MIXED_TERMS, run = kind == 2 ? MIXED_LONG : MIXED_RUN;
        for (int32_t k = 0; k < run; k++)
            m->indices[at++] = (kind ? i % MIXED_TERMS * run : 0) + k;
        m->offsets[i + 1] = at;
    }
    spg_csr_fill(m, 23);
    return true;
}

/* B for the A of brick27:3:4: the rows of a node, which are four, have the same `each` columns, `step` apart. */
#define NODES         27
#define NODE_UNKNOWNS 4
static bool nodes(struct spg_csr *m, int32_t each, int32_t step, struct spg_error *error) {
    if (!spg_csr_make(m, NODES * NODE_UNKNOWNS, NODES * each * step, NODES * NODE_UNKNOWNS * each, error))
        return false;
    for (int32_t i = 0; i < m->rows; i++) {
        for (int32_t k = 0; k < each; k++)
            m->indices[i * each + k] = (i / NODE_UNKNOWNS * each + k) * step;
        m->offsets[i + 1] = (i + 1) * each;
    }
    spg_csr_fill(m, 27);
    return true;
}

static struct spg_csr matrix(const char *name) {
    struct spg_error error;
    struct spg_csr m;
    int32_t rows, each, step, last;
    bool made = sscanf(name, "dense-row:%d", &rows) == 1 ? dense_row(&m, rows, &error)
                : sscanf(name, "full-a:%d", &last) == 1  ? full_table(&m, true, last, &error)
                : sscanf(name, "full-b:%d", &last) == 1  ? full_table(&m, false, last, &error)
                : sscanf(name, "band:%d:%d:%d:%d", &rows, &each, &step, &last) == 4
                    ? band(&m, rows, each, step, last, &error)
                : sscanf(name, "mixed-a:%d:%d:%d:%d", &rows, &each, &step, &last) == 4
                    ? mixed_a(&m, rows, each, step, last, &error)
                : sscanf(name, "nodes:%d:%d", &each, &step) == 2    ? nodes(&m, each, step, &error)
                : sscanf(name, "spaced-a:%d:%d", &step, &last) == 2 ? spaced(&m, true, step, last, &error)
                : sscanf(name, "spaced-b:%d:%d", &step, &last) == 2 ? spaced(&m, false, step, last, &error)
                : !strcmp(name, "mixed-b")                          ? mixed_b(&m, &error)
                : !strncmp(name, "ladder-", 7)                      ? ladder(&m, name[7] == 'a', &error)
                : !strncmp(name, "unlike-", 7)                      ? unlike(&m, name[7] == 'a', &error)
                : !strncmp(name, "wide-", 5)                        ? wide(&m, name[5] == 'a', WIDE_STEP, &error)
                : !strncmp(name, "long-", 5)                        ? wide(&m, name[5] == 'a', LONG_STEP, &error)
                : !strncmp(name, "hub-", 4)                         ? hub(&m, name[4] == 'a', &error)
                : !strncmp(name, "far-", 4)                         ? wide(&m, name[4] == 'a', FAR_STEP, &error)
                : !strncmp(name, "vast-", 5)                        ? vast(&m, name[5] == 'a', &error)
                : !strncmp(name, "crowd-", 6)                       ? crowd(&m, name[6] == 'a', &error)
                : sscanf(name, "empty:%d", &rows) == 1              ? spg_csr_make(&m, rows, rows, 0, &error)
                                                                    : spg_generate(&m, name, &error);
    if (!made || !spg_csr_valid(&m, &error))
        fail_msg("%s: %s", name, error.text);
    return m;
}

static struct spg_rounds expected_rounds(const struct spg_job *job, int32_t size_per_row) {
    struct spg_error error;
    struct spg_sizes sizes;
    struct spg_histogram histogram;
    assert_true(spg_sizes_make(&sizes, job->a, job->b, &error));
    assert_true(spg_histogram_make(&histogram, sizes.row, sizes.rows, &error));
    struct spg_rounds rounds = spg_model_rounds(&histogram, size_per_row);
    spg_histogram_free(&histogram);
    free(sizes.row);
    return rounds;
}

static void check_run(const char *what, const struct spg_mode *mode, const struct spg_job *job,
                      const struct spg_run *run) {
    if (mode->sized && !job->persistent && job->vector == SPG_VECTOR_VMM) {
        struct spg_rounds rounds = expected_rounds(job, run->size_per_row);
        if (rounds.entries != run->entries || rounds.rounds != run->rounds)
            fail_msg("%s: %lld slots in %d rounds, not %lld in %d", what, (long long)run->entries, run->rounds,
                     (long long)rounds.entries, rounds.rounds);
    }
    assert_true(run->entries >= run->stored);
}

/* The device's estimates are those of the host: same rows, same keys. */
static void check_estimates(const char *what, const struct spg_mode *mode, const struct spg_job *job, void *state) {
    struct spg_error error = {""};
    struct spg_estimates found;
    struct spg_sample sample;
    double cohen;
    size_t live = emulated_live();
    if (!mode->ops->estimate(state, &found, &error) ||
        !spg_sample_rows(&sample, job->a, job->b, SPG_SAMPLE_ROWS, SPG_SAMPLE_SEED, &error) ||
        !spg_estimate_cohen(job->a, job->b, SPG_COHEN_KEYS, SPG_SAMPLE_SEED, NULL, &cohen, &error))
        fail_msg("%s: %s", what, error.text);
    if (fabs(found.sampled - sample.total) > 1e-6 * sample.total || fabs(found.cohen - cohen) > 1e-6 * cohen)
        fail_msg("%s: sampled %f, not %f; by keys %f, not %f", what, found.sampled, sample.total, found.cohen, cohen);
    assert_true(found.sampled_ms > 0 && found.cohen_ms > 0);
    assert_int_equal(emulated_live(), live);
    spg_histogram_free(&sample.sizes);
}

static void assert_same_bits(const char *what, const struct spg_csr *first, const struct spg_csr *second) {
    size_t stored = (size_t)spg_csr_stored(first);
    if (memcmp(first->offsets, second->offsets, ((size_t)first->rows + 1) * sizeof *first->offsets) ||
        memcmp(first->indices, second->indices, stored * sizeof *first->indices) ||
        memcmp(first->values, second->values, stored * sizeof *first->values))
        fail_msg("%s: another C in the second run", what);
}

/* The emulation runs threads and warps in another order in each run, so it shows whether additions keep theirs. */
static void run_again(const char *what, const struct spg_mode *mode, void *state, struct spg_run *run) {
    struct spg_error error = {""};
    struct spg_csr first, second;
    if (!mode->ops->fetch(state, &first, &error) || !mode->ops->run(state, run, &error) ||
        !mode->ops->fetch(state, &second, &error))
        fail_msg("%s: %s", what, error.text);
    assert_same_bits(what, &first, &second);
    spg_csr_free(&first);
    spg_csr_free(&second);
}

/* Runs small products in double precision twice, because the second call drops the C of the first. */
static void multiply(const char *name, const char *mode_name, const struct spg_job *job) {
    struct spg_error error = {""};
    struct spg_check check;
    struct spg_run run;
    struct spg_csr c;
    const char *argument;
    char what[200];
    size_t live = emulated_live();
    const struct spg_mode *mode = spg_mode_find(mode_name, &argument, &error);
    assert_non_null(mode);
    snprintf(what, sizeof what, "%s %s kernel=%d vector=%d precision=%d size=%d persistent=%d", name, mode_name,
             job->kernel, job->vector, job->precision, job->size_per_row, job->persistent);
    void *state = mode->ops->open(job, &error);
    bool again = job->precision == SPG_DOUBLE && job->a->rows < 150;
    if (!state || !mode->ops->run(state, &run, &error))
        fail_msg("%s: %s", what, error.text);
    if (again)
        run_again(what, mode, state, &run);
    if (!mode->ops->fetch(state, &c, &error) || !spg_check_product(job->a, job->b, &c, job->precision, &check, &error))
        fail_msg("%s: %s", what, error.text);
    check_run(what, mode, job, &run);
    if (mode->sized && !job->size_per_row)
        check_estimates(what, mode, job, state);
    assert_int_equal(run.stored, spg_csr_stored(&c));
    spg_csr_free(&c);
    mode->ops->close(state);
    assert_int_equal(emulated_live(), live);
}

static bool thorough;

/* Double precision with every size and vector. Single precision with the first size only, unless `thorough`. */
static void all_modes(const char *name, const char *b_name, enum spg_kernel kernel, const int32_t *sizes) {
    struct spg_csr a = matrix(name), b = b_name ? matrix(b_name) : a;
    for (enum spg_precision precision = SPG_DOUBLE; precision <= SPG_FLOAT; precision++) {
        struct spg_job job = {.a = &a, .b = b_name ? &b : &a, .precision = precision, .argument = "", .kernel = kernel};
        if (precision == SPG_FLOAT) {
            spg_csr_round_to_float(&a);
            if (b_name)
                spg_csr_round_to_float(&b);
        }
        multiply(name, "upper-bound", &job);
        multiply(name, "precise", &job);
        for (const int32_t *size = sizes; *size >= 0 && (thorough || precision == SPG_DOUBLE || size == sizes);
             size++) {
            job.size_per_row = *size;
            multiply(name, "rounds", &job);
            job.vector = SPG_VECTOR_COPY;
            if (thorough || precision == SPG_DOUBLE)
                multiply(name, "rounds", &job);
            job.vector = SPG_VECTOR_VMM;
            job.persistent = kernel == SPG_KERNEL_THESIS;
            if (job.persistent)
                multiply(name, "rounds", &job);
            job.persistent = false;
        }
    }
    spg_csr_free(&a);
    if (b_name)
        spg_csr_free(&b);
}

#define SIZES(...) ((const int32_t[]){__VA_ARGS__, -1})

TEST(hash_small) {
    all_modes("stencil7:1x1x1", NULL, SPG_KERNEL_HASH, SIZES(0, 1, 8));
    all_modes("empty:5", NULL, SPG_KERNEL_HASH, SIZES(0, 4));
    all_modes("empty:0", NULL, SPG_KERNEL_HASH, SIZES(0, 4));
    all_modes("cage:5", NULL, SPG_KERNEL_HASH, SIZES(0, 1, 3, 1000));
    all_modes("stencil7:7x5x3", NULL, SPG_KERNEL_HASH, SIZES(0, 8));
    all_modes("dense-row:80", NULL, SPG_KERNEL_HASH, SIZES(8, 64));
}

/* Long rows: tables of every size, the bitonic sort, tables that overflow. */
TEST(hash_large) {
    all_modes("brick27:3:4", NULL, SPG_KERNEL_HASH, SIZES(60));
    all_modes("rmat:7:12", NULL, SPG_KERNEL_HASH, SIZES(16));
    all_modes("dense-row:900", NULL, SPG_KERNEL_HASH, SIZES(100));
}

/* Rows of A of equal pattern share a table, the largest one too. Rows of B of equal pattern, one behind the other, are
 * added together; those of another matrix too, and not where their patterns differ. */
TEST(hash_groups) {
    all_modes("brick27:5:4", NULL, SPG_KERNEL_HASH, SIZES(300));
    all_modes("brick27:3:4", "brick27:3:4:2", SPG_KERNEL_HASH, SIZES(60));
    all_modes("brick27:3:4", "band:108:8:9:0", SPG_KERNEL_HASH, SIZES(60));
    all_modes("brick27:3:4", "nodes:30:1", SPG_KERNEL_HASH, SIZES(400));
    all_modes("brick27:3:4", "nodes:30:6000", SPG_KERNEL_HASH, SIZES(400)); /* a column and a slot exceed 32 bits */
    all_modes("brick27:3:4", "nodes:9:40000", SPG_KERNEL_HASH, SIZES(400));
}

TEST(hash_overflow) { all_modes("unlike-a", "unlike-b", SPG_KERNEL_HASH, SIZES(100)); }

TEST(hash_full_table) {
    all_modes("full-a:64", "full-b:64", SPG_KERNEL_HASH, SIZES(100));
    all_modes("full-a:128", "full-b:128", SPG_KERNEL_HASH, SIZES(100));
    all_modes("full-a:256", "full-b:256", SPG_KERNEL_HASH, SIZES(100));
    all_modes("full-a:512", "full-b:512", SPG_KERNEL_HASH, SIZES(100));
}

/* Each network that sorts a row, full and not full. */
TEST(hash_sort) { all_modes("ladder-a", "ladder-b", SPG_KERNEL_HASH, SIZES(500)); }

/* Rows of 8 entries are merged; rows of 9 use tables, and so does A if a row of B that it meets has 9. All products of
 * a row have other columns, or 8 columns in all. */
TEST(hash_short) {
    all_modes("band:90:8:9:0", NULL, SPG_KERNEL_HASH, SIZES(0, 8));
    all_modes("band:90:8:9:0", "band:90:8:0:0", SPG_KERNEL_HASH, SIZES(0, 8));
    all_modes("band:90:9:9:0", NULL, SPG_KERNEL_HASH, SIZES(0, 8));
    all_modes("band:90:8:9:9", "band:90:8:9:0", SPG_KERNEL_HASH, SIZES(8));
    all_modes("band:90:8:9:0", "band:90:9:9:0", SPG_KERNEL_HASH, SIZES(8));
}

/* Rows that exceed the largest table. */
TEST(hash_ranges) {
    all_modes("wide-a", "wide-b", SPG_KERNEL_HASH, SIZES(0, 2000));
    all_modes("long-a", "long-b", SPG_KERNEL_HASH, SIZES(0, 2000));
    all_modes("hub-a", "hub-b", SPG_KERNEL_HASH, SIZES(0, 2000));
}

TEST(hash_sorted) { all_modes("far-a", "far-b", SPG_KERNEL_HASH, SIZES(100, 2000)); }

TEST(hash_many_columns) { all_modes("vast-a", "vast-b", SPG_KERNEL_HASH, SIZES(1000)); }

/* Blocks sort by marks: in one part and in several, also where columns and slots exceed 32 bits. Columns that lie far
 * apart are sorted by a network, or in shared memory. */
TEST(hash_marks) {
    all_modes("spaced-a:1:0", "spaced-b:1:0", SPG_KERNEL_HASH, SIZES(600));
    all_modes("spaced-a:97:3", "spaced-b:97:3", SPG_KERNEL_HASH, SIZES(600));
    all_modes("spaced-a:97:9000000", "spaced-b:97:9000000", SPG_KERNEL_HASH, SIZES(600));
    all_modes("spaced-a:1500:0", "spaced-b:1500:0", SPG_KERNEL_HASH, SIZES(600));
    all_modes("spaced-a:9000:0", "spaced-b:9000:0", SPG_KERNEL_HASH, SIZES(600));
}

/* The rows of all methods that use several warps. The test fails when additions depend on the order of warps. */
TEST(hash_same_bits) { all_modes("crowd-a", "crowd-b", SPG_KERNEL_HASH, SIZES(2000)); }

static struct spg_csr product(const struct spg_job *job, const char *mode_name) {
    struct spg_error error = {""};
    const char *argument;
    const struct spg_mode_ops *f = spg_mode_find(mode_name, &argument, &error)->ops;
    struct spg_run run;
    struct spg_csr c;
    void *state = f->open(job, &error);
    if (!state || !f->run(state, &run, &error) || !f->fetch(state, &c, &error))
        fail_msg("%s: %s", mode_name, error.text);
    f->close(state);
    return c;
}

/* Products are added in the order of A's row, whatever table or team a mode chooses for the row. */
TEST(hash_same_bits_in_all_modes) {
    static const char *names[][2] = {{"cage:6", NULL},         {"rmat:7:12", NULL},  {"dense-row:900", NULL},
                                     {"brick27:3:4", NULL},    {"wide-a", "wide-b"}, {"hub-a", "hub-b"},
                                     {"unlike-a", "unlike-b"}, {"vast-a", "vast-b"}, {"brick27:3:4", "brick27:3:4:2"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct spg_csr a = matrix(names[i][0]), b = names[i][1] ? matrix(names[i][1]) : a;
        struct spg_job job = {.a = &a, .b = names[i][1] ? &b : &a, .argument = "", .size_per_row = 50};
        struct spg_csr first = product(&job, "precise"), second = product(&job, "rounds");
        assert_same_bits(names[i][0], &first, &second);
        spg_csr_free(&first);
        spg_csr_free(&second);
        spg_csr_free(&a);
        if (names[i][1])
            spg_csr_free(&b);
    }
}

/* A row of 9 entries behind the others makes all rows use tables. */
TEST(hash_short_same_bits) {
    static const int32_t each[] = {8, 8, 8, 7, 3}, step[] = {9, 1, 0, 3, 2};
    for (size_t i = 0; i < sizeof each / sizeof each[0]; i++) {
        char name[40], longer[40], b_name[40];
        snprintf(name, sizeof name, "band:90:%d:9:0", each[i]);
        snprintf(longer, sizeof longer, "band:90:%d:9:9", each[i]);
        snprintf(b_name, sizeof b_name, "band:90:%d:%d:0", each[i], step[i]);
        struct spg_csr a = matrix(name), with_long = matrix(longer), b = matrix(b_name);
        memcpy(with_long.values, a.values, (size_t)spg_csr_stored(&a) * sizeof *a.values);
        struct spg_job merged_job = {.a = &a, .b = &b, .argument = "", .size_per_row = 50}, table_job = merged_job;
        table_job.a = &with_long;
        struct spg_csr merged = product(&merged_job, "precise"), table = product(&table_job, "precise"),
                       at_once = product(&merged_job, "auto");
        assert_same_bits(name, &merged, &at_once);
        spg_csr_free(&at_once);
        table.rows = merged.rows;
        assert_same_bits(name, &merged, &table);
        table.rows = with_long.rows;
        spg_csr_free(&merged);
        spg_csr_free(&table);
        spg_csr_free(&with_long);
        spg_csr_free(&a);
        spg_csr_free(&b);
    }
}

/* Families that are hard for one method or another. */
TEST(hash_families) {
    all_modes("dense-rows:90:3:2", NULL, SPG_KERNEL_HASH, SIZES(0, 10));
    all_modes("dense-columns:90:3:2", NULL, SPG_KERNEL_HASH, SIZES(0, 10));
    all_modes("dense-rows:300:2:1", NULL, SPG_KERNEL_HASH, SIZES(0));
    all_modes("dense-columns:300:2:1", NULL, SPG_KERNEL_HASH, SIZES(0));
    all_modes("dense-rows:1:1:1", NULL, SPG_KERNEL_HASH, SIZES(0));
    all_modes("dense-rows:70:1:70", NULL, SPG_KERNEL_HASH, SIZES(0));
    all_modes("dense-rows:40:1:1", "dense-columns:40:1:1", SPG_KERNEL_HASH, SIZES(0));
    all_modes("dense-columns:40:1:1", "dense-rows:40:1:1", SPG_KERNEL_HASH, SIZES(0));
}

static struct spg_run one_run(const struct spg_job *job) {
    struct spg_error error = {""};
    struct spg_check check;
    struct spg_run run;
    struct spg_csr c;
    void *method = spg_mode_rounds.open(job, &error);
    if (!method || !spg_mode_rounds.run(method, &run, &error) || !spg_mode_rounds.fetch(method, &c, &error) ||
        !spg_check_product(job->a, job->b, &c, job->precision, &check, &error))
        fail_msg("%s", error.text);
    spg_csr_free(&c);
    spg_mode_rounds.close(method);
    return run;
}

#define GRANULE ((size_t)2 << 20)

/* With one round, C becomes the front of its own slots. The peak would show a second copy of C. */
TEST(layout_in_place) {
    struct spg_csr a = matrix("brick27:8:3");
    for (int kernel = SPG_KERNEL_HASH; kernel <= SPG_KERNEL_THESIS; kernel++) {
        struct spg_job job = {.a = &a, .b = &a, .argument = "", .kernel = kernel, .size_per_row = 375};
        struct spg_run run = one_run(&job);
        size_t helpers = (size_t)a.rows * 48 + (64 << 10), slots = (size_t)run.entries * 12;
        assert_int_equal(run.rounds, 1);
        assert_true(run.peak <= slots + helpers + (kernel == SPG_KERNEL_THESIS ? 5 : 4) * GRANULE);
        job.vector = SPG_VECTOR_COPY;
        run = one_run(&job);
        assert_true(run.peak >= (size_t)run.entries * 8 + (size_t)run.stored * 12);
    }
    spg_csr_free(&a);
}

/* Sizes where the borders of rows, tiles and chunks coincide, and sizes where they do not. */
TEST(layout_of_tile_borders) {
    static const char *names[] = {"stencil7:8x8x4", "stencil7:7x5x6", "brick27:3:2", "empty:300", "dense-row:100"};
    static const int32_t sizes[] = {25, 32, 250, 300, 2047, 2048, 2049};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct spg_csr a = matrix(names[i]);
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
            struct spg_job job = {.a = &a, .b = &a, .argument = "", .size_per_row = sizes[k], .precision = k % 2};
            if (job.precision == SPG_FLOAT)
                spg_csr_round_to_float(&a);
            multiply(names[i], "rounds", &job);
        }
        spg_csr_free(&a);
    }
}

TEST(layout_by_slabs) {
    struct spg_spread_settings usual = spg_spread_settings;
    spg_spread_settings.slab_entries = 50;
    all_modes("cage:7", NULL, SPG_KERNEL_HASH, SIZES(0, 1, 16));
    all_modes("rmat:7:8", NULL, SPG_KERNEL_HASH, SIZES(0, 3, 64));
    all_modes("rmat:11:2", NULL, SPG_KERNEL_HASH, SIZES(5));
    all_modes("stencil7:7x6x5", NULL, SPG_KERNEL_HASH, SIZES(0, 8));
    all_modes("dense-row:80", NULL, SPG_KERNEL_HASH, SIZES(0, 8, 64));
    all_modes("wide-a", "wide-b", SPG_KERNEL_HASH, SIZES(100));
    all_modes("unlike-a", "unlike-b", SPG_KERNEL_HASH, SIZES(20));
    struct spg_csr a = matrix("brick27:8:3");
    struct spg_job job = {.a = &a, .b = &a, .argument = "", .size_per_row = 64};
    struct spg_run run = one_run(&job);
    assert_true(run.rounds > 1);
    /* A gap of an eighth of C, and no second copy. */
    assert_true(run.peak <= (size_t)run.entries * 12 * 5 / 4 + (size_t)a.rows * 48 + (64 << 10) + 4 * GRANULE);
    spg_csr_free(&a);
    /* Slots run out in the last slab, in a middle slab, in the first slab. */
    static const double margins[] = {0.97, 0.5, 0.01};
    for (size_t i = 0; i < sizeof margins / sizeof margins[0]; i++) {
        spg_spread_settings.margin = margins[i];
        spg_spread_settings.slab_entries = 50;
        all_modes("cage:6", NULL, SPG_KERNEL_HASH, SIZES(1, 16));
        all_modes("rmat:7:8", NULL, SPG_KERNEL_HASH, SIZES(3, 64));
        all_modes("unlike-a", "unlike-b", SPG_KERNEL_HASH, SIZES(20));
        all_modes("wide-a", "wide-b", SPG_KERNEL_HASH, SIZES(100));
        spg_spread_settings.slab_entries = INT64_MAX;
        all_modes("cage:6", NULL, SPG_KERNEL_HASH, SIZES(1, 16));
    }
    /* The gap is too small for some slabs, and for all. */
    static const double gaps[] = {0.7, 0.4, 0.01};
    a = matrix("cage:7");
    job = (struct spg_job){.a = &a, .b = &a, .argument = "", .size_per_row = 16};
    for (size_t i = 0; i < sizeof gaps / sizeof gaps[0]; i++) {
        spg_spread_settings = usual;
        spg_spread_settings.slab_entries = 50;
        spg_spread_settings.gap = gaps[i];
        multiply("cage:7", "rounds", &job);
    }
    spg_csr_free(&a);
    spg_spread_settings = usual;
}

/* Slabs that are moved while the next one is computed, where rows overflow tables, have no memory, or exceed the
 * largest table. */
TEST(layout_of_mixed_rows) {
    static const struct {
        const char *a;
        double margin;
        int32_t repeated, size_per_row;
    } cases[] = {
        {"mixed-a:400:39:40:0", 1.01, 8192, 100}, /* all overflowed rows are computed again beside the next slab */
        {"mixed-a:400:4:100:0", 1.01, 1, 100},    /* one slab has more of them, so no slab after it is moved */
        {"mixed-a:400:4:100:0", 1.01, 0, 100},    /* none of them is */
        {"mixed-a:200:24:40:0", 1.01, 8192, 33},  /* rows of the last slab overflow, and it is not clear */
        {"mixed-a:1500:5:300:0", 1.01, 8192, 33}, /* some rows are deferred */
        {"mixed-a:1500:19:300:0", 0.9, 8192, 33},   {"mixed-a:30:21:300:0", 0.5, 8192, 64},
        {"mixed-a:200:35:0:100", 0.5, 8192, 500}, /* rows that exceed the largest table are deferred */
        {"mixed-a:1500:19:300:400", 0.9, 8192, 33},
    };
    struct spg_spread_settings usual = spg_spread_settings;
    int32_t usual_most = spg_mover_most;
    spg_spread_settings.slab_entries = 50;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct spg_csr a = matrix(cases[i].a), b = matrix("mixed-b");
        struct spg_job job = {.a = &a, .b = &b, .argument = "", .size_per_row = cases[i].size_per_row};
        spg_spread_settings.margin = cases[i].margin;
        spg_mover_most = cases[i].repeated;
        multiply(cases[i].a, "rounds", &job);
        spg_csr_free(&a);
        spg_csr_free(&b);
    }
    spg_spread_settings = usual;
    spg_mover_most = usual_most;
}

/* First chunks in two halves; rows that need extra chunks are in either half. */
TEST(layout_by_halves) {
    struct spg_spread_settings usual = spg_spread_settings;
    spg_spread_settings.halving_slots = 1;
    all_modes("stencil7:1x1x1", NULL, SPG_KERNEL_HASH, SIZES(0, 1));
    all_modes("empty:5", NULL, SPG_KERNEL_HASH, SIZES(0, 4));
    all_modes("empty:0", NULL, SPG_KERNEL_HASH, SIZES(0, 4));
    all_modes("stencil7:7x5x3", NULL, SPG_KERNEL_HASH, SIZES(0, 8, 25, 40));
    all_modes("cage:6", NULL, SPG_KERNEL_HASH, SIZES(0, 16, 100));
    all_modes("dense-row:80", NULL, SPG_KERNEL_HASH, SIZES(0, 8, 64, 80));
    all_modes("rmat:7:8", NULL, SPG_KERNEL_HASH, SIZES(0, 64, 128));
    all_modes("unlike-a", "unlike-b", SPG_KERNEL_HASH, SIZES(0, 64, 100));
    all_modes("wide-a", "wide-b", SPG_KERNEL_HASH, SIZES(0, 12000));
    all_modes("brick27:3:5", NULL, SPG_KERNEL_HASH, SIZES(0, 50, 150));
    /* No sampled row predicts extra chunks here, so none are mapped at first. */
    spg_spread_settings.margin = 0;
    all_modes("cage:6", NULL, SPG_KERNEL_HASH, SIZES(1, 16));
    all_modes("rmat:7:8", NULL, SPG_KERNEL_HASH, SIZES(3, 64));
    all_modes("wide-a", "wide-b", SPG_KERNEL_HASH, SIZES(100));
    spg_spread_settings = usual;
}

TEST(thesis) {
    all_modes("stencil7:1x1x1", NULL, SPG_KERNEL_THESIS, SIZES(0, 1, 8));
    all_modes("empty:5", NULL, SPG_KERNEL_THESIS, SIZES(4));
    all_modes("cage:6", NULL, SPG_KERNEL_THESIS, SIZES(0, 1, 3, 1000));
    all_modes("stencil7:7x5x3", NULL, SPG_KERNEL_THESIS, SIZES(0, 8, 25));
    all_modes("dense-row:80", NULL, SPG_KERNEL_THESIS, SIZES(8));
    all_modes("rmat:6:6", NULL, SPG_KERNEL_THESIS, SIZES(0, 8));
}

TEST(limits) {
    struct spg_csr a = matrix("brick27:3:2");
    struct spg_job job = {.a = &a, .b = &a, .argument = "", .size_per_row = 96};
    static const char *names[] = {"upper-bound", "precise", "rounds"};
    for (size_t i = 0; i < 3; i++) {
        struct spg_error error;
        const char *argument;
        struct spg_run run;
        size_t live = emulated_live();
        const struct spg_mode_ops *f = spg_mode_find(names[i], &argument, &error)->ops;
        /* The limit grows step by step. The product fails until it suffices, and leaks nothing. */
        bool done = false;
        int failures = 0;
        for (job.limit = 1000; !done; job.limit += job.limit / 2) {
            void *method = f->open(&job, &error);
            assert_non_null(method);
            done = f->run(method, &run, &error);
            if (!done) {
                assert_non_null(strstr(error.text, "out of device memory"));
                failures++;
            }
            f->close(method);
            assert_int_equal(emulated_live(), live);
        }
        assert_true(failures > 5 && run.peak <= job.limit);
    }
    spg_csr_free(&a);
}

TEST(layouts_of_large_matrices) {
    thorough = true;
    all_modes("cage:7", NULL, SPG_KERNEL_HASH, SIZES(0, 1, 16, 100));
    all_modes("rmat:9:8", NULL, SPG_KERNEL_HASH, SIZES(0, 16, 300));
    all_modes("brick27:4:5", NULL, SPG_KERNEL_HASH, SIZES(0, 60, 128));
    all_modes("dense-row:900", NULL, SPG_KERNEL_HASH, SIZES(0, 100, 2000));
    all_modes("dense-row:9000", NULL, SPG_KERNEL_HASH, SIZES(0, 500, 9000));
    all_modes("unlike-a", "unlike-b", SPG_KERNEL_HASH, SIZES(0, 100));
    all_modes("cage:7", NULL, SPG_KERNEL_THESIS, SIZES(0, 1, 16, 100));
    all_modes("rmat:8:8", NULL, SPG_KERNEL_THESIS, SIZES(0, 16, 300));
    all_modes("stencil7:15x11x7", NULL, SPG_KERNEL_THESIS, SIZES(0, 8, 25));
}

/* Returns the memory that a product needs. With less it fails and leaks nothing. */
static size_t least_memory(const char *name, int32_t size_per_row) {
    struct spg_csr a = matrix(name);
    struct spg_job job = {.a = &a, .b = &a, .argument = "", .size_per_row = size_per_row};
    const struct spg_mode_ops *f = &spg_mode_rounds;
    size_t live = emulated_live(), size = 0;
    struct spg_error error;
    struct spg_run run;
    void *method = f->open(&job, &error);
    assert_non_null(method);
    for (emulated_driver_limit(size); !f->run(method, &run, &error); emulated_driver_limit(size += 2 << 20))
        assert_non_null(strstr(error.text, "out of device memory"));
    assert_true(run.stored > 0);
    emulated_driver_limit(SIZE_MAX);
    f->close(method);
    assert_int_equal(emulated_live(), live);
    spg_csr_free(&a);
    return size;
}

/* The device itself runs out of memory, for either array, also while the second half is mapped and rows of the first
 * are computed. */
TEST(layout_on_a_full_device) {
    struct spg_spread_settings usual = spg_spread_settings;
    assert_int_equal(least_memory("brick27:3:2", 64), 2 * GRANULE);
    for (int halved = 0; halved < 2; halved++) {
        spg_spread_settings.halving_slots = halved ? 1 : INT64_MAX;
        assert_int_equal(least_memory("brick27:8:3", 375), 5 * GRANULE);
    }
    spg_spread_settings.slab_entries = 50;
    assert_int_equal(least_memory("brick27:8:3", 64), 3 * GRANULE);
    spg_spread_settings = usual;
}

int main(int argc, char **argv) {
    emulated_driver_use();
    spg_narrow_columns = 0; /* so that small matrices reach the other kernels */
    if (argc > 1)
        cmocka_set_test_filter(wants_large(argc, argv) ? "layouts_of_large_matrices" : "layout_*");
    else
        cmocka_set_skip_filter("layout*");
    return run_all(NULL, NULL);
}

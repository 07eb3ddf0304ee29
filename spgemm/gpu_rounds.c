/* Mode rounds: the growing loop of the thesis (algorithm 3, section 3.2). Each round appends size_per_row
 * places for every unfinished row (line 10 read as growth), then forms what fits; a row goes on where it left
 * off. The fast accumulator has a row's columns in no order before it has all of them: there a row takes the
 * pieces of all its rounds at once (gpu_spread.c), as many places in the end. At the end rows have holes
 * between them; they are moved together (gpu_compact.c), and only then is C the compressed rows that callers
 * know. Time and memory of that are counted. */
#include "spgemm/gpu_rounds.h"

static int32_t *owners(const struct spg_loop *l, int64_t piece) { return (int32_t *)l->owner.at + piece; }

static struct spg_target target_of(const struct spg_loop *l, int32_t rounds) {
    return (struct spg_target){.values = l->values.at,
                               .columns = l->columns.at,
                               .size = l->w.size,
                               .pieces = {l->size, rounds, l->owner.at, l->first.at}};
}

/* Grows an array of elements to `count`, unless it is as large. */
static bool grow(struct spg_output *o, int64_t count, size_t element, struct spg_error *error) {
    size_t wanted;
    if (__builtin_mul_overflow((size_t)count, element, &wanted))
        return spg_fail(error, "out of device memory: %s: %lld of them", o->what, (long long)count);
    return wanted <= o->size || spg_output_append(o, wanted - o->size, error);
}

/* What the sample says C takes has handles of its own, so that places behind C can be given back. */
static bool grow_array(struct spg_loop *l, struct spg_output *o, int64_t count, size_t element,
                       struct spg_error *error) {
    int64_t c = l->expected + l->expected / 256;
    if (c > (int64_t)(o->size / element) && c < count - count / 64 && !grow(o, c, element, error))
        return false;
    return grow(o, count, element, error);
}

/* Freeing what was copied waits for the copy. */
bool spg_loop_grow(struct spg_loop *l, int64_t count, struct spg_error *error) {
    double begin = spg_now_ms();
    bool grown =
        grow_array(l, &l->columns, count, sizeof(int32_t), error) && grow_array(l, &l->values, count, l->value, error);
    l->grow_ms += spg_now_ms() - begin;
    return grown;
}

static bool choose_size(struct spg_loop *l, struct spg_error *error) {
    l->size = l->job->size_per_row;
    if (l->size && !l->job->persistent)
        return true;
    if (!spg_work_sample(&l->w, &l->sample, error))
        return false;
    if (!l->size)
        l->size = spg_auto_size_per_row(&l->sample, false);
    return true;
}

/* Rounds are at most those of a row that has as many entries as multiplications, or columns. */
static bool start(struct spg_loop *l, struct spg_error *error) {
    struct spg_memory *memory = &l->w.gpu->memory;
    if (!choose_size(l, error) || !spg_cuda(cudaEventRecord(l->w.gpu->estimated, NULL), "event", error))
        return false;
    int32_t longest = l->w.totals.most < l->w.b->columns ? l->w.totals.most : l->w.b->columns;
    size_t rounds = (size_t)longest / (size_t)l->size + 2, rows = (size_t)l->w.rows;
    return spg_output_make(&l->owner, l->job->vector, memory, "owners of pieces", error) &&
           spg_block_make(&l->first, memory, (rounds + 1) * sizeof(int64_t), "rounds", error) &&
           spg_cuda(cudaMemsetAsync(l->first.at, 0, l->first.size, NULL), "rounds", error) &&
           spg_block_make(&l->resume, memory, rows * sizeof(int32_t), "unfinished rows", error) &&
           (!l->job->persistent ||
            (spg_block_make(&l->unfinished, memory, rounds * sizeof(int32_t), "unfinished rows", error) &&
             spg_cuda(cudaMemsetAsync(l->unfinished.at, 0, l->unfinished.size, NULL), "rounds", error))) &&
           grow(&l->owner, l->w.rows, sizeof(int32_t), error) &&
           spg_cuda(spg_launch_count_up(l->owner.at, l->w.rows), "rows", error);
}

static bool form(struct spg_loop *l, int64_t from, int32_t rows, struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_target c = target_of(l, l->rounds + 1);
    return spg_cuda(
        spg_launch_dots(l->job->precision, w->a, w->b, &w->way->by_columns, owners(l, from), rows, &c, l->resume.at),
        "rows by threads", error);
}

/* One round: `*rows` unfinished rows are listed from piece l->pieces on; becomes how many it leaves. */
static bool round_of(struct spg_loop *l, int32_t *rows, struct spg_error *error) {
    int64_t from = l->pieces;
    if (*rows > INT32_MAX - from)
        return spg_fail(error, "more than %d pieces of %d places; a larger --size-per-row takes fewer", INT32_MAX,
                        l->size);
    l->pieces += *rows;
    /* Rows that stay are listed behind those that are here, as many at most. */
    if (!spg_loop_grow(l, l->pieces * l->size, error) || !grow(&l->owner, l->pieces + *rows, sizeof(int32_t), error) ||
        !spg_cuda(cudaMemcpyAsync((int64_t *)l->first.at + l->rounds + 1, &l->pieces, sizeof l->pieces,
                                  cudaMemcpyHostToDevice, NULL),
                  "rounds", error) ||
        !form(l, from, *rows, error) ||
        !spg_work_select(&l->w, owners(l, from), *rows, (int64_t)(l->rounds + 1) * l->size, owners(l, l->pieces), rows,
                         error))
        return false;
    l->rounds++;
    return true;
}

static bool rounds(struct spg_loop *l, struct spg_error *error) {
    int32_t rows = l->w.rows;
    while (rows)
        if (!round_of(l, &rows, error))
            return false;
    return true;
}

#define MOST_PLACES (INT64_MAX / 16) /* no memory holds them; their bytes still have a number */

/* The same in launches that go on for as many rounds as memory is there for: first what the sample says, then
 * what is missing. No launch ever waits for memory. */
static bool persistent_rounds(struct spg_loop *l, struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_block block;
    struct spg_progress progress = {.rows = w->rows};
    double scale = l->sample.rows ? (double)w->rows / (double)l->sample.rows : 0;
    double expected = (double)spg_model_rounds(&l->sample, l->size).entries * scale * 1.02;
    int64_t places = expected < (double)MOST_PLACES ? (int64_t)expected : MOST_PLACES;
    bool done = spg_block_make(&block, &w->gpu->memory, sizeof progress, "progress", error) &&
                spg_cuda(cudaMemcpy(block.at, &progress, sizeof progress, cudaMemcpyHostToDevice), "progress", error);
    while (done && progress.rows) {
        int64_t least = (progress.first + progress.rows) * l->size;
        places = places > least ? places : least;
        done = spg_loop_grow(l, places, error) && grow(&l->owner, places / l->size + w->rows, sizeof(int32_t), error);
        struct spg_target c = target_of(l, 1);
        done = done &&
               spg_cuda(spg_launch_dots_persistent(l->job->precision, w->a, w->b, &w->way->by_columns, &c, l->resume.at,
                                                   l->owner.at, l->first.at, places, block.at, l->unfinished.at),
                        "rounds", error) &&
               spg_cuda(cudaMemcpy(&progress, block.at, sizeof progress, cudaMemcpyDeviceToHost), "rounds", error);
    }
    spg_block_drop(&block, &w->gpu->memory);
    l->rounds = progress.rounds;
    l->pieces = progress.first;
    return done;
}

static bool form_rows(struct spg_loop *l, struct spg_error *error) {
    if (l->job->kernel != SPG_KERNEL_THESIS)
        return spg_loop_spread(l, error);
    struct spg_target c = {0};
    return spg_work_totals(&l->w, error) && start(l, error) &&
           (l->job->persistent ? persistent_rounds(l, error) : rounds(l, error)) &&
           spg_work_settle(&l->w, &c, l->w.gpu->formed, error);
}

static bool run_rounds(void *pointer, struct spg_run *run, struct spg_error *error) {
    struct spg_way *way = pointer;
    struct spg_gpu *g = &way->gpu;
    enum spg_vector vector = g->job->vector;
    struct spg_loop l = {.job = g->job, .value = spg_value_size(g->job->precision)};
    *run = (struct spg_run){0};
    bool done = spg_gpu_begin(g, error) && spg_work_make(&l.w, way, error) && spg_work_offsets(&l.w, error) &&
                spg_output_make(&l.columns, vector, &g->memory, "columns by rounds", error) &&
                spg_output_make(&l.values, vector, &g->memory, "values by rounds", error) && form_rows(&l, error);
    bool spread = l.spread.size != 0;
    int64_t places = spread ? l.pieces * l.size : (int64_t)(l.columns.size / sizeof(int32_t));
    done = done && spg_work_result(&l.w, false, error) && spg_loop_compact(&l, error) &&
           spg_gpu_end(g, true, true, run, error);
    double begin = spg_now_ms();
    done = done && spg_loop_trim(&l, error);
    run->trim_ms = spg_now_ms() - begin;
    run->entries = places;
    run->grow_ms = l.grow_ms;
    run->rounds = l.rounds;
    run->size_per_row = l.size;
    spg_histogram_free(&l.sample);
    spg_output_release(&l.columns);
    spg_output_release(&l.values);
    spg_output_release(&l.owner);
    spg_block_drop(&l.first, &g->memory);
    spg_block_drop(&l.resume, &g->memory);
    spg_block_drop(&l.unfinished, &g->memory);
    spg_work_drop(&l.w);
    if (!done)
        spg_result_drop(&g->c, &g->memory);
    return done;
}

const struct spg_mode_functions spg_mode_rounds = {spg_way_open, run_rounds, spg_way_fetch, spg_way_close,
                                                   spg_way_estimate};

/* The growing loop of the thesis with its own kernel.
 *
 *     every row is unfinished
 *     while rows are unfinished:
 *         append size_per_row slots to the output for each of them        (one chunk, chunks.h)
 *         compute each of them until its chunk is full                    (kernels_dots.cu)
 *         list the rows that have more entries than slots so far
 *
 * A row resumes at the column where it stopped, so no entry is computed twice; but each round starts a kernel and waits
 * for the number of unfinished rows. With --persistent, one cooperative launch runs all rounds for which memory exists:
 * first as many slots as the sample predicts, then what is missing. A launch never waits for memory.
 *
 * Memory: (4 bytes + a value) x size_per_row for each chunk, 4 bytes for each chunk's owner, 4 bytes for each row.
 * Source: thesis, algorithm 3 and section 3.2; line 10 is read as growth, because otherwise the vector would shrink. */
#include "spgemm/gpu_dots.h"
#include "spgemm/choices.h"

static int32_t *owners(const struct spg_loop *l, int64_t chunk) { return (int32_t *)l->owner.at + chunk; }

static struct spg_target chunks_target(const struct spg_loop *l, int32_t rounds) {
    return (struct spg_target){.values = l->values.at,
                               .columns = l->columns.at,
                               .size = l->w.size,
                               .chunks = {l->chunk_size, rounds, l->owner.at, l->first.at}};
}

static bool choose_size(struct spg_loop *l, struct spg_error *error) {
    l->chunk_size = l->job->size_per_row;
    if (l->chunk_size && !l->job->persistent)
        return true;
    if (!spg_work_sample(&l->w, &l->sample, error))
        return false;
    if (!l->chunk_size)
        l->chunk_size = spg_auto_size_per_row(&l->sample, false);
    return true;
}

/* A row takes part in at most as many rounds as its intermediate products, or the columns of B, need. */
static bool prepare(struct spg_loop *l, struct spg_error *error) {
    struct spg_memory *memory = &l->w.gpu->memory;
    if (!choose_size(l, error) ||
        !spg_cuda(cudaEventRecord(l->w.gpu->estimated, l->w.gpu->memory.stream), "event", error))
        return false;
    int32_t longest = l->w.totals.row_max < l->w.b->columns ? l->w.totals.row_max : l->w.b->columns;
    size_t rounds = (size_t)longest / (size_t)l->chunk_size + 2, rows = (size_t)l->w.rows;
    return spg_output_make(&l->owner, l->job->vector, memory, "owners of chunks", error) &&
           spg_block_make(&l->first, memory, (rounds + 1) * sizeof(int64_t), "rounds", error) &&
           spg_cuda(cudaMemsetAsync(l->first.at, 0, l->first.size, l->w.gpu->memory.stream), "rounds", error) &&
           spg_block_make(&l->resume, memory, rows * sizeof(int32_t), "unfinished rows", error) &&
           (!l->job->persistent ||
            (spg_block_make(&l->unfinished, memory, rounds * sizeof(int32_t), "unfinished rows", error) &&
             spg_cuda(cudaMemsetAsync(l->unfinished.at, 0, l->unfinished.size, l->w.gpu->memory.stream), "rounds",
                      error))) &&
           spg_output_ensure(&l->owner, l->w.rows, sizeof(int32_t), error) &&
           spg_cuda(spg_launch_count_up(l->owner.at, l->w.rows, l->w.gpu->memory.stream), "rows", error);
}

static bool launch_round(struct spg_loop *l, int64_t from, int32_t rows, struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_target c = chunks_target(l, l->rounds + 1);
    return spg_cuda(spg_launch_dots(l->job->precision, w->a, w->b, &w->method->by_columns, owners(l, from), rows, &c,
                                    l->resume.at, l->w.gpu->memory.stream),
                    "rows by threads", error);
}

/* One round. In: `*rows` unfinished rows, listed from chunk l->chunks on. Out: how many are still unfinished. */
static bool run_round(struct spg_loop *l, int32_t *rows, struct spg_error *error) {
    int64_t from = l->chunks;
    if (*rows > INT32_MAX - from)
        return spg_fail(error, "more than %d chunks of %d slots; a larger --size-per-row needs fewer", INT32_MAX,
                        l->chunk_size);
    l->chunks += *rows;
    /* The still unfinished rows, at most as many, are listed after this round's rows. */
    if (!spg_loop_ensure(l, l->chunks * l->chunk_size, error) ||
        !spg_output_ensure(&l->owner, l->chunks + *rows, sizeof(int32_t), error) ||
        !spg_cuda(cudaMemcpyAsync((int64_t *)l->first.at + l->rounds + 1, &l->chunks, sizeof l->chunks,
                                  cudaMemcpyHostToDevice, l->w.gpu->memory.stream),
                  "rounds", error) ||
        !launch_round(l, from, *rows, error) ||
        !spg_work_select(&l->w, owners(l, from), *rows, (int64_t)(l->rounds + 1) * l->chunk_size, owners(l, l->chunks),
                         rows, error))
        return false;
    l->rounds++;
    return true;
}

static bool run_rounds(struct spg_loop *l, struct spg_error *error) {
    int32_t rows = l->w.rows;
    while (rows)
        if (!run_round(l, &rows, error))
            return false;
    return true;
}

/* More than any device holds; the number of their bytes still fits 64 bits. */
#define SLOTS_MAX (INT64_MAX / 16)

/* With --persistent; the sample says how many slots to map first. */
static bool run_persistent(struct spg_loop *l, struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_block block;
    struct spg_progress progress = {.rows = w->rows};
    double scale = l->sample.rows ? (double)w->rows / (double)l->sample.rows : 0;
    double expected = (double)spg_model_rounds(&l->sample, l->chunk_size).entries * scale * 1.02;
    int64_t slots = expected < (double)SLOTS_MAX ? (int64_t)expected : SLOTS_MAX;
    bool done = spg_block_make(&block, &w->gpu->memory, sizeof progress, "progress", error) &&
                spg_send(w->gpu->memory.stream, block.at, &progress, sizeof progress, "progress", error);
    while (done && progress.rows) {
        int64_t least = (progress.first + progress.rows) * l->chunk_size;
        slots = slots > least ? slots : least;
        done = spg_loop_ensure(l, slots, error) &&
               spg_output_ensure(&l->owner, slots / l->chunk_size + w->rows, sizeof(int32_t), error);
        struct spg_target c = chunks_target(l, 1);
        done = done &&
               spg_cuda(spg_launch_dots_persistent(l->job->precision, w->a, w->b, &w->method->by_columns, &c,
                                                   l->resume.at, l->owner.at, l->first.at, slots, block.at,
                                                   l->unfinished.at, l->w.gpu->memory.stream),
                        "rounds", error) &&
               spg_fetch(w->gpu->memory.stream, &progress, block.at, sizeof progress, "rounds", error);
    }
    spg_block_drop(&block, &w->gpu->memory);
    l->rounds = progress.rounds;
    l->chunks = progress.first;
    return done;
}

bool spg_loop_dots(struct spg_loop *l, struct spg_error *error) {
    struct spg_target c = {0};
    return spg_work_totals(&l->w, true, error) && prepare(l, error) &&
           (l->job->persistent ? run_persistent(l, error) : run_rounds(l, error)) &&
           spg_work_settle(&l->w, &c, l->w.gpu->computed, error);
}

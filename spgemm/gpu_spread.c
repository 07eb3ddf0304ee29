/* Mode rounds with the hash accumulator, in the layout of spread.h.
 *
 * 1. Sample rows: they predict nnz(C), the number of extra chunks, and size_per_row if that is not given.
 * 2. Map memory for one chunk of every row and for the predicted extra chunks.
 * 3. Compute all rows once. A row whose extra chunks have no memory is counted and deferred. A slab that is complete is
 *    moved to its place in C while the next one is computed (gpu_move.h).
 * 4. If rows were deferred, their number of extra chunks is now known exactly: map the missing ones, compute these rows
 *    again.
 *
 * Mapping takes host time only, so it overlaps with computing: the first half of the slabs starts before memory for the
 * other half is mapped. With one chunk for each row, the rows are cut into two halves instead.
 *
 * Cost: step 4 repeats the numeric work of the deferred rows; rows by ranges are always counted first and deferred.
 * Memory: (4 bytes + a value) x size_per_row for each chunk, and the gap, as large as a slab of C. */
#include "spgemm/gpu_spread.h"
#include "spgemm/choices.h"
#include "spgemm/gpu_move.h"

/* Skip sampling when the intermediate products are at most PLENTY times the slots of the first chunks and rows are
 * short: the sample would take longer than it saves. */
#define PLENTY    2
#define SLAB_ROWS 8 /* of a slab, at least */
#define FEW       8 /* slabs of one unit of entries; slabs of two are moved while others are computed */

struct spg_spread_settings spg_spread_settings = {4 << 20, 1.01, 4 << 20, 1.1};

static bool take_sample(struct spg_loop *l, struct spg_error *error) {
    struct spg_work *w = &l->w;
    int32_t size = l->job->size_per_row;
    if (size && w->totals.row_max <= size)
        return spg_work_sample_if_long(w, error); /* one round in any case */
    if (size && (double)w->totals.bound <= (double)PLENTY * size * w->rows && !spg_work_is_long(w))
        return true;
    if (!spg_work_sample(w, &l->sample, error))
        return false;
    l->expected_entries = (int64_t)((double)w->totals.bound * (double)w->entries_per_product);
    if (!size)
        l->chunk_size = spg_auto_size_per_row(&l->sample, true);
    return true;
}

/* Extra chunks of all rows, as the sample predicts. */
static int64_t expected_extra_chunks(const struct spg_loop *l) {
    if (!l->sample.total)
        return 0;
    /* Scaled by entries, which intermediate products predict better than the number of rows does. */
    double scale = (double)l->expected_entries / (double)l->sample.total;
    int64_t chunks = spg_model_rounds(&l->sample, l->chunk_size).entries / l->chunk_size - l->sample.rows;
    return (int64_t)((double)chunks * scale * spg_spread_settings.margin);
}

/* Prediction for each slab. before[s]: slots of all slabs before slab s. gap: the largest number of entries of C by
 * which a slab reaches beyond its first chunk. */
struct expected {
    double before[SPG_SLABS + 1], gap;
};

/* Each sampled row stands for an equal number of consecutive rows. */
static struct expected expect_slabs(const struct spg_loop *l) {
    const struct spg_work *w = &l->w;
    int32_t sampled = w->sample_rows, slab = 0;
    double scale = (double)w->rows / sampled, entries = 0, slots = 0;
    struct expected e = {.gap = 0};
    for (int32_t i = 0; i <= sampled; i++) {
        int32_t here = i < sampled ? (int32_t)(i * scale) / l->spread.slab : slab + 1;
        if (here != slab)
            e.gap = entries - e.before[slab] > e.gap ? entries - e.before[slab] : e.gap;
        while (slab < here)
            e.before[++slab] = slots;
        if (i < sampled) {
            entries += w->sampled[i] * scale;
            slots += (double)(1 + spg_extra_chunks(w->sampled[i], l->chunk_size)) * l->chunk_size * scale;
        }
    }
    return e;
}

/* Slabs for so many units of entries, unless there are too few rows. */
static int64_t slabs_of(int64_t units) {
    if (units < 2 * FEW)
        return units < FEW ? units : FEW;
    return units / 2 < SPG_SLABS ? units / 2 : SPG_SLABS;
}

/* Cuts the rows into slabs, so that rows of several chunks can be compacted in place: only in a region, and only when
 * C is large enough for the additional launches. */
static void cut_into_slabs(struct spg_loop *l, int64_t extra) {
    int64_t units = l->expected_entries / spg_spread_settings.slab_entries, rows = l->w.rows;
    if (l->job->vector != SPG_VECTOR_VMM)
        return;
    int64_t slabs = slabs_of(units);
    slabs = rows / SLAB_ROWS < slabs ? rows / SLAB_ROWS : slabs;
    if (slabs < 2)
        return;
    l->spread.slab = (int32_t)((rows + slabs - 1) / slabs);
    l->moves = units >= 2 * slabs;
    struct expected e = expect_slabs(l);
    l->gap = ((int64_t)(e.gap * spg_spread_settings.gap) + l->chunk_size - 1) / l->chunk_size;
    l->early_slabs = (int32_t)slabs / 2;
    int64_t first = (int64_t)l->early_slabs * l->spread.slab,
            early_extra =
                (int64_t)(e.before[l->early_slabs] * 1.1 * spg_spread_settings.margin) / l->chunk_size - first;
    l->early_chunks = first + l->gap + (early_extra > 0 ? early_extra : 0);
    if (l->early_chunks >= rows + l->gap + extra)
        l->early_slabs = 0;
}

/* Whether one round of many slots is computed in two halves: the second is mapped while the first is computed. */
static bool is_halved(const struct spg_loop *l) {
    return l->job->vector == SPG_VECTOR_VMM && (int64_t)l->w.rows * l->chunk_size >= spg_spread_settings.halving_slots;
}

static int32_t half_of(int32_t rows) { return rows / 2 + rows % 2; }

static void cut_in_halves(struct spg_loop *l) {
    l->spread.slab = half_of(l->w.rows);
    l->early_slabs = 1;
    l->early_chunks = l->spread.slab;
}

static bool ensure_chunks(struct spg_loop *l, int64_t chunks, struct spg_error *error) {
    if (chunks > INT32_MAX)
        return spg_fail(error, "more than %d chunks of %d slots; a larger --size-per-row needs fewer", INT32_MAX,
                        l->chunk_size);
    return spg_loop_ensure(l, chunks * l->chunk_size, error);
}

static bool send(const struct spg_chunk_counts *chunk_counts, struct spg_loop *l, struct spg_error *error) {
    return spg_send(l->w.gpu->memory.stream, l->w.chunk_counts, chunk_counts, sizeof *chunk_counts, "chunks", error);
}

static struct spg_target spread_target(const struct spg_loop *l) {
    return (struct spg_target){
        .values = l->values.at, .columns = l->columns.at, .size = l->w.size, .spread = l->spread};
}

static bool settle(struct spg_loop *l, struct spg_error *error) {
    struct spg_target c = spread_target(l);
    return spg_work_settle(&l->w, &c, l->w.gpu->computed, error);
}

/* Extra chunks granted from here on follow this slab's first chunks. */
static bool start_slab(struct spg_loop *l, int slab, struct spg_target *c, struct spg_error *error) {
    struct spg_work *w = &l->w;
    int64_t first_chunks = (int64_t)(slab + 1) * c->spread.slab;
    c->spread.first_chunks = first_chunks < w->rows ? (int32_t)first_chunks : w->rows;
    return spg_mover_wait(l, error) && spg_cuda(spg_launch_start_slab(w->chunk_counts, w->overflows, spg_mover_rows(l),
                                                                      slab, l->w.gpu->memory.stream),
                                                "chunks", error);
}

static bool compute_slabs(struct spg_loop *l, struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_binned b;
    if (!spg_mover_start(l, error))
        return false;
    bool done = spg_work_bin(w, NULL, w->rows, l->spread.slab, false, false, w->share, &b, error);
    for (int slab = 0; done && slab < b.slabs; slab++) {
        done = slab != l->early_slabs || ensure_chunks(l, w->rows + l->spread.capacity, error);
        struct spg_target c = spread_target(l);
        if (slab < l->early_slabs)
            c.spread.capacity = l->early_chunks - (int64_t)l->early_slabs * l->spread.slab;
        done = done && start_slab(l, slab, &c, error) && (!slab || spg_mover_move(l, slab - 1, &c, error)) &&
               spg_work_compute_slab(w, &b, slab, &c, error);
    }
    return spg_mover_join(l, error) && done && settle(l, error);
}

/* Computes the deferred rows, in extra chunks after the granted ones. The memory then holds every requested chunk. */
static bool compute_deferred(struct spg_loop *l, struct spg_error *error) {
    struct spg_chunk_counts *chunk_counts = &l->w.results.chunk_counts;
    int64_t extra = (int64_t)(chunk_counts->requested + chunk_counts->counted);
    int32_t deferred = chunk_counts->deferred;
    if (chunk_counts->granted_end < chunk_counts->requested)
        chunk_counts->requested = chunk_counts->granted_end;
    chunk_counts->granted_end = UINT64_MAX;
    chunk_counts->counted = 0;
    chunk_counts->deferred = 0;
    l->spread.capacity = extra > l->spread.capacity ? extra : l->spread.capacity;
    if (!ensure_chunks(l, l->w.rows + l->spread.capacity, error) || !send(chunk_counts, l, error))
        return false;
    struct spg_target c = spread_target(l);
    if (!spg_work_compute(&l->w, l->spread.deferred, deferred, &c, true, error) || !settle(l, error))
        return false;
    return !chunk_counts->deferred ||
           spg_fail(error, "%d rows did not fit the slots made for them", chunk_counts->deferred);
}

bool spg_loop_spread(struct spg_loop *l, struct spg_error *error) {
    struct spg_work *w = &l->w;
    const struct spg_row_results *results = &w->results;
    struct spg_chunk_counts chunk_counts = {.granted_end = UINT64_MAX};
    l->chunk_size = l->job->size_per_row;
    /* The first half is needed in any case. It is mapped while the device counts intermediate products. */
    if ((l->chunk_size && is_halved(l) && !ensure_chunks(l, half_of(w->rows), error)) ||
        !spg_work_totals(w, true, error) || !take_sample(l, error) ||
        !spg_cuda(cudaEventRecord(w->gpu->estimated, w->gpu->memory.stream), "event", error))
        return false;
    int64_t extra = expected_extra_chunks(l);
    /* Mode rounds does not use w->start: both arrays lie there. */
    l->spread = (struct spg_spread){.size = l->chunk_size,
                                    .slab = w->rows ? w->rows : 1,
                                    .first_chunks = w->rows,
                                    .first_extra = (int32_t *)w->start,
                                    .deferred = (int32_t *)w->start + w->rows + 1,
                                    .chunk_counts = w->chunk_counts};
    if (extra)
        cut_into_slabs(l, extra);
    else if (is_halved(l))
        cut_in_halves(l);
    chunk_counts.requested = (unsigned long long)l->gap;
    if (w->rows + l->gap + extra > INT32_MAX) {
        extra = 0; /* the prediction may be wrong: the exact number decides whether the product fails */
        l->early_slabs = 0;
    }
    l->spread.capacity = l->gap + extra;
    if (!ensure_chunks(l, l->early_slabs ? l->early_chunks : w->rows + l->spread.capacity, error) ||
        !send(&chunk_counts, l, error) || !compute_slabs(l, error) ||
        (results->chunk_counts.deferred && !compute_deferred(l, error)))
        return false;
    l->chunks = w->rows + (int64_t)results->chunk_counts.requested - l->gap;
    int32_t longest = results->c.longest;
    l->rounds = w->rows == 0 ? 0 : longest > l->chunk_size ? (longest - 1) / l->chunk_size + 1 : 1;
    return true;
}

/* Mode rounds by the fast accumulator (spread.h): memory is mapped for what the sample says, rows are formed
 * once, those for which it was too little are formed again in the places that are missing, whose number is
 * then known. */
#include "spgemm/gpu_rounds.h"

/* Multiplications for each place of the first pieces up to which they are taken to be all that is needed,
 * where a sample of short rows would take longer than it saves. */
#define PLENTY    2
#define SLAB_ROWS 8 /* at least */

struct gm_spread_settings gm_spread_settings = {4 << 20, 1.01};

static bool fetch(struct gm_spill *spill, struct gm_loop *l, struct gm_spgemm_error *error) {
    return gm_cuda(cudaMemcpy(spill, l->w.spill, sizeof *spill, cudaMemcpyDeviceToHost), "pieces", error);
}

static bool send(const struct gm_spill *spill, struct gm_loop *l, struct gm_spgemm_error *error) {
    return gm_cuda(cudaMemcpyAsync(l->w.spill, spill, sizeof *spill, cudaMemcpyHostToDevice, NULL), "pieces",
                   error);
}

static bool sample(struct gm_loop *l, struct gm_spgemm_error *error) {
    struct gm_work *w = &l->w;
    int32_t size = l->job->size_per_row;
    if (size && w->totals.most <= size)
        return gm_work_sample_if_long(w, error); /* one round, whatever the sample says */
    if (size && (double)w->totals.bound <= (double)PLENTY * size * w->rows && !gm_work_is_long(w))
        return true;
    if (!gm_work_sample(w, &l->sample, error))
        return false;
    l->expected = (int64_t)((double)w->totals.bound * (double)w->shrink);
    if (!size)
        l->size = gm_auto_size_per_row(&l->sample, true);
    return true;
}

/* Pieces that the sample's rows have beside their first, for all rows. */
static int64_t expected_pieces(const struct gm_loop *l) {
    if (!l->sample.total)
        return 0;
    /* As many rows as would have the entries expected, which multiplications tell better than rows do. */
    double scale = (double)l->expected / (double)l->sample.total;
    int64_t pieces = gm_model_rounds(&l->sample, l->size).entries / l->size - l->sample.rows;
    return (int64_t)((double)pieces * scale * gm_spread_settings.margin);
}

/* How far C's rows of any slab reach beyond its first piece, in places, by the sample: rows of the sample
 * stand for as many rows each. */
static int64_t expected_gap(const struct gm_loop *l) {
    const struct gm_work *w = &l->w;
    int32_t sampled = w->way->sample_rows, slab = 0;
    double scale = (double)w->rows / sampled, entries = 0, places = 0, begin = 0, most = 0;
    for (int32_t i = 0; i <= sampled; i++) {
        int32_t here = i < sampled ? (int32_t)(i * scale) / l->spread.slab : slab + 1;
        if (here != slab) {
            most = entries - begin > most ? entries - begin : most;
            begin = places;
            slab = here;
        }
        if (i < sampled) {
            entries += w->sampled[i] * scale;
            places += (double)(1 + gm_further_pieces(w->sampled[i], l->size)) * l->size * scale;
        }
    }
    return (int64_t)(most * 1.1);
}

/* Pieces of more than one round for each row are moved in the memory that they lie in, slab by slab, where
 * that is a region; for little it would be more launches than it saves. */
static void cut_into_slabs(struct gm_loop *l) {
    int64_t slabs = l->expected / gm_spread_settings.slab_entries, rows = l->w.rows;
    l->spread.slab = rows ? (int32_t)rows : 1;
    if (l->job->vector != GM_VECTOR_VMM)
        return;
    slabs = slabs < GM_SLABS ? slabs : GM_SLABS;
    slabs = rows / SLAB_ROWS < slabs ? rows / SLAB_ROWS : slabs;
    if (slabs < 2)
        return;
    l->spread.slab = (int32_t)((rows + slabs - 1) / slabs);
    l->gap = (expected_gap(l) + l->size - 1) / l->size;
}

static bool grow(struct gm_loop *l, int64_t further, struct gm_spgemm_error *error) {
    l->spread.room = further;
    if (l->w.rows + further > INT32_MAX)
        return gm_spgemm_fail(error, "more than %d pieces of %d places; a larger --size-per-row takes fewer",
                              INT32_MAX, l->size);
    return gm_loop_grow(l, (l->w.rows + further) * l->size, error);
}

static bool form(struct gm_loop *l, const int32_t *list, int32_t rows, bool exact, struct gm_spill *spill,
                 struct gm_spgemm_error *error) {
    struct gm_target c = {
        .values = l->values.at, .columns = l->columns.at, .size = l->w.size, .spread = l->spread};
    return gm_work_form(&l->w, list, rows, &c, exact, error) && fetch(spill, l, error);
}

/* Rows that got no pieces, in pieces behind those that were got: as many as rows asked for, all in all. */
static bool form_rest(struct gm_loop *l, struct gm_spill *spill, struct gm_spgemm_error *error) {
    int64_t further = (int64_t)(spill->taken + spill->later);
    int32_t left = spill->left;
    if (spill->end < spill->taken)
        spill->taken = spill->end;
    spill->end = UINT64_MAX;
    spill->later = 0;
    spill->left = 0;
    if (!grow(l, further > l->spread.room ? further : l->spread.room, error) || !send(spill, l, error) ||
        !form(l, l->spread.left, left, true, spill, error))
        return false;
    return !spill->left || gm_spgemm_fail(error, "%d rows did not fit the places made for them", spill->left);
}

bool gm_loop_spread(struct gm_loop *l, struct gm_spgemm_error *error) {
    struct gm_work *w = &l->w;
    struct gm_spill spill = {.end = UINT64_MAX};
    l->size = l->job->size_per_row;
    if (!sample(l, error) || !gm_cuda(cudaEventRecord(w->gpu->estimated, NULL), "event", error))
        return false;
    int64_t further = expected_pieces(l);
    /* Both lists lie in what no rounds use. */
    l->spread = (struct gm_spread){.size = l->size,
                                   .slab = w->rows ? w->rows : 1,
                                   .behind = w->rows,
                                   .more = (int32_t *)w->start,
                                   .left = (int32_t *)w->start + w->rows + 1,
                                   .spill = w->spill};
    if (further)
        cut_into_slabs(l);
    spill.taken = (unsigned long long)l->gap;
    if (w->rows + l->gap + further > INT32_MAX)
        further = 0; /* if it is true, it fails by exact numbers */
    if (!grow(l, l->gap + further, error) || !send(&spill, l, error) ||
        !form(l, NULL, w->rows, false, &spill, error) || (spill.left && !form_rest(l, &spill, error)))
        return false;
    l->pieces = w->rows + (int64_t)spill.taken - l->gap;
    l->rounds = w->rows == 0 ? 0 : spill.longest > l->size ? (spill.longest - 1) / l->size + 1 : 1;
    return true;
}

/* Mode rounds by the fast accumulator (spread.h): memory is mapped for what the sample says, rows are formed
 * once, those for which it was too little are formed again in the places that are missing, whose number is
 * then known. */
#include "spgemm/gpu_rounds.h"

/* Multiplications for each place of the first pieces up to which they are taken to be all that is needed,
 * where a sample of short rows would take longer than it saves. */
#define PLENTY    2
#define SLAB_ROWS 8 /* at least */

struct spg_spread_settings spg_spread_settings = {4 << 20, 1.01, 4 << 20};

static bool sample(struct spg_loop *l, struct spg_error *error) {
    struct spg_work *w = &l->w;
    int32_t size = l->job->size_per_row;
    if (size && w->totals.most <= size)
        return spg_work_sample_if_long(w, error); /* one round, whatever the sample says */
    if (size && (double)w->totals.bound <= (double)PLENTY * size * w->rows && !spg_work_is_long(w))
        return true;
    if (!spg_work_sample(w, &l->sample, error))
        return false;
    l->expected = (int64_t)((double)w->totals.bound * (double)w->shrink);
    if (!size)
        l->size = spg_auto_size_per_row(&l->sample, true);
    return true;
}

/* Pieces that the sample's rows have beside their first, for all rows. */
static int64_t expected_pieces(const struct spg_loop *l) {
    if (!l->sample.total)
        return 0;
    /* As many rows as would have the entries expected, which multiplications tell better than rows do. */
    double scale = (double)l->expected / (double)l->sample.total;
    int64_t pieces = spg_model_rounds(&l->sample, l->size).entries / l->size - l->sample.rows;
    return (int64_t)((double)pieces * scale * spg_spread_settings.margin);
}

/* By the sample, whose rows stand for as many rows each: places of the slabs before each, and how far C's
 * rows of any slab reach beyond its first piece. */
struct expected {
    double before[SPG_SLABS + 1], gap;
};

static struct expected expect_slabs(const struct spg_loop *l) {
    const struct spg_work *w = &l->w;
    int32_t sampled = w->way->sample_rows, slab = 0;
    double scale = (double)w->rows / sampled, entries = 0, places = 0;
    struct expected e = {.gap = 0};
    for (int32_t i = 0; i <= sampled; i++) {
        int32_t here = i < sampled ? (int32_t)(i * scale) / l->spread.slab : slab + 1;
        if (here != slab)
            e.gap = entries - e.before[slab] > e.gap ? entries - e.before[slab] : e.gap;
        while (slab < here)
            e.before[++slab] = places;
        if (i < sampled) {
            entries += w->sampled[i] * scale;
            places += (double)(1 + spg_further_pieces(w->sampled[i], l->size)) * l->size * scale;
        }
    }
    return e;
}

/* Pieces of more than one round for each row are moved in the memory that they lie in, slab by slab, where
 * that is a region; for little it would be more launches than it saves. The first half of the slabs begins
 * while memory is mapped for the other. */
static void cut_into_slabs(struct spg_loop *l, int64_t further) {
    int64_t slabs = l->expected / spg_spread_settings.slab_entries, rows = l->w.rows;
    if (l->job->vector != SPG_VECTOR_VMM)
        return;
    slabs = slabs < SPG_SLABS ? slabs : SPG_SLABS;
    slabs = rows / SLAB_ROWS < slabs ? rows / SLAB_ROWS : slabs;
    if (slabs < 2)
        return;
    l->spread.slab = (int32_t)((rows + slabs - 1) / slabs);
    struct expected e = expect_slabs(l);
    l->gap = ((int64_t)(e.gap * 1.1) + l->size - 1) / l->size;
    l->first_slabs = (int32_t)slabs / 2;
    int64_t first = (int64_t)l->first_slabs * l->spread.slab,
            more = (int64_t)(e.before[l->first_slabs] * 1.1 * spg_spread_settings.margin) / l->size - first;
    l->first_pieces = first + l->gap + (more > 0 ? more : 0);
    if (l->first_pieces >= rows + l->gap + further)
        l->first_slabs = 0;
}

/* One round of many places is formed in two halves, the second mapped while rows of the first are formed. */
static bool is_halved(const struct spg_loop *l) {
    return l->job->vector == SPG_VECTOR_VMM && (int64_t)l->w.rows * l->size >= spg_spread_settings.halved_places;
}

static int32_t half_of(int32_t rows) { return rows / 2 + rows % 2; }

static void cut_in_halves(struct spg_loop *l) {
    l->spread.slab = half_of(l->w.rows);
    l->first_slabs = 1;
    l->first_pieces = l->spread.slab;
}

static bool grow(struct spg_loop *l, int64_t pieces, struct spg_error *error) {
    if (pieces > INT32_MAX)
        return spg_fail(error, "more than %d pieces of %d places; a larger --size-per-row takes fewer", INT32_MAX,
                        l->size);
    return spg_loop_grow(l, pieces * l->size, error);
}

static bool send(const struct spg_spill *spill, struct spg_loop *l, struct spg_error *error) {
    return spg_cuda(cudaMemcpyAsync(l->w.spill, spill, sizeof *spill, cudaMemcpyHostToDevice, NULL), "pieces", error);
}

static struct spg_target target_of(const struct spg_loop *l) {
    return (struct spg_target){
        .values = l->values.at, .columns = l->columns.at, .size = l->w.size, .spread = l->spread};
}

static bool settle(struct spg_loop *l, struct spg_error *error) {
    struct spg_target c = target_of(l);
    return spg_work_settle(&l->w, &c, l->w.gpu->formed, error);
}

static bool form(struct spg_loop *l, struct spg_error *error) {
    struct spg_work *w = &l->w;
    struct spg_binned b;
    bool done = spg_work_bin(w, NULL, w->rows, l->spread.slab, false, w->share, &b, error);
    for (int slab = 0; done && slab < b.slabs; slab++) {
        done = slab != l->first_slabs || grow(l, w->rows + l->spread.room, error);
        struct spg_target c = target_of(l);
        if (slab < l->first_slabs)
            c.spread.room = l->first_pieces - (int64_t)l->first_slabs * l->spread.slab;
        done = done && spg_work_form_slab(w, &b, slab, &c, error);
    }
    return done && settle(l, error);
}

/* Rows that got no pieces, in pieces behind those that were got: as many as rows asked for, all in all. */
static bool form_rest(struct spg_loop *l, struct spg_error *error) {
    struct spg_spill *spill = &l->w.found.spill;
    int64_t further = (int64_t)(spill->taken + spill->later);
    int32_t left = spill->left;
    if (spill->end < spill->taken)
        spill->taken = spill->end;
    spill->end = UINT64_MAX;
    spill->later = 0;
    spill->left = 0;
    l->spread.room = further > l->spread.room ? further : l->spread.room;
    if (!grow(l, l->w.rows + l->spread.room, error) || !send(spill, l, error))
        return false;
    struct spg_target c = target_of(l);
    if (!spg_work_form(&l->w, l->spread.left, left, &c, true, error) || !settle(l, error))
        return false;
    return !spill->left || spg_fail(error, "%d rows did not fit the places made for them", spill->left);
}

bool spg_loop_spread(struct spg_loop *l, struct spg_error *error) {
    struct spg_work *w = &l->w;
    const struct spg_found *found = &w->found;
    struct spg_spill spill = {.end = UINT64_MAX};
    l->size = l->job->size_per_row;
    /* Mapped while the device counts bounds, and needed whatever comes. */
    if ((l->size && is_halved(l) && !grow(l, half_of(w->rows), error)) || !spg_work_totals(w, error) ||
        !sample(l, error) || !spg_cuda(cudaEventRecord(w->gpu->estimated, NULL), "event", error))
        return false;
    int64_t further = expected_pieces(l);
    /* Both lists lie in what no rounds use. */
    l->spread = (struct spg_spread){.size = l->size,
                                    .slab = w->rows ? w->rows : 1,
                                    .behind = w->rows,
                                    .more = (int32_t *)w->start,
                                    .left = (int32_t *)w->start + w->rows + 1,
                                    .spill = w->spill};
    if (further)
        cut_into_slabs(l, further);
    else if (is_halved(l))
        cut_in_halves(l);
    spill.taken = (unsigned long long)l->gap;
    if (w->rows + l->gap + further > INT32_MAX) {
        further = 0; /* if it is true, it fails by exact numbers */
        l->first_slabs = 0;
    }
    l->spread.room = l->gap + further;
    if (!grow(l, l->first_slabs ? l->first_pieces : w->rows + l->spread.room, error) || !send(&spill, l, error) ||
        !form(l, error) || (found->spill.left && !form_rest(l, error)))
        return false;
    l->pieces = w->rows + (int64_t)found->spill.taken - l->gap;
    int32_t longest = found->ends.longest;
    l->rounds = w->rows == 0 ? 0 : longest > l->size ? (longest - 1) / l->size + 1 : 1;
    return true;
}

#include "spgemm/choices.h"
#include "spgemm/bins.h"
#include "spgemm/estimate.h"

#define OUTLIERS (SPG_SAMPLE_ROWS / 20)

float spg_table_share(const int32_t *bound, const int32_t *size, int32_t rows) {
    float most[OUTLIERS + 1] = {0}; /* the largest needed shares, descending */
    int outliers = rows / 20 < OUTLIERS ? rows / 20 : OUTLIERS;
    for (int32_t i = 0; i < rows; i++) {
        int bin = size[i] ? spg_bin_of(size[i]) : 0, at = outliers;
        float share = bin ? (float)(spg_bin_entries(bin - 1) + 1) / (float)bound[i] : 0;
        if (share <= most[at])
            continue;
        for (; at > 0 && share > most[at - 1]; at--)
            most[at] = most[at - 1];
        most[at] = share;
    }
    return most[outliers] < 1 ? most[outliers] : 1;
}

/* Steps of 1/64. The size of the longest row is always tried, and nothing beyond it can be better. */
static int64_t next_size(int64_t size, int64_t longest) {
    int64_t next = size + 1 + size / 64;
    return size < longest && next > longest ? longest : next;
}

#define SIZES 1280 /* more than next_size() has up to 2^31 */

/* The efficiency (model.h), or 0 if it is less than `least`: rows that waste too much end the sum. */
static double efficiency_of(const struct spg_histogram *sizes, int32_t size_per_row, double least) {
    int64_t unused = 0, most = (int64_t)((double)sizes->total / least) - sizes->total + 1;
    for (int32_t i = 0; i < sizes->distinct && unused <= most; i++) {
        int32_t last = sizes->size[i] % size_per_row;
        unused += sizes->count[i] * (last || !sizes->size[i] ? size_per_row - last : 0);
    }
    double efficiency = (double)sizes->total / (double)(sizes->total + unused);
    return efficiency < least ? 0 : efficiency;
}

/* Larger sizes need fewer rounds, so they are tried first. */
int32_t spg_choose_size_per_row(const struct spg_histogram *sizes, double efficiency) {
    int32_t tried[SIZES], count = 0, best = 1, last = sizes->longest - 1;
    for (int64_t s = 2; s <= sizes->longest; s = next_size(s, sizes->longest))
        tried[count++] = (int32_t)s;
    double least = efficiency;
    while (count-- > 0 && (best == 1 || last / tried[count] == last / best)) {
        double found = efficiency_of(sizes, tried[count], least);
        if (found >= least) {
            best = tried[count];
            least = found;
        }
    }
    return best;
}

#define EFFICIENCY         0.9
#define EFFICIENCY_AT_ONCE 0.95

int32_t spg_auto_size_per_row(const struct spg_histogram *sizes, bool at_once) {
    int32_t size = spg_choose_size_per_row(sizes, EFFICIENCY);
    if (!at_once || spg_model_rounds(sizes, size).rounds <= 1)
        return size;
    return spg_choose_size_per_row(sizes, EFFICIENCY_AT_ONCE);
}

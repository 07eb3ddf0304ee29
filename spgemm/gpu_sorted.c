#include "spgemm/gpu_sorted.h"
#include "spgemm/gpu_read.h"

#include <stdlib.h>

void spg_sort_lengths_drop(struct spg_sort_lengths *s, struct spg_memory *memory) {
    spg_block_drop(&s->block, memory);
    free(s->terms);
    *s = (struct spg_sort_lengths){0};
}

bool spg_sort_measure(struct spg_gpu *g, const int32_t *list, int32_t rows, struct spg_sort_lengths *s,
                      struct spg_error *error) {
    cudaStream_t stream = g->memory.stream;
    size_t count = (size_t)rows, sums = 2 * (count + 1) * sizeof *s->terms;
    int32_t *length = malloc(2 * count * sizeof *length), *on_device;
    *s = (struct spg_sort_lengths){.rows = rows, .terms = malloc(sums)};
    if (!length || !s->terms) {
        free(length);
        return spg_fail(error, "out of memory for the lengths of %d rows", rows);
    }
    s->products = s->terms + count + 1;
    bool done = spg_block_make(&s->block, &g->memory, sums, "lengths of rows", error);
    on_device = s->block.at;
    done = done &&
           spg_cuda(spg_launch_row_lengths(g->a, g->b, list, rows, on_device, on_device + rows, stream),
                    "lengths of rows", error) &&
           spg_read(&g->memory, length, on_device, 2 * count * sizeof *length, "lengths of rows", error);
    s->terms[0] = s->products[0] = 0;
    for (int32_t i = 0; done && i < rows; i++) {
        s->terms[i + 1] = s->terms[i] + length[i];
        s->products[i + 1] = s->products[i] + length[rows + i];
    }
    free(length);
    return done && spg_send(stream, s->block.at, s->terms, sums, "lengths of rows", error);
}

/* The batch that begins with the list's row number `first`. Its numbers suffice to size its memory. */
static struct spg_sort_batch batch_at(const struct spg_sort_lengths *s, const int32_t *list, int32_t first) {
    const int64_t *on_device = s->block.at;
    int32_t end = first + 1;
    while (end < s->rows && s->products[end + 1] - s->products[first] <= SPG_SORT_BATCH &&
           s->terms[end + 1] - s->terms[first] <= SPG_SORT_BATCH)
        end++;
    return (struct spg_sort_batch){.list = list + first,
                                   .rows = end - first,
                                   .terms = on_device + first,
                                   .products = on_device + s->rows + 1 + first,
                                   .entries = (int32_t)(s->terms[end] - s->terms[first]),
                                   .count = (int32_t)(s->products[end] - s->products[first])};
}

bool spg_sorted_rows(struct spg_gpu *g, const int32_t *list, const struct spg_sort_lengths *s,
                     const struct spg_target *c, struct spg_error *error) {
    enum spg_precision precision = g->job->precision;
    struct spg_block scratch = {0};
    size_t most = 0, size;
    bool done = true;
    for (int32_t first = 0; done && first < s->rows;) {
        struct spg_sort_batch batch = batch_at(s, list, first);
        size = 0;
        done = spg_cuda(spg_launch_sorted(precision, g->a, g->b, &batch, c, NULL, &size, g->memory.stream),
                        "rows by sorting", error);
        most = size > most ? size : most;
        first += batch.rows;
    }
    done = done && spg_block_make(&scratch, &g->memory, most, "products to sort", error);
    for (int32_t first = 0; done && first < s->rows;) {
        struct spg_sort_batch batch = batch_at(s, list, first);
        done = spg_cuda(spg_launch_sorted(precision, g->a, g->b, &batch, c, scratch.at, &size, g->memory.stream),
                        "rows by sorting", error);
        first += batch.rows;
    }
    spg_block_drop(&scratch, &g->memory);
    return done;
}

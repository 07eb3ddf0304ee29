#include "tools/cli/plot_series.h"

#include <stdlib.h>
#include <string.h>

static unsigned place(double value, double low, double high, unsigned count) {
    double part = high > low ? (value - low) / (high - low) : 0;
    return part <= 0 ? 0 : part >= 1 ? count - 1 : (unsigned)(part * (count - 1));
}

/* The logarithm to base 2, linear between powers. */
static double logarithm(double value) {
    uint64_t whole = value < 1 ? 1 : (uint64_t)value;
    int power = 63 - __builtin_clzll(whole);
    return power + (double)whole / (double)(UINT64_C(1) << power) - 1;
}

static struct gm_mark *cell_of(const struct gm_marks *m, uint64_t x, uint64_t y) {
    unsigned row = m->log_y ? place(logarithm((double)y), logarithm(m->low_y), logarithm(m->high_y), m->rows)
                            : place((double)y, m->low_y, m->high_y, m->rows);
    return &m->cells[(size_t)place((double)x, m->low_x, m->high_x, m->columns) * m->rows + row];
}

bool gm_marks_begin(struct gm_marks *m) {
    m->columns = GM_MARK_COLUMNS;
    m->rows = GM_MARK_ROWS;
    m->cells = calloc((size_t)m->columns * m->rows, sizeof *m->cells);
    return m->cells != NULL;
}

void gm_marks_add(struct gm_marks *m, uint64_t x, uint64_t y, uint64_t count) {
    struct gm_mark *cell = cell_of(m, x, y);
    if (!cell->count) {
        cell->x = x;
        cell->y = y;
    }
    cell->count += count;
}

/* Moves the marks to the first cells, in their order. */
static size_t pack(struct gm_marks *m) {
    size_t used = 0;
    for (size_t i = 0; i < (size_t)m->columns * m->rows; i++)
        if (m->cells[i].count)
            m->cells[used++] = m->cells[i];
    return used;
}

size_t gm_marks_end(struct gm_marks *m) {
    size_t used;
    while ((used = pack(m)) > GM_MARKS_MOST) {
        struct gm_mark *marks = m->cells;
        m->columns = m->columns * 3 / 4;
        m->rows = m->rows * 3 / 4;
        if (!(m->cells = calloc((size_t)m->columns * m->rows, sizeof *m->cells))) {
            m->cells = marks;
            return used;
        }
        for (size_t i = 0; i < used; i++)
            gm_marks_add(m, marks[i].x, marks[i].y, marks[i].count);
        free(marks);
    }
    return used;
}

void gm_marks_free(struct gm_marks *m) {
    free(m->cells);
    m->cells = NULL;
}

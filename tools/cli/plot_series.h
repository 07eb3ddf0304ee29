/* gpumem plot --json: the numbers of the pictures of one trace, and its report. */
#ifndef GM_PLOT_SERIES_H
#define GM_PLOT_SERIES_H

#include "tools/cli/analysis.h"
#include "tools/cli/reader.h"
#include "tools/cli/trace_report.h"

/* Prints them to standard output. `zoom`: objects in the enlarged parts of scatter pictures. Returns the exit status;
 * an error message was printed. */
int gm_plot_series_print(const char *path, uint64_t zoom);

/* ---- plot_report.c: what gpumem report --json prints, with the parts that the page shows */

enum { GM_PLOT_REPORT_PARTS = 3 };
struct gm_plot_report {
    struct gm_observer *observers[GM_PLOT_REPORT_PARTS + 1]; /* ends with NULL */
};
bool gm_plot_report_begin(struct gm_plot_report *report); /* False = no memory */
/* Returns a json_t object, the caller's. NULL: no memory, or the trace is missing. */
void *gm_plot_report_end(struct gm_plot_report *report, struct gm_report *trace);
void gm_plot_report_free(struct gm_plot_report *report);

/* ---- plot_marks.c: points of a scatter picture. Of points that share a cell of the picture, the first one is kept,
 * with their number. */

#define GM_MARK_COLUMNS 500
#define GM_MARK_ROWS    250
#define GM_MARKS_MOST   10000 /* cells grow until no more marks remain */

struct gm_mark {
    uint64_t x, y, count; /* count 0: the cell is empty */
};

struct gm_marks {
    double low_x, high_x, low_y, high_y; /* of all points */
    bool log_y;                          /* the vertical axis is logarithmic: y > 0 */
    unsigned columns, rows;
    struct gm_mark *cells; /* `columns` x `rows` */
};

bool gm_marks_begin(struct gm_marks *marks); /* after the extents are set. False: no memory */
void gm_marks_add(struct gm_marks *marks, uint64_t x, uint64_t y, uint64_t count);
/* Leaves at most GM_MARKS_MOST marks: the cells in use are the first ones, by x. Returns their number. */
size_t gm_marks_end(struct gm_marks *marks);
void gm_marks_free(struct gm_marks *marks);

#endif

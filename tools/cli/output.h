/* Writes facts and tables of a report in one of two forms: text, or JSON. */
#ifndef GM_OUTPUT_H
#define GM_OUTPUT_H

#include "tools/cli/symbols.h"

enum gm_cell {
    GM_CELL_COUNT,
    GM_CELL_BYTES,
    GM_CELL_TIME,
    GM_CELL_NUMBER,
    GM_CELL_HEX,
    GM_CELL_TEXT,
    GM_CELL_RIGHT,
    GM_CELL_CHANGE
};

#define GM_UNKNOWN UINT64_MAX /* shown as "-", in JSON null */

struct gm_column {
    const char *name;    /* in JSON; NULL = only in text */
    const char *heading; /* in text; NULL = only in JSON */
    enum gm_cell cell;   /* GM_CELL_RIGHT and GM_CELL_CHANGE are right-aligned texts; a change with + is bad */
    int width;           /* 0 = the default of the cell's type */
};

struct gm_value {
    uint64_t number;
    const char *text; /* of GM_CELL_TEXT */
};
#define GM_N(v) ((struct gm_value){.number = (v)})
#define GM_T(v) ((struct gm_value){.text = (v)})

struct gm_site_names {
    const struct gm_frame_name *names; /* array: the call site first, then its callers */
    unsigned count;
    const struct gm_frame_name *wrappers; /* array: the frames before the call site, innermost first */
    unsigned wrapper_count;
};
/* Prints how many wrappers there are and the callers, each in a line of its own that begins with a new line. */
void gm_out_callers(const struct gm_site_names *site, int indent);

struct gm_out {
    unsigned top; /* maximum rows of a table in text; JSON has all rows */
    void *json;   /* a json_t object that receives the sections; NULL = text */
    void *section, *rows;
    const struct gm_column *columns;
    unsigned column_count, shown;
    uint64_t left_out;
    bool all; /* show all rows of this table */
};

/* Begins a section: `name` in JSON, `title` in text. Sections do not nest. */
void gm_out_section(struct gm_out *out, const char *name, const char *title);
void gm_out_note(struct gm_out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void gm_out_fact(struct gm_out *out, const char *name, const char *label, enum gm_cell cell, uint64_t value);

void gm_out_text(struct gm_out *out, const char *name, const char *label, const char *text); /* NULL = unknown */

/* Begins a table, which gm_out_table_end ends. `site` is the row's last column, "site"; NULL = none. */
void gm_out_table(struct gm_out *out, const char *name, const struct gm_column *columns, unsigned count);
void gm_out_row(struct gm_out *out, const struct gm_value *values, const struct gm_site_names *site);
void gm_out_table_end(struct gm_out *out);

#endif

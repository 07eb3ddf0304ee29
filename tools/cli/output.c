#include "tools/cli/output.h"
#include "tools/cli/colour.h"
#include "tools/cli/number_text.h"
#include "tools/cli/shown.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_text(enum gm_cell cell) {
    return cell == GM_CELL_TEXT || cell == GM_CELL_RIGHT || cell == GM_CELL_CHANGE;
}

#ifdef GM_HAVE_JANSSON
#include "tools/cli/json.h"

static void *begin_object(struct gm_out *out, const char *name) {
    json_t *section = json_object();
    json_object_set_new(out->json, name, section);
    return section;
}

static void *begin_array(struct gm_out *out, const char *name) {
    json_t *rows = json_array();
    json_object_set_new(out->section, name, rows);
    return rows;
}

static json_t *value_of(enum gm_cell cell, const struct gm_value *v) {
    char hex[32];
    if (is_text(cell))
        return v->text ? gm_json_text(v->text) : json_null();
    if (v->number == GM_UNKNOWN)
        return json_null();
    if (cell != GM_CELL_HEX)
        return gm_json_number(v->number);
    snprintf(hex, sizeof hex, "0x%" PRIx64, v->number);
    return json_string(hex);
}

static void put_fact(struct gm_out *out, const char *name, enum gm_cell cell, const struct gm_value *v) {
    json_object_set_new(out->section, name, value_of(cell, v));
}

static void put_note(struct gm_out *out, const char *note) {
    json_t *notes = json_object_get(out->section, "notes");
    if (!notes) {
        notes = json_array();
        json_object_set_new(out->section, "notes", notes);
    }
    json_array_append_new(notes, json_string(note));
}

static void put_row(struct gm_out *out, const struct gm_value *values, const struct gm_site_names *site) {
    json_t *row = json_object();
    for (unsigned i = 0; i < out->column_count; i++)
        if (out->columns[i].name)
            json_object_set_new(row, out->columns[i].name, value_of(out->columns[i].cell, &values[i]));
    if (site) {
        json_object_set_new(row, "site", gm_json_frame(&site->names[0]));
        if (site->count > 1)
            json_object_set_new(row, "callers", gm_json_frames(site->names + 1, site->count - 1));
        if (site->wrapper_count)
            json_object_set_new(row, "wrappers", gm_json_frames(site->wrappers, site->wrapper_count));
    }
    json_array_append_new(out->rows, row);
}
#else
static void *begin_object(struct gm_out *out, const char *name) { return out->json; }
static void *begin_array(struct gm_out *out, const char *name) { return out->json; }
static void put_fact(struct gm_out *out, const char *name, enum gm_cell cell, const struct gm_value *v) {
    (void)out, (void)name, (void)cell, (void)v;
}
static void put_note(struct gm_out *out, const char *note) { (void)out, (void)note; }
static void put_row(struct gm_out *out, const struct gm_value *values, const struct gm_site_names *site) {
    (void)out, (void)values, (void)site;
}
#endif

static const char *show(struct gm_text *room, enum gm_cell cell, const struct gm_value *v) {
    if (v->number == GM_UNKNOWN)
        return "-";
    switch (cell) {
    case GM_CELL_BYTES: return gm_text_bytes(room, v->number);
    case GM_CELL_TIME: return gm_text_time(room, v->number);
    case GM_CELL_COUNT: return gm_text_count(room, v->number);
    case GM_CELL_HEX: snprintf(room->text, sizeof room->text, "0x%" PRIx64, v->number); return room->text;
    default: snprintf(room->text, sizeof room->text, "%" PRId64, (int64_t)v->number); return room->text;
    }
}

static int width_of(const struct gm_column *c) {
    int width = c->width                                               ? c->width
                : c->cell == GM_CELL_BYTES || c->cell == GM_CELL_COUNT ? 12
                : c->cell == GM_CELL_HEX                               ? 14
                                                                       : 10;
    int heading = (int)strlen(c->heading);
    return heading > width ? heading : width;
}

enum { CALLER_INDENT = 6 }; /* of the callers below a row, however wide its columns are */

/* Aligns numbers right and text left. The last cell has no trailing blanks. */
static void print_cell(const struct gm_column *c, const char *text, bool last) {
    if (c->cell == GM_CELL_TEXT)
        printf("  %-*s", last ? 0 : width_of(c), text);
    else if (c->cell == GM_CELL_CHANGE && (*text == '+' || *text == '-'))
        printf("%s  %*s%s", gm_paint(stdout, *text == '+' ? GM_BAD : GM_GOOD), width_of(c), text,
               gm_paint(stdout, GM_PLAIN));
    else
        printf("  %*s", width_of(c), text);
}

/* Prints a plain number without printf, because tables may have millions of rows. */
static void print_number(const struct gm_column *c, uint64_t value) {
    char text[40];
    char *p = text + sizeof text;
    bool negative = (int64_t)value < 0;
    uint64_t rest = negative ? 0 - value : value;
    int width = width_of(c) + 2;
    do
        *--p = (char)('0' + rest % 10);
    while (rest /= 10);
    if (negative)
        *--p = '-';
    while (text + sizeof text - p < width && p > text)
        *--p = ' ';
    size_t length = (size_t)(text + sizeof text - p);
    fwrite(p, 1, length, stdout);
}

void gm_out_section(struct gm_out *out, const char *name, const char *title) {
    if (out->json)
        out->section = begin_object(out, name);
    else
        gm_print_heading(title);
}

void gm_out_note(struct gm_out *out, const char *format, ...) {
    char note[512];
    va_list args;
    va_start(args, format);
    vsnprintf(note, sizeof note, format, args);
    va_end(args);
    if (out->json)
        put_note(out, note);
    else
        printf("  %s\n", GM_SHOWN(note));
}

void gm_out_fact(struct gm_out *out, const char *name, const char *label, enum gm_cell cell, uint64_t value) {
    struct gm_text room;
    struct gm_value v = GM_N(value);
    if (out->json)
        put_fact(out, name, cell, &v);
    else
        printf("  %-36s %s\n", label, show(&room, cell, &v));
}

void gm_out_text(struct gm_out *out, const char *name, const char *label, const char *text) {
    struct gm_value v = GM_T(text);
    if (out->json)
        put_fact(out, name, GM_CELL_TEXT, &v);
    else
        printf("  %-36s %s\n", label, text ? GM_SHOWN(text) : "-");
}

void gm_out_table(struct gm_out *out, const char *name, const struct gm_column *columns, unsigned count) {
    out->columns = columns;
    out->column_count = count;
    out->shown = 0;
    out->left_out = 0;
    out->all = false;
    if (out->json) {
        out->rows = begin_array(out, name);
        return;
    }
    for (unsigned i = 0; i < count; i++)
        if (columns[i].heading)
            print_cell(&columns[i], columns[i].heading, i + 1 == count);
    putchar('\n');
}

void gm_out_callers(const struct gm_site_names *site, int indent) {
    if (site->wrapper_count)
        printf("\n%*sthrough %u %s of wrappers", indent, "", site->wrapper_count,
               site->wrapper_count == 1 ? "frame" : "frames");
    for (unsigned i = 1; i < site->count; i++)
        printf("\n%*sfrom %s", indent, "", site->names[i].text);
}

void gm_out_row(struct gm_out *out, const struct gm_value *values, const struct gm_site_names *site) {
    struct gm_text room;
    char text[1024];
    if (out->json) {
        put_row(out, values, site);
        return;
    }
    if (out->shown >= out->top && !out->all) {
        out->left_out++;
        return;
    }
    out->shown++;
    for (unsigned i = 0; i < out->column_count; i++) {
        const struct gm_column *c = &out->columns[i];
        if (c->heading && c->cell == GM_CELL_NUMBER && values[i].number != GM_UNKNOWN)
            print_number(c, values[i].number);
        else if (c->heading && is_text(c->cell))
            print_cell(c, values[i].text ? gm_shown(text, sizeof text, values[i].text) : "-",
                       i + 1 == out->column_count && !site);
        else if (c->heading)
            print_cell(c, show(&room, c->cell, &values[i]), i + 1 == out->column_count && !site);
    }
    if (site) {
        printf("  %s", site->names[0].text);
        gm_out_callers(site, CALLER_INDENT);
    }
    putchar('\n');
}

void gm_out_table_end(struct gm_out *out) {
    struct gm_text room;
    if (!out->json && !out->shown)
        puts("  none");
    if (!out->json && out->left_out)
        printf("  and %s more\n", gm_text_count(&room, out->left_out));
}

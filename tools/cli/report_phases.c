/* Report part --phases: what each phase of the program did with memory. A call counts for the phases around it in its
 * thread and for phases of the whole process. The peak is that of the device that held most during the phase. */
#include "tools/cli/number_text.h"
#include "tools/cli/phases.h"
#include "tools/cli/section.h"
#include "tools/cli/sort.h"

#include <stdlib.h>
#include <string.h>

struct row {
    uint32_t text;
    enum gm_phase_kind kind;
    uint64_t entered, time_ns, allocs, bytes, frees, peak;
    unsigned device; /* of the peak */
    uint64_t seen;   /* the last counted event, so that a phase inside itself counts once */
};

struct phases {
    struct gm_observer observer;
    struct gm_phases *open;
    struct row *rows; /* array, by text and kind of phase in order of appearance */
    size_t count, room;
    size_t *slots; /* open-addressing hash of indices in rows, plus 1 */
    size_t slot_count;
    uint64_t events, end_ns;
    bool failed;
};

static size_t slot_of(const struct phases *p, uint32_t text, enum gm_phase_kind kind) {
    size_t slot = (text * 2654435761u ^ (unsigned)kind) & (p->slot_count - 1);
    while (p->slots[slot] && (p->rows[p->slots[slot] - 1].text != text || p->rows[p->slots[slot] - 1].kind != kind))
        slot = (slot + 1) & (p->slot_count - 1);
    return slot;
}

static bool grow(struct phases *p) {
    size_t room = p->room ? 2 * p->room : 64;
    struct row *rows = realloc(p->rows, room * sizeof *rows);
    if (rows)
        p->rows = rows;
    size_t *slots = rows ? calloc(2 * room, sizeof *slots) : NULL;
    if (!slots)
        return false;
    free(p->slots);
    p->room = room;
    p->slots = slots;
    p->slot_count = 2 * room;
    for (size_t i = 0; i < p->count; i++)
        p->slots[slot_of(p, p->rows[i].text, p->rows[i].kind)] = i + 1;
    return true;
}

static struct row *row_of(struct phases *p, const struct gm_phase *phase) {
    if (p->count == p->room && !grow(p))
        return NULL;
    size_t slot = slot_of(p, phase->text, phase->kind);
    if (!p->slots[slot]) {
        p->rows[p->count] = (struct row){.text = phase->text, .kind = phase->kind};
        p->slots[slot] = ++p->count;
    }
    return &p->rows[p->slots[slot] - 1];
}

static void closed(const struct gm_phase *phase, uint64_t ended_ns, void *arg) {
    struct phases *p = arg;
    struct row *row = row_of(p, phase);
    p->failed |= !row;
    if (row)
        row->time_ns += ended_ns - phase->begin_ns;
}

static void note_peak(struct row *row, const struct gm_analysis *now) {
    for (unsigned device = 0; device < now->device_end; device++)
        if (now->devices[device].live > row->peak) {
            row->peak = now->devices[device].live;
            row->device = device;
        }
}

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct phases *p = (struct phases *)self;
    const struct gm_phase *open;
    const struct gm_event *e = step->event;
    uint64_t end_ns = e->time_ns + e->duration_ns;
    if (end_ns > p->end_ns)
        p->end_ns = end_ns;
    p->events++;
    if (!gm_phases_event(p->open, e, step->thread) || p->failed)
        return false;
    if (e->action != GM_ACT_MARK && e->action != GM_ACT_PHASE_BEGIN)
        return true;
    size_t count = gm_phases_open(p->open, &open);
    struct row *row = row_of(p, &open[count - 1]);
    if (!row)
        return false;
    row->entered++;
    note_peak(row, step->now);
    return true;
}

static bool created(struct gm_observer *self, const struct gm_step *step) {
    struct phases *p = (struct phases *)self;
    const struct gm_phase *open;
    size_t count = gm_phases_open(p->open, &open);
    for (size_t i = 0; i < count; i++) {
        struct row *row = row_of(p, &open[i]);
        if (!row)
            return false;
        note_peak(row, step->now);
        if (row->seen == p->events || !gm_phase_covers(&open[i], step->thread))
            continue;
        row->seen = p->events;
        row->allocs++;
        row->bytes += step->block->bytes;
    }
    return true;
}

static bool destroyed(struct gm_observer *self, const struct gm_step *step) {
    struct phases *p = (struct phases *)self;
    const struct gm_phase *open;
    size_t count = gm_phases_open(p->open, &open);
    for (size_t i = 0; i < count && step->event->action == GM_ACT_FREE; i++) {
        struct row *row = gm_phase_covers(&open[i], step->thread) ? row_of(p, &open[i]) : NULL;
        if (!row || row->seen == p->events)
            continue;
        row->seen = p->events;
        row->frees++;
    }
    return true;
}

struct gm_observer *gm_observe_phases(void) {
    struct phases *p = calloc(1, sizeof *p);
    if (!p || !(p->open = gm_phases_new(closed, p))) {
        free(p);
        return NULL;
    }
    p->observer = (struct gm_observer){event, created, destroyed};
    return &p->observer;
}

void gm_drop_phases(struct gm_observer *observer) {
    struct phases *p = (struct phases *)observer;
    gm_phases_free(p->open);
    free(p->rows);
    free(p->slots);
}

struct named {
    const char *name;
    struct row row;
};

static int by_name(const void *x, const void *y) {
    const struct named *a = x, *b = y;
    int order = strcmp(a->name, b->name);
    return order ? order : (int)a->row.kind - (int)b->row.kind;
}

static int by_peak(const void *x, const void *y) {
    const struct named *a = x, *b = y;
    return a->row.peak != b->row.peak ? (a->row.peak < b->row.peak ? 1 : -1) : by_name(x, y);
}

/* Merges rows with the same text, which may have several numbers. Returns the number of rows that remain. */
static size_t join(struct named *all, size_t count) {
    size_t distinct = 0;
    gm_sort(all, count, sizeof *all, by_name);
    for (size_t i = 0; i < count; i++) {
        if (!distinct || by_name(&all[distinct - 1], &all[i])) {
            all[distinct++] = all[i];
            continue;
        }
        struct row *into = &all[distinct - 1].row;
        const struct row *from = &all[i].row;
        into->entered += from->entered;
        into->time_ns += from->time_ns;
        into->allocs += from->allocs;
        into->bytes += from->bytes;
        into->frees += from->frees;
        if (from->peak > into->peak) {
            into->peak = from->peak;
            into->device = from->device;
        }
    }
    return distinct;
}

bool gm_print_phases(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    const struct gm_column columns[] = {{"peak_bytes", "peak", GM_CELL_BYTES},
                                        gm_report_device_column(r),
                                        {"allocations", "allocations", GM_CELL_COUNT},
                                        {"allocated_bytes", "bytes", GM_CELL_BYTES},
                                        {"frees", "frees", GM_CELL_COUNT},
                                        {"entered", "times", GM_CELL_COUNT},
                                        {"time_ns", "time", GM_CELL_TIME},
                                        {"kind", "kind", GM_CELL_TEXT},
                                        {"name", "phase", GM_CELL_TEXT}};
    struct phases *p = (struct phases *)observer;
    gm_phases_end(p->open, p->end_ns);
    struct named *all = calloc(p->count + 1, sizeof *all);
    if (!all || p->failed) {
        free(all);
        return false;
    }
    for (size_t i = 0; i < p->count; i++) {
        const char *name = gm_reader_string(r->reader, p->rows[i].text);
        all[i] = (struct named){name ? name : "?", p->rows[i]};
    }
    size_t count = join(all, p->count);
    gm_sort(all, count, sizeof *all, by_peak);
    gm_out_section(out, "phases", "PHASES (peak: live memory of the device that holds most while the phase lasts)");
    gm_out_table(out, "rows", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < count; i++) {
        const struct row *row = &all[i].row;
        gm_out_row(out,
                   (struct gm_value[]){GM_N(row->peak), GM_N(row->device), GM_N(row->allocs), GM_N(row->bytes),
                                       GM_N(row->frees), GM_N(row->entered), GM_N(row->time_ns),
                                       GM_T(gm_phase_kind_name(row->kind)), GM_T(all[i].name)},
                   NULL);
    }
    gm_out_table_end(out);
    free(all);
    return true;
}

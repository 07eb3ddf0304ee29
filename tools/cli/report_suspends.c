/* Report part --suspends: when memory left the devices and came back (GPUMEM_SUSPEND), how much and how long it took,
 * and what failed. */
#include "tools/cli/section.h"

#include <stdlib.h>

struct suspends {
    struct gm_observer observer;
    struct gm_event *events;
    size_t count, room;
};

static bool event(struct gm_observer *self, const struct gm_step *step) {
    struct suspends *s = (struct suspends *)self;
    if (step->event->action != GM_ACT_SUSPEND && step->event->action != GM_ACT_RESUME)
        return true;
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        struct gm_event *more = realloc(s->events, room * sizeof *more);
        if (!more)
            return false;
        s->events = more;
        s->room = room;
    }
    s->events[s->count++] = *step->event;
    return true;
}

struct gm_observer *gm_observe_suspends(void) {
    struct suspends *s = calloc(1, sizeof *s);
    if (s)
        s->observer.event = event;
    return s ? &s->observer : NULL;
}

void gm_drop_suspends(struct gm_observer *observer) { free(((struct suspends *)observer)->events); }

static void print_row(const struct gm_report *r, const struct gm_event *e, struct gm_out *out) {
    bool left = e->action == GM_ACT_SUSPEND;
    const char *why = e->result ? gm_reader_string(r->reader, e->site) : "";
    gm_out_row(out,
               (struct gm_value[]){GM_T(left ? "suspend" : "resume"), GM_N(e->time_ns), GM_N(e->duration_ns),
                                   GM_N(left ? e->bytes : GM_UNKNOWN), GM_N(left ? e->stream : GM_UNKNOWN),
                                   GM_N(left ? e->address : GM_UNKNOWN), GM_N(left ? GM_UNKNOWN : e->bytes),
                                   GM_T(why ? why : "its text is not in the trace")},
               NULL);
}

bool gm_print_suspends(struct gm_report *r, struct gm_observer *observer, struct gm_out *out) {
    static const struct gm_column columns[] = {{"what", "what", GM_CELL_TEXT},
                                               {"time_ns", "at", GM_CELL_TIME},
                                               {"duration_ns", "took", GM_CELL_TIME},
                                               {"left_bytes", "left", GM_CELL_BYTES},
                                               {"dropped_bytes", "without a copy", GM_CELL_BYTES},
                                               {"stayed_bytes", "stayed", GM_CELL_BYTES},
                                               {"back_bytes", "came back", GM_CELL_BYTES},
                                               {"failed", " failed, as", GM_CELL_TEXT}};
    const struct suspends *s = (const struct suspends *)observer;
    gm_out_section(out, "suspends", "SUSPENDS (GPUMEM_SUSPEND: memory that left the devices and came back)");
    gm_out_table(out, "rows", columns, sizeof columns / sizeof *columns);
    for (size_t i = 0; i < s->count; i++)
        print_row(r, &s->events[i], out);
    gm_out_table_end(out);
    return true;
}

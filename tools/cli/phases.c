#include "tools/cli/phases.h"

#include <stdlib.h>
#include <string.h>

struct gm_phases {
    struct gm_phase *open; /* array */
    size_t count, room;
    void (*closed)(const struct gm_phase *phase, uint64_t ended_ns, void *arg);
    void *arg;
};

const char *gm_phase_kind_name(enum gm_phase_kind kind) {
    return kind == GM_PHASE_MARK ? "mark" : kind == GM_PHASE_NESTED ? "nested" : "overlap";
}

bool gm_phase_covers(const struct gm_phase *phase, int thread) {
    return phase->kind != GM_PHASE_NESTED || phase->thread == thread;
}

struct gm_phases *gm_phases_new(void (*closed)(const struct gm_phase *, uint64_t, void *), void *arg) {
    struct gm_phases *p = calloc(1, sizeof *p);
    if (p) {
        p->closed = closed;
        p->arg = arg;
    }
    return p;
}

void gm_phases_free(struct gm_phases *p) {
    if (p)
        free(p->open);
    free(p);
}

static void close_at(struct gm_phases *p, size_t at, uint64_t time_ns) {
    struct gm_phase phase = p->open[at];
    memmove(&p->open[at], &p->open[at + 1], (--p->count - at) * sizeof *p->open);
    if (p->closed)
        p->closed(&phase, time_ns > phase.begin_ns ? time_ns : phase.begin_ns, p->arg);
}

/* Ends the innermost phase to which an end, or the next mark, refers. */
static void close_last(struct gm_phases *p, const struct gm_phase *like, uint64_t time_ns) {
    for (size_t i = p->count; i-- > 0;) {
        const struct gm_phase *o = &p->open[i];
        if (o->kind == like->kind && o->range == like->range && gm_phase_covers(o, like->thread)) {
            close_at(p, i, time_ns);
            return;
        }
    }
}

static bool open_one(struct gm_phases *p, struct gm_phase phase) {
    if (p->count == p->room) {
        size_t room = p->room ? 2 * p->room : 16;
        struct gm_phase *open = realloc(p->open, room * sizeof *open);
        if (!open)
            return false;
        p->open = open;
        p->room = room;
    }
    phase.depth = 0;
    for (size_t i = 0; i < p->count; i++)
        phase.depth += gm_phase_covers(&p->open[i], phase.thread);
    p->open[p->count++] = phase;
    return true;
}

bool gm_phases_event(struct gm_phases *p, const struct gm_event *e, int thread) {
    bool mark = e->action == GM_ACT_MARK;
    if (!mark && e->action != GM_ACT_PHASE_BEGIN && e->action != GM_ACT_PHASE_END)
        return true;
    struct gm_phase phase = {.range = e->address,
                             .begin_ns = e->time_ns,
                             .text = e->site,
                             .thread = thread,
                             .kind = mark                            ? GM_PHASE_MARK
                                     : e->address < GM_PHASE_STARTED ? GM_PHASE_NESTED
                                                                     : GM_PHASE_OVERLAP};
    if (e->action != GM_ACT_PHASE_BEGIN)
        close_last(p, &phase, e->time_ns);
    return e->action == GM_ACT_PHASE_END || open_one(p, phase);
}

void gm_phases_end(struct gm_phases *p, uint64_t end_ns) {
    while (p->count)
        close_at(p, p->count - 1, end_ns);
}

size_t gm_phases_open(const struct gm_phases *p, const struct gm_phase **open) {
    *open = p->open;
    return p->count;
}

/* Phases of the program as a trace tells them: marks, each until the next one, and ranges. */
#ifndef GM_PHASES_H
#define GM_PHASES_H

#include "shim/trace/event.h"

#include <stddef.h>

enum gm_phase_kind {
    GM_PHASE_MARK,    /* of the process, until the next mark */
    GM_PHASE_NESTED,  /* of its thread */
    GM_PHASE_OVERLAP, /* of the process, ended by number */
};
const char *gm_phase_kind_name(enum gm_phase_kind kind);

struct gm_phase {
    uint64_t range, begin_ns;
    uint32_t text;  /* for gm_reader_string */
    int thread;     /* that began it */
    unsigned depth; /* phases around it that cover the same thread */
    enum gm_phase_kind kind;
};

/* What the thread does counts for the phase. */
bool gm_phase_covers(const struct gm_phase *phase, int thread);

/* The phases that are open while a trace goes by. */
struct gm_phases;

/* `closed` gets each phase when it ends; NULL = nobody asks. NULL = no memory. */
struct gm_phases *gm_phases_new(void (*closed)(const struct gm_phase *phase, uint64_t ended_ns, void *arg), void *arg);
void gm_phases_free(struct gm_phases *phases); /* NULL is none */

/* Takes any event, in order. An end without begin is passed over. False = no memory. */
bool gm_phases_event(struct gm_phases *phases, const struct gm_event *event, int thread);
/* Ends what is still open. */
void gm_phases_end(struct gm_phases *phases, uint64_t end_ns);

/* The open ones in the order of their beginning; valid until the next event. */
size_t gm_phases_open(const struct gm_phases *phases, const struct gm_phase **open);

#endif

/* Follows the program's phases while a trace is read. A mark lasts until the next mark; a range has a begin and an
 * end. */
#ifndef GM_PHASES_H
#define GM_PHASES_H

#include "shim/trace/event.h"

#include <stddef.h>

enum gm_phase_kind {
    GM_PHASE_MARK,    /* covers the process until the next mark */
    GM_PHASE_NESTED,  /* a range that covers its thread */
    GM_PHASE_OVERLAP, /* a range that covers the process; its end names its number */
};
const char *gm_phase_kind_name(enum gm_phase_kind kind);

struct gm_phase {
    uint64_t range, begin_ns;
    uint32_t text;  /* argument of gm_reader_string */
    int thread;     /* the thread that began it */
    unsigned depth; /* number of enclosing phases that cover the same thread */
    enum gm_phase_kind kind;
};

/* The phase covers the thread. */
bool gm_phase_covers(const struct gm_phase *phase, int thread);

/* The phases that are open at the current point of the trace. */
struct gm_phases;

/* Calls `closed`, which may be NULL, for each phase that ends. NULL = no memory. */
struct gm_phases *gm_phases_new(void (*closed)(const struct gm_phase *phase, uint64_t ended_ns, void *arg), void *arg);
void gm_phases_free(struct gm_phases *phases); /* NULL is allowed */

/* Processes the next event of the trace, of any type. Ignores an end without a begin. False = no memory. */
bool gm_phases_event(struct gm_phases *phases, const struct gm_event *event, int thread);
/* Ends all open phases. */
void gm_phases_end(struct gm_phases *phases, uint64_t end_ns);

/* The open phases in the order of their begin. Valid until the next event. */
size_t gm_phases_open(const struct gm_phases *phases, const struct gm_phase **open);

#endif

/* Live bytes of a running process by call site, from the trace that it writes. They are as old as its last flush
 * (GPUMEM_TRACE_FLUSH). */
#ifndef GM_TOP_SITES_H
#define GM_TOP_SITES_H

#include "tools/cli/process_counters.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gm_top_site {
    char name[512];
    int device;
    uint64_t bytes, blocks;
};

/* Zeroed before the first reading. */
struct gm_top_sites {
    struct gm_top_site *rows; /* those that hold memory, most bytes first */
    size_t count;
    uint64_t read_ns, cost_ns; /* CLOCK_MONOTONIC of the reading; how long it took */
    char why[600];             /* why there are none; "" = they were read */
};

/* Reads the trace again, unless reading would take more than a tenth of the time. `trace`: its name, as the process has
 * it; "" = the process writes none. */
void gm_top_sites_read(struct gm_top_sites *sites, const struct gm_process_counters *counters, const char *trace);
void gm_top_sites_free(struct gm_top_sites *sites);

#endif

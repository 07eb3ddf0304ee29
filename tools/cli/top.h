/* Parts of gpumem top: three ways to show readings of a process's counters. */
#ifndef GM_TOP_H
#define GM_TOP_H

#include "tools/cli/counter_sample.h"
#include "tools/cli/top_group.h"
#include "tools/cli/top_sites.h"

#include <stdio.h>

/* ---- top_text.c: lines for at most `width` columns, each ended by `ending` */

/* Prints all counters of one process. Returns the number of lines. */
unsigned gm_top_detail(FILE *out, const struct gm_counter_sample *sample, const struct gm_rates *rates, unsigned width,
                       const char *ending);
/* Live bytes by call site, at most so many lines, and a line that says where they come from. */
void gm_top_print_sites(FILE *out, const struct gm_top_sites *sites, unsigned lines, unsigned width,
                        const char *ending);
/* The head of the lines below. `clock` (NULL = none) is the first column, "hh:mm:ss". */
void gm_top_head(FILE *out, bool clock, unsigned width, const char *ending);
/* Prints a line for each device of a process, or with `number` >= 0 only for the one that has this UUID, or number if
 * its UUID is unknown. Returns the number of lines. */
unsigned gm_top_rows(FILE *out, const char *clock, const struct gm_counter_sample *sample, const struct gm_rates *rates,
                     const char *uuid, int number, unsigned width, const char *ending);

/* ---- top_json.c: one object a line. False: no memory, or gpumem was built without jansson. */
bool gm_top_json_there(void);
/* `sites` NULL: they were not asked for. */
bool gm_top_json(FILE *out, const struct gm_counter_sample *sample, const struct gm_rates *rates, bool ended,
                 const struct gm_top_sites *sites);

/* One line about the group. */
void gm_top_group(FILE *out, const struct gm_group_sample *group, unsigned width, const char *ending);
/* A line that shows live bytes on a device over the latest readings, by the density of its characters. */
void gm_top_history(FILE *out, int device, const uint64_t *bytes, unsigned count, unsigned width, const char *ending);
void gm_top_keys(FILE *out, const char *sort, int device, unsigned width, const char *ending); /* -1: all devices */
bool gm_top_json_group(FILE *out, const struct gm_group_sample *group, uint64_t time_ns);
/* One reading of all processes in Prometheus' text format. */
void gm_top_prometheus(FILE *out, const struct gm_counter_sample *const *samples, unsigned count,
                       const struct gm_group_sample *group);

#endif

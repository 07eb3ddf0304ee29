/* Parts of gpumem top: what two readings of a process's counters say, and three ways to show it. */
#ifndef GM_TOP_H
#define GM_TOP_H

#include "shim/base/stats.h"

#include <stdio.h>

/* One reading. Bytes, nanoseconds. */
struct gm_counter_sample {
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    int32_t pid;      /* as the caller knows the process */
    bool finished, timed;
    char program[64], policy[64];
    uint64_t start_ns;
    uint64_t live[GM_KIND_COUNT], cached[GM_KIND_COUNT], reserved[GM_KIND_COUNT], peak[GM_KIND_COUNT],
        blocks[GM_KIND_COUNT];
    uint64_t live_all, cached_all, reserved_all; /* on devices */
    uint64_t peak_all;                           /* live bytes on devices */
    uint64_t allocs, frees, hits, reusable;      /* reusable: allocations of kinds that keep freed blocks */
    struct gm_stats_shard total;
};

/* What happened between two readings; negative where nothing can be said. */
struct gm_rates {
    double seconds;
    double allocs, frees, fence_waits; /* a second */
    double hits; /* of 1: reusable allocations served from kept memory; so is hits_in_all since the start */
    double hits_in_all;
    double time; /* of 1, and more with several threads inside calls */
};

void gm_counter_sample_take(struct gm_counter_sample *out, const struct gm_stats *stats, int32_t pid, uint64_t now_ns);
/* `before` NULL = this is the first reading. `timed`: calls were timed in between. */
struct gm_rates gm_counter_sample_rates(const struct gm_counter_sample *before, const struct gm_counter_sample *now,
                                        bool timed);
/* Did anything ever happen in this kind of memory? */
bool gm_counter_sample_has_kind(const struct gm_counter_sample *sample, enum gm_kind kind);

/* ---- top_text.c: lines for at most `width` columns, each ended by `ending` */

/* Everything about one process; returns the number of lines. */
unsigned gm_top_detail(FILE *out, const struct gm_counter_sample *sample, const struct gm_rates *rates, unsigned width,
                       const char *ending);
/* A line for each of several. `clock` (NULL = none) is the first column, "hh:mm:ss". */
void gm_top_head(FILE *out, bool clock, unsigned width, const char *ending);
void gm_top_row(FILE *out, const char *clock, const struct gm_counter_sample *sample, const struct gm_rates *rates,
                unsigned width, const char *ending);

/* ---- top_json.c: one object a line. False: no memory, or gpumem was built without jansson. */
bool gm_top_json_there(void);
bool gm_top_json(FILE *out, const struct gm_counter_sample *sample, const struct gm_rates *rates, bool ended);

#endif

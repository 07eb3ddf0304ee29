/* A trace as totals by interval of time and by series, which a page draws and adds up again for each selection. A
 * series is what blocks of one device, kind of memory, call site, phase and thread have in common, so a page can select
 * and group by each of these. Within an interval the live bytes are exact at these moments: when device memory was at
 * its maximum of the interval, when that of the series' device was, and at the end. A summary knows them at the ends
 * and maxima of its own intervals. Sizes are bytes, times ns. */
#ifndef GM_TIMELINE_TOTALS_H
#define GM_TIMELINE_TOTALS_H

#include "tools/cli/analysis.h"
#include "tools/cli/largest_blocks.h"
#include "tools/cli/phases.h"

struct gm_series {
    uint64_t site, phase; /* phase: string of the innermost one in which the thread allocated */
    int32_t thread;
    uint8_t kind, device;
    uint16_t unused;
};
#define GM_SERIES_NONE  (UINT64_MAX - 1) /* phase of blocks that were allocated outside phases, and of a summary */
#define GM_SERIES_OTHER UINT64_MAX       /* site of all series of a kind and device beyond the first GM_SERIES_MAX */
#define GM_SERIES_MAX   20000

/* What a series did in an interval. Intervals without allocations and frees of the series have no row. */
struct gm_timeline_row {
    uint32_t interval, series;
    uint64_t allocs, bytes, frees, freed_bytes;
    uint64_t temporary, temporary_bytes; /* freed in the interval before their thread allocated again */
    uint64_t leaked, leaked_bytes;       /* allocated in the interval and leaked */
    uint64_t live_at_peak, live_at_device_peak, live_at_end;
    uint64_t most_live; /* the maximum of this series alone */
};

struct gm_interval {
    uint64_t peak_ns, peak_bytes, end_bytes; /* live device memory */
    uint64_t kept, reserved, untracked;      /* the most in the interval, each by itself */
};

struct gm_timeline_phase {
    struct gm_phase phase;
    uint64_t ended_ns;
};

struct gm_timeline {
    uint64_t interval_ns;
    unsigned interval_count;
    unsigned devices[GM_DEVICES], device_count; /* that the process used */
    /* Arrays of `interval_count`: of all devices together, then, if there are several, of each. */
    struct gm_interval *intervals;
    struct gm_timeline_row *rows; /* by interval, then by series */
    size_t row_count, row_room;
    struct gm_series *series;
    size_t series_count;
    struct gm_timeline_phase *phases; /* the longest ones, by their begin */
    size_t phase_count;
    /* The largest blocks of the trace and of those created in each interval, by number. */
    struct gm_timeline_block *blocks;
    size_t block_count;
    struct gm_analysis *analysis;
    uint64_t damaged;  /* as gm_reader_damaged */
    uint32_t finished; /* enum gm_trace_end, of the part of the trace that was read */
};

#endif

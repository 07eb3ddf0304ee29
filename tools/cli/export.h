/* gpumem export: writes a trace in the format of another program. Each format is one row in export_rows.h and one
 * file. */
#ifndef GM_EXPORT_H
#define GM_EXPORT_H

#include "tools/cli/read_trace.h"
#include "tools/cli/symbols.h"

#include <stdio.h>

enum gm_measure { GM_MEASURE_PEAK, GM_MEASURE_BYTES, GM_MEASURE_ALLOCATIONS, GM_MEASURE_LEAKED };

struct gm_export {
    const char *path; /* of the output */
    FILE *out;        /* NULL if the format opens the file itself */
    const struct gm_trace_header *header;
    const struct gm_reader *reader; /* for its definitions, which are complete; do not read its events */
    struct gm_symbols *symbols;
    enum gm_measure measure;
    bool only_blocks; /* of sqlite: without the tables events and memory */
};

struct gm_exporter {
    const char *name;
    bool own_file; /* the format opens its file by name */
    bool compress; /* always compress, whatever the file's name */
    /* Returns the observer that writes the trace; end() frees its memory. NULL = no memory, or an error message was
     * printed. The member is NULL if this build lacks the format. */
    struct gm_observer *(*begin)(struct gm_export *export);
    /* Writes the rest. `a` is NULL if reading stopped early; then it only frees memory. False = not written. The caller
     * checks `out` for errors. */
    bool (*end)(struct gm_export *export, struct gm_observer *observer, const struct gm_analysis *a);
    bool sums; /* the format does not need single blocks, so it can hold a summary */
};

extern const struct gm_exporter gm_exporter_csv, gm_exporter_rmm, gm_exporter_heaptrack, gm_exporter_pprof,
    gm_exporter_collapsed, gm_exporter_perfetto, gm_exporter_sqlite, gm_exporter_torch;

/* Names of a site's frames, innermost first; `room` = GM_EXPORT_FRAMES. Valid until the next call. */
#define GM_EXPORT_FRAMES 128
const struct gm_frame_name *gm_export_stack(const struct gm_export *export, uint32_t site, unsigned *count);
/* Live, kept and reserved bytes over time, each change once. */
struct gm_export_amounts {
    struct gm_amounts amounts;
    uint64_t since_ns; /* the amounts are valid from then on */
    uint64_t event_ns; /* end of the latest event */
};
/* To be called for each event before the totals count it, and once at the end with `next` = NULL. True: the amounts
 * changed. */
bool gm_export_changed(struct gm_export_amounts *last, const struct gm_analysis *now, const struct gm_event *next);

/* The block is in device memory. */
bool gm_export_on_device(const struct gm_live_block *block);

#endif

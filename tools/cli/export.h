/* gpumem export: a trace in another program's format. One row and one file for each format. */
#ifndef GM_EXPORT_H
#define GM_EXPORT_H

#include "tools/cli/analysis.h"
#include "tools/cli/symbols.h"

#include <stdio.h>

enum gm_measure { GM_MEASURE_PEAK, GM_MEASURE_BYTES, GM_MEASURE_ALLOCATIONS, GM_MEASURE_LEAKED };

struct gm_export {
    const char *path; /* of the output */
    FILE *out;        /* NULL where the format opens the file itself */
    const struct gm_trace_header *header;
    const struct gm_reader *reader; /* for definitions, which are complete; its events are not read */
    struct gm_symbols *symbols;
    enum gm_measure measure;
};

struct gm_exporter {
    const char *name;
    bool own_file; /* writes to a file it opens by name */
    bool compress; /* the file is compressed whatever its name */
    /* What watches the trace and writes; the memory is freed by end(). NULL = no memory or a message was
     * printed. The function is NULL where the format is not built in. */
    struct gm_observer *(*begin)(struct gm_export *export);
    /* The rest. `a` is NULL when the reading stopped early: then it only frees. False = not written; what
     * stdio knows of `out` is seen by the caller. */
    bool (*end)(struct gm_export *export, struct gm_observer *observer, const struct gm_analysis *a);
};

extern const struct gm_exporter gm_exporter_csv, gm_exporter_rmm, gm_exporter_heaptrack, gm_exporter_pprof,
    gm_exporter_collapsed, gm_exporter_perfetto, gm_exporter_sqlite, gm_exporter_torch;

/* Names of a site's frames, innermost first, with `room` = GM_EXPORT_FRAMES; valid until the next call. */
#define GM_EXPORT_FRAMES 80
const struct gm_frame_name *gm_export_stack(const struct gm_export *export, uint32_t site, unsigned *count);
/* The block's memory lies on a device. */
bool gm_export_on_device(const struct gm_live_block *block);

#endif

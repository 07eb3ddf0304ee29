/* Helpers of a report that read the trace again or its definitions. */
#include "tools/cli/trace_report.h"

bool gm_report_read_again(struct gm_report *r, struct gm_observer *observer) {
    struct gm_observer *const observers[] = {observer, NULL};
    char error[512];
    struct gm_reader *reader = gm_reader_open(r->path, error, sizeof error);
    struct gm_analysis *a = reader ? gm_analysis_read(reader, observers) : NULL;
    bool done = a != NULL;
    gm_analysis_free(a);
    gm_reader_close(reader);
    return done;
}

const char *gm_report_device_name(const struct gm_report *r, int device) {
    struct gm_device d;
    for (unsigned i = 0; gm_reader_device(r->reader, i, &d); i++)
        if (d.device == device)
            return d.name;
    return "";
}

struct gm_column gm_report_device_column(const struct gm_report *r) {
    return (struct gm_column){"device", r->devices ? "device" : NULL, GM_CELL_NUMBER, 7};
}

uint64_t gm_report_device_bytes(const struct gm_report *r, int device) {
    struct gm_device d;
    for (unsigned i = 0; gm_reader_device(r->reader, i, &d); i++)
        if (d.device == device)
            return d.total;
    return GM_UNKNOWN;
}

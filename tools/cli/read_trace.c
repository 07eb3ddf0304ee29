#include "tools/cli/read_trace.h"

static struct gm_analysis *read_all(struct gm_reader *reader, struct gm_analysis_pass *p) {
    struct gm_event event;
    int thread;
    while (p && gm_reader_next(reader, &event, &thread) && gm_analysis_event(p, &event, thread))
        ;
    return gm_analysis_end(p);
}

struct gm_analysis *gm_analysis_read(struct gm_reader *reader, struct gm_observer *const *observers) {
    return read_all(reader, gm_analysis_begin(observers));
}

struct gm_analysis *gm_analysis_read_blocks(struct gm_reader *reader, struct gm_observer *const *observers) {
    return read_all(reader, gm_analysis_begin_blocks(observers));
}

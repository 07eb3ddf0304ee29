#include "tools/cli/read_trace.h"

struct gm_analysis *gm_analysis_read(struct gm_reader *reader, struct gm_observer *const *observers) {
    struct gm_analysis_pass *p = gm_analysis_begin(observers);
    struct gm_event event;
    int thread;
    while (p && gm_reader_next(reader, &event, &thread) && gm_analysis_event(p, &event, thread))
        ;
    return gm_analysis_end(p);
}

#include "tools/cli/section.h"

const struct gm_section gm_sections[GM_SECTION_COUNT] = {
    {"peak", gm_watch_peak, gm_print_peak, gm_drop_peak},
    {"leaks", NULL, gm_print_leaks, NULL},
    {"temporary", NULL, gm_print_temporary, NULL},
    {"sizes", gm_watch_sizes, gm_print_sizes, NULL},
    {"lifetimes", gm_watch_lifetimes, gm_print_lifetimes, gm_drop_lifetimes},
    {"objects", gm_watch_objects, gm_print_objects, gm_drop_objects},
    {"threads", gm_watch_threads, gm_print_threads, gm_drop_tallies},
    {"streams", gm_watch_streams, gm_print_streams, gm_drop_tallies},
    {"kinds", NULL, gm_print_kinds, NULL},
    {"growth", gm_watch_growth, gm_print_growth, gm_drop_growth},
    {"oom", gm_watch_oom, gm_print_oom, gm_drop_oom},
    {"phases", gm_watch_phases, gm_print_phases, gm_drop_phases},
};

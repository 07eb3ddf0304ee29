/* One row for each part of gpumem report that is shown on request; the table in section.c and the manual's list grow
 * from it. ROW(flag and name, what watches the trace or NULL, what prints, what drops the watcher's memory or NULL) */
#ifndef GM_SECTION_ROWS_H
#define GM_SECTION_ROWS_H

#define GM_SECTION_ROWS(ROW)                                                    \
    ROW(peak, gm_observe_peak, gm_print_peak, gm_drop_peak)                     \
    ROW(leaks, NULL, gm_print_leaks, NULL)                                      \
    ROW(temporary, NULL, gm_print_temporary, NULL)                              \
    ROW(sizes, gm_observe_sizes, gm_print_sizes, NULL)                          \
    ROW(lifetimes, gm_observe_lifetimes, gm_print_lifetimes, gm_drop_lifetimes) \
    ROW(objects, gm_observe_objects, gm_print_objects, gm_drop_objects)         \
    ROW(threads, gm_observe_threads, gm_print_threads, gm_drop_keyed_totals)    \
    ROW(streams, gm_observe_streams, gm_print_streams, gm_drop_keyed_totals)    \
    ROW(kinds, NULL, gm_print_kinds, NULL)                                      \
    ROW(growth, gm_observe_growth, gm_print_growth, gm_drop_growth)             \
    ROW(oom, gm_observe_oom, gm_print_oom, gm_drop_oom)                         \
    ROW(phases, gm_observe_phases, gm_print_phases, gm_drop_phases)

#endif

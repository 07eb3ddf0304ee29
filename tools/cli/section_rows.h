/* One row for each part of gpumem report that is shown on request; the table in section.c and the manual's list grow from it.
 * ROW(flag and name, what watches the trace or NULL, what prints, what drops the watcher's memory or NULL) */
#ifndef GM_SECTION_ROWS_H
#define GM_SECTION_ROWS_H

#define GM_SECTION_ROWS(ROW)                                                                                 \
    ROW(peak, gm_watch_peak, gm_print_peak, gm_drop_peak)                                                    \
    ROW(leaks, NULL, gm_print_leaks, NULL)                                                                   \
    ROW(temporary, NULL, gm_print_temporary, NULL)                                                           \
    ROW(sizes, gm_watch_sizes, gm_print_sizes, NULL)                                                         \
    ROW(lifetimes, gm_watch_lifetimes, gm_print_lifetimes, gm_drop_lifetimes)                                \
    ROW(objects, gm_watch_objects, gm_print_objects, gm_drop_objects)                                        \
    ROW(threads, gm_watch_threads, gm_print_threads, gm_drop_tallies)                                        \
    ROW(streams, gm_watch_streams, gm_print_streams, gm_drop_tallies)                                        \
    ROW(kinds, NULL, gm_print_kinds, NULL)                                                                   \
    ROW(growth, gm_watch_growth, gm_print_growth, gm_drop_growth)                                            \
    ROW(oom, gm_watch_oom, gm_print_oom, gm_drop_oom)                                                        \
    ROW(phases, gm_watch_phases, gm_print_phases, gm_drop_phases)

#endif

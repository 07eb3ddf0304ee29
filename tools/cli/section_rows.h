/* clang-format off */
/* Parts of gpumem report that are shown on request. The table in section.c and the manual's list are generated from
 * these rows. ROW(flag and name, function that creates the observer or NULL, function that prints, function that frees
 * the observer's memory or NULL) */
#ifndef GM_SECTION_ROWS_H
#define GM_SECTION_ROWS_H

#define GM_SECTION_ROWS(ROW)                                                        \
    ROW(peak, gm_observe_peak, gm_print_peak, gm_drop_peak)                         \
    ROW(leaks, NULL, gm_print_leaks, NULL)                                          \
    ROW(temporary, NULL, gm_print_temporary, NULL)                                  \
    ROW(sizes, gm_observe_sizes, gm_print_sizes, NULL)                              \
    ROW(lifetimes, gm_observe_lifetimes, gm_print_lifetimes, gm_drop_lifetimes)     \
    ROW(objects, gm_observe_objects, gm_print_objects, gm_drop_objects)             \
    ROW(threads, gm_observe_threads, gm_print_threads, gm_drop_keyed_totals)        \
    ROW(streams, gm_observe_streams, gm_print_streams, gm_drop_keyed_totals)        \
    ROW(kinds, NULL, gm_print_kinds, NULL)                                          \
    ROW(reserved, gm_observe_reserved, gm_print_reserved, NULL)                         \
    ROW(growth, gm_observe_growth, gm_print_growth, gm_drop_growth)                 \
    ROW(duplicates, gm_observe_duplicates, gm_print_duplicates, gm_drop_duplicates) \
    ROW(oom, gm_observe_oom, gm_print_oom, gm_drop_oom)                             \
    ROW(phases, gm_observe_phases, gm_print_phases, gm_drop_phases)

#endif

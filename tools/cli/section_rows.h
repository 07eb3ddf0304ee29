/* clang-format off */
/* Parts of gpumem report that are shown on request. The table in section.c and the manual's list are generated from
 * these rows. ROW(flag and name, function that creates the observer or NULL, function that prints, function that frees
 * the observer's memory or NULL, whether the part needs single blocks, which a summary lacks) */
#ifndef GM_SECTION_ROWS_H
#define GM_SECTION_ROWS_H

#define GM_SECTION_ROWS(ROW)                                                              \
    ROW(peak, gm_observe_peak, gm_print_peak, gm_drop_peak, false)                        \
    ROW(leaks, NULL, gm_print_leaks, NULL, false)                                         \
    ROW(memory-errors, NULL, gm_print_errors, NULL, false)                                \
    ROW(temporary, NULL, gm_print_temporary, NULL, true)                                  \
    ROW(sizes, gm_observe_sizes, gm_print_sizes, NULL, true)                              \
    ROW(lifetimes, gm_observe_lifetimes, gm_print_lifetimes, gm_drop_lifetimes, true)     \
    ROW(objects, gm_observe_objects, gm_print_objects, gm_drop_objects, true)             \
    ROW(threads, gm_observe_threads, gm_print_threads, gm_drop_keyed_totals, true)        \
    ROW(streams, gm_observe_streams, gm_print_streams, gm_drop_keyed_totals, true)        \
    ROW(kinds, NULL, gm_print_kinds, NULL, false)                                         \
    ROW(reserved, gm_observe_reserved, gm_print_reserved, gm_drop_reserved, false)        \
    ROW(growth, gm_observe_growth, gm_print_growth, gm_drop_growth, true)                 \
    ROW(duplicates, gm_observe_duplicates, gm_print_duplicates, gm_drop_duplicates, true) \
    ROW(oom, gm_observe_oom, gm_print_oom, gm_drop_oom, true)                             \
    ROW(phases, gm_observe_phases, gm_print_phases, gm_drop_phases, true)                 \
    ROW(suspends, gm_observe_suspends, gm_print_suspends, gm_drop_suspends, false)

#endif

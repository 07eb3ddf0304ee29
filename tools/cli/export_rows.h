/* clang-format off */
/* Formats of gpumem export. The exporters, the choices of --to and the manual's list are generated from these rows.
 * ROW(name, purpose as a sentence) */
#ifndef GM_EXPORT_ROWS_H
#define GM_EXPORT_ROWS_H

#define GM_EXPORT_ROWS(ROW)                                                                                        \
    ROW(csv, "gpumem's own CSV, described in FILES.")                                                              \
    ROW(rmm, "The log of RMM's logging_resource_adaptor, for its replay benchmark; device memory, times in UTC.")  \
    ROW(heaptrack,                                                                                                 \
        "For heaptrack_print and heaptrack_gui, version 1.4 or newer; device memory takes the part of the heap.")  \
    ROW(pprof,                                                                                                     \
        "For pprof, compressed: allocations, bytes, bytes never freed, and what held device memory at the peak.")  \
    ROW(collapsed, "Stacks for flame graphs, one a line; --measure says what they count.")                         \
    ROW(perfetto, "Perfetto's own format, for ui.perfetto.dev: live, kept and reserved bytes of each device; each " \
                  "block from creation to end; failed requests.")                                               \
    ROW(sqlite, "A database of blocks, events, frames, memory over time, devices and phases; see below.")          \
    ROW(torch, "The pickle of torch.cuda.memory._snapshot(), for pytorch.org/memory_viz and "                      \
               "torch/cuda/_memory_viz.py: device memory of "                                                      \
               "any program, each block in a segment of its own.")

/* "csv|rmm|..." as a constant expression. */
#define GM_EXPORT_NAME(name, help) "|" #name
#define GM_EXPORT_NAMES            (&(GM_EXPORT_ROWS(GM_EXPORT_NAME))[1])

#endif

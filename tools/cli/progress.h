/* A line on stderr with the percentage of traces that is read. It appears when stderr is a terminal and the program has
 * read for two seconds. It is erased when the reading ends, and error messages overwrite it. */
#ifndef GM_PROGRESS_H
#define GM_PROGRESS_H

#include <stdint.h>

/* A trace of `units` of work is read from now on. Several traces may be read at the same time. */
void gm_progress_begin(const char *path, uint64_t units);
/* Counts units of work and refreshes the line. */
void gm_progress_add(uint64_t units);
/* The trace ends after `done` of its `units`. */
void gm_progress_end(uint64_t units, uint64_t done);

#endif

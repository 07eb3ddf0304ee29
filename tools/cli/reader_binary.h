/* Reads the events of a binary trace in their global order. */
#ifndef GM_READER_BINARY_H
#define GM_READER_BINARY_H

#include "tools/cli/trace_input.h"

struct gm_binary_reader;

/* `file` stays the caller's and must outlive the reader. NULL = no memory. */
struct gm_binary_reader *gm_binary_reader_open(struct gm_trace_input *file);
bool gm_binary_reader_next(struct gm_binary_reader *reader, struct gm_event *event, int *thread); /* false = end */
void gm_binary_reader_close(struct gm_binary_reader *reader);                                     /* NULL is allowed */

#endif

/* Reads the events of a CSV trace in their global order. */
#ifndef GM_READER_CSV_H
#define GM_READER_CSV_H

#include "tools/cli/trace_input.h"

struct gm_csv_reader;

/* `file` stays the caller's and must outlive the reader. Its first line is the header line of events. NULL = no memory.
 */
struct gm_csv_reader *gm_csv_reader_open(struct gm_trace_input *file);
bool gm_csv_reader_next(struct gm_csv_reader *reader, struct gm_event *event, int *thread); /* false = end */
uint64_t gm_csv_reader_at(const struct gm_csv_reader *reader); /* bytes of the file that were read */
void gm_csv_reader_close(struct gm_csv_reader *reader);        /* NULL is allowed */

#endif

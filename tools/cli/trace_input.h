/* A trace file that is open for reading. The readers of the two formats (reader_binary.h, reader_csv.h) share it. */
#ifndef GM_TRACE_INPUT_H
#define GM_TRACE_INPUT_H

#include "tools/cli/definitions.h"

#include <stdbool.h>
#include <stddef.h>

struct gm_trace_input {
    char *path;
    int fd;
    uint64_t size; /* bytes */
    struct gm_trace_header header;
    struct gm_definitions *definitions;
    uint64_t damaged; /* chunks, records, events and lines that the readers skipped because they were invalid */
};

/* Takes a regular file, detects its format and checks a binary header. NULL on success; otherwise the reason, for which
 * `reason` may be used as storage. The caller calls gm_trace_input_close in both cases. */
const char *gm_trace_input_open(struct gm_trace_input *file, int fd, const char *path, bool *csv, char *reason,
                                size_t size);
/* Where data, or a hole, begins at or behind `offset`; the file's end if there is none. A hole is a part that takes no
 * room on the disk; where the file system does not tell, all is data. */
uint64_t gm_trace_input_data(const struct gm_trace_input *file, uint64_t offset);
uint64_t gm_trace_input_hole(const struct gm_trace_input *file, uint64_t offset);
void gm_trace_input_close(struct gm_trace_input *file);

/* All enumerators of the event are known to this version. */
bool gm_event_is_valid(const struct gm_event *event);

#endif

/* What the two halves of the reader share. */
#ifndef GM_READER_PARTS_H
#define GM_READER_PARTS_H

#include "tools/cli/definitions.h"

#include <stdio.h>

struct gm_csv;
struct gm_merge;

struct gm_reader {
    char *path;
    int fd;
    uint64_t size; /* bytes of the file */
    struct gm_trace_header header;
    struct gm_definitions *definitions;
    uint64_t damaged;
    struct gm_merge *merge; /* binary */
    struct gm_csv *csv;     /* text */
};

/* reader_csv.c: the first line of the file is known to be the header line of events. False: no memory. */
bool gm_csv_open(struct gm_reader *reader);
bool gm_csv_next(struct gm_reader *reader, struct gm_event *event, int *thread);
void gm_csv_close(struct gm_csv *csv);

/* reader_merge.c: chunks of many threads in one order. False: no memory. */
bool gm_merge_open(struct gm_reader *reader);
bool gm_merge_next(struct gm_reader *reader, struct gm_event *event, int *thread);
void gm_merge_close(struct gm_merge *merge);

bool gm_event_is_sane(const struct gm_event *event);

#endif

/* Output files. A file appears under its name only when it is complete: until then it is written beside, and an
 * interrupted or failed command removes it. Not for several threads. */
#ifndef GM_EXPORT_FILE_H
#define GM_EXPORT_FILE_H

#include <stdbool.h>
#include <stdio.h>

struct gm_output {
    const char *path; /* as given; "-" is standard output */
    char *written;    /* where it is written until it is complete; for a format that opens its file by name */
    bool beside;      /* `written` will be renamed to `path` */
    FILE *file;       /* NULL unless it was opened */
};

/* Refuses to write over the trace that is read, and over another file without `force`. 0, or an exit status after a
 * line on stderr. */
int gm_output_check(const char *command, const char *trace, const char *output, bool force);
/* `open`: opens `file`, compressed if the name ends in .gz or `compress` is set. False after a line on stderr. */
bool gm_output_begin(struct gm_output *output, const char *path, bool open, bool compress);
/* Closes the file and gives it its name if it was written (`done`), else removes it and says so on stderr. Returns
 * whether it was written. */
bool gm_output_end(struct gm_output *output, bool done);

bool gm_export_can_compress(void);
/* For messages. */
const char *gm_export_name(const char *output);

#endif

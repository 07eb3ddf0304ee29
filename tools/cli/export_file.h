/* Opens an output file, plain or compressed by zlib. */
#ifndef GM_EXPORT_FILE_H
#define GM_EXPORT_FILE_H

#include <stdbool.h>
#include <stdio.h>

/* "-" is standard output. Compresses if the name ends in .gz or if `compress` is set. NULL after a line on stderr. */
FILE *gm_export_open(const char *path, bool compress);
bool gm_export_can_compress(void);
/* Refuses to write over the trace that is read. 0, or GM_EXIT_USAGE after a line on stderr. */
int gm_export_check(const char *command, const char *trace, const char *output);
/* For messages. */
const char *gm_export_name(const char *output);

#endif

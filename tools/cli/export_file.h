/* Opens an output file, plain or compressed by zlib. */
#ifndef GM_EXPORT_FILE_H
#define GM_EXPORT_FILE_H

#include <stdbool.h>
#include <stdio.h>

/* "-" is standard output. Compresses if the name ends in .gz or if `compress` is set. NULL after a line on stderr. */
FILE *gm_export_open(const char *path, bool compress);
bool gm_export_can_compress(void);

#endif

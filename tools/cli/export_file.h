/* Files that are written plainly or through zlib. */
#ifndef GM_EXPORT_FILE_H
#define GM_EXPORT_FILE_H

#include <stdbool.h>
#include <stdio.h>

/* "-" is standard output; names that end in .gz are compressed, and all with `compress`. NULL after a line on
 * stderr. */
FILE *gm_export_open(const char *path, bool compress);
bool gm_export_can_compress(void);

#endif

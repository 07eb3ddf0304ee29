/* A hash of host memory that a copy of the program read. */
#ifndef GM_HOOK_CONTENTS_H
#define GM_HOOK_CONTENTS_H

#include "shim/base/base.h"

/* `depth` layers of `height` rows of `width` bytes. */
struct gm_host_rows {
    uint64_t start;
    size_t width, height, depth;
    size_t pitch, layer; /* bytes from one row, and from one layer, to the next */
};

/* Rows without gaps: XXH3 (64 bits) of the bytes. Rows with gaps: the same of the rows one after the other, with a
 * seed that depends on pitch and layer, so that other ranges of host memory have other hashes.
 *
 * Memory that the process cannot read is no error of the process: the function returns false, and no signal is raised.
 * It also returns false when the kernel gives no memory file. */
GM_INTERNAL bool gm_contents_hash(const struct gm_host_rows *rows, uint64_t *hash);

#endif

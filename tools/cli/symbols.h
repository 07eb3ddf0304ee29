/* Names of call sites. With libdw: function, source line, module; without it, or where a file has changed
 * since: module + offset. */
#ifndef GM_SYMBOLS_H
#define GM_SYMBOLS_H

#include "tools/cli/reader.h"

struct gm_symbols;

struct gm_site_name {
    char text[512]; /* "solve(int) at solve.c:12 (app)", "libfoo.so+0x12a0", "unknown site" */
    bool toolkit;   /* the memory is a CUDA library's own (cublas, cudnn, nccl ...) */
};

struct gm_symbols *gm_symbols_new(const struct gm_reader *reader); /* NULL = no memory */
void gm_symbols_free(struct gm_symbols *symbols);

/* Names the first frame of the site that is neither in the CUDA runtime nor a runtime function linked into
 * the program. */
void gm_symbols_site(struct gm_symbols *symbols, uint32_t site, struct gm_site_name *name);

#endif

/* Names of call sites. With libdw: function, source line, module; without it, or where a file has changed
 * since: module + offset. */
#ifndef GM_SYMBOLS_H
#define GM_SYMBOLS_H

#include "tools/cli/reader.h"

struct gm_symbols;

struct gm_frame_name {
    char text[512];     /* "solve(int) at solve.c:12 (app)", "libfoo.so+0x12a0", "unknown site" */
    char function[256]; /* demangled; "" = unknown */
    char file[256];     /* as the compiler saw it; "" = unknown */
    char module[256];   /* full path; "" = unknown */
    int line;
    uint64_t offset; /* of the return address, in the module's image */
    bool toolkit;    /* the memory is a CUDA library's own (cublas, cudnn, nccl ...) */
};

/* reader NULL: for gm_symbols_frames alone. NULL = no memory */
struct gm_symbols *gm_symbols_new(const struct gm_reader *reader);
void gm_symbols_free(struct gm_symbols *symbols);

/* Names the place that asked: the first function of the site that is neither the CUDA runtime's, in a module
 * of its own or linked into the program, nor from a header of the toolkit. */
void gm_symbols_site(struct gm_symbols *symbols, uint32_t site, struct gm_frame_name *name);

/* That place and its callers, innermost first, inlined ones too: fills at most `room` (at least 1) names and
 * returns how many. */
unsigned gm_symbols_stack(struct gm_symbols *symbols, uint32_t site, struct gm_frame_name *names, unsigned room);

/* Names the first of these return addresses of one module, innermost first, that is not the CUDA runtime's. */
void gm_symbols_frames(struct gm_symbols *symbols, const struct gm_module *module, const uint64_t *addresses,
                       unsigned count, struct gm_frame_name *name);

#endif

/* Names call sites. With libdw a name has function, source line and module. Without it, or if a file changed since the
 * run, it has module + offset. */
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
    bool toolkit;    /* a CUDA library (cublas, cudnn, nccl ...) requested the memory for itself */
};

/* reader NULL: only gm_symbols_frames is available. NULL = no memory. */
struct gm_symbols *gm_symbols_new(const struct gm_reader *reader);
void gm_symbols_free(struct gm_symbols *symbols);

/* Names the call site: the first function that belongs neither to the CUDA runtime, in its own module or linked into
 * the program, nor to a header of the toolkit. */
void gm_symbols_site(struct gm_symbols *symbols, uint32_t site, struct gm_frame_name *name);

/* Names the call site and its callers, innermost first, inlined ones included. Fills at most `room` (at least 1) names
 * and returns their number. */
unsigned gm_symbols_stack(struct gm_symbols *symbols, uint32_t site, struct gm_frame_name *names, unsigned room);

/* Names the first of these return addresses of one module, innermost first, that does not belong to the CUDA
 * runtime. */
void gm_symbols_frames(struct gm_symbols *symbols, const struct gm_module *module, const uint64_t *addresses,
                       unsigned count, struct gm_frame_name *name);

#endif

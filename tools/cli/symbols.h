/* Names call sites. A call site is the first frame outside the CUDA runtime and the known allocation wrappers
 * (shim/base/wrappers.h), and outside the program's own (own_wrappers.h) unless gm_wrappers_step is off; if all frames
 * are wrappers, the outermost one that does more than dispatch. With libdw a name
 * has function, source line and module. Without it, or if a file changed since the run, it has module + offset. */
#ifndef GM_SYMBOLS_H
#define GM_SYMBOLS_H

#include "tools/cli/own_wrappers.h"
#include "tools/cli/reader.h"

struct gm_symbols;

/* Texts as they are shown (shim/base/foreign.h). */
struct gm_frame_name {
    char text[512];     /* "solve(int) at solve.c:12 (app)", "libfoo.so+0x12a0", "unknown site" */
    char function[256]; /* demangled; "" = unknown */
    char file[256];     /* as the compiler saw it; "" = unknown */
    char module[256];   /* full path; "" = unknown */
    int line;
    uint64_t offset; /* of the return address, in the module's image */
    bool toolkit;    /* of a call site: a CUDA library (cublas, cudnn, nccl ...) requested the memory for itself */
};

/* reader NULL: only gm_symbols_frames is available. NULL = no memory. */
struct gm_symbols *gm_symbols_new(const struct gm_reader *reader);
void gm_symbols_free(struct gm_symbols *symbols);

void gm_symbols_site(struct gm_symbols *symbols, uint32_t site, struct gm_frame_name *name);

/* Where a stack begins. */
enum gm_stack_begin {
    GM_STACK_SITE,      /* the call site */
    GM_STACK_REQUESTER, /* the function that requested the memory, and so wrappers too; it belongs neither to the CUDA
                           runtime, in its own module or linked into the program, nor to a header of the toolkit */
    GM_STACK_KNOWN,     /* the first frame outside the known wrappers, which may be a wrapper of the program */
};

/* Names these frames, innermost first, inlined ones included. Callers that belong to the C library or that only call on
 * for the C++ library (std::invoke, std::thread) are left out. Fills at most `room` (at least 1) names and returns
 * their number. */
unsigned gm_symbols_stack(struct gm_symbols *symbols, uint32_t site, enum gm_stack_begin begin,
                          struct gm_frame_name *names, unsigned room);

/* How many names of the whole stack stand before the call site. */
unsigned gm_symbols_wrappers(struct gm_symbols *symbols, uint32_t site);

/* The program's own wrappers in all call sites of the trace; count 0: none. */
const struct gm_own_wrappers *gm_symbols_own_wrappers(struct gm_symbols *symbols);
/* Both traces step past the wrappers of either, so that their call sites can be compared. */
void gm_symbols_share_wrappers(struct gm_symbols *symbols, struct gm_symbols *others);

/* How many frames beyond the first one outside the CUDA runtime the deepest call site has; GM_DEPTH_WHOLE if the stacks
 * of the trace are whole. The limit makes further frames ignored. */
#define GM_DEPTH_WHOLE UINT32_MAX
unsigned gm_symbols_depth(struct gm_symbols *symbols);
void gm_symbols_limit_depth(struct gm_symbols *symbols, unsigned depth);

/* Names the first of these return addresses of one module, innermost first, that does not belong to the CUDA
 * runtime. */
void gm_symbols_frames(struct gm_symbols *symbols, const struct gm_module *module, const uint64_t *addresses,
                       unsigned count, struct gm_frame_name *name);

#endif

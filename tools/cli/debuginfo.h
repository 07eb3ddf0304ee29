/* What a module's file says about an address: the functions that stand there, inlined ones included, with
 * their source lines. */
#ifndef GM_DEBUGINFO_H
#define GM_DEBUGINFO_H

#include "tools/cli/reader.h"

enum { GM_PLACES = 16 };

/* One function at an address. Texts live until the next question. */
struct gm_place {
    const char *function; /* mangled; NULL = unknown */
    const char *file;     /* NULL = unknown */
    int line;
    bool guessed;        /* `function` is the nearest symbol below, which may end before the address */
    bool toolkit_header; /* the line stands in a header of the CUDA toolkit, as that of the inlined
                            cudaMalloc<T> */
};

struct gm_debuginfo;

struct gm_debuginfo *gm_debuginfo_new(void); /* NULL = no memory, or a build without libdw */
void gm_debuginfo_free(struct gm_debuginfo *info);

/* Fills `places` innermost first and returns their number: 0 when nothing is known, because the file is
 * stripped, gone or another one than the program ran. `address` is one inside the call, not the one it
 * returns to. */
unsigned gm_debuginfo_places(struct gm_debuginfo *info, const struct gm_module *module, uint64_t address,
                             struct gm_place places[GM_PLACES]);

#endif

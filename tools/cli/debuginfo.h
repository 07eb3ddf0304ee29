/* Looks up an address in the debug information of a module's file: the functions at the address, inlined ones included,
 * with their source lines. */
#ifndef GM_DEBUGINFO_H
#define GM_DEBUGINFO_H

#include "tools/cli/reader.h"

enum { GM_SOURCE_LOCATIONS = 16 };

/* One function at an address. Strings are valid until the next look-up. */
struct gm_source_location {
    const char *function; /* mangled; NULL = unknown */
    const char *file;     /* NULL = unknown */
    int line;
    bool guessed;        /* `function` is the nearest symbol below the address, which may end before it */
    bool toolkit_header; /* the source line is in a header of the CUDA toolkit */
};

struct gm_debuginfo;

struct gm_debuginfo *gm_debuginfo_new(void); /* NULL = no memory, or a build without libdw */
void gm_debuginfo_free(struct gm_debuginfo *info);

/* Fills `locations`, innermost first, and returns their number. It is 0 when the file is stripped, missing, or not the
 * one that the program ran. `address` lies inside the call; it is not the return address. */
unsigned gm_debuginfo_locations(struct gm_debuginfo *info, const struct gm_module *module, uint64_t address,
                                struct gm_source_location locations[GM_SOURCE_LOCATIONS]);

#endif

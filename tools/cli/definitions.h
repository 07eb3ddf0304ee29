/* Definitions of a trace: call sites, modules, devices, contexts and strings, which its events name by number or
 * address. Names and strings are given as they are shown (shim/base/foreign.h); a module's path leads to its file, and
 * is as it was recorded. */
#ifndef GM_DEFINITIONS_H
#define GM_DEFINITIONS_H

#include "shim/trace/event.h"

struct gm_site {
    uint32_t id;               /* any number: a file may be damaged or made to do damage */
    uint32_t index;            /* from 0 on in the order of the file, below gm_definitions_site_count */
    unsigned frames, outside;  /* outside: index of the first frame that is not in the CUDA runtime */
    unsigned native;           /* number of return addresses; the frames behind them are Python frames */
    const uint64_t *addresses; /* innermost first */
};

struct gm_python_frame {
    const char *function, *file;
    int line;
};

struct gm_module {
    uint64_t base, start, limit;
    const char *path;
    const unsigned char *build_id;
    unsigned build_id_bytes;
};

struct gm_device {
    int device;
    uint64_t total; /* bytes */
    const char *name;
};

struct gm_definitions;

struct gm_definitions *gm_definitions_new(void);
void gm_definitions_free(struct gm_definitions *definitions);

/* Copies one record of `bytes` bytes, at least 8. False when its inner lengths contradict each other. Records of
 * unknown types are ignored, so that newer writers may add types. */
bool gm_definitions_add(struct gm_definitions *definitions, const struct gm_record *record, size_t bytes);

/* All records in the order of the file, of each id the first. */
void gm_definitions_each(const struct gm_definitions *definitions,
                         void (*visit)(const struct gm_record *record, void *arg), void *arg);

bool gm_definitions_site(const struct gm_definitions *definitions, uint32_t id, struct gm_site *site);
size_t gm_definitions_site_count(const struct gm_definitions *definitions);
void gm_definitions_each_site(const struct gm_definitions *definitions,
                              void (*visit)(const struct gm_site *site, void *arg), void *arg);
/* The Python frame that an address of a site (GM_FRAME_IS_PYTHON) stands for. */
bool gm_definitions_python(const struct gm_definitions *definitions, uint64_t address, struct gm_python_frame *frame);
bool gm_definitions_module(struct gm_definitions *definitions, uint64_t address, struct gm_module *module);
bool gm_definitions_device(const struct gm_definitions *definitions, unsigned index, struct gm_device *device);
const char *gm_definitions_string(const struct gm_definitions *definitions, uint32_t id);

#endif

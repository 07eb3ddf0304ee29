/* Memory errors as events of the trace: each one that is explained, with the first line of its explanation. */
#ifndef GM_EXPLAIN_EXPLAINED_H
#define GM_EXPLAIN_EXPLAINED_H

#include "shim/base/base.h"
#include "shim/trace/event.h"

struct gm_explained {
    enum gm_memory_error error;
    uint32_t site;    /* of the call at fault, or that saw the error; 0: unknown */
    uint64_t address; /* of the block; 0: none is known */
    uint64_t bytes;   /* of the block */
    int device;
    uint32_t allocated_at, freed_at; /* call sites; 0: unknown, or not freed */
    bool again;                      /* a consequence of an error that was noted before, and so none of its own */
};

/* `more`: words behind the first line; may be NULL. Nothing without a trace. */
GM_INTERNAL void gm_explained_note(const struct gm_explained *found, const struct gm_log_lines *lines,
                                   const char *more);

#endif

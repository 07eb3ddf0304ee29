/* Which memory leaves, and which comes back: globs of tags, NVTX ranges and call sites. A tag is a word that a thread
 * gives to the blocks that it allocates (gpumem_tag_push). The text of a call site is that of explanations of errors,
 * such as "load_weights (app+0x12a0) < main (app+0x1f00)"; a glob of it need not begin and end with a star. */
#ifndef GM_SUSPEND_SELECT_H
#define GM_SUSPEND_SELECT_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* gm_suspendable_range.choice */
enum gm_suspend_choice {
    GM_CHOICE_STAY,
    GM_CHOICE_COPY, /* leaves, with a copy */
    GM_CHOICE_DROP, /* leaves without */
    GM_CHOICE_BACK, /* is away, and comes back */
};

enum { GM_SUSPEND_WHY = 240 }; /* room for a reason, one line */

struct gm_suspend_wish {
    /* Globs of tags, NVTX ranges and call sites, NULL or "" = none: what stays on the device, what is not copied and
     * comes back as zeros, and what alone leaves. */
    const char *keep, *drop, *only;
    const char *to;       /* a folder for a file in place of host memory, NULL or "" = none */
    bool wait;            /* held calls wait for a resume by gm_resume */
    bool aside;           /* no call is held for this memory. Blocks of slabs stay */
    uint64_t patience_ns; /* how long the work in flight may take; 0 = 10 s */
};

/* Choose for all ranges. The memory is held alone. */
GM_INTERNAL void gm_select_out(const struct gm_suspend_wish *wish);
/* What a glob names, NULL or "" = everything; `aside`: of what is set aside, too. */
GM_INTERNAL void gm_select_back(const char *glob, bool aside);

/* A stack of tags for each thread: at most 8, of 31 bytes, beyond that and longer ones are cut. NULL is an empty tag.
 */
GM_INTERNAL void gm_select_push(const char *tag);
/* False: there is none. */
GM_INTERNAL bool gm_select_pop(void);
/* The NVTX ranges that a thread pushed: the innermost of 8 names its blocks. `text`: a number of phase.h. */
GM_INTERNAL void gm_select_begin_range(uint32_t domain, uint32_t text);
GM_INTERNAL void gm_select_end_range(uint32_t domain);
/* A block was allocated by this thread. */
GM_INTERNAL extern bool gm_select_tags;
GM_INTERNAL void gm_select_tag(uint64_t address);

/* Whether native memory has to serve a request. */
GM_INTERNAL bool gm_select_spares(const struct gm_request *request);
/* The block that contains the address was exported, or was to be: blocks of its call site are native from now on. */
GM_INTERNAL void gm_select_exported(uint64_t address, const char *call);

#endif

/* Explains memory errors of guarded blocks (shim/resource/guard_ranges.h) on stderr: accesses outside of a block or
 * after its free. An error of the same kind, block and call sites is explained once and counted afterwards; so is a
 * fault of the device, whichever call returns it.
 *
 * As in explain.h, all functions use no heap and little stack, and hold no lock across a call. */
#ifndef GM_EXPLAIN_ACCESS_H
#define GM_EXPLAIN_ACCESS_H

#include "shim/base/base.h"
#include "shim/resource/guard_ranges.h"

/* A copy or fill of `size` bytes from `address` on. */
struct gm_access {
    const char *call; /* name of the call */
    uint32_t site;
    bool writes;
    uint64_t address;
    size_t size;
};
/* It leaves the block, or the block was freed. */
GM_INTERNAL void gm_explain_access(const struct gm_access *access, const struct gm_guard_block *block);

/* The block cannot be exported, or marked, by this call, because it is guarded. No error of the program. */
GM_INTERNAL void gm_explain_unshared(const char *call, uint32_t site, const struct gm_guard_block *block);

enum { GM_LAUNCH_POINTERS = 16, GM_LAUNCH_OTHERS = 4, GM_LAUNCHES = 24 };

/* A kernel, with the pointers among its arguments that lead to guarded blocks, those to freed ones rather than others,
 * and the first other arguments that may be pointers. */
struct gm_launch {
    const char *kernel; /* as in its image; NULL: a graph as a whole */
    uint32_t site;
    bool of_graph; /* a kernel of a graph */
    bool closes;   /* it may use a freed block that is not unmapped yet (shim/resource/guard_closing.h) */
    bool partly;   /* not all arguments are known */
    bool told;     /* a pointer to freed memory among them was explained, before the launch */
    unsigned count, other_count;
    unsigned more;  /* pointers to guarded blocks for which there was no room */
    uint64_t zeros; /* bit i: argument i + 1 has the size of a pointer, and is 0 */
    struct gm_launch_pointer {
        unsigned argument; /* from 1; 0: not known */
        bool alone;        /* it is the whole argument, and no member of a structure, which may be unused */
        uint64_t address;
    } pointers[GM_LAUNCH_POINTERS], others[GM_LAUNCH_OTHERS];
};
/* An argument of a launch points to a block that is freed. Called before the launch is made. */
GM_INTERNAL void gm_explain_argument(const struct gm_launch *launch, const struct gm_launch_pointer *pointer,
                                     const struct gm_guard_block *block);
/* The same for a block that was allocated in the order of another stream. No call orders the launch behind that; the
 * program may do so by a flag in memory, so this is counted as a possible race and not as an error. */
GM_INTERNAL void gm_explain_early_use(const struct gm_launch *launch, const struct gm_launch_pointer *pointer,
                                      const struct gm_guard_block *block);
/* The same for a copy or fill. */
GM_INTERNAL void gm_explain_early_copy(const struct gm_access *access, const struct gm_guard_block *block);
/* The same for a block that is freed at `site` in the order of a stream, while a launch in another one may use it. */
GM_INTERNAL void gm_explain_freed_in_use(const struct gm_launch *launch, const struct gm_guard_block *block,
                                         uint32_t site);

/* The device reported a fault. `launches`: those that may not have ended before, the latest first. `exact`:
 * the first of them is the one at fault. */
struct gm_fault {
    const char *call; /* that returned the error */
    uint32_t site;
    const struct gm_launch *launches;
    const unsigned *times; /* each of them was made */
    unsigned count;
    uint64_t more; /* earlier ones for which there was no room */
    bool exact;
    int error;         /* CUresult */
    bool reaches_host; /* the device may use all host memory, so its addresses are right arguments */
};
GM_INTERNAL void gm_explain_fault(const struct gm_fault *fault);

/* Bytes beside a block were written; the event guard_damaged. */
GM_INTERNAL void gm_explain_damage(const struct gm_guard_block *block, const struct gm_guard_damage *damage);
/* The same, found after a launch that got the block and has ended, while no later one was made. */
GM_INTERNAL void gm_explain_damage_by(const struct gm_launch *launch, const struct gm_guard_block *block,
                                      const struct gm_guard_damage *damage);

/* At the end of the process: how many were not explained. */
GM_INTERNAL void gm_explain_access_finish(void);

#endif

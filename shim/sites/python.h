/* Python frames of a call site: file, function and line of each Python function above the call (GPUMEM_PYTHON).
 *
 * A thread reads its own thread state and its own frames. No other thread changes them while this thread is inside a C
 * function, with or without the global interpreter lock. So no lock is taken, no Python function runs, no object is
 * created, and no reference count changes.
 *
 * A frame gets a number, and a definition in the trace, when it is first seen. In a call site it is the word
 * GM_FRAME_PYTHON + number, behind the return addresses. */
#ifndef GM_PYTHON_H
#define GM_PYTHON_H

#include "shim/base/base.h"

enum { GM_PYTHON_FRAMES = 48 }; /* most Python frames of a call site; outer ones are left out */

enum gm_python_state {
    GM_PYTHON_OFF,
    GM_PYTHON_ABSENT,    /* no interpreter was found yet */
    GM_PYTHON_UNCHECKED, /* found; the layout of its frames is not checked yet */
    GM_PYTHON_KNOWN,
};
GM_INTERNAL extern enum gm_python_state gm_python_state;
static inline bool gm_python_found(void) {
    return __atomic_load_n(&gm_python_state, __ATOMIC_ACQUIRE) >= GM_PYTHON_UNCHECKED;
}

/* Call before the first call site. */
GM_INTERNAL void gm_python_setup(void);
/* Looks for an interpreter if objects were loaded since the last search. Asks the loader. */
GM_INTERNAL void gm_python_search(void);

/* Identifies this thread's stack: a hash of the native call site and of all Python frames. */
struct gm_python_key {
    uint64_t low, high;
};
/* False: the thread runs no Python function. */
GM_INTERNAL bool gm_python_key(uint32_t native_site, struct gm_python_key *key);
/* The call site that was stored for the key; 0: none, or it was replaced by another. */
GM_INTERNAL uint32_t gm_python_recall(const struct gm_python_key *key);
GM_INTERNAL void gm_python_store(const struct gm_python_key *key, uint32_t site);

/* Writes this thread's Python frames as words of a call site, innermost first. Returns their number. New frames are
 * written to the trace. */
GM_INTERNAL unsigned gm_python_frames(uintptr_t words[GM_PYTHON_FRAMES]);
/* "train.py:42 step" for such a word; "" when it is unknown. */
GM_INTERNAL const char *gm_python_text(uintptr_t word);

/* The frame is a known allocation wrapper (shim/base/wrappers.h). */
GM_INTERNAL bool gm_python_is_wrapper(uintptr_t word);

/* Writes the known frames to a trace that begins in the middle of the run. */
GM_INTERNAL void gm_python_define_again(void);
/* The child writes a trace of its own, so frames are defined again. */
GM_INTERNAL void gm_python_after_fork(void);

#endif

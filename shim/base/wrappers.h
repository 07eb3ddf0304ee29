/* Allocation wrappers: functions, libraries and source files that allocate on behalf of their callers. The call site
 * of a block is the first frame that is none of them. */
#ifndef GM_BASE_WRAPPERS_H
#define GM_BASE_WRAPPERS_H

#include "shim/base/base.h"

/* A stack frame, by what is known of it. NULL or "" = unknown. */
struct gm_wrapper_frame {
    const char *symbol;   /* of the function, as the symbol table has it */
    const char *function; /* demangled */
    const char *module;   /* path */
    const char *source;   /* path */
};

enum gm_wrapper_kind {
    GM_WRAPPER_NONE,     /* the program itself: a call site */
    GM_WRAPPER_LAYER,    /* allocates for its caller */
    GM_WRAPPER_DISPATCH, /* a layer that only selects the function to call, so it says least about the request */
    GM_WRAPPER_STANDARD, /* a layer of the C++ library, which also calls on for others: std::invoke, std::thread */
    GM_WRAPPER_SYSTEM,   /* the C library's code around main and threads, and no call site either */
};

enum gm_wrapper_kind gm_wrapper_kind(const struct gm_wrapper_frame *frame);

/* The module is a library of the CUDA toolkit (cuBLAS, cuDNN, NCCL ...), which also allocates for itself. */
bool gm_wrapper_is_toolkit(const char *module);

/* Adds globs of the user (--skip, GPUMEM_SKIP), separated by commas. They match a function, the path or the last part
 * of the path of a module or of a source file. * stands for any text, ? for one character. The word none in place of a
 * glob turns gm_wrappers_step off. `globs` is copied. Call before other threads ask. False: nothing was added, and
 * `error` states why. */
bool gm_wrappers_skip(const char *globs, char *error, size_t size);
/* The tools also step past functions of the program through which nearly all call stacks pass. */
bool gm_wrappers_step(void);

/* * stands for any text, ? for one character. */
bool gm_glob_matches(const char *glob, const char *text);

#endif

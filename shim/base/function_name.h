/* The plain name of a function from its symbol. */
#ifndef GM_BASE_FUNCTION_NAME_H
#define GM_BASE_FUNCTION_NAME_H

#include "shim/base/base.h"

/* Writes the qualified name without template arguments and parameters: "_ZN3rmm2mr8allocateIiEEvm" gives
 * "rmm::mr::allocate". A function inside another one gets the name of the outer one. A symbol that is not a C++ name of
 * the Itanium ABI, or that begins with something unknown, is copied. Uses no heap; `out` is always terminated. */
GM_INTERNAL void gm_function_name(char *out, size_t size, const char *symbol);

/* A function of the CUDA runtime that is linked into the program, or a C++ wrapper of its header. */
GM_INTERNAL bool gm_function_is_runtime(const char *symbol);

#endif

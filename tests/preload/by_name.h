/* For programs that reach the driver by look-ups only, as a CUDA runtime does. */
#ifndef PRELOAD_BY_NAME_H
#define PRELOAD_BY_NAME_H

#include <dlfcn.h>

#include "program.h"

static void *driver; /* the program opens it first */

/* Calls a function of the driver by its exact name. */
#define CALL(name, ...)                                                    \
    ({                                                                     \
        __typeof__(&name) found = (__typeof__(&name))dlsym(driver, #name); \
        if (!found)                                                        \
            fail(#name, __LINE__, 0);                                      \
        found(__VA_ARGS__);                                                \
    })

#endif

/* Queries of NVML, which answer as on a device of the size of GPUMEM_LIMIT. */
#ifndef GM_HOOK_NVML_H
#define GM_HOOK_NVML_H

#include <stdbool.h>

/* Whether gpumem has an entry for this name. */
bool gm_nvml_is_hooked(const char *name);
/* The entry for a function that a look-up found under a hooked name; NULL: only gpumem's own export was found. */
void *gm_nvml_route(const char *name, void *found);

#endif

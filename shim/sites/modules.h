/* The modules whose code lies on the stacks of call sites: each is defined in the trace when it is first seen. */
#ifndef GM_SITES_MODULES_H
#define GM_SITES_MODULES_H

#include "shim/base/base.h"

struct gm_site_module {
    uintptr_t start, limit; /* of its code */
    uintptr_t base;
    uint64_t key; /* gm_site_module_key */
    bool runtime; /* a shared CUDA runtime */
    bool c_library;
};

/* The module that contains ip, NULL: none was seen. When a module is unloaded and another one is loaded at its
 * addresses, the first one stays. The record carries the build id, so a reader can notice. Takes no lock. */
const struct gm_site_module *gm_module_known(uintptr_t ip);
/* The same, and looks for a module that was not seen. It calls the loader: a thread that holds the loader's locks may
 * wait for a lock that the caller holds. NULL: it is unknown, or there are more than 1024. */
const struct gm_site_module *gm_module_find(uintptr_t ip);
/* Describes the module that is loaded at ip now, and writes its path, cut to fit. False: there is none. Calls the
 * loader. */
bool gm_module_look(uintptr_t ip, struct gm_site_module *module, char *path, size_t size);
/* Defines the modules that are still loaded anew, for another trace. */
void gm_modules_define_again(void);

#endif

/* Public entry points that need no hook. */
#include "shim/gpumem.h"

#include <dlfcn.h>
#include <string.h>

#include "shim/base/base.h"
#include "shim/base/real_dl.h"
#include "shim/core/phase.h"
#include "shim/core/pipeline.h"
#include "shim/core/registry.h"
#include "shim/trace/writer.h"

#define PUBLIC __attribute__((visibility("default")))

PUBLIC const char *gpumem_version(void) { return GM_VERSION; }

PUBLIC int gpumem_block_of(const void *address, struct gpumem_block *block) {
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block found;
    if (!registry || !gm_registry_find_range(registry, (uint64_t)(uintptr_t)address, &found))
        return -1;
    *block = (struct gpumem_block){found.address, found.size, found.device, gm_kind_name(found.kind),
                                   gm_call_name(found.call)};
    return 0;
}

PUBLIC size_t gpumem_live_count(void) {
    struct gm_registry *registry = gm_registry_shared();
    return registry ? gm_registry_count(registry) : 0;
}

static void mark(const char *text) {
    if (gm_trace_on)
        gm_phase_note(GM_ACT_MARK, 0, gm_phase_text(text, strnlen(text, GM_PHASE_TEXT)));
}

#ifdef GM_SHIM
/* A program that has a core of its own linked in comes here: trace and kept memory of a process are the preloaded
 * library's. The names change with the contract. */
PUBLIC void gpumem_preloaded_mark_1(const char *text);
PUBLIC size_t gpumem_preloaded_trim_1(size_t bytes);
PUBLIC void gpumem_preloaded_mark_1(const char *text) { mark(text); }
PUBLIC size_t gpumem_preloaded_trim_1(size_t bytes) { return gm_pipeline_trim(bytes); }
PUBLIC void gpumem_mark(const char *text) { mark(text); }
PUBLIC size_t gpumem_trim(size_t bytes) { return gm_pipeline_trim(bytes); }
#else
PUBLIC void gpumem_mark(const char *text) {
    void (*preloaded)(const char *) = (void (*)(const char *))gm_real_dlsym(RTLD_DEFAULT, "gpumem_preloaded_mark_1");
    (preloaded ? preloaded : mark)(text);
}
PUBLIC size_t gpumem_trim(size_t bytes) {
    size_t (*preloaded)(size_t) = (size_t(*)(size_t))gm_real_dlsym(RTLD_DEFAULT, "gpumem_preloaded_trim_1");
    return (preloaded ? preloaded : gm_pipeline_trim)(bytes);
}
#endif

/* The public functions of gpumem.h that need neither a hook nor a region: version, live blocks, trim, marks. */
#include "shim/base/events.h"
#include "shim/gpumem.h"

#include <dlfcn.h>
#include <string.h>

#include "shim/base/base.h"
#include "shim/base/error.h"
#include "shim/base/real_dl.h"
#include "shim/pipeline/phase.h"
#include "shim/pipeline/pipeline.h"
#include "shim/accounts/stats.h"
#include "shim/resource/registry.h"
#include "shim/trace/writer.h"
#ifdef GM_HAVE_CUDA
#include "shim/driver/driver.h"
#endif

GM_PUBLIC const char *gpumem_version(void) { return GM_VERSION; }

/* ---- live blocks */

GM_PUBLIC enum gpumem_status gpumem_block_of(const void *address, struct gpumem_block *block) {
    GM_NEED(block);
    struct gm_registry *registry = gm_registry_shared();
    struct gm_block found;
    if (!registry || !gm_registry_find_range(registry, (uint64_t)(uintptr_t)address, &found))
        return gm_fail(GPUMEM_NOT_FOUND, "no live block contains address %p", address);
    struct gpumem_block shown = {
        .address = found.address,
        .size = found.size,
        .kind = gm_kind_name(found.kind),
        .call = gm_call_name(found.call),
        .device = found.device,
    };
    return gm_struct_write("gpumem_block", block, &shown, sizeof shown);
}

static void count_block(const struct gm_block *block, void *count) {
    *(size_t *)count += gm_key_value(block->address) == block->address; /* reservations and handles have other keys */
}

GM_PUBLIC size_t gpumem_live_count(void) {
    struct gm_registry *registry = gm_registry_shared();
    size_t count = 0;
    if (gm_stats_watched())
        GM_PUBLISH(request_due);
    if (registry)
        gm_registry_each(registry, count_block, &count);
    return count;
}

/* ---- marks and trim: in a process with the preloaded library they act on that library */

static void mark_text(const char *text) {
    if (text && gm_trace_is_on())
        gm_phase_note(GM_ACT_MARK, 0, gm_phase_text(text, strnlen(text, GM_PHASE_TEXT)));
}

#ifdef GM_SHIM
static int trim(size_t bytes, size_t *released) {
    CUcontext current = NULL;
    if (!gm_driver_ready(false) || gm_drv.ctx_get_current(&current) != CUDA_SUCCESS || !current)
        return GPUMEM_INVALID_CONTEXT;
    *released = gm_pipeline_trim(bytes, GM_REASON_TRIM_CALL);
    return GPUMEM_OK;
}

/* Called by a libgpumem-core that the program links. */
GM_PUBLIC void GM_PRELOADED_MARK(const char *text);
GM_PUBLIC int GM_PRELOADED_TRIM(size_t bytes, size_t *released);
GM_PUBLIC void GM_PRELOADED_MARK(const char *text) { mark_text(text); }
GM_PUBLIC int GM_PRELOADED_TRIM(size_t bytes, size_t *released) { return trim(bytes, released); }
GM_PUBLIC void gpumem_mark(const char *text) { mark_text(text); }
#else
static int trim(size_t bytes, size_t *released) {
    int (*preloaded)(size_t, size_t *) =
        (int (*)(size_t, size_t *))gm_real_dlsym(RTLD_DEFAULT, GM_NAME_OF(GM_PRELOADED_TRIM));
    if (preloaded)
        return preloaded(bytes, released);
    *released = gm_pipeline_trim(bytes, GM_REASON_TRIM_CALL);
    return GPUMEM_OK;
}

GM_PUBLIC void gpumem_mark(const char *text) {
    void (*preloaded)(const char *) =
        (void (*)(const char *))gm_real_dlsym(RTLD_DEFAULT, GM_NAME_OF(GM_PRELOADED_MARK));
    (preloaded ? preloaded : mark_text)(text);
}
#endif

/* The error text belongs to the library that the program called. */
GM_PUBLIC enum gpumem_status gpumem_trim(size_t bytes, size_t *released) {
    size_t given = 0;
    int status = trim(bytes, &given);
    if (status)
        return gm_fail(status, "no context is current in this thread");
    if (released)
        *released = given;
    return GPUMEM_OK;
}

/* The parts of a workspace that use no memory: queries of sizes, the pointer mode, errors, and names of statuses. */
#include "shim/base/error.h"
#include "shim/workspace/workspace.h"

/* ---- queries */

GM_PUBLIC enum gpumem_workspace_status gpumem_workspace_start_query(struct gpumem_workspace *workspace) {
    if (!workspace)
        return gm_workspace_invalid_pointer("workspace");
    if (workspace->query) {
        gm_workspace_internal_error("a query of sizes is in progress");
        return GPUMEM_WORKSPACE_SIZE_QUERY_MISMATCH;
    }
    workspace->query = true;
    workspace->optimal = 0;
    return GPUMEM_WORKSPACE_SUCCESS;
}

GM_PUBLIC enum gpumem_workspace_status gpumem_workspace_stop_query(struct gpumem_workspace *workspace, size_t *size) {
    if (!workspace)
        return gm_workspace_invalid_pointer("workspace");
    if (!workspace->query) {
        gm_workspace_internal_error("no query of sizes is in progress");
        return GPUMEM_WORKSPACE_SIZE_QUERY_MISMATCH;
    }
    if (!size)
        return gm_workspace_invalid_pointer("size");
    workspace->query = false;
    *size = workspace->optimal;
    return GPUMEM_WORKSPACE_SUCCESS;
}

GM_PUBLIC int gpumem_workspace_is_query(const struct gpumem_workspace *workspace) {
    return workspace && workspace->query;
}

GM_PUBLIC enum gpumem_workspace_status gpumem_workspace_set_optimal_bytes(struct gpumem_workspace *workspace,
                                                                          size_t bytes) {
    if (!workspace)
        return gm_workspace_invalid_pointer("workspace");
    if (!workspace->query)
        return gm_workspace_internal_error("an optimal size is reported outside of a query");
    bytes = gpumem_workspace_rounded(bytes);
    if (bytes <= workspace->optimal)
        return GPUMEM_WORKSPACE_SIZE_UNCHANGED;
    workspace->optimal = bytes;
    return GPUMEM_WORKSPACE_SIZE_INCREASED;
}

GM_PUBLIC enum gpumem_workspace_status gpumem_workspace_set_optimal(struct gpumem_workspace *workspace, size_t count,
                                                                    const size_t *sizes) {
    if (count && !sizes)
        return gm_workspace_invalid_pointer("sizes");
    return gpumem_workspace_set_optimal_bytes(workspace, gm_workspace_sum(count, sizes));
}

/* ---- pointer mode */

GM_PUBLIC enum gpumem_pointer_mode gpumem_workspace_pointer_mode(const struct gpumem_workspace *workspace) {
    return workspace ? workspace->pointer_mode : GPUMEM_POINTER_MODE_HOST;
}

GM_PUBLIC enum gpumem_workspace_status gpumem_workspace_set_pointer_mode(struct gpumem_workspace *workspace,
                                                                         enum gpumem_pointer_mode mode) {
    if (!workspace)
        return gm_workspace_invalid_pointer("workspace");
    if (mode != GPUMEM_POINTER_MODE_HOST && mode != GPUMEM_POINTER_MODE_DEVICE) {
        gm_fail(GM_INVALID_VALUE, "pointer mode %d: GPUMEM_POINTER_MODE_HOST (0) and _DEVICE (1) are known", (int)mode);
        return GPUMEM_WORKSPACE_INTERNAL_ERROR;
    }
    workspace->pointer_mode = mode;
    return GPUMEM_WORKSPACE_SUCCESS;
}

/* ---- errors and names */

enum gpumem_workspace_status gm_workspace_invalid_pointer(const char *what) {
    gm_fail(GM_INVALID_VALUE, "%s is NULL", what);
    return GPUMEM_WORKSPACE_INVALID_POINTER;
}

enum gpumem_workspace_status gm_workspace_internal_error(const char *what) {
    gm_fail(GM_INVALID_VALUE, "%s", what);
    return GPUMEM_WORKSPACE_INTERNAL_ERROR;
}

GM_PUBLIC const char *gpumem_workspace_status_name(enum gpumem_workspace_status status) {
#define NAME(name) \
    case name: return #name
    switch (status) {
        NAME(GPUMEM_WORKSPACE_SUCCESS);
        NAME(GPUMEM_WORKSPACE_SIZE_INCREASED);
        NAME(GPUMEM_WORKSPACE_SIZE_UNCHANGED);
        NAME(GPUMEM_WORKSPACE_SIZE_QUERY_MISMATCH);
        NAME(GPUMEM_WORKSPACE_INVALID_POINTER);
        NAME(GPUMEM_WORKSPACE_INTERNAL_ERROR);
        NAME(GPUMEM_WORKSPACE_MEMORY_ERROR);
        NAME(GPUMEM_WORKSPACE_PERF_DEGRADED);
    }
#undef NAME
    return "unknown status";
}

/* ---- sizes */

size_t gm_workspace_sum(size_t count, const size_t *sizes) {
    size_t total = 0;
    for (size_t i = 0; i < count && total <= GM_WORKSPACE_TOO_LARGE; i++)
        total += gpumem_workspace_rounded(sizes[i]);
    return total;
}

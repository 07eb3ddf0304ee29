/* The policies there are, the calls they may move, and the names of the vocabulary. */
#include "policy/policy.h"

#include <string.h>

extern const struct gm_policy gm_policy_auto, gm_policy_observe, gm_policy_cache, gm_policy_async, gm_policy_managed, gm_policy_active_list,
    gm_policy_plan, gm_policy_static;

const struct gm_policy *const gm_policies[] = {
    &gm_policy_auto, &gm_policy_observe, &gm_policy_cache, &gm_policy_async, &gm_policy_managed, &gm_policy_active_list,
    &gm_policy_plan, &gm_policy_static, NULL,
};

const struct gm_policy *gm_policy_find(const char *text) {
    size_t length = strcspn(text, ":");
    for (const struct gm_policy *const *row = gm_policies; *row; row++) {
        if (strlen((*row)->name) == length && !memcmp((*row)->name, text, length))
            return *row;
    }
    return NULL;
}

/* The rest is the program's intent (managed, pinned, pools), has a shape of its own (arrays, virtual memory), or belongs to
 * somebody else (graphs, imports). */
bool gm_call_is_movable(const struct gm_request *request) {
    switch (request->call) {
    case GM_CALL_ALLOC:
    case GM_CALL_ALLOC_PITCH:
    case GM_CALL_ALLOC_ASYNC:
        return true;
    default:
        return false;
    }
}

const char *gm_call_name(enum gm_call call) {
    static const char *const names[] = {
#define X(e, n) [e] = n,
        GM_CALLS(X)
#undef X
    };
    return (unsigned)call < GM_CALL_COUNT ? names[call] : "unknown";
}

const char *gm_kind_name(enum gm_kind kind) {
    static const char *const names[] = {
#define X(e, n) [e] = n,
        GM_KINDS(X)
#undef X
    };
    return (unsigned)kind < GM_KIND_COUNT ? names[kind] : "unknown";
}

const char *gm_reason_name(enum gm_reason reason) {
    static const char *const names[] = {
#define X(e, n) [e] = n,
        GM_REASONS(X)
#undef X
    };
    return (unsigned)reason < GM_REASON_COUNT ? names[reason] : "unknown";
}

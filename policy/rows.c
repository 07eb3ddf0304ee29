/* The list of all policies, and the names of calls, kinds and reasons. */
#include "policy/policy.h"

#include <string.h>

extern const struct gm_policy gm_policy_auto, gm_policy_observe, gm_policy_cache, gm_policy_async, gm_policy_managed,
    gm_policy_active_list, gm_policy_plan, gm_policy_static;

const struct gm_policy *const gm_policies[] = {
    &gm_policy_auto,  &gm_policy_observe, &gm_policy_cache,
    &gm_policy_async, &gm_policy_managed, &gm_policy_active_list,
    &gm_policy_plan,  &gm_policy_static,  NULL,
};

const struct gm_policy *gm_policy_find(const char *text) {
    size_t length = strcspn(text, ":");
    for (const struct gm_policy *const *row = gm_policies; *row; row++) {
        if (strlen((*row)->name) == length && !memcmp((*row)->name, text, length))
            return *row;
    }
    return NULL;
}

const char *gm_call_name(enum gm_call call) {
    static const char *const names[] = {
#define X(e, name, space, traits) [e] = name,
        GM_CALLS(X)
#undef X
    };
    return (unsigned)call < GM_CALL_COUNT ? names[call] : "unknown";
}

const char *gm_kind_colour(enum gm_kind kind) {
    static const char *const colours[] = {
#define X(e, name, colour, traits) [e] = colour,
        GM_KINDS(X)
#undef X
    };
    return (unsigned)kind < GM_KIND_COUNT ? colours[kind] : "#808080";
}

const char *gm_kind_name(enum gm_kind kind) {
    static const char *const names[] = {
#define X(e, name, colour, traits) [e] = name,
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

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

#define NAME(e, name, ...)           [e] = name,
#define COLOUR(e, name, colour, ...) [e] = colour,
#define NAMES(function, type, ROWS, ROW, count, unknown)             \
    const char *function(type value) {                               \
        static const char *const names[] = {ROWS(ROW)};              \
        return (unsigned)value < (count) ? names[value] : (unknown); \
    }
NAMES(gm_call_name, enum gm_call, GM_CALLS, NAME, GM_CALL_COUNT, "unknown")
NAMES(gm_kind_name, enum gm_kind, GM_KINDS, NAME, GM_KIND_COUNT, "unknown")
NAMES(gm_kind_colour, enum gm_kind, GM_KINDS, COLOUR, GM_KIND_COUNT, "#808080")
NAMES(gm_reason_name, enum gm_reason, GM_REASONS, NAME, GM_REASON_COUNT, "unknown")

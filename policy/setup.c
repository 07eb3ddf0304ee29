/* Helpers that the policies share; see setup.h. */
#include "policy/setup.h"

#include <string.h>

void gm_setup_text(char *out, size_t size, const char *const *words) {
    size_t used = 0;
    for (; *words; words++) {
        for (const char *p = *words; *p && used + 1 < size; p++)
            out[used++] = *p;
    }
    if (size)
        out[used] = '\0';
}

gm_status gm_setup_error_words(struct gm_policy_setup *setup, const char *const *words) {
    gm_setup_text(setup->error, sizeof setup->error, words);
    return GM_INVALID_VALUE;
}

gm_status gm_policy_open(const struct gm_policy *policy, struct gm_policy_setup *setup) {
    if (!policy->takes_argument && setup->argument && *setup->argument)
        return gm_setup_error(setup, "policy ", policy->name, " takes no argument, and got \"", setup->argument, "\"");
    return policy->setup ? policy->setup(setup) : GM_OK;
}

void gm_decide_kind(const struct gm_request *request, enum gm_kind kind, enum gm_reason reason,
                    struct gm_decision *decision) {
    *decision = (struct gm_decision){kind, reason, kind};
    if (request->capturing) {
        decision->kind = GM_KIND_NATIVE;
        decision->reason = GM_REASON_CAPTURE;
    } else if (request->call == GM_CALL_ALLOC_ASYNC && (kind == GM_KIND_ASYNC || kind == GM_KIND_CACHE)) {
        decision->kind = GM_KIND_NATIVE;
    }
}

const char *gm_setup_digits(char room[GM_DIGITS], uint64_t value) {
    char *p = room + GM_DIGITS;
    *--p = '\0';
    do {
        *--p = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    return p;
}

bool gm_setup_kind(const char *word, size_t length, enum gm_kind managed, enum gm_kind *kind) {
    static const enum gm_kind accepted[] = {GM_KIND_NATIVE,  GM_KIND_CACHE,        GM_KIND_ASYNC,
                                            GM_KIND_MANAGED, GM_KIND_MANAGED_POOL, GM_KIND_GUARD};
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        const char *name = gm_kind_name(accepted[i]);
        if (strlen(name) == length && !memcmp(name, word, length)) {
            *kind = accepted[i] == GM_KIND_MANAGED ? managed : accepted[i];
            return true;
        }
    }
    return false;
}

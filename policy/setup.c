#include "policy/setup.h"

void gm_setup_error(struct gm_policy_setup *setup, const char *const *words) {
    size_t used = 0;
    for (; *words; words++) {
        for (const char *p = *words; *p && used + 1 < sizeof setup->error; p++)
            setup->error[used++] = *p;
    }
    setup->error[used] = '\0';
}

gm_status gm_refuse_argument(struct gm_policy_setup *setup, const char *policy) {
    if (!setup->argument || !*setup->argument)
        return GM_OK;
    const char *const words[] = {"policy ", policy, " takes no argument, and got \"", setup->argument, "\"", NULL};
    gm_setup_error(setup, words);
    return GM_INVALID_VALUE;
}

void gm_decide_plain(const struct gm_request *request, enum gm_kind kind, struct gm_decision *decision) {
    *decision = (struct gm_decision){kind, GM_REASON_POLICY, kind};
    if (request->capturing)
        decision->reason = GM_REASON_CAPTURE;
    if (request->capturing || request->call == GM_CALL_ALLOC_ASYNC)
        decision->kind = GM_KIND_NATIVE;
}

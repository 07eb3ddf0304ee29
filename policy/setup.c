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

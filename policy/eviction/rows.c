/* The eviction policies there are. */
#include "policy/eviction/eviction.h"

#include <string.h>

extern const struct gm_eviction_policy gm_eviction_random, gm_eviction_mru, gm_eviction_lru, gm_eviction_car,
    gm_eviction_clock_pro, gm_eviction_preprotected_lru, gm_eviction_window;

const struct gm_eviction_policy *const gm_eviction_policies[] = {
    &gm_eviction_random,    &gm_eviction_mru,
    &gm_eviction_lru,       &gm_eviction_car,
    &gm_eviction_clock_pro, &gm_eviction_preprotected_lru,
    &gm_eviction_window,    NULL,
};

const struct gm_eviction_policy *gm_eviction_find(const char *name) {
    for (const struct gm_eviction_policy *const *row = gm_eviction_policies; *row; row++) {
        if (!strcmp((*row)->name, name))
            return *row;
    }
    return NULL;
}

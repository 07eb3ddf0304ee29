#include "tools/cli/lifetime_classes.h"

#include <stdlib.h>

bool gm_lifetime_classes_begin(struct gm_lifetime_classes *c, uint64_t number) {
    if (number > c->room) {
        size_t room = c->room ? 2 * c->room : 1u << 16;
        uint8_t *of = realloc(c->of, room);
        if (!of)
            return false;
        c->of = of;
        c->room = room;
    }
    c->of[number - 1] = GM_THRESHOLDS;
    c->count = number;
    return true;
}

void gm_lifetime_classes_end(struct gm_lifetime_classes *c, uint64_t number, uint64_t lived_ns) {
    unsigned i = 0;
    while (i < GM_THRESHOLDS && lived_ns > gm_threshold(i))
        i++;
    c->of[number - 1] = (uint8_t)i;
}

void gm_lifetime_classes_free(struct gm_lifetime_classes *c) {
    free(c->of);
    *c = (struct gm_lifetime_classes){0};
}

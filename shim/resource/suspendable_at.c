/* Asks both kinds of ranges (suspendable_at.h). */
#include "shim/resource/suspendable_at.h"

#include "shim/resource/suspendable_handles.h"

bool gm_suspendable_covers(uint64_t address) { return gm_suspendable_is_ours(address) || gm_handles_cover(address); }

void gm_suspendable_stay(uint64_t address, const char *why) {
    if (!gm_suspendable_stay_ours(address, why))
        gm_handles_stay(address, why);
}

struct gm_suspendable_range *gm_suspendable_range_of(uint64_t address) {
    struct gm_suspendable_range *range = gm_suspendable_of_block(address);
    return range ? range : gm_handles_range_at(address);
}

void gm_suspendable_tag(uint64_t address, uint8_t tag) {
    struct gm_suspendable_range *range = gm_handles_range_at(address);
    if (range)
        range->tag = tag;
    else
        gm_suspendable_set_tag(address, tag);
}

uint8_t gm_suspendable_tag_at(uint64_t address) {
    const struct gm_suspendable_range *range = gm_handles_range_at(address);
    return range ? range->tag : gm_suspendable_tag_of(address);
}

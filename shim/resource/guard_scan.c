/* Finds the nearest and the farthest changed byte (guard_scan.h). */
#include "shim/resource/guard_scan.h"

#include <string.h>

void gm_guard_scan(struct gm_guard_scan *scan, const unsigned char *bytes, size_t size, bool before) {
    size_t from = 0, to = size, distance = scan->compared;
    scan->compared += size;
    if (!size || (bytes[0] == GM_GUARD_PATTERN && !memcmp(bytes, bytes + 1, size - 1)))
        return;
    while (bytes[from] == GM_GUARD_PATTERN)
        from++;
    while (bytes[to - 1] == GM_GUARD_PATTERN)
        to--;
    if (scan->first == scan->last)
        scan->first = distance + (before ? size - to : from);
    scan->last = distance + (before ? size - from : to);
}

bool gm_guard_scan_damage(const struct gm_guard_block *block, const struct gm_guard_scan scans[2],
                          enum gm_guard_found found, struct gm_guard_damage *damage) {
    for (int before = 0; before < 2; before++) {
        const struct gm_guard_scan *at = &scans[before];
        if (at->first == at->last)
            continue;
        *damage = (struct gm_guard_damage){.before = before,
                                           .found = found,
                                           .distance = at->first,
                                           .count = at->last - at->first,
                                           .more = at->last == at->compared &&
                                                   at->compared < gm_guard_side_of(block, before).size};
        return true;
    }
    return false;
}

#include "tools/cli/number_text.h"

#include "shim/base/options.h"

#include <stdio.h>
#include <string.h>

const char *gm_text_bytes(struct gm_text *room, uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    double value = (double)bytes;
    while (value >= 1023.995 && unit < 6) {
        value /= 1024;
        unit++;
    }
    snprintf(room->text, sizeof room->text, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
    return room->text;
}

const char *gm_text_memory(struct gm_text *room, uint64_t value) {
    if (!gm_memory_is_part(value))
        return gm_text_bytes(room, value);
    snprintf(room->text, sizeof room->text, "%.4g %%", (double)gm_memory_part(value) * 100 / GM_MEMORY_WHOLE);
    return room->text;
}

const char *gm_text_time(struct gm_text *room, uint64_t ns) {
    if (ns < 1000)
        snprintf(room->text, sizeof room->text, "%u ns", (unsigned)ns);
    else if (ns < 999500)
        snprintf(room->text, sizeof room->text, "%.3g us", (double)ns / 1e3);
    else if (ns < 999500000)
        snprintf(room->text, sizeof room->text, "%.3g ms", (double)ns / 1e6);
    else
        snprintf(room->text, sizeof room->text, "%.2f s", (double)ns / 1e9);
    return room->text;
}

const char *gm_text_count(struct gm_text *room, uint64_t count) {
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)count);
    char *out = room->text;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = 0;
    return room->text;
}

const char *gm_text_percent(struct gm_text *room, uint64_t part, uint64_t whole) {
    snprintf(room->text, sizeof room->text, "%.1f %%", whole ? 100.0 * (double)part / (double)whole : 0.0);
    return room->text;
}

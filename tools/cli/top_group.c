#include "tools/cli/top_group.h"

#include <stdio.h>

uint64_t gm_group_limit_of(const struct gm_process_counters *counters, const char *name) {
    struct gm_group_file file;
    const char *why;
    if (!gm_process_group_open(counters, name, &file, &why))
        return 0;
    uint64_t limit = file.group->limit;
    gm_group_close(&file);
    return limit;
}

void gm_group_sample_take(struct gm_group_sample *out, const char *name, const struct gm_group_file *file) {
    *out = (struct gm_group_sample){.processes = gm_group_clear_ended(file),
                                    .limit = __atomic_load_n(&file->group->limit, __ATOMIC_RELAXED)};
    snprintf(out->name, sizeof out->name, "%s", name);
    for (; out->devices < GM_GROUP_DEVICES && file->group->devices[out->devices]; out->devices++)
        out->used[out->devices] = gm_group_live(file->group, out->devices);
}

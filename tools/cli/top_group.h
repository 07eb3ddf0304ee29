/* The group that gpumem top --group shows, one reading. */
#ifndef GM_TOP_GROUP_H
#define GM_TOP_GROUP_H

#include "tools/cli/process_file.h"

struct gm_group_sample {
    char name[GM_GROUP_NAME]; /* "" = none */
    uint64_t limit;           /* of each device (gm_memory_of); 0 = none */
    unsigned processes, devices;
    uint64_t used[GM_GROUP_DEVICES]; /* bytes, in the order of first use */
};

/* The limit of the process's group now. 0: none, or the group cannot be read. */
uint64_t gm_group_limit_of(const struct gm_process_counters *counters, const char *name);
void gm_group_sample_take(struct gm_group_sample *out, const char *name, const struct gm_group_file *file);

#endif

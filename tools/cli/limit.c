/* gpumem limit: shows or changes the limit of a group (GPUMEM_GROUP) or of one process while it runs. */
#include "shim/base/options.h"
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/number_text.h"
#include "tools/cli/process_file.h"
#include "tools/cli/shown.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gm_command_limit_help(void) {
    puts(
        "usage: gpumem limit GROUP|PID [BYTES|N%]\n"
        "       gpumem limit --remove GROUP\n\n"
        "Shows or changes how much memory of each device the processes of a group (GPUMEM_GROUP), or one process that\n"
        "runs with GPUMEM_LIMIT, may hold: bytes, or a part of each device such as 50%. It counts from their next\n"
        "request on; 0 = no limit. A number is a process id. A new group is made, so that the limit is there before\n"
        "its first process.\n");
    gm_flags_help("limit");
}

static const struct gm_option bytes_row = {
    .type = GM_OPTION_MEMORY, .name = "the limit", .initial = "0", .unit = "bytes", .help = "bytes of each device"};

static const char *limit_text(struct gm_text *room, uint64_t bytes) {
    return bytes && bytes != UINT64_MAX ? gm_text_memory(room, bytes) : "none";
}

/* ---- a group */

static void show_group(const char *name, const struct gm_group_file *file) {
    struct gm_text text;
    unsigned members = gm_group_clear_ended(file);
    printf("group %s: limit %s, %u %s\n", GM_SHOWN(name),
           limit_text(&text, __atomic_load_n(&file->group->limit, __ATOMIC_RELAXED)), members,
           members == 1 ? "process" : "processes");
    for (unsigned device = 0; device < GM_GROUP_DEVICES && file->group->devices[device]; device++)
        printf("  device %u: %s in use\n", device, gm_text_bytes(&text, gm_group_live(file->group, device)));
}

static int group_error(const char *name, const char *why) {
    gm_complain("limit: group %s %s", name, why);
    return 1;
}

/* Closes the file. */
static int limit_file(const char *name, struct gm_group_file *file, const uint64_t *bytes) {
    bool done = !bytes || gm_group_set_limit(file, *bytes);
    if (done)
        show_group(name, file);
    gm_group_close(file);
    return done ? 0 : group_error(name, "cannot be written");
}

/* A group of this user. */
static int limit_group(const char *name, const uint64_t *bytes) {
    struct gm_group_file file;
    const char *why;
    if (!gm_group_name_is_valid(name))
        return gm_usage_error("limit: '%s' is neither a process id nor the name of a group; " GM_GROUP_ACCEPTED, name);
    return gm_group_open(name, bytes != NULL, &file, &why) ? limit_file(name, &file, bytes) : group_error(name, why);
}

/* The group of the process's user. */
static int limit_group_of(const struct gm_process_counters *counters, const char *name, const uint64_t *bytes) {
    struct gm_group_file file;
    const char *why;
    return gm_process_group_open(counters, name, &file, &why) ? limit_file(name, &file, bytes) : group_error(name, why);
}

static int remove_group(const char *name) {
    const char *why;
    if (!gm_group_name_is_valid(name))
        return gm_usage_error("limit: '%s' is not the name of a group; " GM_GROUP_ACCEPTED, name);
    return gm_group_remove(name, &why) ? 0 : group_error(name, why);
}

/* ---- a process */

static int process_error(long pid, const char *why) {
    gm_complain("limit: process %ld: %s", pid, why);
    return 1;
}

static int limit_process(long pid, const uint64_t *bytes) {
    static struct gm_stats stats;
    struct gm_process_counters *counters;
    struct gm_text text;
    enum gm_counters_status status = gm_process_counters_open((pid_t)pid, &counters);
    int result = 0;
    if (!status)
        status = gm_process_counters_read(counters, &stats);
    if (status)
        result = process_error(pid, gm_process_counters_reason(status));
    else if (stats.group[0])
        result = limit_group_of(counters, stats.group, bytes);
    else if (!stats.limit_bytes)
        result =
            process_error(pid, "it was started without GPUMEM_LIMIT and GPUMEM_GROUP, so its blocks are not counted");
    else if (bytes && !gm_process_counters_limit(counters, *bytes))
        result = process_error(pid, "its limit cannot be changed from here: its counters are not writable");
    else
        printf("process %ld: limit %s\n", pid, limit_text(&text, bytes ? *bytes : stats.limit_bytes));
    gm_process_counters_close(counters);
    return result;
}

/* ---- arguments */

static int take(void *data, const char *name, const char *value) {
    *(bool *)data = true; /* --remove is the only flag */
    return 0;
}

int gm_command_limit(int argc, char **argv) {
    bool remove = false;
    int first, status = gm_flags_read(argc, argv, take, &remove, gm_command_limit_help, &first);
    uint64_t bytes = 0;
    char error[256], *end;
    if (status >= 0)
        return status;
    if (argc - first < 1 || argc - first > (remove ? 1 : 2))
        return gm_usage_error("limit: expected %s",
                              remove ? "--remove GROUP" : "GROUP or PID, and perhaps BYTES or N%");
    bool changes = argc - first == 2;
    if (changes && gm_option_parse(&bytes_row, argv[first + 1], &bytes, error, sizeof error))
        return gm_usage_error("limit: '%s' is not a number of bytes; accepted: 0, 4096, 512M, 1.5GiB, 50%%",
                              argv[first + 1]);
    if (remove)
        return remove_group(argv[first]);
    errno = 0;
    long pid = strtol(argv[first], &end, 10);
    if (end == argv[first] || *end)
        return limit_group(argv[first], changes ? &bytes : NULL);
    if (errno || pid <= 0 || pid > INT32_MAX)
        return gm_usage_error("limit: '%s' is not a process id", argv[first]);
    return limit_process(pid, changes ? &bytes : NULL);
}

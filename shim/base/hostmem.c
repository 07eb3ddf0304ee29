/* Parses /proc/meminfo, the memory nodes under /sys and the control groups, and lowers `available` to each bound
 * (hostmem.h). */
#include "shim/base/hostmem.h"
#include "policy/digits.h"
#include "shim/base/file.h"

#include <string.h>
#include <sys/mman.h>

enum { PATH_SIZE = 1024, TEXT_SIZE = 8192, MAX_NODES = 64 };

/* Buffers. They are too large for the stack of a thread that the program made small. */
struct scratch {
    char text[TEXT_SIZE], groups[2048];
    char path[PATH_SIZE], group[PATH_SIZE], again[PATH_SIZE];
};

#define MIN_HEADROOM ((uint64_t)512 << 20)
#define UNLIMITED    ((uint64_t)1 << 62) /* version 1 writes a number near 2^63 for "no limit" */

static bool read_number(const char *text, uint64_t *number) { return gm_read_digits(&text, NULL, number); }

/* The number behind `key`, which stands at the beginning of a line or behind a space; 0 when there is none. */
static uint64_t number_behind(const char *text, const char *key) {
    uint64_t number = 0;
    for (const char *at = text; (at = strstr(at, key)) != NULL; at++)
        if (at == text || at[-1] == '\n' || at[-1] == ' ') {
            at += strlen(key);
            read_number(at + strspn(at, " \t"), &number);
            break;
        }
    return number;
}

static void bound(struct gm_hostmem *memory, uint64_t available) {
    if (available < memory->available)
        memory->available = available;
}

/* ---- the machine and one node of it */

static bool read_machine(const char *root, struct gm_hostmem *memory, struct scratch *scratch) {
    gm_format(scratch->path, sizeof scratch->path, "%s/proc/meminfo", root);
    if (!gm_read_text(scratch->path, scratch->text, sizeof scratch->text))
        return false;
    memory->available = number_behind(scratch->text, "MemAvailable:") << 10;
    memory->total = number_behind(scratch->text, "MemTotal:") << 10;
    return memory->total > 0;
}

static uint64_t node_total(const char *root, int node, struct scratch *scratch) {
    gm_format(scratch->path, sizeof scratch->path, "%s/sys/devices/system/node/node%d/meminfo", root, node);
    return gm_read_text(scratch->path, scratch->text, sizeof scratch->text)
               ? number_behind(scratch->text, "MemTotal:") << 10
               : 0;
}

/* The list of nodes is text such as "0-1,4". Without it a node may have any number. */
static int last_node(const char *root, struct scratch *scratch) {
    uint64_t last = MAX_NODES - 1, number;
    gm_format(scratch->path, sizeof scratch->path, "%s/sys/devices/system/node/online", root);
    if (gm_read_text(scratch->path, scratch->text, sizeof scratch->text))
        for (const char *at = scratch->text; *(at += strcspn(at, "0123456789")); at += strspn(at, "0123456789"))
            last = read_number(at, &number) && number < MAX_NODES ? number : last;
    return (int)last;
}

/* A sandbox may show different figures for the machine and for its nodes. Nodes that do not add up to the machine are
 * ignored. */
static bool nodes_cover_machine(const char *root, uint64_t machine, struct scratch *scratch) {
    uint64_t sum = 0;
    for (int node = 0, last = last_node(root, scratch); node <= last; node++)
        sum += node_total(root, node, scratch);
    return sum >= machine - machine / 10;
}

static void bound_by_node(const char *root, int node, struct gm_hostmem *memory, struct scratch *scratch) {
    if (node >= 0 && node_total(root, node, scratch) && nodes_cover_machine(root, memory->total, scratch) &&
        node_total(root, node, scratch))
        bound(memory, (number_behind(scratch->text, "MemFree:") + number_behind(scratch->text, "Inactive(file):"))
                          << 10);
}

/* ---- control groups */

static const struct layout {
    const char *mount, *limit, *use, *cached;
} unified = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "},
  hybrid = {"/sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file "},
  legacy = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};

static bool read_in(const char *root, const struct layout *layout, const char *group, const char *file,
                    struct scratch *scratch) {
    int length = gm_format(scratch->path, sizeof scratch->path, "%s%s%s/%s", root, layout->mount, group, file);
    return length < PATH_SIZE && gm_read_text(scratch->path, scratch->text, sizeof scratch->text);
}

static void bound_by_group(const char *root, const struct layout *layout, const char *group, struct gm_hostmem *memory,
                           struct scratch *scratch) {
    uint64_t limit, used, cached = 0;
    if (!read_in(root, layout, group, layout->limit, scratch) || !read_number(scratch->text, &limit) ||
        limit >= UNLIMITED || !read_in(root, layout, group, layout->use, scratch) || !read_number(scratch->text, &used))
        return;
    if (read_in(root, layout, group, "memory.stat", scratch))
        cached = number_behind(scratch->text, layout->cached);
    used = used > cached ? used - cached : 0;
    bound(memory, limit > used ? limit - used : 0);
    if (limit < memory->total)
        memory->total = limit;
}

/* Applies every group from `group` up to the root of the mount. Only the root applies in two cases: the path leads
 * outside of this name space, or it does not exist, as in a container whose own group is mounted as the root. */
static void bound_by_groups(const char *root, const struct layout *layout, char *group, struct gm_hostmem *memory,
                            struct scratch *scratch) {
    if (strstr(group, "/.."))
        group[0] = '\0';
    for (char *slash; group[0]; *slash = '\0') {
        slash = strrchr(group, '/');
        if (!slash)
            break;
        if (slash[1])
            bound_by_group(root, layout, group, memory, scratch);
    }
    bound_by_group(root, layout, "", memory, scratch);
}

static bool has_word(const char *list, size_t length, const char *word) {
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= length; i++)
        if (!memcmp(list + i, word, size) && (!i || list[i - 1] == ',') &&
            (i + size == length || list[i + size] == ','))
            return true;
    return false;
}

/* A line is "0::/group" in version 2 and "ID:CONTROLLER,...:/group" in version 1. */
static void bound_by_cgroup(const char *root, struct gm_hostmem *memory, struct scratch *scratch) {
    gm_format(scratch->path, sizeof scratch->path, "%s/proc/self/cgroup", root);
    if (!gm_read_text(scratch->path, scratch->groups, sizeof scratch->groups))
        return;
    for (const char *line = scratch->groups; *line;) {
        size_t length = strcspn(line, "\n");
        const char *names = memchr(line, ':', length);
        const char *path = names ? memchr(names + 1, ':', length - (size_t)(names + 1 - line)) : NULL;
        if (path && length - (size_t)(path + 1 - line) < sizeof scratch->group) {
            bool version_2 = path == names + 1;
            gm_format(scratch->group, sizeof scratch->group, "%.*s", (int)(length - (size_t)(path + 1 - line)),
                      path + 1);
            if (version_2) {
                memcpy(scratch->again, scratch->group, sizeof scratch->again);
                bound_by_groups(root, &unified, scratch->group, memory, scratch);
                bound_by_groups(root, &hybrid, scratch->again, memory, scratch);
            } else if (has_word(names + 1, (size_t)(path - names - 1), "memory")) {
                bound_by_groups(root, &legacy, scratch->group, memory, scratch);
            }
        }
        line += length + (line[length] == '\n');
    }
}

bool gm_hostmem_read(const char *root, int node, struct gm_hostmem *memory) {
    struct scratch *scratch = gm_pages(sizeof *scratch);
    *memory = (struct gm_hostmem){0};
    bool known = scratch && read_machine(root, memory, scratch);
    if (known) {
        bound_by_node(root, node, memory, scratch);
        bound_by_cgroup(root, memory, scratch);
    }
    if (scratch)
        munmap(scratch, sizeof *scratch);
    return known;
}

uint64_t gm_hostmem_takeable(const struct gm_hostmem *memory) {
    uint64_t headroom = memory->total / 20;
    if (headroom < MIN_HEADROOM)
        headroom = MIN_HEADROOM;
    return memory->available > headroom ? memory->available - headroom : 0;
}

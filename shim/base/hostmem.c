#include "shim/base/hostmem.h"
#include "shim/base/file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

enum { PATH_SIZE = 1024, TEXT_SIZE = 8192, MOST_NODES = 64 };

/* Too much for the stack of a thread that the program made small. */
struct room {
    char text[TEXT_SIZE], groups[2048];
    char path[PATH_SIZE], group[PATH_SIZE], again[PATH_SIZE];
};

#define LEAST_HEADROOM ((uint64_t)512 << 20)
#define UNLIMITED      ((uint64_t)1 << 62) /* version 1 writes a number near 2^63 */

/* The file's beginning as text. False: it cannot be read. */
static bool read_text(const char *path, char *text, size_t size) {
    size_t used = 0;
    ssize_t got;
    int fd = gm_open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while (used < size - 1 && (got = gm_read(fd, text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    gm_close(fd);
    text[used] = '\0';
    return used > 0;
}

static bool read_number(const char *text, uint64_t *number) {
    uint64_t sum = 0;
    if (*text < '0' || *text > '9')
        return false;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(sum, 10u, &sum) || __builtin_add_overflow(sum, (uint64_t)(*text - '0'), &sum))
            return false;
    *number = sum;
    return true;
}

/* The number behind `key` at the beginning of a line, or behind a space on it; 0 when there is none. */
static uint64_t number_of(const char *text, const char *key) {
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

static bool read_machine(const char *root, struct gm_hostmem *memory, struct room *room) {
    gm_format(room->path, sizeof room->path, "%s/proc/meminfo", root);
    if (!read_text(room->path, room->text, sizeof room->text))
        return false;
    memory->available = number_of(room->text, "MemAvailable:") << 10;
    memory->total = number_of(room->text, "MemTotal:") << 10;
    return memory->total > 0;
}

static uint64_t node_total(const char *root, int node, struct room *room) {
    gm_format(room->path, sizeof room->path, "%s/sys/devices/system/node/node%d/meminfo", root, node);
    return read_text(room->path, room->text, sizeof room->text) ? number_of(room->text, "MemTotal:") << 10 : 0;
}

/* A sandbox may show the machine's memory in one place and a figure of its own in the nodes: nodes that do not add up
 * to the machine say nothing about it. */
static bool nodes_are_true(const char *root, uint64_t machine, struct room *room) {
    uint64_t sum = 0;
    for (int node = 0; node < MOST_NODES; node++)
        sum += node_total(root, node, room);
    return sum >= machine - machine / 10;
}

static void bound_by_node(const char *root, int node, struct gm_hostmem *memory, struct room *room) {
    if (node >= 0 && nodes_are_true(root, memory->total, room) && node_total(root, node, room))
        bound(memory, (number_of(room->text, "MemFree:") + number_of(room->text, "Inactive(file):")) << 10);
}

/* ---- control groups */

static const struct layout {
    const char *mount, *limit, *use, *cached;
} unified = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "},
  hybrid = {"/sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file "},
  legacy = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};

static bool read_in(const char *root, const struct layout *layout, const char *group, const char *file,
                    struct room *room) {
    int length = gm_format(room->path, sizeof room->path, "%s%s%s/%s", root, layout->mount, group, file);
    return length < PATH_SIZE && read_text(room->path, room->text, sizeof room->text);
}

static void bound_by_group(const char *root, const struct layout *layout, const char *group, struct gm_hostmem *memory,
                           struct room *room) {
    uint64_t limit, used, cached = 0;
    if (!read_in(root, layout, group, layout->limit, room) || !read_number(room->text, &limit) || limit >= UNLIMITED ||
        !read_in(root, layout, group, layout->use, room) || !read_number(room->text, &used))
        return;
    if (read_in(root, layout, group, "memory.stat", room))
        cached = number_of(room->text, layout->cached);
    used = used > cached ? used - cached : 0;
    bound(memory, limit > used ? limit - used : 0);
    if (limit < memory->total)
        memory->total = limit;
}

/* Every group from `group` up to the mount's root. A path that leads outside, as seen from another name space, or that
 * is not there, as in a container that mounts its own group as the root, leaves the root alone. */
static void bound_by_groups(const char *root, const struct layout *layout, char *group, struct gm_hostmem *memory,
                            struct room *room) {
    if (strstr(group, "/.."))
        group[0] = '\0';
    for (char *slash; group[0]; *slash = '\0') {
        slash = strrchr(group, '/');
        if (!slash)
            break;
        if (slash[1])
            bound_by_group(root, layout, group, memory, room);
    }
    bound_by_group(root, layout, "", memory, room);
}

static bool has_word(const char *list, size_t length, const char *word) {
    size_t size = strlen(word);
    for (size_t i = 0; i + size <= length; i++)
        if (!memcmp(list + i, word, size) && (!i || list[i - 1] == ',') &&
            (i + size == length || list[i + size] == ','))
            return true;
    return false;
}

/* Lines are "0::/group" of version 2 and "ID:CONTROLLER,...:/group" of version 1. */
static void bound_by_cgroup(const char *root, struct gm_hostmem *memory, struct room *room) {
    gm_format(room->path, sizeof room->path, "%s/proc/self/cgroup", root);
    if (!read_text(room->path, room->groups, sizeof room->groups))
        return;
    for (const char *line = room->groups; *line;) {
        size_t length = strcspn(line, "\n");
        const char *names = memchr(line, ':', length);
        const char *place = names ? memchr(names + 1, ':', length - (size_t)(names + 1 - line)) : NULL;
        if (place && length - (size_t)(place + 1 - line) < sizeof room->group) {
            bool version_2 = place == names + 1;
            gm_format(room->group, sizeof room->group, "%.*s", (int)(length - (size_t)(place + 1 - line)), place + 1);
            if (version_2) {
                memcpy(room->again, room->group, sizeof room->again);
                bound_by_groups(root, &unified, room->group, memory, room);
                bound_by_groups(root, &hybrid, room->again, memory, room);
            } else if (has_word(names + 1, (size_t)(place - names - 1), "memory")) {
                bound_by_groups(root, &legacy, room->group, memory, room);
            }
        }
        line += length + (line[length] == '\n');
    }
}

bool gm_hostmem_read(const char *root, int node, struct gm_hostmem *memory) {
    struct room *room = gm_pages(sizeof *room);
    *memory = (struct gm_hostmem){0};
    bool known = room && read_machine(root, memory, room);
    if (known) {
        bound_by_node(root, node, memory, room);
        bound_by_cgroup(root, memory, room);
    }
    if (room)
        munmap(room, sizeof *room);
    return known;
}

uint64_t gm_hostmem_takeable(const struct gm_hostmem *memory) {
    uint64_t headroom = memory->total / 20;
    if (headroom < LEAST_HEADROOM)
        headroom = LEAST_HEADROOM;
    return memory->available > headroom ? memory->available - headroom : 0;
}

#include "tools/cli/process_file.h"
#include "tools/cli/process_root.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Who has the rights of the process's user gains nothing by naming a file of somebody else. */
static const char *judge_owner(const struct gm_process_counters *counters, int fd) {
    struct stat st;
    uid_t user;
    if (fstat(fd, &st) || !gm_process_user(gm_process_counters_pid(counters), &user))
        return strerror(errno);
    if (!gm_process_counters_alive(counters)) /* the folder may be another process's */
        return gm_process_counters_reason(GM_COUNTERS_ENDED);
    return st.st_uid == user || user == geteuid() ? NULL : "belongs to another user than the process";
}

int gm_process_trace_open(const struct gm_process_counters *counters, const char *path, const char **why) {
    int fd = gm_process_file_open(gm_process_counters_pid(counters), path, O_RDONLY, why);
    if (fd >= 0)
        *why = judge_owner(counters, fd);
    if (fd < 0 || !*why)
        return fd;
    close(fd);
    return -1;
}

bool gm_process_group_open(const struct gm_process_counters *counters, const char *name, struct gm_group_file *out,
                           const char **why) {
    pid_t pid = gm_process_counters_pid(counters);
    struct gm_group_path path;
    uid_t user;
    bool known = gm_process_user(pid, &user);
    *why = gm_group_name_is_valid(name) ? "does not exist" : GM_GROUP_UNNAMED;
    for (int place = 0; known && place < GM_GROUP_PLACES; place++) {
        const char *trouble;
        if (!gm_group_path(&path, (enum gm_group_place)place, user, name))
            continue;
        int fd = gm_process_file_open(pid, path.text, O_RDWR, &trouble);
        if (fd < 0 && errno != ENOENT)
            *why = trouble;
        if (fd >= 0 && gm_group_read(fd, user, out, why) && gm_process_counters_alive(counters))
            return true;
        if (fd >= 0)
            gm_group_close(out);
    }
    return false;
}

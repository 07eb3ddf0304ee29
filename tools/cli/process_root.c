#include "tools/cli/process_root.h"
#include "tools/cli/foreign_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool gm_process_user(pid_t pid, uid_t *user) {
    char path[64], line[256];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file))
        found = sscanf(line, "Uid: %*u %u", user) == 1;
    if (file)
        fclose(file);
    return found;
}

int gm_process_file_open(pid_t pid, const char *path, int flags, const char **why) {
    char from[64];
    uid_t user;
    snprintf(from, sizeof from, "/proc/%d/%s", (int)pid, *path == '/' ? "root" : "cwd");
    int folder = open(from, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || !gm_process_user(pid, &user)) {
        *why = strerror(errno);
        if (folder >= 0)
            close(folder);
        return -1;
    }
    int fd = gm_foreign_open_below(folder, path, user == geteuid(), flags, why), error = errno;
    close(folder);
    errno = error;
    return fd;
}

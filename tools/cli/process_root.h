/* Whose rights a process has, and the files that it sees by their names. */
#ifndef GM_PROCESS_ROOT_H
#define GM_PROCESS_ROOT_H

#include <stdbool.h>
#include <sys/types.h>

/* The user whose rights the process has. False: there is no such process. */
bool gm_process_user(pid_t pid, uid_t *user);

/* Opens a regular file by the name that the process has for it, below the root of the process, whoever owns it
 * (foreign_file.h). */
int gm_process_file_open(pid_t pid, const char *path, int flags, const char **why);

#endif

/* Opens files whose path is data: from a trace, from another process, or in a folder where other users can put files.
 * Such a path may name a pipe that nobody writes, a device that acts when it is opened, or, by a link, a file that only
 * the caller may read. Only regular files are opened, and an open never waits. */
#ifndef GM_FOREIGN_FILE_H
#define GM_FOREIGN_FILE_H

#include <stdbool.h>

/* `flags`: O_RDONLY or O_RDWR. Returns a descriptor that is closed by execve(2). -1 with errno (EINVAL: no regular
 * file): *why is a few words, static or of strerror. */
int gm_foreign_open(const char *path, int flags, const char **why);

/* The same below the folder `root`, which is / for all links on the way. Kernels before 5.6 cannot do that: there the
 * path is followed plainly if `plainly` allows it, else refused. */
int gm_foreign_open_below(int root, const char *path, bool plainly, int flags, const char **why);

#endif

/* Opens the file of a trace by its name, and is not led elsewhere by another user.
 *
 * In a folder that others can write, as /tmp, anybody may have put something under the name: a link to a file of this
 * user, which the trace would replace, or a file of his own, which he then reads. So the name is followed folder by
 * folder. In a folder that others can write, a link is followed, and a file that exists is taken, only if it belongs to
 * this user or to root, and the file only if it has no second name elsewhere. In all other folders links and files
 * count as ever: this user or root put them there. */
#include "shim/base/file.h"
#include "shim/trace/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum { ROOM = 2 * GM_TRACE_NAME, LINKS = 40, ATTEMPTS = 100 };
enum { FOLDER = O_PATH | O_DIRECTORY | O_NOFOLLOW }; /* of an open that only finds the folder */

/* How far the name was followed. Not on the stack, which may be small. */
static struct way {
    int folder;      /* -1 = none */
    bool shared;     /* others can write it */
    const char *why; /* why it ends here; NULL = errno says it */
    unsigned links;
    char rest[ROOM]; /* of the name, from the folder on */
    char target[ROOM];
} way;
GM_LOCK(following);

static int open_at(int folder, const char *name, int flags) {
    return (int)syscall(SYS_openat, folder, name, flags | O_CLOEXEC, 0666);
}

static bool is_trusted(const struct stat *st) { return st->st_uid == geteuid() || st->st_uid == 0; }

/* Takes the descriptor; -1: it could not be opened. */
static bool enter(struct way *w, int folder) {
    struct stat st;
    if (folder < 0)
        return false;
    if (w->folder >= 0)
        gm_close(w->folder);
    w->folder = folder;
    if (gm_fstat(folder, &st))
        return false;
    w->shared = !is_trusted(&st) || st.st_mode & 022;
    return true;
}

/* Puts what the link `name` of the folder says before the rest of the name. */
static bool follow_link(struct way *w, const char *name, const char *rest) {
    struct stat st;
    ssize_t length = -1;
    int link = open_at(w->folder, name, O_PATH | O_NOFOLLOW);
    if (link < 0 || gm_fstat(link, &st))
        st.st_mode = 0;
    else if (!S_ISLNK(st.st_mode))
        errno = ENOTDIR;
    else if (w->shared && !is_trusted(&st))
        w->why = "a link of another user, in a folder that others can write";
    else if (++w->links > LINKS)
        errno = ELOOP;
    else
        length = syscall(SYS_readlinkat, link, "", w->target, sizeof w->target - 1);
    if (link >= 0)
        gm_close(link);
    if (length < 0)
        return false;
    size_t room = sizeof w->target - (size_t)length;
    if ((size_t)gm_format(w->target + length, room, "%s%s", *rest ? "/" : "", rest) >= room) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(w->rest, w->target);
    return *w->rest != '/' || enter(w, open_at(AT_FDCWD, "/", FOLDER));
}

/* NULL, or why the file is not taken. */
static const char *judge(const struct way *w, const struct stat *st) {
    return !w->shared                                 ? NULL
           : !is_trusted(st)                          ? "it belongs to another user, in a folder that others can write"
           : S_ISREG(st->st_mode) && st->st_nlink > 1 ? "it has a second name, in a folder that others can write"
                                                      : NULL;
}

/* Opens what has the name in the folder. -1 with ELOOP: a link. */
static int open_last(struct way *w, const char *name, bool create) {
    struct stat st, now;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) { /* others may change the folder meanwhile */
        if (syscall(SYS_newfstatat, w->folder, name, &st, AT_SYMLINK_NOFOLLOW)) {
            int fd = errno == ENOENT && create
                         ? open_at(w->folder, name, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK | O_NOCTTY)
                         : -1;
            if (fd >= 0 || errno != EEXIST)
                return fd;
            continue;
        }
        if (S_ISLNK(st.st_mode)) {
            errno = ELOOP;
            return -1;
        }
        if (create && (w->why = judge(w, &st)))
            return -1;
        /* A pipe is opened without waiting for a reader: ENXIO where there is none. */
        int way_in = S_ISFIFO(st.st_mode) ? O_WRONLY : O_RDWR;
        int fd = open_at(w->folder, name, way_in | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        if (fd >= 0 && !gm_fstat(fd, &now) && now.st_dev == st.st_dev && now.st_ino == st.st_ino)
            return fd;
        if (fd >= 0)
            gm_close(fd);
        else if (errno != ENOENT && errno != ELOOP)
            return -1;
    }
    errno = EAGAIN;
    return -1;
}

static int follow(struct way *w, const char *name, bool create) {
    if ((size_t)gm_format(w->rest, sizeof w->rest, "%s", name) >= sizeof w->rest) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (!enter(w, open_at(AT_FDCWD, *name == '/' ? "/" : ".", FOLDER)))
        return -1;
    for (;;) {
        char *part = w->rest + strspn(w->rest, "/"), *end = part + strcspn(part, "/"), *rest = end + (*end == '/');
        bool last = !*end;
        if (!*part) {
            errno = EISDIR;
            return -1;
        }
        *end = 0;
        int fd = last ? open_last(w, part, create) : open_at(w->folder, part, FOLDER);
        bool link = fd < 0 && !w->why && (errno == ELOOP || (!last && errno == ENOTDIR));
        if (link && follow_link(w, part, rest))
            continue;
        if (link || last || fd < 0)
            return fd;
        if (!enter(w, fd))
            return -1;
        memmove(w->rest, rest, strlen(rest) + 1);
    }
}

int gm_trace_open_named(const char *name, bool create, const char **why) {
    gm_spin_lock(&following);
    way.folder = -1;
    way.why = NULL;
    way.links = 0;
    int fd = follow(&way, name, create), error = errno;
    if (way.folder >= 0)
        gm_close(way.folder);
    *why = way.why;
    gm_spin_unlock(&following);
    errno = error;
    return fd;
}

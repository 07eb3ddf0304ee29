/* The file of a group: its name, its place, what it must be before it is used, and the locks of its bytes (group.h). */
#include "shim/accounts/group_file.h"
#include "shim/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { OFD_GETLK = 36, OFD_SETLK = 37 }; /* of fcntl, Linux 3.15 */
enum { JOIN_MS = 1000, FOLDER = 160 };

/* ---- name and place */

bool gm_group_name_is_valid(const char *name) {
    size_t length = strlen(name);
    if (!length || length >= GM_GROUP_NAME || *name == '.')
        return false;
    for (const char *p = name; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || strchr("._-", *p)))
            return false;
    return true;
}

bool gm_group_path(struct gm_group_path *out, enum gm_group_place place, uid_t user, const char *name) {
    char folder[FOLDER];
    const char *named = user == geteuid() ? getenv("XDG_RUNTIME_DIR") : NULL;
    size_t length = 0;
    if (!gm_group_name_is_valid(name))
        return false;
    if (place == GM_GROUP_IN_SHM)
        gm_format(folder, sizeof folder, "/dev/shm");
    else if (named && *named)
        length = (size_t)gm_format(folder, sizeof folder, "%s", named);
    else
        gm_format(folder, sizeof folder, "/run/user/%u", (unsigned)user);
    if (*folder != '/' || length >= sizeof folder)
        return false;
    gm_format(out->text, sizeof out->text, "%s/gpumem-group-%u-%s", folder, (unsigned)user, name);
    return true;
}

static bool look(const char *path, struct stat *st) {
    return !syscall(SYS_newfstatat, AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

/* Whether nobody but this user can put files there. */
static bool in_private_folder(const struct gm_group_path *path) {
    struct gm_group_path folder = *path;
    struct stat st;
    *strrchr(folder.text, '/') = 0;
    return !gm_stat(folder.text, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022);
}

/* In /dev/shm the members meet whatever their environment says. There another user may have taken the name, and then
 * the group is in the runtime folder. One that is there already stays there. False: the name is none. */
static bool choose_path(struct gm_group_path *path, const char *name) {
    struct gm_group_path shared;
    struct stat st;
    if (!gm_group_path(&shared, GM_GROUP_IN_SHM, geteuid(), name))
        return false;
    bool own = gm_group_path(path, GM_GROUP_IN_RUNTIME, geteuid(), name) && in_private_folder(path);
    if (!own || (!look(path->text, &st) && (!look(shared.text, &st) || st.st_uid == geteuid())))
        *path = shared;
    return true;
}

/* ---- locks */

/* True: the command succeeded, and (OFD_GETLK) nobody has the lock. */
static bool control_lock(int fd, int byte, int command, short type) {
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return !gm_fcntl(fd, command, (long)(uintptr_t)&lock) && (command == OFD_SETLK || lock.l_type == F_UNLCK);
}

bool gm_group_lock(int fd, int byte) { return control_lock(fd, byte, OFD_SETLK, F_WRLCK); }
void gm_group_unlock(int fd, int byte) { control_lock(fd, byte, OFD_SETLK, F_UNLCK); }
bool gm_group_is_locked(int fd, int byte) { return !control_lock(fd, byte, OFD_GETLK, F_WRLCK); }

/* A joining process holds the lock for microseconds, unless somebody stopped it there. */
bool gm_group_lock_joining(int fd) {
    for (int ms = 0; ms < JOIN_MS; ms++) {
        if (gm_group_lock(fd, GM_GROUP_JOINING))
            return true;
        if (errno != EAGAIN && errno != EACCES)
            return false;
        gm_sleep(1000000);
    }
    return false;
}

/* ---- the file */

/* Reserves the memory, so that a full file system shows here and not as a bus error later. */
static const char *make_content(int fd) {
    static const uint64_t magic = GM_GROUP_MAGIC;
    if (ftruncate(fd, sizeof(struct gm_group)) || syscall(SYS_fallocate, fd, 0, (off_t)0, sizeof(struct gm_group)) ||
        gm_safe_pwrite(fd, &magic, sizeof magic, 0) != sizeof magic) {
        if (ftruncate(fd, 0))
            return "cannot be written";
        return "has no room in its folder";
    }
    return NULL;
}

static const char *check_file(int fd, uid_t user) {
    struct stat st;
    uint64_t magic = 0;
    if (gm_fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != user)
        return "belongs to somebody else";
    if (st.st_nlink > 1)
        return "has a second name";
    if (!st.st_size)
        return "has no content yet";
    if (st.st_size != sizeof(struct gm_group) || gm_pread(fd, &magic, sizeof magic, 0) != sizeof magic ||
        magic != GM_GROUP_MAGIC)
        return "is of another version of gpumem";
    return NULL;
}

/* The file is empty between its creation and the lock of its maker. */
static const char *fill_file(int fd) {
    struct stat st;
    if (gm_fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_size)
        return NULL;
    if (!gm_group_lock_joining(fd))
        return "is locked by another process";
    const char *why = gm_fstat(fd, &st) || st.st_size ? NULL : make_content(fd);
    gm_group_unlock(fd, GM_GROUP_JOINING);
    return why;
}

/* -1: *why is the reason. */
static int open_path(const struct gm_group_path *path, bool create, const char **why) {
    struct stat st;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path->text, GM_GROUP_FLAGS | (create ? O_CREAT : 0), 0600);
    int error = errno;
    if (fd < 0 && look(path->text, &st))
        *why = st.st_uid == geteuid() ? gm_errno_text(error) : "belongs to somebody else";
    else if (fd < 0)
        *why = error == ENOENT && !create ? "does not exist" : gm_errno_text(error);
    else
        *why = create ? fill_file(fd) : NULL;
    return fd;
}

bool gm_group_open(const char *name, bool create, struct gm_group_file *out, const char **why) {
    *out = (struct gm_group_file){NULL, -1, {""}};
    *why = GM_GROUP_UNNAMED;
    if (!choose_path(&out->path, name))
        return false;
    out->fd = open_path(&out->path, create, why);
    if (out->fd >= 0 && !*why)
        *why = check_file(out->fd, geteuid());
    if (!*why) {
        void *map = mmap(NULL, sizeof(struct gm_group), PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
        *why = map == MAP_FAILED ? "cannot be mapped" : NULL;
        out->group = map == MAP_FAILED ? NULL : map;
    }
    if (*why)
        gm_group_close(out);
    return !*why;
}

bool gm_group_read(int fd, uid_t user, struct gm_group_file *out, const char **why) {
    *out = (struct gm_group_file){NULL, fd, {""}};
    *why = check_file(fd, user);
    if (!*why && !(out->group = gm_pages(sizeof *out->group)))
        *why = "cannot be read: out of memory";
    if (!*why && gm_pread(fd, out->group, sizeof *out->group, 0) != sizeof *out->group)
        *why = "cannot be read";
    if (*why)
        gm_group_close(out);
    return !*why;
}

/* Writes the file, too, since `group` may be a copy. */
bool gm_group_set_limit(const struct gm_group_file *file, uint64_t bytes) {
    __atomic_store_n(&file->group->limit, bytes, __ATOMIC_RELEASE);
    return gm_safe_pwrite(file->fd, &bytes, sizeof bytes, offsetof(struct gm_group, limit)) == sizeof bytes;
}

void gm_group_close(struct gm_group_file *file) {
    if (file->group)
        munmap(file->group, sizeof *file->group);
    if (file->fd >= 0)
        gm_close(file->fd);
    file->group = NULL;
    file->fd = -1;
}

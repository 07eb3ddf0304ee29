/* Transfers of a backing's file (backing_file.h). */
#include "shim/resource/backing_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statfs.h>

#include "shim/base/file.h"

#ifndef O_TMPFILE
#define O_TMPFILE (020000000 | O_DIRECTORY) /* Linux 3.11 */
#endif

static int open_at(const char *path, int flags) {
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_RDWR | O_CLOEXEC, 0600);
}

/* For file systems without O_TMPFILE. */
static int open_named(const char *folder, int flags) {
    static unsigned number;
    char path[4096];
    if (gm_format(path, sizeof path, "%s/.gpumem-%d-%u", folder, (int)getpid(),
                  __atomic_fetch_add(&number, 1, __ATOMIC_RELAXED)) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int descriptor = open_at(path, flags | O_CREAT | O_EXCL);
    if (descriptor >= 0)
        syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    return descriptor;
}

static int open_in(const char *folder) {
    int descriptor = open_at(folder, O_TMPFILE | O_DIRECT);
    if (descriptor < 0)
        descriptor = open_at(folder, O_TMPFILE);
    if (descriptor < 0)
        descriptor = open_named(folder, O_DIRECT);
    if (descriptor < 0)
        descriptor = open_named(folder, 0);
    return descriptor < 0 ? -1 : gm_lift(descriptor);
}

static bool has_room(int descriptor, uint64_t needed, uint64_t *room) {
    struct statfs system;
    *room = UINT64_MAX;
    if (!syscall(SYS_fstatfs, descriptor, &system))
        *room = (uint64_t)system.f_bavail * (uint64_t)(system.f_frsize ? system.f_frsize : system.f_bsize);
    return needed <= *room;
}

struct gm_backing_file *gm_backing_file_make(const char *folder, uint64_t needed, char *why, size_t size) {
    struct stat status;
    uint64_t room;
    struct gm_backing_file *file = gm_pages(sizeof *file);
    int descriptor = file ? open_in(folder) : -1;
    if (descriptor < 0 || gm_fstat(descriptor, &status)) {
        gm_format(why, size, "no file can be made in '%s': %s", folder, file ? gm_errno_text(errno) : "no memory");
    } else if (!has_room(descriptor, needed, &room)) {
        gm_format(why, size, "the file system of '%s' has room for %llu MiB, and %llu MiB would be copied", folder,
                  (unsigned long long)room >> 20, (unsigned long long)needed >> 20);
    } else {
        *file = (struct gm_backing_file){
            .descriptor = descriptor, .device = status.st_dev, .number = status.st_ino, .users = 1, .direct = true};
        return file;
    }
    if (descriptor >= 0)
        gm_close(descriptor);
    if (file)
        munmap(file, sizeof *file);
    return NULL;
}

static bool is_ours(const struct gm_backing_file *file) {
    struct stat status;
    return !gm_fstat(file->descriptor, &status) && status.st_dev == file->device && status.st_ino == file->number;
}

void gm_backing_file_leave(struct gm_backing_file *file) {
    if (!file || __atomic_sub_fetch(&file->users, 1, __ATOMIC_ACQ_REL))
        return;
    if (is_ours(file))
        gm_close(file->descriptor);
    munmap(file, sizeof *file);
}

/* Not every file system that opens a file past the cache transfers all memory so. Returns whether it is worth another
 * attempt. */
static bool without_direct(struct gm_backing_file *file, int error, bool was_direct) {
    if (!was_direct || (error != EINVAL && error != EFAULT))
        return false;
    int flags = gm_fcntl(file->descriptor, F_GETFL, 0);
    __atomic_store_n(&file->direct, false, __ATOMIC_RELAXED);
    return flags >= 0 && !gm_fcntl(file->descriptor, F_SETFL, flags & ~O_DIRECT);
}

static bool transfer(struct gm_backing_file *file, char *data, size_t bytes, uint64_t offset, bool writes) {
    int none = 0, error = is_ours(file) ? 0 : EBADF;
    while (bytes && !error) {
        bool direct = __atomic_load_n(&file->direct, __ATOMIC_RELAXED);
        ssize_t done = writes ? gm_safe_pwrite(file->descriptor, data, bytes, offset)
                              : gm_pread(file->descriptor, data, bytes, offset);
        if (done > 0) {
            data += done;
            offset += (uint64_t)done;
            bytes -= (size_t)done;
        } else if (!done) {
            error = EIO;
        } else if (errno != EINTR && !without_direct(file, errno, direct)) {
            error = errno;
        }
    }
    if (error)
        __atomic_compare_exchange_n(&file->error, &none, error, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return !error;
}

bool gm_backing_file_write(struct gm_backing_file *file, const void *data, size_t bytes, uint64_t offset) {
    return transfer(file, (char *)(uintptr_t)data, bytes, offset, true);
}

bool gm_backing_file_read(struct gm_backing_file *file, void *data, size_t bytes, uint64_t offset) {
    return transfer(file, data, bytes, offset, false);
}

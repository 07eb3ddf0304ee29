/* A file that holds the contents of device memory instead of host memory. It has no name, so that it goes with the
 * process; what is read back is compared by checksums (shim/suspend/checksum.h). Written and read past the cache of the
 * kernel where the file system does that (O_DIRECT).
 *
 * Many threads may read and write at once. */
#ifndef GM_RESOURCE_BACKING_FILE_H
#define GM_RESOURCE_BACKING_FILE_H

#include "shim/base/base.h"

struct gm_backing_file {
    int descriptor;
    uint64_t device, number; /* the program may close descriptors that it does not know */
    uint64_t size;           /* bytes that have a user */
    unsigned users;
    bool direct; /* it may be open past the cache */
    int error;   /* errno of the first transfer that failed */
};

/* Makes a file with one user, in a folder whose file system has room for `needed` bytes. NULL: `why` has a line. */
GM_INTERNAL struct gm_backing_file *gm_backing_file_make(const char *folder, uint64_t needed, char *why, size_t size);
/* A user leaves. The last one closes it. NULL does nothing. */
GM_INTERNAL void gm_backing_file_leave(struct gm_backing_file *file);
/* False: file->error says why. */
GM_INTERNAL bool gm_backing_file_write(struct gm_backing_file *file, const void *data, size_t bytes, uint64_t offset);
GM_INTERNAL bool gm_backing_file_read(struct gm_backing_file *file, void *data, size_t bytes, uint64_t offset);

#endif

/* Groups (GPUMEM_GROUP): processes that share one GPUMEM_LIMIT. A group is a file in /dev/shm that its members map. It
 * belongs to one user, holds the limit, and has a place for the bytes of each member on each device.
 *
 * There is no lock that a member could leave behind. A member announces the bytes that it wants, adds up what all
 * members hold and want, and takes them if the sum is within the limit. Each member also holds a file lock on the byte
 * of its place (F_OFD_SETLK), which the kernel releases when the process ends, however it ends. Others then clear the
 * place and its bytes. The lock belongs to the mapping, so a program that closes all descriptors keeps it.
 *
 * The file stays when its last member ends, and keeps the limit. */
#ifndef GM_BASE_GROUP_H
#define GM_BASE_GROUP_H

#include "shim/base/base.h"

#define GM_GROUP_MAGIC   0x3150554f5247504dull /* "MPGROUP1": seven letters, and one for the layout */
#define GM_GROUP_MEMBERS 256
#define GM_GROUP_DEVICES 32
#define GM_GROUP_NAME    48 /* bytes of a name with the final NUL */

struct gm_group_member {
    int32_t pid; /* as the process sees it; 0 = free */
    int32_t unused;
    uint64_t live[GM_GROUP_DEVICES];
    uint64_t wanted[GM_GROUP_DEVICES]; /* of requests that are not decided yet */
};

struct gm_group {
    uint64_t magic;
    uint64_t limit;                     /* bytes of each device; 0 = none; changes at any time */
    uint64_t devices[GM_GROUP_DEVICES]; /* hash of each device's UUID, in the order of first use; 0 = none */
    uint64_t used_members;              /* members from here on were never used */
    struct gm_group_member members[GM_GROUP_MEMBERS];
};

/* The open file, to look for members that ended. */
struct gm_group_file {
    struct gm_group *group; /* NULL = not open */
    int fd;
};

/* 1 to GM_GROUP_NAME - 1 letters, digits, '.', '_' or '-', with no '.' in front. */
bool gm_group_name_is_valid(const char *name);
#define GM_GROUP_ACCEPTED "accepted: 1 to 47 letters, digits, '.', '_' or '-'"

/* Opens the group, and makes it where `create` is set. False: *why is the reason, and errno is ENOENT where there is
 * no such group. */
bool gm_group_open(const char *name, bool create, struct gm_group_file *out, const char **why);
void gm_group_close(struct gm_group_file *file);
/* Clears the places of members that ended. Returns the number of members that run. */
unsigned gm_group_clear_ended(const struct gm_group_file *file);
/* Removes the file. False: *why is the reason. */
bool gm_group_remove(const char *name, const char **why);

/* Bytes of all members on a device of the group. */
uint64_t gm_group_live(const struct gm_group *group, unsigned device);
/* The number of the device with this hash in the group, -1: the group has no room for it, or (add = false) no member
 * used it. */
int gm_group_device(struct gm_group *group, uint64_t hash, bool add);
/* Hash of a device's UUID; never 0. */
uint64_t gm_group_hash(const unsigned char uuid[16]);

/* ---- for a member: this process */

/* Joins the group. A first member with `limit` sets the limit; for others the group's limit counts. The returned group
 * stays mapped. NULL: *why is the reason. */
struct gm_group *gm_group_join(const char *name, const uint64_t *limit, const char **why);
/* In the child of a fork: leaves the parent's place. */
void gm_group_after_fork(void);
/* Takes bytes within the limit. False: nothing was taken. */
bool gm_group_take(unsigned device, uint64_t bytes);
void gm_group_force(unsigned device, uint64_t bytes);
void gm_group_give(unsigned device, uint64_t bytes);
/* Clears members that ended, so that gm_group_live is exact. */
void gm_group_refresh(void);

#endif

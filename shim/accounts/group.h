/* Groups (GPUMEM_GROUP): processes that share one GPUMEM_LIMIT. A group is a file that its members map. It belongs to
 * one user, holds the limit, and has a place for the bytes of each member on each device. It is in /dev/shm, where the
 * members meet whatever their environment says. Any user may take a name there; then it is in the runtime folder of the
 * user.
 *
 * There is no lock that a member could leave behind. A member announces the bytes that it wants, adds up what all
 * members hold and want, and takes them if the sum is within the limit. Each member also holds a file lock on the byte
 * of its place (F_OFD_SETLK), which the kernel releases when the process ends, however it ends. Others then clear the
 * place and its bytes. The lock belongs to the mapping, so a program that closes all descriptors keeps it.
 *
 * The file stays when its last member ends, and keeps the limit. */
#ifndef GM_ACCOUNTS_GROUP_H
#define GM_ACCOUNTS_GROUP_H

#include "shim/accounts/group_file.h"

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
/* The same of a device of this process; 0: the driver does not say. */
uint64_t gm_group_hash_of(int device);

/* ---- for a member: this process */

/* Joins the group. A first member with `limit` sets the limit; for others the group's limit counts. The returned group
 * stays mapped. NULL: *why is the reason. */
struct gm_group *gm_group_join(const char *name, const uint64_t *limit, const char **why);
/* In the child of a fork: leaves the parent's place. */
void gm_group_after_fork(void);
/* Takes bytes of a device of `total` bytes within the limit. False: nothing was taken. */
bool gm_group_take(unsigned device, uint64_t bytes, uint64_t total);
void gm_group_force(unsigned device, uint64_t bytes);
void gm_group_give(unsigned device, uint64_t bytes);
/* Clears members that ended, so that gm_group_live is exact. */
void gm_group_refresh(void);

#endif

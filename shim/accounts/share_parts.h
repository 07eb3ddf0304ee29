/* What share.c and share_wait.c have together. */
#ifndef GM_ACCOUNTS_SHARE_PARTS_H
#define GM_ACCOUNTS_SHARE_PARTS_H

#include "shim/accounts/group_file.h"

/* NULL: this process is in no group. */
GM_INTERNAL extern struct gm_group *gm_share_group;
/* This process. NULL: it has no place. */
GM_INTERNAL struct gm_share_place *gm_share_mine(void);
GM_INTERNAL extern uint64_t gm_share_quantum_ns;
/* The number of the device in the group; -1: it has none. */
GM_INTERNAL int gm_share_number(int device);
/* A descriptor of the group's file, to look at its locks; -1: there is none. */
GM_INTERNAL int gm_share_open(void);
/* Another process has the place, and lives. */
GM_INTERNAL bool gm_share_lives(const struct gm_share_place *place, int fd);
/* It waits, and is not stopped. */
GM_INTERNAL bool gm_share_waits(const struct gm_share_place *place, uint64_t now_ns);

#define GM_SHARE_READ(place, member)       __atomic_load_n(&(place)->member, __ATOMIC_SEQ_CST)
#define GM_SHARE_WRITE(place, member, ...) __atomic_store_n(&(place)->member, __VA_ARGS__, __ATOMIC_SEQ_CST)

#endif

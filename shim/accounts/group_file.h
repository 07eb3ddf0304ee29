/* The file of a group (group.h): its layout, its name, its place, and the locks of its bytes. */
#ifndef GM_ACCOUNTS_GROUP_FILE_H
#define GM_ACCOUNTS_GROUP_FILE_H

#include "shim/base/base.h"

#include <fcntl.h>
#include <sys/types.h>

#define GM_GROUP_MAGIC   0x3250554f5247504dull /* "MPGROUP2": seven letters, and one for the layout */
#define GM_GROUP_MEMBERS 256
#define GM_GROUP_DEVICES 32
#define GM_SHARE_PLACES  64
#define GM_GROUP_NAME    48 /* bytes of a name with the final NUL */

struct gm_group_member {
    int32_t pid; /* as the process sees it; 0 = free */
    int32_t unused;
    uint64_t live[GM_GROUP_DEVICES];
    uint64_t wanted[GM_GROUP_DEVICES]; /* of requests that are not decided yet */
};

/* A process that shares cards with others (share.h). Times are those of CLOCK_MONOTONIC in nanoseconds. */
struct gm_share_place {
    int32_t pid;                                              /* as the process sees it; 0 = free */
    uint32_t asked, answered;                                 /* number of the latest request to leave the card */
    uint32_t asleep;                                          /* what could leave has left */
    uint64_t seen_ns;                                         /* the process was there */
    uint64_t idle_since_ns;                                   /* it submits no work */
    uint64_t since_ns;                                        /* it has the card */
    uint64_t least_ns;                                        /* for which it may keep the card */
    uint64_t asked_ns;                                        /* when it was asked last */
    uint64_t leaving_ns;                                      /* since when it answers a request; 0 = it does not */
    uint64_t refuses_until_ns;                                /* nothing left when it was asked last */
    uint64_t waits_since_ns;                                  /* it finds no memory; 0 = it does not wait */
    uint64_t waits_until_ns;                                  /* and keeps its place in the row until then */
    uint32_t waits_for, unused;                               /* devices, by bits */
    uint64_t holds[GM_GROUP_DEVICES], away[GM_GROUP_DEVICES]; /* bytes that can leave, and those that have left */
};

struct gm_group {
    uint64_t magic;
    uint64_t limit;                     /* of each device, as gm_memory_of has it; 0 = none; changes at any time */
    uint64_t devices[GM_GROUP_DEVICES]; /* hash of each device's UUID, in the order of first use; 0 = none */
    uint64_t used_members;              /* members from here on were never used */
    struct gm_group_member members[GM_GROUP_MEMBERS];
    uint64_t released;           /* bytes that left when they were asked for */
    uint32_t changes, unused[1]; /* what those sleep on that share a card */
    struct gm_share_place sharing[GM_SHARE_PLACES];
};

struct gm_group_path {
    char text[256];
};

/* An open file. `group` is the file's memory, or (gm_group_read) a copy of it. */
struct gm_group_file {
    struct gm_group *group; /* NULL = not open */
    int fd;
    struct gm_group_path path; /* "" = unknown */
};

/* The one check of names, made wherever a path is built: 1 to GM_GROUP_NAME - 1 letters, digits, '.', '_' or '-', with
 * no '.' in front. */
bool gm_group_name_is_valid(const char *name);
#define GM_GROUP_ACCEPTED "accepted: 1 to 47 letters, digits, '.', '_' or '-'"
#define GM_GROUP_UNNAMED  "has a name that is none; " GM_GROUP_ACCEPTED

/* Where a user's group may be: in the runtime folder, which is XDG_RUNTIME_DIR of the caller's own environment or
 * /run/user/UID, and in /dev/shm. False: the name is none, or too long for the place. */
enum gm_group_place { GM_GROUP_IN_RUNTIME, GM_GROUP_IN_SHM, GM_GROUP_PLACES };
bool gm_group_path(struct gm_group_path *out, enum gm_group_place place, uid_t user, const char *name);

/* Opens and maps the group of this user. Only with `create` is a group made, or an empty file filled. False: *why is
 * the reason. */
bool gm_group_open(const char *name, bool create, struct gm_group_file *out, const char **why);
/* Takes the descriptor of a group of any user and copies what is in it: whoever owns the file may cut it, which ends a
 * process that has it mapped. False: *why is the reason, and the descriptor is closed. */
bool gm_group_read(int fd, uid_t user, struct gm_group_file *out, const char **why);
/* False: the file cannot be written. */
bool gm_group_set_limit(const struct gm_group_file *file, uint64_t bytes);
void gm_group_close(struct gm_group_file *file);

/* ---- locks, each on one byte: of a member's place, or of all that join */

enum {
    GM_GROUP_JOINING = GM_GROUP_MEMBERS, /* the byte that is locked while a process joins */
    GM_GROUP_SHARING,                    /* the first one of those that share a card */
};

/* For any open of the file: nothing that somebody else put there delays it, or acts when it is opened. */
enum { GM_GROUP_FLAGS = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY };

GM_INTERNAL bool gm_group_lock(int fd, int byte);
GM_INTERNAL void gm_group_unlock(int fd, int byte);
GM_INTERNAL bool gm_group_is_locked(int fd, int byte);
/* Waits a second at most. */
GM_INTERNAL bool gm_group_lock_joining(int fd);

#endif

/* Host memory that this process can still take without the kernel having to kill somebody: in a container /proc/meminfo
 * tells of the whole machine, so the memory controllers of all groups above the process bound it too. */
#ifndef GM_HOSTMEM_H
#define GM_HOSTMEM_H

#include "shim/base/base.h"

struct gm_hostmem {
    uint64_t available; /* bytes; the least of machine, memory node and control groups */
    uint64_t total;     /* bytes of whatever bounds `available` from above: the machine or the smallest group's limit */
};

/* Reads MemAvailable of /proc/meminfo, what memory node `node` (negative: any) has free or only caches files in, where
 * the nodes add up to the machine, and limit and use of each control group of /proc/self/cgroup up to the root (version
 * 2, or version 1's memory controller) where it is mounted at /sys/fs/cgroup. Files of a group that are cached and not
 * in use count as free. `root` stands before every path: "" outside tests. False: /proc/meminfo cannot be read, or
 * there is no memory to read it into. Uses no heap; safe from any thread. */
GM_INTERNAL bool gm_hostmem_read(const char *root, int node, struct gm_hostmem *memory);

/* What may be taken: `available` less a headroom of 5 % of the total, at least 512 MiB. */
GM_INTERNAL uint64_t gm_hostmem_takeable(const struct gm_hostmem *memory);

#endif

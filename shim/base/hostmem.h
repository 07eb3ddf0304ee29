/* Host memory that this process can still take before the kernel has to kill a process. In a container /proc/meminfo
 * shows the whole machine, so the memory controllers of all control groups above the process are bounds, too. */
#ifndef GM_HOSTMEM_H
#define GM_HOSTMEM_H

#include "shim/base/base.h"

struct gm_hostmem {
    uint64_t available; /* bytes; the smallest value of machine, memory node and control groups */
    uint64_t total;     /* bytes; the size of the machine, or the smallest limit of a group */
};

/* Reads three sources and takes the smallest:
 * - MemAvailable of /proc/meminfo;
 * - the free memory and the inactive file cache of memory node `node` (negative: any), where the nodes add up to
 *   the machine;
 * - limit and use of each control group of /proc/self/cgroup up to the root (version 2, or the memory controller of
 *   version 1), where it is mounted at /sys/fs/cgroup. A group's inactive file cache counts as free.
 *
 * `root` is put before every path; it is "" outside of tests. False: /proc/meminfo cannot be read, or there is no
 * memory for a buffer. Uses no heap; safe in any thread. */
GM_INTERNAL bool gm_hostmem_read(const char *root, int node, struct gm_hostmem *memory);

/* Bytes that may be taken: `available` less a headroom of 5 % of the total, but at least 512 MiB. */
GM_INTERNAL uint64_t gm_hostmem_takeable(const struct gm_hostmem *memory);

#endif

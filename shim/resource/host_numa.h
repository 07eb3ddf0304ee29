/* Host memory that the device reads and writes where it lies: the tier behind device memory. */
#ifndef GM_RESOURCE_HOST_NUMA_H
#define GM_RESOURCE_HOST_NUMA_H

#include "shim/base/hostmem.h"
#include "policy/policy.h"

/* Bytes of blocks that are alive or wait to be freed. */
GM_INTERNAL uint64_t gm_host_numa_alive(void);

/* Replaces the question for host memory and forgets what is known of the devices, for tests; NULL: the machine's own
 * figures. */
GM_INTERNAL void gm_host_numa_ask(bool (*ask)(int node, struct gm_hostmem *memory));

#endif

/* Resource "host-numa": host memory that the device reads and writes in place. It serves when the device is out of
 * memory. */
#ifndef GM_RESOURCE_HOST_NUMA_H
#define GM_RESOURCE_HOST_NUMA_H

#include "shim/base/hostmem.h"
#include "policy/policy.h"

/* Bytes of blocks that are live or whose free is deferred. */
GM_INTERNAL uint64_t gm_host_numa_alive(void);

/* For tests: replaces the function that reads the free host memory, and drops what is cached about the devices. NULL:
 * the machine's own figures again. */
GM_INTERNAL void gm_host_numa_set_reader(bool (*read_host)(int node, struct gm_hostmem *memory));

#endif

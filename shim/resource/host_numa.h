/* Resource "host-numa": host memory that the device reads and writes in place. It serves when the device is out of
 * memory. */
#ifndef GM_RESOURCE_HOST_NUMA_H
#define GM_RESOURCE_HOST_NUMA_H

#include "shim/base/hostmem.h"
#include "shim/driver/mapping.h"
#include "policy/policy.h"

/* Bytes of blocks that are live or whose free is deferred. */
GM_INTERNAL uint64_t gm_host_numa_alive(void);

/* ---- for resource "split", whose blocks lie in such memory in part */

/* Where the host memory of a device lies. GM_NOT_SUPPORTED: the driver or the device cannot map it. */
GM_INTERNAL gm_status gm_host_numa_find(int device, struct gm_location *location);
/* Counts the bytes of a request against what the host can spare, until gm_host_numa_settle; GM_OUT_OF_MEMORY: they
 * exceed it, *room says by how much. */
GM_INTERNAL gm_status gm_host_numa_charge(int node, size_t bytes, uint64_t *room);
/* The request ended. `made`: its memory is alive from now on. */
GM_INTERNAL void gm_host_numa_settle(size_t bytes, bool made);
/* The memory is the host's again. */
GM_INTERNAL void gm_host_numa_give(size_t bytes);
/* Creates host memory, maps it at reserved addresses and opens it to every device that has a context. The mapping alone
 * holds it. After a failure nothing is mapped. */
GM_INTERNAL gm_status gm_host_numa_map(const struct gm_location *location, CUdeviceptr address, size_t bytes);

/* For tests: replaces the function that reads the free host memory, and drops what is cached about the devices. NULL:
 * the machine's own figures again. */
GM_INTERNAL void gm_host_numa_set_reader(bool (*read_host)(int node, struct gm_hostmem *memory));

#endif

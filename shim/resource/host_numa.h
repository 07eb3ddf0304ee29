/* Host memory that the device reads and writes where it lies: the tier behind device memory. */
#ifndef GM_RESOURCE_HOST_NUMA_H
#define GM_RESOURCE_HOST_NUMA_H

#include "shim/base/hostmem.h"
#include "policy/policy.h"

/* Bytes of blocks that are alive or wait to be freed. */
GM_INTERNAL uint64_t gm_host_numa_alive(void);

/* A handle of `size` bytes of host memory of the device's node, the caller's to release; not counted among the blocks.
 * It can be opened to the device and to *node. Within what the host can spare: GM_OUT_OF_MEMORY beyond.
 * GM_NOT_SUPPORTED: the device or driver cannot, or the size is no multiple of whole granules. Call within the capture
 * guard. */
GM_INTERNAL gm_status gm_host_numa_create(int device, size_t size, unsigned long long *handle, int *node);

/* Replaces the question for host memory and forgets what is known of the devices, for tests; NULL: the machine's own
 * figures. */
GM_INTERNAL void gm_host_numa_ask(bool (*ask)(int node, struct gm_hostmem *memory));

#endif

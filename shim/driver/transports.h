/* Says whether the process uses libraries that pass device memory on: to a network card, to another driver, or to
 * other processes. Memory for them must have stable physical pages and addresses. */
#ifndef GM_DRIVER_TRANSPORTS_H
#define GM_DRIVER_TRANSPORTS_H

#include "shim/base/base.h"

/* True when a device that reaches device memory by itself is mapped (a network card, GDRCopy's, nvidia-fs), or when its
 * library is loaded on a machine that has such a device. Memory may be registered with the device then, and a reused
 * address would still carry the old registration. Reads the process's memory map at the first call, and later only when
 * libraries were loaded since the last call. Once true, the answer stays true.
 *
 * A pair of allocation and free whose block is reused does not ask. So misses ask, the calls that come before a
 * registration (look-ups of the driver's functions or of such a library's, and queries about addresses), and a free now
 * and then, when the cache looks for blocks that were idle too long. What is not noticed in time: a library that makes
 * no such call, where a block is registered, freed and reused before; and a device that is mapped without its library,
 * after the last library was loaded. */
GM_INTERNAL bool gm_rdma_in_process(void);
/* What the latest of these calls found. */
GM_INTERNAL extern bool gm_rdma_seen;
static inline bool gm_rdma_was_seen(void) { return __atomic_load_n(&gm_rdma_seen, __ATOMIC_RELAXED); }
/* True for a function by which memory is registered with such a device, or which the program looks up before. */
GM_INTERNAL bool gm_is_rdma_name(const char *name);

/* True when a library is loaded that passes device memory on to other processes (MPI, UCX, NCCL ...). Memory that it
 * registers or exports later has to be plain device memory. A statically linked library is not found. Reads the memory
 * map only when libraries were loaded since the last call. Once true, the answer stays true. */
GM_INTERNAL bool gm_transport_in_process(void);
/* The same for a library that may export any buffer which the program hands to it (MPI, UCX ...). NCCL does so only
 * where the program registers the buffer. */
GM_INTERNAL bool gm_buffers_in_process(void);
/* The same for PyTorch, which caches device memory. */
GM_INTERNAL bool gm_pytorch_in_process(void);

#endif

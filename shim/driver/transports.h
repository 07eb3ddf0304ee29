/* Says whether the process uses libraries that pass device memory on: to a network card, to another driver, or to
 * other processes. Memory for them must have stable physical pages and addresses. */
#ifndef GM_DRIVER_TRANSPORTS_H
#define GM_DRIVER_TRANSPORTS_H

#include "shim/base/base.h"

/* True when a verbs device or GDRCopy's device is mapped, or when their libraries are loaded on a machine that has
 * such a device. Memory may be registered with the device then, and a reused address would still carry the old
 * registration. Reads the process's memory map at the first call, and later only when libraries were loaded since the
 * last call. Once true, the answer stays true. */
GM_INTERNAL bool gm_rdma_in_process(void);

/* True when a library is loaded that passes device memory on to other processes (MPI, UCX, NCCL ...). Memory that it
 * registers or exports later has to be plain device memory. A statically linked library is not found. Reads the memory
 * map only when libraries were loaded since the last call. Once true, the answer stays true. */
GM_INTERNAL bool gm_transport_in_process(void);

#endif

/* Is a network card, or a driver for direct access, in play in this process? */
#ifndef GM_DRIVER_TRANSPORTS_H
#define GM_DRIVER_TRANSPORTS_H

#include "shim/base/base.h"

/* True when a verbs device or GDRCopy's is mapped, or their libraries are loaded where such a device exists: memory may
 * be registered with it, and an address given out again would carry an old registration. Reads the process's map only
 * when libraries were loaded since the last question; first call: always. */
GM_INTERNAL bool gm_rdma_in_process(void);

/* True when a library is loaded that passes device memory on to other processes (MPI, UCX, NCCL ...): what it registers
 * or exports later has to be plain device memory. One that is linked in statically is not seen. Reads the map when
 * libraries were loaded since the last question; true stays true. */
GM_INTERNAL bool gm_transport_in_process(void);

#endif

/* The pools that the program made on devices (cuMemPoolCreate). A thread that asks the driver about one keeps it from
 * being destroyed meanwhile. */
#ifndef GM_DRIVER_PROGRAM_POOLS_H
#define GM_DRIVER_PROGRAM_POOLS_H

#include "shim/driver/driver.h"

/* The program made the pool, or could not destroy it. There is room for 256; further ones stay unknown. */
GM_INTERNAL void gm_program_pool_made(CUmemoryPool pool, int device);
/* The program is about to destroy the pool: waits for threads that ask about it. Returns its device, -1: unknown. */
GM_INTERNAL int gm_program_pool_ending(CUmemoryPool pool);

/* Calls visit for the device's default pool, if the driver has pools, and for each pool of the program on it.
 * `is_default` is true for the first. Must not be called by visit. */
GM_INTERNAL void gm_program_pools_each(int device, void (*visit)(CUmemoryPool pool, bool is_default, void *arg),
                                       void *arg);

#endif

/* Simulated devices for a replay: a driver table whose devices count bytes and have no memory. The library's resources
 * work on it as on a real driver.
 *
 * Blocks take bytes in steps of 512, pools in steps of 2 MiB. A pool has no fragmentation. Managed memory takes device
 * memory. Work on the device ends at once. Only one thread may use it. */
#ifndef GM_REPLAY_DEVICE_H
#define GM_REPLAY_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

enum { GM_REPLAY_DEVICES = 64 };

struct gm_replay_device_counts {
    uint64_t used; /* bytes of all devices, memory cached by pools included */
    uint64_t allocs, frees;
    uint64_t waits; /* calls that wait for the device: plain frees, synchronisation */
};
extern struct gm_replay_device_counts gm_replay_device_counts;

/* Replaces the driver's functions (gm_driver_use). `total`: bytes of each device, 0 = unlimited. Call it once in a
 * process. */
void gm_replay_device_install(const uint64_t total[GM_REPLAY_DEVICES]);

/* Makes a context current and creates it on first use. `capturing`: the stream of the next call is capturing. */
void gm_replay_device_enter(uint16_t context, int device, bool capturing);
/* Destroys a context with its memory. Pools remain. */
void gm_replay_device_destroy_context(uint16_t context);

/* Allocates memory that no resource of the library serves. False: out of memory. */
bool gm_replay_device_alloc(uint64_t bytes, uint64_t *address);
void gm_replay_device_free(uint64_t address);

#endif

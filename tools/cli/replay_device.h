/* Cards that only count: a driver without memory behind it, on which the shim's resources work as on a real one.
 *
 * Blocks take their bytes in steps of 512, pools in steps of 2 MiB; a pool wastes nothing inside. Managed memory takes
 * room like any other. Work on the device ends at once. One thread. */
#ifndef GM_REPLAY_DEVICE_H
#define GM_REPLAY_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

enum { GM_REPLAY_DEVICES = 64 };

struct gm_replay_device_counts {
    uint64_t used, peak; /* bytes of all cards, what is kept for reuse included */
    uint64_t allocs, frees;
    uint64_t waits; /* calls that wait for the device: plain frees, synchronisation */
};
extern struct gm_replay_device_counts gm_replay_device_counts;

/* Puts the cards in the driver's place (gm_driver_use); bytes of each, 0 = as large as is needed. Once a process. */
void gm_replay_device_install(const uint64_t total[GM_REPLAY_DEVICES]);

/* Makes a context current; it is there from its first use on. `capturing`: what the stream of the next call does. */
void gm_replay_device_enter(uint16_t context, int device, bool capturing);
/* The context goes with its memory, pools stay. */
void gm_replay_device_destroy_context(uint16_t context);

/* Memory that the program asks past all resources. False: no room. */
bool gm_replay_device_alloc(uint64_t bytes, uint64_t *address);
void gm_replay_device_free(uint64_t address);

#endif

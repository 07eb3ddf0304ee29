/* A warp that looks back over tiles (spgemm/look_back.cuh) on the emulated device. */
#ifndef EMULATED_LOOK_BACK_H
#define EMULATED_LOOK_BACK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum emulated_tile { EMULATED_LATE, EMULATED_SUM, EMULATED_OFFSET };

/* Returns what a warp of tile `count` finds. Tile i has sum[i]. It has published that sum, or its offset, or publishes
 * its sum only while the warp waits. */
int64_t emulated_look_back(int64_t count, const int64_t *sum, const enum emulated_tile *state);

#ifdef __cplusplus
}
#endif

#endif

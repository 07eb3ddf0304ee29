/* Regions of gpumem.h for the emulated runtime, so that outputs can grow in place: a simulated CUDA driver whose device
 * memory the host can access. */
#ifndef EMULATED_DRIVER_H
#define EMULATED_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Call it before the first region is made. */
void emulated_driver_use(void);
/* Number of address ranges and physical handles that are not released. */
size_t emulated_driver_live(void);
/* These, and what else of the emulated runtime is alive. */
size_t emulated_live(void);
/* Faults: of the allocations and creations that follow, of memory on the device or on the host, of events, streams,
 * address ranges and physical handles, number `number` fails, counted from 1. 0: none. */
void emulated_fail(size_t number);
/* Whether the call fails; counts it. */
bool emulated_fails(void);
size_t emulated_allocations(void); /* counted since emulated_fail() */

extern int emulated_device; /* the current one */
/* Streams that are made from here on run their work at once, not as late as possible: for several devices, whose memory
 * can be accessed only while they are current. */
extern bool emulated_prompt;
/* The stream of a call falls behind those that it forks. */
extern bool emulated_behind;
/* Sets the number of devices, up to 8; there is one at first. With several, the host cannot access memory of other
 * devices than the current one, except by copies. The simulated driver must have as many (SIMCUDA_DEVICES). */
void emulated_devices(int count);
/* Makes the device's context current in the simulated driver. */
void emulated_driver_device(int device);
/* A stream that is captured: what is submitted to it becomes a graph. */
#define EMULATED_CAPTURING ((cudaStream_t)7)
/* Ends the capture, and runs the graph; again and again, until it is forgotten. */
void emulated_replay(void);
void emulated_forget_graph(void);
/* Uses of the legacy default stream, and waits for the device, since the last call. */
size_t emulated_legacy_uses(void);
/* Waits for a stream since the last call. */
size_t emulated_waits(void);

/* Sets the bytes of physical memory; call it while none is in use. SIZE_MAX: as much as there is. */
void emulated_driver_limit(size_t size);

#ifdef __cplusplus
}
#endif

#endif

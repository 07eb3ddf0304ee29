/* Regions of gpumem.h for the emulated runtime, so that outputs can grow in place: a simulated CUDA driver whose device
 * memory the host can access. */
#ifndef EMULATED_DRIVER_H
#define EMULATED_DRIVER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Call it before the first region is made. */
void emulated_driver_use(void);
/* Number of address ranges and physical handles that are not released. */
size_t emulated_driver_live(void);
/* Sets the bytes of physical memory; call it while none is in use. SIZE_MAX: as much as there is. */
void emulated_driver_limit(size_t size);

#ifdef __cplusplus
}
#endif

#endif

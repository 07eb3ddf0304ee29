/* A driver of the host's memory for regions (gpumem.h), without which the emulated runtime cannot grow
 * outputs in place. */
#ifndef EMULATED_DRIVER_H
#define EMULATED_DRIVER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before the first region. */
void emulated_driver_use(void);
/* Ranges and handles that are not given back. */
size_t emulated_driver_live(void);
/* Bytes of physical memory; call it while none is in use. SIZE_MAX: all there is. */
void emulated_driver_limit(size_t size);

#ifdef __cplusplus
}
#endif

#endif

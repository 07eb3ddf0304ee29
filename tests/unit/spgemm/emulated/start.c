/* Lets the driver run on emulated devices: linked to it, this sets the emulation up before main(). The variable
 * EMULATED_DEVICES is the number of devices (1); SIMCUDA_DEVICES must be the same. With it, streams run their work at
 * once. */
#include "driver.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* The emulation has no threads: groups of devices then call one device after the other. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    (void)thread, (void)attributes, (void)run, (void)argument;
    return EAGAIN;
}

__attribute__((constructor)) static void start(void) {
    const char *devices = getenv("EMULATED_DEVICES");
    emulated_driver_use();
    emulated_prompt = devices;
    emulated_devices(devices ? atoi(devices) : 1);
}

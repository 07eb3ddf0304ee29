/* A library that is linked with the driver. */
#include <cuda.h>

int driver_version(void);
int driver_version(void) {
    int version = 0;
    return cuDriverGetVersion(&version) == CUDA_SUCCESS ? version : -1;
}

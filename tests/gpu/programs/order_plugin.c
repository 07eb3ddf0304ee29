/* Calls of an object that is linked with the driver. Of order_device.cu: a plugin, or a part of the program. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) void order_plugin_launch(CUfunction function, CUstream stream,
                                                                void **arguments) {
    CUresult result = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "cuLaunchKernel: %d\n", (int)result);
        exit(1);
    }
}

__attribute__((visibility("default"))) int order_plugin_query(CUevent event) { return (int)cuEventQuery(event); }

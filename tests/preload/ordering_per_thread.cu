/* Compiled for per-thread default streams. */
#include "ordering_device.cu"

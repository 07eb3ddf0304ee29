/* Functions of the host and, where nvcc compiles them, of the device. */
#ifndef SPG_BOTH_H
#define SPG_BOTH_H

#ifdef __CUDACC__
#define SPG_BOTH __host__ __device__
#else
#define SPG_BOTH
#endif

#endif

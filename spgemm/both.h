/* Functions of the host and, where nvcc compiles them, of the device. */
#ifndef GM_SPGEMM_BOTH_H
#define GM_SPGEMM_BOTH_H

#ifdef __CUDACC__
#define GM_BOTH __host__ __device__
#else
#define GM_BOTH
#endif

#endif

/* SPG_BOTH marks a function for the host and, under nvcc, for the device too. */
#ifndef SPG_BOTH_H
#define SPG_BOTH_H

#ifdef __CUDACC__
#define SPG_BOTH __host__ __device__
#else
#define SPG_BOTH
#endif

#endif

/* A context of the simulated driver with a stream and kernels, and what must be as before when a test ends. */
#ifndef REGION_BENCH_H
#define REGION_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shim/base/base.h"
#include "shim/driver/driver.h"
#include "shim/gpumem.h"
#include "simcuda.h"

#define MIB   ((size_t)1 << 20)
#define CU(c) assert_int_equal((c), CUDA_SUCCESS)

struct bench {
    CUcontext context;
    CUstream stream; /* non-blocking */
    CUfunction fill, check;
};
extern struct bench bench;

int bench_open(void **state);
/* Nothing may be left of memory, handles, reservations; no work may have gone wrong. */
int bench_close(void **state);
/* Queues a kernel that writes, or compares, 32-bit words. */
void bench_fill(const void *address, size_t size, uint32_t pattern);
void bench_check(const void *address, size_t size, uint32_t pattern);
/* Waits for all work; words that differed in checks since the last call. */
uint64_t bench_differing(void);
/* Fails the n-th driver call from now on that may fail in a growth step; false: simcuda_set_failures refused. */
void bench_fail_call(unsigned n);
/* True when that call was reached; no call fails any more. */
bool bench_failed(void);

#endif

/* Common setup of the region tests: a context of the simulated driver with a stream and kernels. The teardown checks
 * that nothing is leaked. */
#ifndef REGION_BENCH_H
#define REGION_BENCH_H

#include "tests/test.h"

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
/* Fails when memory, handles or reservations are leaked, or when work on the device was wrong. */
int bench_close(void **state);
/* Submits a kernel that writes, or compares, 32-bit words. */
void bench_fill(const void *address, size_t size, uint32_t pattern);
void bench_check(const void *address, size_t size, uint32_t pattern);
/* Waits for all work. Returns the number of words that differed in checks since the last call. */
uint64_t bench_differing(void);
/* Makes the n-th driver call from now on fail, if that call may fail in a growth step. */
void bench_fail_call(unsigned n);
/* True when that call was reached. No call fails afterwards. */
bool bench_failed(void);

#endif

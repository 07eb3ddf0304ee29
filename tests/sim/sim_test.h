/* One primary context, a module and short forms of calls: what each test of the simulated driver starts from. */
#ifndef SIM_TEST_H
#define SIM_TEST_H

#include <cuda.h>
#include "tests/test.h"

#include "simcuda.h"

#define OK(call)       assert_int_equal((call), CUDA_SUCCESS)
#define MIB            ((size_t)1 << 20)
#define SIM_TEST(name) TEST_WITH(name, set_up, tear_down)

extern CUcontext ctx; /* of device 0, current during a test */
extern CUmodule module;

int set_up(void **state);
/* Fails the test when device memory is left behind. */
int tear_down(void **state);
/* Queues one of the kernels that the simulated driver knows. */
void launch(const char *name, CUdeviceptr p, uint64_t bytes, uint32_t value, CUstream s);
CUstream new_stream(void);

#endif

/* Allocates and frees once; linked to the library that others preload. Prints whether the kernel started it with more
 * rights than its user has. */
#include <cuda.h>
#include <sys/auxv.h>

#include "program.h"
#include "simcuda.h"

int main(void) {
    CUdeviceptr memory;
    start_driver();
    MUST(cuMemAlloc(&memory, 1 << 20));
    MUST(cuMemFree(memory));
    EXPECT(simcuda_check_runs() == 0); /* so that the linker keeps the driver, whose other names the library has, too */
    printf("ok %s\n", getauxval(AT_SECURE) ? "privileged" : "plain");
    return 0;
}

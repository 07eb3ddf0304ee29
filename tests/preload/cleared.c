/* The program clears its environment before it first uses CUDA: environ is NULL then. */
#include <cuda_runtime_api.h>

#include "program.h"

int main(void) {
    EXPECT(clearenv() == 0);
    for (size_t size = 1000; size < 5000000; size *= 3) {
        void *memory = device_alloc(size);
        round_trip(memory, size, 3);
        device_free(memory);
    }
    printf("ok cleared\n");
    return 0;
}

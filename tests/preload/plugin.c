/* A plugin that deepbind loads: it finds all symbols in its own scope first. */
#include <cuda_runtime_api.h>

#include "program.h"

__attribute__((visibility("default"))) int plugin_work(void);

int plugin_work(void) {
    enum { SIZE = 65536 };
    void *memory = device_alloc(SIZE);
    round_trip(memory, SIZE, 0x19);
    device_free(memory);
    return SIZE;
}

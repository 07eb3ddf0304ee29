/* A library that registers memory with a network card or with storage is loaded when all allocations are reused ones:
 * from then on no block is reused. Arguments: what the program does before it frees a block that may be registered,
 * the library, and the device that exists besides (access() answers here).
 *
 *   freed    nothing; then many blocks are freed
 *   looked   looks a function of the library up
 *   asked    asks the driver about the block */
#include <cuda.h>
#include <dlfcn.h>

#include "program.h"
#include "simcuda.h"

enum { BYTES = 4096, PAIRS = 200, BATCH = 32, IDLE_MS = 40 /* GPUMEM_CACHE_IDLE */ };

static const char *device = "";
__attribute__((visibility("default"))) int access(const char *path, int mode) {
    return strcmp(path, device) == 0 && mode == F_OK ? 0 : -1;
}

static CUdeviceptr get(void) {
    CUdeviceptr address;
    MUST(cuMemAlloc(&address, BYTES));
    return address;
}

static void give(CUdeviceptr address) { MUST(cuMemFree(address)); }

static uint64_t frees(void) { return simcuda_calls("cuMemFree_v2"); }

int main(int count, char **words) {
    static const char *const functions[] = {"ibv_reg_mr", "gdr_pin_buffer", "cuFileBufRegister"};
    EXPECT(count == 4);
    start_driver();
    for (int i = 0; i < PAIRS; i++)
        give(get());
    uint64_t before = frees();
    for (int i = 0; i < PAIRS; i++)
        give(get());
    EXPECT(frees() == (getenv("LD_PRELOAD") ? before : before + PAIRS));
    CUdeviceptr registered = get();
    device = words[3];
    void *library = dlopen(words[2], RTLD_NOW);
    EXPECT(library != NULL);
    if (strcmp(words[1], "looked") == 0) {
        for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)
            dlsym(library, functions[i]);
    } else if (strcmp(words[1], "asked") == 0) {
        unsigned type;
        MUST(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, registered + 1));
    } else {
        usleep(2 * IDLE_MS * 1000);
        for (int i = 0; i < BATCH; i++)
            give(get());
    }
    before = frees();
    give(registered);
    EXPECT(frees() == before + 1);
    for (int i = 0; i < BATCH; i++)
        give(get());
    EXPECT(frees() == before + 1 + BATCH);
    printf("ok late_card %s\n", words[1]);
    return 0;
}

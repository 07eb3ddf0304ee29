/* A region's memory belongs to the program: with the library preloaded, the region's driver calls are recorded as
 * the program's own. */
#include <cuda_runtime_api.h>

#include "program.h"
#include "shim/gpumem.h"

enum { STEP = 4 << 20, STEPS = 3, RESERVED = 64 << 20 };

int main(void) {
    struct gpumem_region_options options = {
        .struct_size = sizeof options, .reserve = RESERVED, .flags = GPUMEM_REGION_EXACT};
    struct gpumem_region *region;
    struct gpumem_view view = {.struct_size = sizeof view};
    MUST(cudaFree(NULL));
    MUST(gpumem_region_create(&options, &region));
    MUST(gpumem_region_view(region, &view));
    char *base = view.base;
    note("reserve", "cuMemAddressReserve", RESERVED, base);
    for (int i = 0; i < STEPS; i++) {
        MUST(gpumem_region_grow(region, (size_t)(i + 1) * STEP));
        note_alloc("cuMemCreate", STEP, NULL);
        note_alloc("cuMemMap", STEP, base + i * STEP);
    }
    round_trip(base, (size_t)STEPS * STEP, 0x5a);
    MUST(gpumem_region_shrink(region, STEP));
    for (int i = STEPS - 1; i > 0; i--) {
        note_free("cuMemUnmap", base + i * STEP);
        note_free("cuMemRelease", NULL);
    }
    MUST(gpumem_region_destroy(region));
    note_free("cuMemUnmap", base);
    note("unreserve", "cuMemAddressFree", RESERVED, base);
    note_free("cuMemRelease", NULL);
    printf("ok region\n");
    return 0;
}

/* Virtual memory management: reserve, create, map, set access, use, unmap, release, in the usual order. */
#include <cuda.h>

#include "program.h"

int main(void) {
    CUdeviceptr range;
    CUmemGenericAllocationHandle handle;
    size_t chunk = 0;
    CUmemAllocationProp property = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = property.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    start_driver();
    MUST(cuMemGetAllocationGranularity(&chunk, &property, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    MUST(cuMemAddressReserve(&range, 4 * chunk, 0, 0, 0));
    note("reserve", "cuMemAddressReserve", (long long)(4 * chunk), (void *)range);
    MUST(cuMemCreate(&handle, 2 * chunk, &property, 0));
    note_alloc("cuMemCreate", (long long)(2 * chunk), (void *)(uintptr_t)handle);
    MUST(cuMemMap(range + chunk, 2 * chunk, 0, handle, 0));
    note_alloc("cuMemMap", (long long)(2 * chunk), (void *)(range + chunk));
    MUST(cuMemSetAccess(range + chunk, 2 * chunk, &access, 1));
    unsigned char *host = malloc(2 * chunk);
    EXPECT(host != NULL);
    MUST(cuMemsetD8(range + chunk, 0x66, 2 * chunk));
    MUST(cuMemcpyDtoH(host, range + chunk, 2 * chunk));
    EXPECT(all_bytes_are(host, 0x66, 2 * chunk));
    free(host);
    note_free("cuMemUnmap", (void *)(range + chunk));
    MUST(cuMemUnmap(range + chunk, 2 * chunk));
    note_free("cuMemRelease", (void *)(uintptr_t)handle);
    MUST(cuMemRelease(handle));
    note("unreserve", "cuMemAddressFree", (long long)(4 * chunk), (void *)range);
    MUST(cuMemAddressFree(range, 4 * chunk));
    printf("ok vmm\n");
    return 0;
}

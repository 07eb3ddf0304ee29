/* Arrays and mipmaps: the program never sees the address of their memory. */
#include <cuda.h>

#include "program.h"

int main(void) {
    enum { WIDTH = 64, HEIGHT = 32 };
    static float host[HEIGHT][WIDTH], back[HEIGHT][WIDTH];
    CUarray flat, deep;
    CUmipmappedArray mipmap;
    start_driver();
    CUDA_ARRAY_DESCRIPTOR shape = {.Width = WIDTH, .Height = HEIGHT, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUDA_ARRAY3D_DESCRIPTOR solid = {
        .Width = 16, .Height = 16, .Depth = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    MUST(cuArrayCreate(&flat, &shape));
    note_alloc("cuArrayCreate", ANY_BYTES, flat);
    MUST(cuArray3DCreate(&deep, &solid));
    note_alloc("cuArray3DCreate", ANY_BYTES, deep);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            host[y][x] = (float)(y * WIDTH + x);
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = sizeof host[0],
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = flat,
                          .WidthInBytes = sizeof host[0],
                          .Height = HEIGHT};
    MUST(cuMemcpy2D(&copy));
    CUDA_MEMCPY2D again = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .srcArray = flat,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = back,
                           .dstPitch = sizeof back[0],
                           .WidthInBytes = sizeof back[0],
                           .Height = HEIGHT};
    MUST(cuMemcpy2D(&again));
    EXPECT(memcmp(host, back, sizeof host) == 0);
    solid.Depth = 0;
    MUST(cuMipmappedArrayCreate(&mipmap, &solid, 3));
    note_alloc("cuMipmappedArrayCreate", ANY_BYTES, mipmap);
    note_free("cuMipmappedArrayDestroy", mipmap);
    MUST(cuMipmappedArrayDestroy(mipmap));
    note_free("cuArrayDestroy", deep);
    MUST(cuArrayDestroy(deep));
    note_free("cuArrayDestroy", flat);
    MUST(cuArrayDestroy(flat));
    printf("ok arrays 3\n");
    return 0;
}

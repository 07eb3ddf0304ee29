/* Hooks of arrays and mipmapped arrays. They are opaque device memory and are never moved; the recorded size is that
 * of their elements. */
#include "shim/hook/hook.h"

static size_t element_bytes(CUarray_format format, unsigned channels) {
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2u * channels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4u * channels;
    default: return channels ? channels : 1; /* block-compressed and video formats: at least this */
    }
}

static size_t or_one(size_t extent) { return extent ? extent : 1; }

static size_t bytes_3d(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    return d ? or_one(d->Width) * or_one(d->Height) * or_one(d->Depth) * element_bytes(d->Format, d->NumChannels) : 0;
}

static size_t bytes_2d(const CUDA_ARRAY_DESCRIPTOR *d) {
    return d ? or_one(d->Width) * or_one(d->Height) * element_bytes(d->Format, d->NumChannels) : 0;
}

/* Each level has an eighth (3-d), a quarter (2-d) or half the elements of the one above. */
static size_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels) {
    CUDA_ARRAY3D_DESCRIPTOR level;
    size_t bytes = 0;
    if (!descriptor)
        return 0;
    level = *descriptor;
    for (unsigned i = 0; i < levels && i < 32; i++) {
        bytes += bytes_3d(&level);
        level.Width = or_one(level.Width / 2);
        level.Height = level.Height ? or_one(level.Height / 2) : 0;
        level.Depth = level.Depth ? or_one(level.Depth / 2) : 0;
    }
    return bytes;
}

MAKES(cuArrayCreate_v2, (CUarray * array, const CUDA_ARRAY_DESCRIPTOR *descriptor), (array, descriptor), GM_CALL_ARRAY,
      bytes_2d(descriptor), GM_KIND_ARRAY, *array, GM_SYNC_NO, MADE_WITHIN_LIMIT)
MAKES(cuArray3DCreate_v2, (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor), (array, descriptor),
      GM_CALL_ARRAY3D, bytes_3d(descriptor), GM_KIND_ARRAY, *array, GM_SYNC_NO, MADE_WITHIN_LIMIT)
MAKES(cuMipmappedArrayCreate, (CUmipmappedArray * array, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels),
      (array, descriptor, levels), GM_CALL_MIPMAP, mipmap_bytes(descriptor, levels), GM_KIND_ARRAY, *array, GM_SYNC_NO,
      MADE_WITHIN_LIMIT)

FREES(cuArrayDestroy, CUarray, GM_CALL_ARRAY_DESTROY, false)
FREES(cuMipmappedArrayDestroy, CUmipmappedArray, GM_CALL_MIPMAP_DESTROY, false)

/* Frames of zstd, read by the decoder of libzstd, which is linked into the library. */
#include "shim/hook/unpack.h"

#ifdef GM_HAVE_ZSTD
#define ZSTD_STATIC_LINKING_ONLY /* for a decoder in memory of the caller */
#include <sys/mman.h>
#include <zstd.h>
#endif

bool gm_unpack_zstd(const void *in, size_t packed, void *out, size_t size) {
    bool whole = false;
#ifdef GM_HAVE_ZSTD
    size_t bytes = ZSTD_estimateDCtxSize();
    void *room = gm_pages(bytes);
    if (!room)
        return false;
    ZSTD_DCtx *decoder = ZSTD_initStaticDCtx(room, bytes);
    whole = decoder && ZSTD_decompressDCtx(decoder, out, size, in, packed) == size;
    munmap(room, bytes);
#else
    (void)in, (void)packed, (void)out, (void)size;
#endif
    return whole;
}

/* Decompresses device code. The formats are the two that NVIDIA's compiler writes: a block of LZ4 and a frame of zstd.
 *
 * The decoders are part of the library. Loading the system's libzstd.so.1 into the program could keep the program's own
 * library of that name from being loaded. It would also wait for the loader's lock inside a hook, whose caller may hold
 * a lock that the owner of the loader's lock waits for. And a system may have no such library. */
#ifndef GM_HOOK_UNPACK_H
#define GM_HOOK_UNPACK_H

#include "shim/base/base.h"

/* Writes exactly `size` bytes to `out`. False: the input is damaged, cut off, gives another number of bytes, or no
 * memory is left. Reads and writes nothing outside of the two ranges, whatever the input holds. */
GM_INTERNAL bool gm_unpack_lz4(const void *in, size_t packed, void *out, size_t size);
/* The same for frames without a dictionary. Always false where libzstd was missing when gpumem was built. */
GM_INTERNAL bool gm_unpack_zstd(const void *in, size_t packed, void *out, size_t size);

#endif

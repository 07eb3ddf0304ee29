/* gpumem: what programs may call that know of it. None of it is needed to run under `LD_PRELOAD=libgpumem.so`.
 *
 * Link with -lgpumem-core (pkg-config gpumem). Where the preloaded library is in the process too, both share one registry.
 * All functions may be called from any thread. Sizes are bytes. */
#ifndef GPUMEM_H
#define GPUMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library, e.g. "0.1.0"; static storage. */
const char *gpumem_version(void);

/* A live block as gpumem knows it. */
struct gpumem_block {
    uint64_t address;  /* start */
    size_t size;       /* bytes asked by the program */
    int device;        /* ordinal, -1 unknown */
    const char *kind;  /* which memory serves it: "native", "async", "managed", ...; static storage */
    const char *call;  /* driver call that made it, e.g. "cuMemAlloc"; static storage */
};

/* Describes the block that contains `address` (interior addresses too). Returns 0 and fills *block, or -1 when no live block
 * contains it; *block is then untouched. */
int gpumem_block_of(const void *address, struct gpumem_block *block);

/* Number of live blocks of this process that gpumem knows. */
size_t gpumem_live_count(void);

/* Gives device memory that gpumem keeps for reuse back to the driver, until `bytes` are free or nothing is left; returns the bytes
 * given back. Waits for work of the program that may still use such memory. 0 where nothing is kept. */
size_t gpumem_trim(size_t bytes);

/* Writes a mark with this text (up to 1000 bytes are kept) to the trace, where one is written: phases of the program. A trace
 * begins with the process's first CUDA call; marks before it are lost. */
void gpumem_mark(const char *text);

#ifdef __cplusplus
}
#endif

#endif

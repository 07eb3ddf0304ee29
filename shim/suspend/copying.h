/* Copies between device memory and the host's backing of it. */
#ifndef GM_SUSPEND_COPYING_H
#define GM_SUSPEND_COPYING_H

#include "shim/driver/driver.h"
#include "shim/resource/backing.h"

/* Of a range: at most GM_SUSPENDABLE_PIECE bytes, from a multiple of it on. */
struct gm_copy_piece {
    uint64_t device;
    struct gm_backing *backing; /* NULL: zeros, only to the device */
    size_t offset;              /* in the backing */
    size_t size;
};

static inline struct gm_page *gm_copy_page(const struct gm_copy_piece *piece, size_t page) {
    return &piece->backing->pages[piece->offset / GM_SUSPENDABLE_PAGE + page];
}

/* Copies all pieces, of memory of the context's device, and returns when that is done. `out`: pages of state
 * GM_PAGE_NONE go to the host, and keep that state. Otherwise pages that are zero or stored go to the device. Errors:
 * GM_OUT_OF_MEMORY without memory for buffers,
 * CUDA_ERROR_OPERATING_SYSTEM of a file, the driver's own. */
GM_INTERNAL gm_status gm_copy_pieces(const struct gm_context *context, const struct gm_copy_piece *pieces,
                                     unsigned count, bool out);

#endif

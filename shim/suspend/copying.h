/* Copies between device memory and pageable memory of the host, by several threads through pinned buffers. */
#ifndef GM_SUSPEND_COPYING_H
#define GM_SUSPEND_COPYING_H

#include "shim/driver/driver.h"

/* At most 64 MiB. Pages have GM_SUSPENDABLE_PAGE bytes. */
struct gm_copy_piece {
    uint64_t device;
    char *host;    /* NULL: zeros, only to the device */
    uint8_t *zero; /* for each page: it is zero, and not stored; NULL where host is NULL */
    size_t size;
};

/* Copies all pieces, of memory of the context's device, to the host (`out`) or back, and returns when that is done.
 * Errors: GM_OUT_OF_MEMORY without memory for buffers, the driver's own. */
GM_INTERNAL gm_status gm_copy_pieces(const struct gm_context *context, const struct gm_copy_piece *pieces,
                                     unsigned count, bool out);

#endif

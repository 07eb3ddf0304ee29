/* What the host holds of the contents of a range of device memory: while the range is away all of it, and afterwards as
 * a copy that the next suspend completes.
 *
 * Pageable memory in huge pages. A thread registers it with the driver piece by piece, which takes longer than to copy
 * it; a registered piece is copied without a detour.
 *
 * A backing belongs to its range, and for a moment to a thread that registers it. Whoever gives it up last leaves it in
 * a list, since it takes long to unregister and to unmap: gm_backing_sweep does that. Registered memory is never
 * unmapped: another mapping at its addresses would be taken for it. */
#ifndef GM_RESOURCE_BACKING_H
#define GM_RESOURCE_BACKING_H

#include "shim/base/base.h"
#include "shim/driver/driver.h"
#include "shim/resource/backing_file.h"

#define GM_SUSPENDABLE_PAGE                                                                                            \
    ((size_t)2 << 20)                           /* contents are looked at by so many bytes; a multiple of all granules \
                                                 */
#define GM_SUSPENDABLE_PIECE ((size_t)64 << 20) /* copied and registered by so many */

/* Of a page (shim/suspend/checksum.h). */
struct gm_checksum {
    uint64_t words[2];
};

enum gm_page_state {
    GM_PAGE_NONE, /* its contents are not here */
    GM_PAGE_ZERO, /* it is zero, and not stored */
    GM_PAGE_STORED,
};

struct gm_page {
    struct gm_checksum sum; /* gm_no_checksum: not known */
    enum gm_page_state state;
};

struct gm_backing {
    struct gm_backing *next;
    char *memory;                 /* NULL: it lies in a file */
    struct gm_backing_file *file; /* NULL: it lies in memory */
    uint64_t place;               /* where it begins in the file */
    size_t size;
    struct gm_page *pages;
    struct gm_backing_piece {
        CUcontext context;
        uint64_t context_id; /* in which it is registered; 0: it is not */
        bool refused;        /* by the driver */
    } * pieces;
    int device;
    unsigned owners;
};

static const struct gm_checksum gm_no_checksum = {{UINT64_MAX, UINT64_MAX}};
static inline bool gm_checksum_equals(const struct gm_checksum *a, const struct gm_checksum *b) {
    return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}
static inline bool gm_checksum_is_known(const struct gm_checksum *sum) {
    return !gm_checksum_equals(sum, &gm_no_checksum);
}

static inline size_t gm_backing_pages(const struct gm_backing *backing) {
    return (backing->size + GM_SUSPENDABLE_PAGE - 1) / GM_SUSPENDABLE_PAGE;
}
/* Whether the piece around `offset` is registered in this context. */
static inline bool gm_backing_is_registered(const struct gm_backing *backing, size_t offset, uint64_t context_id) {
    return __atomic_load_n(&backing->pieces[offset / GM_SUSPENDABLE_PIECE].context_id, __ATOMIC_ACQUIRE) == context_id;
}

/* Room for `size` bytes of the device, in the file unless that is NULL; no page is known. NULL: there is no memory.
 * Touches none of it. The file is closed with its last backing. */
GM_INTERNAL struct gm_backing *gm_backing_create(size_t size, int device, struct gm_backing_file *file);
/* An owner gives it up. NULL does nothing. Makes no call of the driver. */
GM_INTERNAL void gm_backing_give(struct gm_backing *backing);
/* Bytes of pages that are stored. */
GM_INTERNAL uint64_t gm_backing_stored(const struct gm_backing *backing);

/* There is one that has an owner. */
GM_INTERNAL bool gm_backing_exists(void);
/* One that nobody owns waits to be released. */
GM_INTERNAL bool gm_backing_waits(void);
/* Releases one of them, or a registered piece of it. `idle`: nothing runs on the device; the driver waits for that
 * before it unregisters memory, so that otherwise only those go that have no registered piece. False: there is none. In
 * relaxed capture mode. */
GM_INTERNAL bool gm_backing_sweep(bool idle);
/* Registers one piece whose pages are all stored, unless more than `most` bytes would be registered. False: there is
 * none. While it runs no page may change. In relaxed capture mode. */
GM_INTERNAL bool gm_backing_register(uint64_t most);
/* Bytes that are registered. */
GM_INTERNAL uint64_t gm_backing_registered(void);

#endif

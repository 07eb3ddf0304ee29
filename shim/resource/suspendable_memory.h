/* Device memory whose pages can leave the device and come back under the same addresses: what resource "suspendable"
 * serves, and what shim/suspend moves.
 *
 * A range is a row of reserved addresses with extents mapped into it side by side: 64 MiB each, the last one smaller. A
 * block above 1 MiB has a range of its own. Smaller blocks lie in slabs, ranges of one granule that are cut by units of
 * 512 bytes. A range whose last block was freed is destroyed: the cache in front keeps what is reused.
 *
 * Memory that the program creates and maps itself is a range, too, for each handle (suspendable_handles.h).
 *
 * Many threads take and free blocks at once, and hold the memory shared meanwhile. Who moves pages holds it alone. */
#ifndef GM_RESOURCE_SUSPENDABLE_MEMORY_H
#define GM_RESOURCE_SUSPENDABLE_MEMORY_H

#include "shim/base/base.h"
#include "shim/driver/mapping.h"
#include "shim/resource/backing.h"
#include "shim/resource/resource.h"

#define GM_SUSPENDABLE_EXTENT GM_SUSPENDABLE_PIECE

enum { GM_SUSPENDABLE_UNITS = 4096 };

struct gm_suspendable_range;

/* The two kinds of ranges differ in how their pages come and go: those that gpumem mapped, and handles that the program
 * maps itself (suspendable_handles.h). */
struct gm_suspendable_pages {
    gm_status (*leave)(struct gm_suspendable_range *range);
    gm_status (*create)(struct gm_suspendable_range *range);
    void (*uncreate)(struct gm_suspendable_range *range);
    gm_status (*map)(struct gm_suspendable_range *range);
    gm_status (*open)(struct gm_suspendable_range *range); /* NULL: it is open while it is mapped */
    void (*close)(struct gm_suspendable_range *range);
};

struct gm_suspendable_range {
    const struct gm_suspendable_pages *pages;
    struct gm_suspendable_range *next, **link, *next_in_hash;
    uint64_t address; /* of the program's handles: while it is open */
    size_t size;
    int device;
    bool slab;
    bool away;  /* its pages are not on the device: nothing is mapped (gm_suspendable_set_away) */
    bool aside; /* it is away, and the program goes on without it */
    int64_t counted_here, counted_away; /* for those that share the card (gm_suspendable_recount) */
    const char *stays;                  /* why it cannot leave; NULL: it can */
    unsigned count;                     /* extents, with handles unless the range is away */
    struct gm_extent *extents;
    struct gm_backing *backing; /* its contents on the host; NULL while it is away: it comes back as zeros */
    int choice;                 /* of who holds the memory alone */
    uint8_t tag;                /* of the block, 0 = none */
    /* of a slab */
    unsigned blocks, free_units, longest; /* no longer row of free units exists */
    uint8_t *tags;                        /* of the blocks, by unit; NULL: no block had one */
    uint64_t used[GM_SUSPENDABLE_UNITS / 64], starts[GM_SUSPENDABLE_UNITS / 64];
};

/* ---- blocks */

/* Maps `size` bytes for a request. *address and *reserved: the block. Errors: GM_NOT_SUPPORTED, as gm_vmm_prepare;
 * those of the driver. The caller is within the capture guard. */
GM_INTERNAL gm_status gm_suspendable_take(const struct gm_request *request, size_t size, uint64_t *address,
                                          size_t *reserved);
/* Frees the block that starts at `address`, which no work uses any more. After an error it lives on. `lost`: a reset of
 * the device may have unmapped it already, so errors of the driver are ignored. */
GM_INTERNAL gm_status gm_suspendable_give(uint64_t address, bool lost);
/* Opens all pages to a device that got a context. False: the driver refused some. */
GM_INTERNAL bool gm_suspendable_open_to(int device);
/* A range that gpumem mapped contains the address. False too where there never was one. */
GM_INTERNAL bool gm_suspendable_is_ours(uint64_t address);
/* The memory of this address cannot leave from now on (suspendable_at.h). False: it is not in such a range. */
GM_INTERNAL bool gm_suspendable_stay_ours(uint64_t address, const char *why);
/* A number that the block that starts at `address` has until it is set again; 0 at first. */
GM_INTERNAL void gm_suspendable_set_tag(uint64_t address, uint8_t tag);
GM_INTERNAL uint8_t gm_suspendable_tag_of(uint64_t address);

/* Many threads may hold the memory shared, during calls that need it where it is. Not one inside the other. */
GM_INTERNAL void gm_suspendable_lock_shared(void);
GM_INTERNAL void gm_suspendable_unlock_shared(void);
/* A range that the program maps itself joins the others, or ends. The memory is held shared. */
GM_INTERNAL void gm_suspendable_set_away(struct gm_suspendable_range *range, bool away);
GM_INTERNAL void gm_suspendable_join(struct gm_suspendable_range *range);
GM_INTERNAL void gm_suspendable_part(struct gm_suspendable_range *range);
/* Tells those that share the card what of the range can leave, and what is away, after a change of it. */
GM_INTERNAL void gm_suspendable_recount(struct gm_suspendable_range *range, bool exists);

/* ---- pages; the caller holds the memory alone, and a context of the device is current where pages come back */

GM_INTERNAL void gm_suspendable_lock(void);
GM_INTERNAL void gm_suspendable_unlock(void);
/* The ranges; NULL: there is none. */
GM_INTERNAL struct gm_suspendable_range *gm_suspendable_first(void);
/* The range of the block that starts at `address`; NULL: there is none. */
GM_INTERNAL struct gm_suspendable_range *gm_suspendable_of_block(uint64_t address);
/* Unmaps and releases the pages: the range is away. After an error it is not, and its pages are mapped, unless the
 * driver refuses that, too: then it is away. */
static inline gm_status gm_suspendable_leave(struct gm_suspendable_range *range) { return range->pages->leave(range); }
/* Creates the pages of a range that is away, without a mapping. After an error there are none. */
static inline gm_status gm_suspendable_create(struct gm_suspendable_range *range) {
    return range->pages->create(range);
}
/* Releases the pages again. */
static inline void gm_suspendable_uncreate(struct gm_suspendable_range *range) { range->pages->uncreate(range); }
/* Maps the created pages with the access that they had: the range is not away any more. After an error nothing is
 * mapped, and the pages are still created. */
static inline gm_status gm_suspendable_map(struct gm_suspendable_range *range) { return range->pages->map(range); }
/* Gives up what the host holds of the range. */
GM_INTERNAL void gm_suspendable_drop_backing(struct gm_suspendable_range *range);
/* Between the two the whole range can be copied at its address. */
static inline gm_status gm_suspendable_open(struct gm_suspendable_range *range) {
    return range->pages->open ? range->pages->open(range) : GM_OK;
}
static inline void gm_suspendable_close(struct gm_suspendable_range *range) {
    if (range->pages->close)
        range->pages->close(range);
}

#endif

/* Physical memory that the program creates and maps itself (cuMemCreate, cuMemMap), as ranges whose pages can leave and
 * come back (suspendable_memory.h): PyTorch's expandable segments, the allocators of inference servers.
 *
 * The program has tokens in the place of the driver's handles, because the handle behind one differs after each resume.
 * No address of a process looks like a token, and a driver's handle is an address. gpumem counts the program's
 * references and knows where the handle is mapped, with the access of each device. It holds one reference of the driver
 * while the memory is on the device.
 *
 * Contents are copied where the program mapped the whole handle for its own device, else through a mapping that lasts
 * for the copy: also memory that is mapped nowhere, in part, or twice can leave.
 *
 * Calls of the program hold the memory shared (gm_suspendable_lock_shared). */
#ifndef GM_RESOURCE_SUSPENDABLE_HANDLES_H
#define GM_RESOURCE_SUSPENDABLE_HANDLES_H

#include "shim/resource/suspendable_memory.h"

struct gm_handle_mapping {
    struct gm_handle_mapping *next; /* of the same handle; of unused ones */
    struct gm_handle *handle;
    uint64_t address;
    size_t size, offset;
    uint64_t readers, writers; /* bit d: device d may read; may write, too */
};

struct gm_handle {
    struct gm_suspendable_range range; /* the first member */
    struct gm_extent extent;           /* of the range; its handle is the driver's, valid unless the range is away */
    CUmemAllocationProp properties;
    uint64_t token;      /* 0: unused */
    uint64_t references; /* of the program */
    unsigned calls;      /* that use it now */
    struct gm_handle_mapping *mappings;
    CUdeviceptr window; /* where it is mapped for a copy; 0: nowhere */
    struct gm_handle *next_unused;
};

/* What a value of the program is. */
enum { GM_TOKEN_PREFIX = 0x16d, GM_TOKEN_SHIFT = 48 };
static inline bool gm_is_token(uint64_t value) { return value >> GM_TOKEN_SHIFT == GM_TOKEN_PREFIX; }

/* A handle that the driver made for device memory with these properties gets a token and one reference. NULL: there is
 * no memory, and the driver's handle goes to the program. */
GM_INTERNAL struct gm_handle *gm_handle_new(CUmemGenericAllocationHandle driver, size_t size,
                                            const CUmemAllocationProp *properties);
/* The handle of a token; NULL: there is none. It lives until gm_handle_end, which releases its memory if the program
 * has neither references nor mappings any more. After an error of the driver it is alive, with one reference. */
GM_INTERNAL struct gm_handle *gm_handle_begin(uint64_t token);
GM_INTERNAL gm_status gm_handle_end(struct gm_handle *handle);
/* One reference more or less. False: the program has none. */
GM_INTERNAL bool gm_handle_refer(struct gm_handle *handle, bool more);
/* As gm_handle_begin, with one reference more, for the handle that is mapped around the address. */
GM_INTERNAL struct gm_handle *gm_handle_retain_at(CUdeviceptr address);

/* A mapping that the program is about to make; NULL: there is no memory. Then the driver makes it, or does not. False:
 * there is no memory to know it. */
GM_INTERNAL struct gm_handle_mapping *gm_handle_will_map(struct gm_handle *handle, CUdeviceptr address, size_t size,
                                                         size_t offset);
GM_INTERNAL bool gm_handle_mapped(struct gm_handle_mapping *mapping);
GM_INTERNAL void gm_handle_not_mapped(struct gm_handle_mapping *mapping);
/* The driver gave access to the mappings in a range, or took it away. */
GM_INTERNAL void gm_handles_opened(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count);
/* The mappings in a range are gone. Releases what nobody uses any more. */
GM_INTERNAL void gm_handles_unmapped(CUdeviceptr address, size_t size);

/* Of the mappings that a range of addresses touches. */
enum gm_handles_there {
    GM_HANDLES_PRESENT, /* none is away, as far as they are known here */
    GM_HANDLES_AWAY,    /* all are away, and fill the range, each with all its addresses */
    GM_HANDLES_MIXED,   /* some are away */
};
GM_INTERNAL enum gm_handles_there gm_handles_in(CUdeviceptr address, size_t size);
/* The access that a location has to a mapping that is away. False: none is mapped there, or it is not away. */
GM_INTERNAL bool gm_handles_access(CUdeviceptr address, const CUmemLocation *location, unsigned long long *flags);

/* The range of a mapping that starts at the address; NULL: there is none. */
GM_INTERNAL struct gm_suspendable_range *gm_handles_range_at(CUdeviceptr address);
GM_INTERNAL bool gm_handles_cover(CUdeviceptr address);
/* The handle that is mapped around the address cannot leave from now on. */
GM_INTERNAL void gm_handles_stay(CUdeviceptr address, const char *why);

#endif

/* Virtual memory management: reservations, physical handles, mappings, access.
 *
 * A handle is a part of the device's file, or a file of its own when it is to be exported (or lies on the
 * host).  A reservation is address space without access; under SIMCUDA_STRICT a second one of the same shape is
 * where the driver itself reaches the bytes.  Unmapping does not wait for work. */
#include "sim.h"
#include "simcuda.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define HANDLE_MAGIC 0x48414e31u
struct sim_handle {
    unsigned magic;
    CUmemAllocationProp prop;
    size_t size;
    int fd; /* own file, or the device's */
    bool own_file;
    struct sim_extent *extent;
    struct sim_device *device; /* whose bytes are counted; NULL: host or imported */
    struct sim_handle *bound;  /* to this multicast object */
    unsigned refs;             /* of the program */
    unsigned maps;             /* and multicast objects */
};

struct reservation {
    char *va, *alias;
    size_t size;
    struct reservation *next;
};
static struct reservation *reservations;

static size_t live_handles;

size_t simcuda_live_reservations(void) {
    size_t count = 0;
    sim_lock();
    for (struct reservation *r = reservations; r; r = r->next)
        count++;
    sim_unlock();
    return count;
}

size_t simcuda_live_handles(void) {
    sim_lock();
    size_t count = live_handles;
    sim_unlock();
    return count;
}

void *sim_vmm_alias(uintptr_t addr) {
    for (struct reservation *r = reservations; r; r = r->next) {
        if (addr - (uintptr_t)r->va < r->size)
            return r->alias + (addr - (uintptr_t)r->va);
    }
    return NULL;
}

static struct reservation *reservation_at(uintptr_t addr, size_t size) {
    for (struct reservation *r = reservations; r; r = r->next) {
        size_t offset = addr - (uintptr_t)r->va;
        if (offset < r->size && size <= r->size - offset)
            return r;
    }
    return NULL;
}

/* ---- reservations ---- */

static char *map_aligned(size_t size, size_t alignment, uintptr_t wanted) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (wanted && wanted % alignment == 0) {
        char *p = mmap((void *)wanted, size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (p != MAP_FAILED && (uintptr_t)p == wanted)
            return p;
        if (p != MAP_FAILED)
            munmap(p, size);
    }
    if (size + alignment < size)
        return NULL;
    char *p = mmap(NULL, size + alignment, PROT_NONE, flags, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *start = (char *)SIM_ROUND((uintptr_t)p, alignment);
    if (start > p)
        munmap(p, (size_t)(start - p));
    munmap(start + size, (size_t)(p + alignment - start));
    return start;
}

/* Where the driver's own view of a reservation at va has to begin, so that reservations side by side are one array
 * there too. */
static uintptr_t alias_behind(const char *va) {
    for (struct reservation *r = reservations; r; r = r->next)
        if (r->va + r->size == va)
            return (uintptr_t)r->alias + r->size;
    return 0;
}

static void map_both(struct reservation *r, size_t alignment, uintptr_t wanted) {
    r->va = map_aligned(r->size, alignment, wanted);
    r->alias = r->va;
    if (!sim_opt.strict || !r->va)
        return;
    uintptr_t behind = alias_behind(r->va);
    r->alias = map_aligned(r->size, SIM_CHUNK, behind);
    if (r->alias && behind && (uintptr_t)r->alias != behind) { /* taken: these addresses are not to be had */
        char *refused = r->va;
        munmap(r->alias, r->size);
        r->va = map_aligned(r->size, alignment, 0);
        munmap(refused, r->size);
        r->alias = r->va ? map_aligned(r->size, SIM_CHUNK, 0) : NULL;
    }
}

CUresult sim_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                 unsigned long long flags) {
    if (!ptr || size == 0 || size % SIM_CHUNK || flags || (alignment & (alignment - 1)))
        return CUDA_ERROR_INVALID_VALUE;
    if (alignment < SIM_CHUNK)
        alignment = SIM_CHUNK;
    struct reservation *r = calloc(1, sizeof *r);
    r->size = size;
    map_both(r, alignment, addr);
    if (!r->va || !r->alias) {
        if (r->va)
            munmap(r->va, size);
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    r->next = reservations;
    reservations = r;
    *ptr = (uintptr_t)r->va;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    struct reservation **link = &reservations;
    while (*link && ((uintptr_t)(*link)->va != ptr || (*link)->size != size))
        link = &(*link)->next;
    if (!*link || sim_block_overlap(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    struct reservation *r = *link;
    *link = r->next;
    munmap(r->va, size);
    if (r->alias != r->va)
        munmap(r->alias, size);
    free(r);
    return CUDA_SUCCESS;
}

/* ---- handles ---- */

static bool on_host(const CUmemLocation *l) {
    return l->type == CU_MEM_LOCATION_TYPE_HOST || l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
           l->type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static CUresult check_prop(const CUmemAllocationProp *prop) {
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (on_host(&prop->location))
        return prop->location.id == 0 || prop->location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_DEVICE;
    struct sim_device *d;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return sim_need_device(prop->location.id, &d);
}

CUresult sim_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                           CUmemAllocationGranularity_flags option) {
    SIM_TRY(check_prop(prop));
    if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = SIM_CHUNK;
    return CUDA_SUCCESS;
}

static CUresult own_file(struct sim_handle *h) {
    h->fd = memfd_create("simcuda-handle", MFD_CLOEXEC);
    if (h->fd < 0 || ftruncate(h->fd, (off_t)h->size) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    h->own_file = true;
    return CUDA_SUCCESS;
}

static void handle_drop(struct sim_handle *h);

static void unbind(struct sim_handle *multicast) {
    struct sim_handle *h = multicast->bound;
    multicast->bound = NULL;
    if (!h)
        return;
    h->maps--;
    handle_drop(h);
}

static void handle_drop(struct sim_handle *h) {
    if (h->refs || h->maps)
        return;
    unbind(h);
    if (h->own_file && h->fd >= 0)
        close(h->fd);
    if (h->extent)
        sim_extent_give(h->extent);
    live_handles--;
    h->magic = 0;
    free(h);
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                         unsigned long long flags) {
    struct sim_device *d = NULL;
    if (!handle || flags || size == 0 || size % SIM_CHUNK)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(check_prop(prop));
    struct sim_handle *h = calloc(1, sizeof *h);
    live_handles++;
    *h = (struct sim_handle){.magic = HANDLE_MAGIC, .prop = *prop, .size = size, .fd = -1};
    CUresult r = CUDA_SUCCESS;
    if (!on_host(&prop->location)) {
        sim_need_device(prop->location.id, &d);
        r = sim_extent_take(d, size, 0, &h->extent);
        h->device = d;
        h->fd = d->fd;
    }
    if (r == CUDA_SUCCESS && (!d || prop->requestedHandleTypes))
        r = own_file(h);
    /* Host memory is pinned: it is there at once, or not to be had. */
    if (r == CUDA_SUCCESS && !d && fallocate(h->fd, 0, 0, (off_t)size) != 0)
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        handle_drop(h);
        return r;
    }
    h->refs = 1;
    *handle = (uintptr_t)h;
    return CUDA_SUCCESS;
}

static CUresult handle_get(CUmemGenericAllocationHandle handle, struct sim_handle **h) {
    *h = (struct sim_handle *)(uintptr_t)handle;
    return *h && (*h)->magic == HANDLE_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle handle) {
    struct sim_handle *h;
    SIM_TRY(handle_get(handle, &h));
    if (h->refs == 0)
        return CUDA_ERROR_INVALID_VALUE;
    h->refs--;
    handle_drop(h);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
    struct sim_block *b = sim_block_at((uintptr_t)addr);
    if (!handle || !b || b->kind != KIND_VMM)
        return CUDA_ERROR_INVALID_VALUE;
    b->handle->refs++;
    *handle = (uintptr_t)b->handle;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle) {
    struct sim_handle *h;
    SIM_TRY(handle_get(handle, &h));
    if (!prop)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = h->prop;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                          CUmemAllocationHandleType handleType, unsigned long long flags) {
    struct sim_handle *h;
    SIM_TRY(handle_get(handle, &h));
    if (!shareableHandle || flags || !(h->prop.requestedHandleTypes & handleType) ||
        handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)shareableHandle = fd;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                            CUmemAllocationHandleType shHandleType) {
    struct stat st;
    int fd = (int)(uintptr_t)osHandle;
    if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(fd, &st) != 0 || !st.st_size)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_handle *h = calloc(1, sizeof *h);
    live_handles++;
    *h = (struct sim_handle){.magic = HANDLE_MAGIC,
                             .size = (size_t)st.st_size,
                             .refs = 1,
                             .own_file = true,
                             .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3)};
    h->prop = (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                    .requestedHandleTypes = shHandleType,
                                    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    *handle = (uintptr_t)h;
    return CUDA_SUCCESS;
}

/* ---- mappings ---- */

CUresult sim_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags) {
    struct sim_handle *h;
    SIM_TRY(handle_get(handle, &h));
    struct reservation *r = reservation_at(ptr, size);
    if (!r || flags || size == 0 || ptr % SIM_CHUNK || size % SIM_CHUNK || offset % SIM_CHUNK || offset > h->size ||
        size > h->size - offset || sim_block_overlap(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    off_t at = (off_t)((h->own_file ? 0 : h->extent->offset) + offset);
    char *alias = r->alias + (ptr - (uintptr_t)r->va);
    if (mmap(alias, size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, h->fd, at) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct sim_block *b = sim_block_new(ptr, size, KIND_VMM, h->device ? h->device : &sim_devices[0]);
    b->handle = h;
    b->handle_offset = offset;
    b->flags = on_host(&h->prop.location);
    h->maps++;
    return CUDA_SUCCESS;
}

/* Every mapping that the range touches must lie in it whole, without holes. */
static CUresult whole_mappings(CUdeviceptr ptr, size_t size) {
    if (size == 0 || !reservation_at(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (CUdeviceptr p = ptr; p < ptr + size;) {
        struct sim_block *b = sim_block_at(p);
        if (!b || b->kind != KIND_VMM || b->addr != p || b->size > ptr + size - p)
            return CUDA_ERROR_INVALID_VALUE;
        p += b->size;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemUnmap(CUdeviceptr ptr, size_t size) {
    SIM_TRY(whole_mappings(ptr, size));
    struct reservation *r = reservation_at(ptr, size);
    char *alias = r->alias + (ptr - (uintptr_t)r->va);
    mmap(alias, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    struct sim_block *b;
    while ((b = sim_block_overlap(ptr, size)) != NULL) {
        struct sim_handle *h = b->handle;
        b->handle = NULL;
        sim_block_gone(b);
        h->maps--;
        handle_drop(h);
    }
    return CUDA_SUCCESS;
}

/* Host memory is in every device's reach. */
static bool in_reach(const struct sim_device *d, CUdeviceptr ptr, size_t size) {
    for (CUdeviceptr p = ptr; p < ptr + size;) {
        const struct sim_block *b = sim_block_at(p);
        if (!b->flags && !sim_can_reach(d, b->device))
            return false;
        p += b->size;
    }
    return true;
}

CUresult sim_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
    struct sim_device *d;
    if (!desc || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_TRY(whole_mappings(ptr, size));
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
            SIM_TRY(sim_need_device(desc[i].location.id, &d));
            if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && !in_reach(d, ptr, size))
                return CUDA_ERROR_INVALID_DEVICE;
        } else if (!on_host(&desc[i].location)) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    for (CUdeviceptr p = ptr; p < ptr + size;) {
        struct sim_block *b = sim_block_at(p);
        for (size_t i = 0; i < count; i++) {
            bool device = desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE;
            unsigned bit = device ? 1u << desc[i].location.id : 0;
            bool grant = desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
            bool fixed = desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
            b->access = grant ? b->access | bit : b->access & ~bit;
            b->fixed = fixed ? b->fixed | bit : b->fixed & ~bit;
            if (!device)
                b->host_access = grant;
        }
        bool any = b->access || b->host_access, may_write = (b->access & ~b->fixed) || b->host_access;
        mprotect(sim_alias(p), b->size, may_write ? PROT_READ | PROT_WRITE : any ? PROT_READ : PROT_NONE);
        p += b->size;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr) {
    struct sim_block *b = sim_block_at(ptr);
    if (!flags || !location || !b || b->kind != KIND_VMM)
        return CUDA_ERROR_INVALID_VALUE;
    bool may = location->type == CU_MEM_LOCATION_TYPE_DEVICE ? b->access >> location->id & 1 : b->host_access;
    bool fixed = location->type == CU_MEM_LOCATION_TYPE_DEVICE && b->fixed >> location->id & 1;
    *flags = !may    ? CU_MEM_ACCESS_FLAGS_PROT_NONE
             : fixed ? CU_MEM_ACCESS_FLAGS_PROT_READ
                     : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}

/* Arrays have no tiles here: only the handles are looked at. */
CUresult sim_cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream) {
    struct sim_handle *h;
    if (!mapInfoList || !count)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (mapInfoList[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
            SIM_TRY(handle_get(mapInfoList[i].memHandle.memHandle, &h));
    return CUDA_SUCCESS;
}

/* ---- multicast: an object holds one memory, until it is unbound or the object ends ---- */

CUresult sim_cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop) {
    if (!mcHandle || !prop || prop->numDevices == 0 || prop->size == 0 || prop->size % SIM_CHUNK)
        return CUDA_ERROR_INVALID_VALUE;
    struct sim_handle *h = calloc(1, sizeof *h);
    live_handles++;
    *h = (struct sim_handle){.magic = HANDLE_MAGIC, .size = prop->size, .fd = -1, .refs = 1};
    *mcHandle = (uintptr_t)h;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev) {
    struct sim_handle *h;
    struct sim_device *d;
    SIM_TRY(handle_get(mcHandle, &h));
    return sim_need_device(dev, &d);
}

static CUresult bind(CUmemGenericAllocationHandle multicast, struct sim_handle *h, size_t size) {
    struct sim_handle *object;
    SIM_TRY(handle_get(multicast, &object));
    if (object->bound || size > object->size || size > h->size)
        return CUDA_ERROR_INVALID_VALUE;
    object->bound = h;
    h->maps++;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                unsigned long long flags) {
    struct sim_handle *h;
    SIM_TRY(handle_get(memHandle, &h));
    return mcOffset || memOffset || flags ? CUDA_ERROR_INVALID_VALUE : bind(mcHandle, h, size);
}

CUresult sim_cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                   CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                   unsigned long long flags) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    return sim_cuMulticastBindMem(mcHandle, mcOffset, memHandle, memOffset, size, flags);
}

CUresult sim_cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr,
                                 size_t size, unsigned long long flags) {
    const struct sim_block *b = sim_block_at(memptr);
    if (mcOffset || flags || !b || b->kind != KIND_VMM || b->addr != memptr)
        return CUDA_ERROR_INVALID_VALUE;
    return bind(mcHandle, b->handle, size);
}

CUresult sim_cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                    CUdeviceptr memptr, size_t size, unsigned long long flags) {
    struct sim_device *d;
    SIM_TRY(sim_need_device(dev, &d));
    return sim_cuMulticastBindAddr(mcHandle, mcOffset, memptr, size, flags);
}

CUresult sim_cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size) {
    struct sim_handle *h;
    SIM_TRY(handle_get(mcHandle, &h));
    if (!h->bound || mcOffset || size > h->size)
        return CUDA_ERROR_INVALID_VALUE;
    unbind(h);
    return CUDA_SUCCESS;
}

/* Handles of physical memory under GPUMEM_SUSPEND: the program has tokens (shim/resource/suspendable_handles.h), and
 * what stands here translates them in every call that takes or returns one.
 *
 * Functions with STANDS take the place of the driver's in gm_real, behind their hooks. DIVERTS: the entry of the call
 * continues here. NATIVE: the call knows only handles that the driver itself gave to the program.
 *
 * A call that needs memory which is away waits as calls do that submit work: the first one resumes. What is unmapped or
 * released while it is away wakes nobody. */
#include "shim/hook/diverted.h"

#include <string.h>
#include <sys/mman.h>

#include "shim/hook/entry_points.h"
#include "shim/hook/hook.h"
#include "shim/resource/suspendable_at.h"
#include "shim/resource/suspendable_handles.h"

/* clang-format off */
#define GM_HANDLE_CALLS(X)                                                               \
    X(cuMemCreate, STANDS, "returns a token")                                            \
    X(cuMemRelease, STANDS, "counts references")                                         \
    X(cuMemRetainAllocationHandle, STANDS, "returns a token")                            \
    X(cuMemMap, STANDS, "remembers mappings")                                            \
    X(cuMemUnmap, STANDS, "forgets mappings")                                            \
    X(cuMemSetAccess, STANDS, "remembers access")                                        \
    X(cuMemAddressFree, STANDS, "mappings that are away are there, too")                 \
    X(cuMemExportToShareableHandle, STANDS, "the memory stays from then on")             \
    X(cuMulticastBindMem, STANDS, "the memory stays from then on")                       \
    X(cuMulticastBindMem_v2, STANDS, "the memory stays from then on")                    \
    X(cuLogicalEndpointBindMem, DIVERTS, "the memory stays from then on")                \
    X(cuLogicalEndpointBindAddr, DIVERTS, "the memory stays from then on")               \
    X(cuMemMapArrayAsync, DIVERTS, "the memory stays from then on")                      \
    X(cuMemMapArrayAsync_ptsz, DIVERTS, "the memory stays from then on")                 \
    X(cuMemGetAllocationPropertiesFromHandle, DIVERTS, "the memory may be away")         \
    X(cuMemGetAccess, DIVERTS, "the memory may be away")                                 \
    X(cuMemImportFromShareableHandle, NATIVE, "memory of others has the driver's handle") \
    X(cuMulticastCreate, NATIVE, "an object has the driver's handle")                    \
    X(cuMulticastAddDevice, NATIVE, "an object has the driver's handle")                 \
    X(cuMulticastBindAddr, NATIVE, "an object has the driver's handle")                  \
    X(cuMulticastBindAddr_v2, NATIVE, "an object has the driver's handle")               \
    X(cuMulticastUnbind, NATIVE, "an object has the driver's handle")
/* clang-format on */

#if CUDA_VERSION < 13030
CUresult cuLogicalEndpointBindMem(cuuint32_t endpoint, CUdevice device, cuuint64_t offset,
                                  CUmemGenericAllocationHandle handle, cuuint64_t handle_offset, cuuint64_t size,
                                  unsigned long long flags);
CUresult cuLogicalEndpointBindAddr(cuuint32_t endpoint, CUdevice device, cuuint64_t offset, void *address,
                                   cuuint64_t size, unsigned long long flags);
#endif

#define NEXT_STANDS(symbol)  static __typeof__(&symbol) next_##symbol;
#define NEXT_DIVERTS(symbol) NEXT_STANDS(symbol)
#define NEXT_NATIVE(symbol)
#define X(symbol, how, why) NEXT_##how(symbol)
GM_HANDLE_CALLS(X)
#undef X

/* ---- memory that is away */

enum { IS_AWAY = -1 }; /* the answer to a call that has to wait */

/* Memory that was set aside comes back by a call that changes it. */
static CUresult wait_until_awake(void) {
    char why[GM_SUSPEND_WHY];
    if (!gm_suspend_is_asleep() && !gm_submissions_are_closed())
        return (CUresult)gm_resume(NULL, NULL, why);
    gm_submission_begin();
    gm_submission_end();
    return CUDA_SUCCESS;
}

/* The handle of a token, whose memory is on the device and does not leave any more; NULL: an error. */
static struct gm_handle *handle_that_stays(CUmemGenericAllocationHandle token, const char *why, CUresult *error) {
    do {
        gm_suspendable_lock_shared();
        struct gm_handle *handle = gm_handle_begin(token);
        if (handle)
            handle->range.stays = why;
        bool away = handle && handle->range.away;
        if (away)
            gm_handle_end(handle);
        gm_suspendable_unlock_shared();
        *error = CUDA_ERROR_INVALID_VALUE;
        if (!away)
            return handle;
    } while (!(*error = wait_until_awake()));
    return NULL;
}

static void done_with(struct gm_handle *handle) {
    gm_suspendable_lock_shared();
    gm_handle_end(handle);
    gm_suspendable_unlock_shared();
}

/* `call` uses the variable `handle`. */
#define WITH_HANDLE(token, why, call)                                            \
    ({                                                                           \
        CUmemGenericAllocationHandle handle = (token);                           \
        struct gm_handle *known = NULL;                                          \
        CUresult answer = CUDA_ERROR_INVALID_VALUE;                              \
        bool ours = gm_is_token(handle);                                         \
        if (ours && (known = handle_that_stays(handle, (why), &answer)) != NULL) \
            handle = known->extent.handle;                                       \
        if (!ours || known)                                                      \
            answer = (call);                                                     \
        if (known)                                                               \
            done_with(known);                                                    \
        answer;                                                                  \
    })

/* ---- handles */

static CUresult CUDAAPI handle_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                                           const CUmemAllocationProp *properties, unsigned long long flags) {
    CUresult result = next_cuMemCreate(handle, size, properties, flags);
    if (result || flags || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return result;
    gm_suspendable_lock_shared();
    struct gm_handle *made = gm_handle_new(*handle, size, properties);
    if (made)
        *handle = made->token;
    gm_suspendable_unlock_shared();
    return result;
}

static CUresult CUDAAPI handle_cuMemRelease(CUmemGenericAllocationHandle token) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!gm_is_token(token))
        return next_cuMemRelease(token);
    gm_suspendable_lock_shared();
    struct gm_handle *handle = gm_handle_begin(token);
    bool had = handle && gm_handle_refer(handle, false);
    if (handle)
        result = (CUresult)gm_handle_end(handle);
    gm_suspendable_unlock_shared();
    return had ? result : CUDA_ERROR_INVALID_VALUE;
}

static CUresult CUDAAPI handle_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    gm_suspendable_lock_shared();
    struct gm_handle *found = handle ? gm_handle_retain_at((CUdeviceptr)(uintptr_t)address) : NULL;
    if (found) {
        *handle = found->token;
        gm_handle_end(found);
    }
    gm_suspendable_unlock_shared();
    return found ? CUDA_SUCCESS : next_cuMemRetainAllocationHandle(handle, address);
}

static CUresult CUDAAPI handle_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                                      CUmemGenericAllocationHandle token) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (!gm_is_token(token) || !properties)
        return next_cuMemGetAllocationPropertiesFromHandle(properties, token);
    gm_suspendable_lock_shared();
    struct gm_handle *handle = gm_handle_begin(token);
    if (handle && handle->range.away) {
        *properties = handle->properties;
        result = CUDA_SUCCESS;
    } else if (handle) {
        result = next_cuMemGetAllocationPropertiesFromHandle(properties, handle->extent.handle);
    }
    if (handle)
        gm_handle_end(handle);
    gm_suspendable_unlock_shared();
    return result;
}

static CUresult CUDAAPI handle_cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle token,
                                                            CUmemAllocationHandleType type, unsigned long long flags) {
    return WITH_HANDLE(token, "exported", next_cuMemExportToShareableHandle(shareable, handle, type, flags));
}

static CUresult CUDAAPI handle_cuMulticastBindMem(CUmemGenericAllocationHandle multicast, size_t offset,
                                                  CUmemGenericAllocationHandle token, size_t handle_offset, size_t size,
                                                  unsigned long long flags) {
    return WITH_HANDLE(token, "bound to a multicast object",
                       next_cuMulticastBindMem(multicast, offset, handle, handle_offset, size, flags));
}

static CUresult CUDAAPI handle_cuMulticastBindMem_v2(CUmemGenericAllocationHandle multicast, CUdevice device,
                                                     size_t offset, CUmemGenericAllocationHandle token,
                                                     size_t handle_offset, size_t size, unsigned long long flags) {
    return WITH_HANDLE(token, "bound to a multicast object",
                       next_cuMulticastBindMem_v2(multicast, device, offset, handle, handle_offset, size, flags));
}

static CUresult CUDAAPI handle_cuLogicalEndpointBindMem(cuuint32_t endpoint, CUdevice device, cuuint64_t offset,
                                                        CUmemGenericAllocationHandle token, cuuint64_t handle_offset,
                                                        cuuint64_t size, unsigned long long flags) {
    return WITH_HANDLE(
        token, "bound to an endpoint",
        PASSED_WITH_TRIM(next_cuLogicalEndpointBindMem(endpoint, device, offset, handle, handle_offset, size, flags)));
}

static CUresult CUDAAPI handle_cuLogicalEndpointBindAddr(cuuint32_t endpoint, CUdevice device, cuuint64_t offset,
                                                         void *address, cuuint64_t size, unsigned long long flags) {
    gm_suspendable_stay((CUdeviceptr)(uintptr_t)address, "bound to an endpoint");
    wait_until_awake();
    return PASSED_WITH_TRIM(next_cuLogicalEndpointBindAddr(endpoint, device, offset, address, size, flags));
}

/* ---- mappings */

static CUresult map_here(struct gm_handle *handle, CUdeviceptr address, size_t size, size_t offset,
                         unsigned long long flags) {
    if (handle->range.away)
        return (CUresult)IS_AWAY;
    struct gm_handle_mapping *mapping = gm_handle_will_map(handle, address, size, offset);
    if (!mapping)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = next_cuMemMap(address, size, offset, handle->extent.handle, flags);
    if (result) {
        gm_handle_not_mapped(mapping);
    } else if (!gm_handle_mapped(mapping)) {
        next_cuMemUnmap(address, size);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return result;
}

static CUresult map_now(CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle token,
                        unsigned long long flags) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    gm_suspendable_lock_shared();
    bool taken = gm_handles_in(address, size) != GM_HANDLES_PRESENT; /* the driver does not know */
    struct gm_handle *handle = gm_handle_begin(token);
    if (!taken && handle && handle->references)
        result = map_here(handle, address, size, offset, flags);
    else if (!taken && !gm_is_token(token))
        result = next_cuMemMap(address, size, offset, token, flags);
    if (handle)
        gm_handle_end(handle);
    gm_suspendable_unlock_shared();
    return result;
}

static CUresult CUDAAPI handle_cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                                        CUmemGenericAllocationHandle token, unsigned long long flags) {
    CUresult result;
    while ((int)(result = map_now(address, size, offset, token, flags)) == IS_AWAY)
        if ((result = wait_until_awake()) != CUDA_SUCCESS)
            break;
    return result;
}

static CUresult unmap_now(CUdeviceptr address, size_t size) {
    CUresult result = CUDA_SUCCESS;
    gm_suspendable_lock_shared();
    switch (gm_handles_in(address, size)) {
    case GM_HANDLES_PRESENT: result = next_cuMemUnmap(address, size); break;
    case GM_HANDLES_MIXED: result = (CUresult)IS_AWAY; break;
    case GM_HANDLES_AWAY: break;
    }
    if (!result)
        gm_handles_unmapped(address, size);
    gm_suspendable_unlock_shared();
    return result;
}

static CUresult CUDAAPI handle_cuMemUnmap(CUdeviceptr address, size_t size) {
    CUresult result;
    while ((int)(result = unmap_now(address, size)) == IS_AWAY)
        if ((result = wait_until_awake()) != CUDA_SUCCESS)
            break;
    return result;
}

static CUresult open_now(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count) {
    CUresult result = (CUresult)IS_AWAY;
    gm_suspendable_lock_shared();
    if (gm_handles_in(address, size) == GM_HANDLES_PRESENT)
        result = next_cuMemSetAccess(address, size, access, count);
    if (!result)
        gm_handles_opened(address, size, access, count);
    gm_suspendable_unlock_shared();
    return result;
}

static CUresult CUDAAPI handle_cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                                              size_t count) {
    CUresult result;
    while ((int)(result = open_now(address, size, access, count)) == IS_AWAY)
        if ((result = wait_until_awake()) != CUDA_SUCCESS)
            break;
    return result;
}

static CUresult CUDAAPI handle_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                              CUdeviceptr address) {
    gm_suspendable_lock_shared();
    CUresult result = flags && location && gm_handles_access(address, location, flags)
                          ? CUDA_SUCCESS
                          : next_cuMemGetAccess(flags, location, address);
    gm_suspendable_unlock_shared();
    return result;
}

static CUresult CUDAAPI handle_cuMemAddressFree(CUdeviceptr address, size_t size) {
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    gm_suspendable_lock_shared();
    if (gm_handles_in(address, size) == GM_HANDLES_PRESENT)
        result = next_cuMemAddressFree(address, size);
    gm_suspendable_unlock_shared();
    return result;
}

/* ---- tiles of arrays: the tokens are translated in a copy of the list */

static bool names_token(const CUarrayMapInfo *info) {
    return info->memHandleType == CU_MEM_HANDLE_TYPE_GENERIC && gm_is_token(info->memHandle.memHandle);
}

static CUresult map_array(__typeof__(&cuMemMapArrayAsync) next, CUarrayMapInfo *list, unsigned count, CUstream stream) {
    unsigned tokens = 0;
    for (unsigned i = 0; list && i < count; i++)
        tokens += names_token(&list[i]);
    if (!tokens)
        return PASSED_WITH_TRIM(next(list, count, stream));
    CUarrayMapInfo *copy = gm_pages(count * sizeof *copy);
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(copy, list, count * sizeof *copy);
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; !result && i < count; i++) {
        if (!names_token(&copy[i]))
            continue;
        struct gm_handle *handle = handle_that_stays(copy[i].memHandle.memHandle, "mapped into an array", &result);
        if (handle) {
            copy[i].memHandle.memHandle = handle->extent.handle;
            done_with(handle);
            result = CUDA_SUCCESS;
        }
    }
    if (!result)
        result = PASSED_WITH_TRIM(next(copy, count, stream));
    munmap(copy, count * sizeof *copy);
    return result;
}

static CUresult CUDAAPI handle_cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned count, CUstream stream) {
    return map_array(next_cuMemMapArrayAsync, list, count, stream);
}
static CUresult CUDAAPI handle_cuMemMapArrayAsync_ptsz(CUarrayMapInfo *list, unsigned count, CUstream stream) {
    return map_array(next_cuMemMapArrayAsync_ptsz, list, count, stream);
}

/* ---- start */

#define START_STANDS(symbol)                                                  \
    if (gm_real.symbol) {                                                     \
        next_##symbol = gm_real.symbol;                                       \
        __atomic_store_n(&gm_real.symbol, handle_##symbol, __ATOMIC_RELEASE); \
    }
#define START_DIVERTS(symbol) gm_call_divert(GM_AT_##symbol, (void *)handle_##symbol, (void **)&next_##symbol);
#define START_NATIVE(symbol)

void gm_handles_start(void) {
    if (!gm_suspend_is_on())
        return;
#define X(symbol, how, why) START_##how(symbol)
    GM_HANDLE_CALLS(X)
#undef X
}

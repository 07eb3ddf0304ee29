/* Hooks of pinned and registered host memory. It is recorded and never moved. */
#include "shim/hook/hook.h"

MAKES(cuMemAllocHost_v2, (void **address, size_t size), (address, size), GM_CALL_ALLOC_HOST, size, GM_KIND_HOST,
      *address, GM_SYNC_HOST_MEMORY, WITH_TRIM)
MAKES(cuMemHostAlloc, (void **address, size_t size, unsigned flags), (address, size, flags), GM_CALL_HOST_ALLOC, size,
      GM_KIND_HOST, *address, GM_SYNC_HOST_MEMORY, WITH_TRIM)
MAKES(cuMemHostRegister, (void *address, size_t size, unsigned flags), (address, size, flags), GM_CALL_HOST_REGISTER,
      size, GM_KIND_HOST, address, GM_SYNC_HOST_MEMORY, WITH_TRIM)
MAKES(cuMemHostRegister_v2, (void *address, size_t size, unsigned flags), (address, size, flags), GM_CALL_HOST_REGISTER,
      size, GM_KIND_HOST, address, GM_SYNC_HOST_MEMORY, WITH_TRIM)

FREES(cuMemFreeHost, void *, GM_CALL_FREE_HOST, true)
FREES(cuMemHostUnregister, void *, GM_CALL_HOST_UNREGISTER, true)

/* Hooks of work that lets the host, other devices or other interfaces observe what the device does, or makes streams
 * wait for them. Such work is not recorded, but it decides what a free has to wait for (shim/driver/free_sync.h). */
#include "shim/driver/free_sync.h"
#include "shim/hook/hook.h"

#define LIST(...) __VA_ARGS__
#define WAITS(symbol, reason, parameters, arguments) \
    HOOK(symbol, LIST parameters) {                  \
        ENTER(symbol, LIST arguments);               \
        gm_free_sync_note(reason);                   \
        LEAVE(gm_real.symbol arguments);             \
    }

#define VALUE(symbol, type)                                                                           \
    WAITS(symbol, GM_SYNC_VALUES, (CUstream stream, CUdeviceptr address, type value, unsigned flags), \
          (stream, address, value, flags))
VALUE(cuStreamWaitValue32, cuuint32_t)
VALUE(cuStreamWaitValue32_ptsz, cuuint32_t)
VALUE(cuStreamWaitValue32_v2, cuuint32_t)
VALUE(cuStreamWaitValue32_v2_ptsz, cuuint32_t)
VALUE(cuStreamWaitValue64, cuuint64_t)
VALUE(cuStreamWaitValue64_ptsz, cuuint64_t)
VALUE(cuStreamWaitValue64_v2, cuuint64_t)
VALUE(cuStreamWaitValue64_v2_ptsz, cuuint64_t)

#define BATCH(symbol)                                                                                                \
    WAITS(symbol, GM_SYNC_VALUES, (CUstream stream, unsigned count, CUstreamBatchMemOpParams *rows, unsigned flags), \
          (stream, count, rows, flags))
BATCH(cuStreamBatchMemOp)
BATCH(cuStreamBatchMemOp_ptsz)
BATCH(cuStreamBatchMemOp_v2)
BATCH(cuStreamBatchMemOp_v2_ptsz)

#define SEMAPHORES                                                                                           \
    (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *rows, unsigned count, \
     CUstream stream)
WAITS(cuWaitExternalSemaphoresAsync, GM_SYNC_SEMAPHORES, SEMAPHORES, (semaphores, rows, count, stream))
WAITS(cuWaitExternalSemaphoresAsync_ptsz, GM_SYNC_SEMAPHORES, SEMAPHORES, (semaphores, rows, count, stream))

WAITS(cuLaunchHostFunc, GM_SYNC_HOST_FUNCTION, (CUstream stream, CUhostFn function, void *data),
      (stream, function, data))
WAITS(cuLaunchHostFunc_ptsz, GM_SYNC_HOST_FUNCTION, (CUstream stream, CUhostFn function, void *data),
      (stream, function, data))
#define CALLBACK (CUstream stream, CUstreamCallback function, void *data, unsigned flags)
WAITS(cuStreamAddCallback, GM_SYNC_HOST_FUNCTION, CALLBACK, (stream, function, data, flags))
WAITS(cuStreamAddCallback_ptsz, GM_SYNC_HOST_FUNCTION, CALLBACK, (stream, function, data, flags))

#define NODE(symbol, reason, type)                                                                                    \
    WAITS(symbol, reason,                                                                                             \
          (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const type *parameters), \
          (node, graph, dependencies, count, parameters))
NODE(cuGraphAddBatchMemOpNode, GM_SYNC_VALUES, CUDA_BATCH_MEM_OP_NODE_PARAMS)
NODE(cuGraphAddHostNode, GM_SYNC_HOST_FUNCTION, CUDA_HOST_NODE_PARAMS)
NODE(cuGraphAddExternalSemaphoresWaitNode, GM_SYNC_SEMAPHORES, CUDA_EXT_SEM_WAIT_NODE_PARAMS)

/* Copies in a batch may read and write host memory of any kind in stream order. */
#define COPIES                                                                                            \
    (CUdeviceptr * to, CUdeviceptr * from, size_t * sizes, size_t count, CUmemcpyAttributes * attributes, \
     size_t * indices, size_t attribute_count, size_t * failed, CUstream stream)
#define COPIES_V2                                                                                         \
    (CUdeviceptr * to, CUdeviceptr * from, size_t * sizes, size_t count, CUmemcpyAttributes * attributes, \
     size_t * indices, size_t attribute_count, CUstream stream)
WAITS(cuMemcpyBatchAsync, GM_SYNC_HOST_MEMORY, COPIES,
      (to, from, sizes, count, attributes, indices, attribute_count, failed, stream))
WAITS(cuMemcpyBatchAsync_ptsz, GM_SYNC_HOST_MEMORY, COPIES,
      (to, from, sizes, count, attributes, indices, attribute_count, failed, stream))
WAITS(cuMemcpyBatchAsync_v2, GM_SYNC_HOST_MEMORY, COPIES_V2,
      (to, from, sizes, count, attributes, indices, attribute_count, stream))
WAITS(cuMemcpyBatchAsync_v2_ptsz, GM_SYNC_HOST_MEMORY, COPIES_V2,
      (to, from, sizes, count, attributes, indices, attribute_count, stream))
#define VOLUMES \
    (size_t count, CUDA_MEMCPY3D_BATCH_OP * rows, size_t * failed, unsigned long long flags, CUstream stream)
#define VOLUMES_V2 (size_t count, CUDA_MEMCPY3D_BATCH_OP * rows, unsigned long long flags, CUstream stream)
WAITS(cuMemcpy3DBatchAsync, GM_SYNC_HOST_MEMORY, VOLUMES, (count, rows, failed, flags, stream))
WAITS(cuMemcpy3DBatchAsync_ptsz, GM_SYNC_HOST_MEMORY, VOLUMES, (count, rows, failed, flags, stream))
WAITS(cuMemcpy3DBatchAsync_v2, GM_SYNC_HOST_MEMORY, VOLUMES_V2, (count, rows, flags, stream))
WAITS(cuMemcpy3DBatchAsync_v2_ptsz, GM_SYNC_HOST_MEMORY, VOLUMES_V2, (count, rows, flags, stream))

/* Other interfaces of the device (graphics, for instance) see memory that they share. */
WAITS(cuImportExternalMemory, GM_SYNC_EXTERNAL,
      (CUexternalMemory * memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handle), (memory, handle))
WAITS(cuImportExternalSemaphore, GM_SYNC_EXTERNAL,
      (CUexternalSemaphore * semaphore, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *handle), (semaphore, handle))
#define RESOURCES (unsigned count, CUgraphicsResource *resources, CUstream stream)
WAITS(cuGraphicsMapResources, GM_SYNC_EXTERNAL, RESOURCES, (count, resources, stream))
WAITS(cuGraphicsMapResources_ptsz, GM_SYNC_EXTERNAL, RESOURCES, (count, resources, stream))

/* Pools that are not of device memory. */
#define DEFAULT_POOL (CUmemoryPool * pool, CUmemLocation * location, CUmemAllocationType type)
#define OF_HOST(location, type) \
    ((location) && ((location)->type != CU_MEM_LOCATION_TYPE_DEVICE || (type) != CU_MEM_ALLOCATION_TYPE_PINNED))
#define POOL_OF(symbol)                              \
    HOOK(symbol, LIST DEFAULT_POOL) {                \
        ENTER(symbol, pool, location, type);         \
        if (OF_HOST(location, type))                 \
            gm_free_sync_note(GM_SYNC_HOST_MEMORY);  \
        LEAVE(gm_real.symbol(pool, location, type)); \
    }
POOL_OF(cuMemGetDefaultMemPool)
POOL_OF(cuMemGetMemPool)

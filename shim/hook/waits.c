/* Streams that wait for something else than streams. Nothing is recorded of them; where the device waits for fences, they end that. */
#include "shim/driver/device_wait.h"
#include "shim/hook/hook.h"

#define LIST(...) __VA_ARGS__
#define WAITS(symbol, enemy, parameters, arguments)                                                          \
    HOOK(symbol, LIST parameters) {                                                                          \
        ENTER(symbol, LIST arguments);                                                                       \
        gm_device_wait_refuse(enemy);                                                                        \
        LEAVE(gm_true.symbol arguments);                                                                     \
    }

#define VALUE(symbol, type)                                                                                  \
    WAITS(symbol, GM_ENEMY_VALUES, (CUstream stream, CUdeviceptr address, type value, unsigned flags), (stream, address, value, flags))
VALUE(cuStreamWaitValue32, cuuint32_t)
VALUE(cuStreamWaitValue32_ptsz, cuuint32_t)
VALUE(cuStreamWaitValue32_v2, cuuint32_t)
VALUE(cuStreamWaitValue32_v2_ptsz, cuuint32_t)
VALUE(cuStreamWaitValue64, cuuint64_t)
VALUE(cuStreamWaitValue64_ptsz, cuuint64_t)
VALUE(cuStreamWaitValue64_v2, cuuint64_t)
VALUE(cuStreamWaitValue64_v2_ptsz, cuuint64_t)

#define BATCH(symbol)                                                                                        \
    WAITS(symbol, GM_ENEMY_VALUES, (CUstream stream, unsigned count, CUstreamBatchMemOpParams *rows, unsigned flags), \
          (stream, count, rows, flags))
BATCH(cuStreamBatchMemOp)
BATCH(cuStreamBatchMemOp_ptsz)
BATCH(cuStreamBatchMemOp_v2)
BATCH(cuStreamBatchMemOp_v2_ptsz)

#define SEMAPHORES                                                                                           \
    (const CUexternalSemaphore *semaphores, const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *rows, unsigned count, CUstream stream)
WAITS(cuWaitExternalSemaphoresAsync, GM_ENEMY_SEMAPHORES, SEMAPHORES, (semaphores, rows, count, stream))
WAITS(cuWaitExternalSemaphoresAsync_ptsz, GM_ENEMY_SEMAPHORES, SEMAPHORES, (semaphores, rows, count, stream))

WAITS(cuLaunchHostFunc, GM_ENEMY_HOST, (CUstream stream, CUhostFn function, void *data), (stream, function, data))
WAITS(cuLaunchHostFunc_ptsz, GM_ENEMY_HOST, (CUstream stream, CUhostFn function, void *data), (stream, function, data))
#define CALLBACK (CUstream stream, CUstreamCallback function, void *data, unsigned flags)
WAITS(cuStreamAddCallback, GM_ENEMY_HOST, CALLBACK, (stream, function, data, flags))
WAITS(cuStreamAddCallback_ptsz, GM_ENEMY_HOST, CALLBACK, (stream, function, data, flags))

#define NODE(symbol, enemy, type)                                                                            \
    WAITS(symbol, enemy, (CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, const type *parameters), \
          (node, graph, dependencies, count, parameters))
NODE(cuGraphAddBatchMemOpNode, GM_ENEMY_VALUES, CUDA_BATCH_MEM_OP_NODE_PARAMS)
NODE(cuGraphAddHostNode, GM_ENEMY_HOST, CUDA_HOST_NODE_PARAMS)
NODE(cuGraphAddExternalSemaphoresWaitNode, GM_ENEMY_SEMAPHORES, CUDA_EXT_SEM_WAIT_NODE_PARAMS)

/* Broadcasts between devices by NCCL. Its library is opened when it is first needed: the named one, or
 * "libnccl.so.2", or the one of the CUDA toolkit. */
#ifndef SPG_NCCL_H
#define SPG_NCCL_H

#include "spgemm/matrix.h"

#include <cuda_runtime_api.h>

#define SPG_NCCL_ID 128 /* bytes of the number that all processes of a communicator share */

/* Whether the library is there. name NULL: the usual one; "": it is not used. The first one that is found stays.
 * `error` says why there is none. Call it before all others. */
bool spg_nccl_open(const char *name, struct spg_error *error);
bool spg_nccl_id(void *id, struct spg_error *error);

/* One device's place in a communicator. */
struct spg_nccl_place {
    int device;
    cudaStream_t stream; /* of the device */
    void *communicator;  /* NULL: not joined */
};
/* Makes the communicator of `total` places over all processes; this process has places `first` to first + count - 1.
 * Waits for the other processes. After a failure all places are left again. */
bool spg_nccl_join(struct spg_nccl_place *places, int count, int first, int total, const void *id,
                   struct spg_error *error);
void spg_nccl_leave(struct spg_nccl_place *places, int count);

/* Starts a broadcast from place 0 of all. at[i] is the memory of places[i], of at least `size` bytes. */
bool spg_nccl_broadcast(const struct spg_nccl_place *places, int count, void *const *at, size_t size,
                        struct spg_error *error);
/* Starts to replace number *at[i] by the largest of all places. */
bool spg_nccl_largest(const struct spg_nccl_place *places, int count, int32_t *const *at, struct spg_error *error);

#endif

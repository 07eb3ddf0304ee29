#include "spgemm/nccl.h"
#include "spgemm/gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* As nccl.h declares them; the header is not part of every CUDA toolkit. */
typedef struct ncclComm *ncclComm_t;
typedef struct {
    char bytes[SPG_NCCL_ID];
} ncclUniqueId;
enum { NCCL_BYTES = 0, NCCL_INT32 = 2, NCCL_MAX = 2 };

#define LIBRARY "libnccl.so.2"

static struct {
    bool there;
    int (*ncclGetUniqueId)(ncclUniqueId *);
    int (*ncclCommInitRank)(ncclComm_t *, int, ncclUniqueId, int);
    int (*ncclCommDestroy)(ncclComm_t);
    int (*ncclBroadcast)(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
    int (*ncclAllReduce)(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
    int (*ncclGroupStart)(void);
    int (*ncclGroupEnd)(void);
    const char *(*ncclGetErrorString)(int);
} nccl;

static bool find(void *library, const char *name, void *function) {
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static void *open_library(const char *name, struct spg_error *error) {
    void *library = dlopen(name ? name : LIBRARY, RTLD_NOW | RTLD_LOCAL);
    /* The folder of the toolkit is often not in the loader's search path. */
    if (!library && !name)
        library = dlopen(SPG_CUDA_LIBRARIES "/" LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        spg_fail_as(error, SPG_NOT_SUPPORTED, "no NCCL: %s", dlerror());
    return library;
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

static bool open_once(const char *name, struct spg_error *error) {
    if (name && !*name)
        return spg_fail_as(error, SPG_NOT_SUPPORTED, "NCCL is switched off");
    if (nccl.there)
        return true;
    void *library = open_library(name, error);
    if (!library)
        return false;
#define FIND(name) find(library, #name, &nccl.name)
    nccl.there = FIND(ncclGetUniqueId) && FIND(ncclCommInitRank) && FIND(ncclCommDestroy) && FIND(ncclBroadcast) &&
                 FIND(ncclAllReduce) && FIND(ncclGroupStart) && FIND(ncclGroupEnd) && FIND(ncclGetErrorString);
    if (nccl.there)
        return true;
    dlclose(library);
    return spg_fail_as(error, SPG_NOT_SUPPORTED, "NCCL is too old");
}

bool spg_nccl_open(const char *name, struct spg_error *error) {
    pthread_mutex_lock(&opening);
    bool there = open_once(name, error);
    pthread_mutex_unlock(&opening);
    return there;
}

static bool worked(int status, const char *what, struct spg_error *error) {
    return !status || spg_fail(error, "%s: NCCL: %s", what, nccl.ncclGetErrorString(status));
}

bool spg_nccl_id(void *id, struct spg_error *error) {
    ncclUniqueId made;
    if (!worked(nccl.ncclGetUniqueId(&made), "an id", error))
        return false;
    memcpy(id, &made, sizeof made);
    return true;
}

/* A group that was started must be ended, also after a failure. */
static bool ended(bool good, const char *what, struct spg_error *error) {
    int status = nccl.ncclGroupEnd();
    return good && worked(status, what, error);
}

bool spg_nccl_join(struct spg_nccl_place *places, int count, int first, int total, const void *id,
                   struct spg_error *error) {
    ncclUniqueId shared;
    memcpy(&shared, id, sizeof shared);
    bool good = worked(nccl.ncclGroupStart(), "a communicator", error);
    if (!good)
        return false;
    for (int i = 0; good && i < count; i++)
        good = spg_cuda(cudaSetDevice(places[i].device), "a device", error) &&
               worked(nccl.ncclCommInitRank((ncclComm_t *)&places[i].communicator, total, shared, first + i),
                      "a communicator", error);
    good = ended(good, "a communicator", error);
    if (!good)
        spg_nccl_leave(places, count);
    return good;
}

void spg_nccl_leave(struct spg_nccl_place *places, int count) {
    for (int i = 0; i < count; i++) {
        if (places[i].communicator)
            nccl.ncclCommDestroy(places[i].communicator);
        places[i].communicator = NULL;
    }
}

bool spg_nccl_broadcast(const struct spg_nccl_place *places, int count, void *const *at, size_t size,
                        struct spg_error *error) {
    bool good = worked(nccl.ncclGroupStart(), "broadcast", error);
    if (!good)
        return false;
    for (int i = 0; good && i < count; i++)
        good = worked(nccl.ncclBroadcast(at[i], at[i], size, NCCL_BYTES, 0, places[i].communicator, places[i].stream),
                      "broadcast", error);
    return ended(good, "broadcast", error);
}

bool spg_nccl_largest(const struct spg_nccl_place *places, int count, int32_t *const *at, struct spg_error *error) {
    bool good = worked(nccl.ncclGroupStart(), "agreement", error);
    if (!good)
        return false;
    for (int i = 0; good && i < count; i++)
        good =
            worked(nccl.ncclAllReduce(at[i], at[i], 1, NCCL_INT32, NCCL_MAX, places[i].communicator, places[i].stream),
                   "agreement", error);
    return ended(good, "agreement", error);
}

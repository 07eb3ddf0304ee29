#include "shim/driver/program_pools.h"

#include "shim/base/base.h"

enum { POOLS = 256 };

static struct {
    CUmemoryPool pool; /* NULL: unused */
    int device;
} pools[POOLS];
GM_ZERO_IN_CHILD(pools);
GM_LOCK(lock);
static int users; /* threads that ask about pools now */
GM_ZERO_IN_CHILD(users);

void gm_program_pool_made(CUmemoryPool pool, int device) {
    unsigned at = 0;
    gm_spin_lock(&lock);
    while (at < POOLS && pools[at].pool)
        at++;
    if (at < POOLS) {
        pools[at].device = device;
        pools[at].pool = pool;
    }
    gm_spin_unlock(&lock);
}

int gm_program_pool_ending(CUmemoryPool pool) {
    int device = -1;
    gm_spin_lock(&lock);
    for (unsigned i = 0; i < POOLS; i++)
        if (pools[i].pool == pool) {
            device = pools[i].device;
            pools[i].pool = NULL;
        }
    gm_spin_unlock(&lock);
    gm_wait_for_users(&users);
    return device;
}

/* The pool at `at`, or the next one of the device; NULL: there is none. The caller is a user. */
static CUmemoryPool next_of(int device, unsigned *at) {
    CUmemoryPool found = NULL;
    gm_spin_lock(&lock);
    for (; *at < POOLS && !found; ++*at)
        if (pools[*at].device == device)
            found = pools[*at].pool;
    gm_spin_unlock(&lock);
    return found;
}

void gm_program_pools_each(int device, void (*visit)(CUmemoryPool pool, bool is_default, void *arg), void *arg) {
    CUmemoryPool pool;
    if (gm_drv.device_get_default_mem_pool && gm_drv.device_get_default_mem_pool(&pool, device) == CUDA_SUCCESS)
        visit(pool, true, arg);
    __atomic_add_fetch(&users, 1, __ATOMIC_SEQ_CST);
    for (unsigned at = 0; (pool = next_of(device, &at));)
        visit(pool, false, arg);
    __atomic_sub_fetch(&users, 1, __ATOMIC_SEQ_CST);
}

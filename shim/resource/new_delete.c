/* Resource "new-delete": host memory from the program's operator new and operator delete. A program without C++ has
 * neither; malloc and free serve then. The memory needs no device, no context and no driver. */
#include <dlfcn.h>
#include <stdlib.h>

#include "shim/base/base.h"
#include "shim/base/real_dl.h"
#include "shim/resource/block.h"
#include "shim/resource/rows.h"

typedef void *(*new_function)(size_t size, const void *nothrow);

/* Both are found together, once: memory must go back to where it came from. */
static struct {
    new_function allocate; /* operator new(size_t, nothrow_t const &); NULL: malloc */
    void (*release)(void *);
    const void *nothrow;
    int found;
} functions;
GM_LOCK(lock); /* for the first thread that found them */

/* The loader is called without the lock: a thread that holds the loader's locks may wait for it. */
static void find_functions(void) {
    new_function allocate = (new_function)gm_real_dlsym(RTLD_DEFAULT, "_ZnwmRKSt9nothrow_t");
    void (*release)(void *) = (void (*)(void *))gm_real_dlsym(RTLD_DEFAULT, "_ZdlPv");
    const void *nothrow = gm_real_dlsym(RTLD_DEFAULT, "_ZSt7nothrow");
    bool both = allocate && release && nothrow;
    gm_spin_lock(&lock);
    if (!functions.found) {
        functions.nothrow = nothrow;
        functions.allocate = both ? allocate : NULL;
        functions.release = both ? release : free;
        __atomic_store_n(&functions.found, 1, __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&lock);
}

static gm_status new_delete_alloc(struct gm_resource *self, const struct gm_request *request,
                                  const struct gm_decision *decision, struct gm_block *block) {
    if (request->call != GM_CALL_ALLOC || !request->size)
        return GM_NOT_SUPPORTED;
    if (GM_UNLIKELY(!__atomic_load_n(&functions.found, __ATOMIC_ACQUIRE)))
        find_functions();
    void *memory = request->size > PTRDIFF_MAX ? NULL
                   : functions.allocate        ? functions.allocate(request->size, functions.nothrow)
                                               : malloc(request->size);
    if (!memory)
        return GM_OUT_OF_MEMORY;
    gm_block_fill(block, self, request,
                  &(struct gm_piece){.address = (uint64_t)(uintptr_t)memory, .reserved = request->size});
    return GM_OK;
}

static gm_status new_delete_free(struct gm_resource *self, const struct gm_block *block,
                                 const struct gm_free_request *how) {
    functions.release((void *)(uintptr_t)block->address);
    return GM_OK;
}

const struct gm_resource_ops gm_resource_new_delete = {
    .name = "new-delete",
    .summary = "host memory, operator new and operator delete of the program",
    .properties = GM_PROP_HOST_ACCESSIBLE | GM_PROP_OVERSUBSCRIBABLE | GM_PROP_HOST_STORAGE | GM_PROP_READY_ANYWHERE,
    .breaks = "no device accesses it; a free waits for nothing",
    .kind = GM_KIND_HOST,
    .alignment = 4,
    .alloc = new_delete_alloc,
    .free = new_delete_free,
};

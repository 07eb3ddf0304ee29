/* Resource "new-delete" in a program with operator new and operator delete of its own. They are named as a C++ compiler
 * names them. */
#include <stdlib.h>

#include "shim/gpumem_resource.h"

static int made, released;

#define VISIBLE __attribute__((visibility("default")))

VISIBLE void *_ZnwmRKSt9nothrow_t(size_t size, const void *nothrow);
VISIBLE void _ZdlPv(void *memory);
VISIBLE const char _ZSt7nothrow;

void *_ZnwmRKSt9nothrow_t(size_t size, const void *nothrow) {
    made++;
    return size > 1 << 20 ? NULL : malloc(size);
}

void _ZdlPv(void *memory) {
    released++;
    free(memory);
}

int main(void) {
    struct gpumem_resource *resource;
    void *memory, *aligned, *none = NULL;
    if (gpumem_resource_create("new-delete", &resource) || gpumem_resource_allocate(resource, 100, 16, &memory) ||
        gpumem_resource_allocate(resource, 100, 4096, &aligned))
        return 1;
    if (made != 2 || released || (size_t)aligned % 4096)
        return 2;
    if (gpumem_resource_allocate(resource, 2 << 20, 16, &none) != GPUMEM_OUT_OF_MEMORY || none || made != 3)
        return 3;
    if (gpumem_resource_deallocate(resource, memory, 100, 16) ||
        gpumem_resource_deallocate(resource, aligned, 100, 4096) || released != 2)
        return 4;
    return gpumem_resource_destroy(resource) ? 5 : 0;
}

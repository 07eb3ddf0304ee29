/* Short forms of the calls of gpumem_resource.h: each succeeds or fails the test. */
#ifndef PUBLIC_H
#define PUBLIC_H

#include "shim/pipeline/pipeline.h"
#include "shim/gpumem_resource.h"
#include "world.h"

#define BYTES ((size_t)65536)

#define OK(call)                                                                         \
    do {                                                                                 \
        enum gpumem_status ok_ = (call);                                                 \
        if (ok_ != GPUMEM_OK)                                                            \
            fail_msg("%s: %s: %s", #call, gpumem_status_name(ok_), gpumem_last_error()); \
    } while (0)

static inline struct gpumem_resource *create(const char *text) {
    struct gpumem_resource *resource = NULL;
    OK(gpumem_resource_create(text, &resource));
    return resource;
}

static inline void *must_get(struct gpumem_resource *resource, size_t bytes) {
    void *memory = NULL;
    OK(gpumem_resource_allocate(resource, bytes, 16, &memory));
    assert_non_null(memory);
    return memory;
}

static inline void must_put(struct gpumem_resource *resource, void *memory, size_t bytes) {
    OK(gpumem_resource_deallocate(resource, memory, bytes, 16));
}

static inline struct gpumem_resource_info info_of(const struct gpumem_resource *resource) {
    struct gpumem_resource_info info = {.struct_size = sizeof info};
    OK(gpumem_resource_get_info(resource, &info));
    return info;
}

#endif

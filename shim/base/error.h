/* Shared by the public calls of gpumem.h: the text of gpumem_last_error(), and access to structs that carry their own
 * size. */
#ifndef GM_BASE_ERROR_H
#define GM_BASE_ERROR_H

#include "shim/base/base.h"
#include "policy/policy.h"

/* Stores the text for the calling thread and returns `status`. */
GM_INTERNAL gm_status gm_fail(gm_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes a one-line error, and returns GM_INVALID_VALUE. */
GM_INTERNAL gm_status gm_refuse(char *error, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Whether the text says why a resource failed: an author's function stored it (gpumem_resource_fail), or an adaptor.
 * Set and read by the calls around it. */
GM_INTERNAL bool *gm_error_by_author(void);

/* First lines of a public call: end it with GM_INVALID_VALUE where a pointer is NULL that must not be; an array only
 * where it has elements. */
#define GM_NEED_AS(pointer, name)                                               \
    do {                                                                        \
        if (GM_UNLIKELY(!(pointer)))                                            \
            return gm_fail(GM_INVALID_VALUE, "%s: %s is NULL", __func__, name); \
    } while (0)
#define GM_NEED(pointer)            GM_NEED_AS(pointer, #pointer)
#define GM_NEED_ARRAY(array, count) GM_NEED_AS((array) || !(count), #array)

/* A caller's struct begins with its size (size_t). This may be the size in an older or newer version of gpumem. `name`
 * is the struct's name for the error text. Where one side has no field, the field counts as 0.
 *
 * gm_struct_read copies *theirs to *ours, which has `size` bytes. GM_NOT_SUPPORTED: a field that only the caller knows
 * is not 0.
 *
 * gm_struct_write copies *ours to *theirs and zeroes the fields that only the caller knows. It does not change the
 * caller's size. */
GM_INTERNAL gm_status gm_struct_read(const char *name, void *ours, size_t size, const void *theirs);
GM_INTERNAL gm_status gm_struct_write(const char *name, void *theirs, const void *ours, size_t size);

#endif

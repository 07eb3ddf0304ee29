/* What the public calls share: the text of gpumem_last_error(), and structs that carry their own size. */
#ifndef GM_BASE_ERROR_H
#define GM_BASE_ERROR_H

#include "shim/base/base.h"
#include "policy/policy.h"

/* Keeps the text for the calling thread and returns `status`. */
GM_INTERNAL gm_status gm_fail(gm_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A struct of a caller begins with its size (size_t), which may be that of an older or newer version than the struct
 * here. `name` stands in the error. Both compare with zeroed fields where one side has none.
 *
 * read: copies *theirs to *ours, `size` bytes; GM_NOT_SUPPORTED when a field beyond is not 0.
 * write: copies *ours to *theirs and zeroes what is beyond; leaves the caller's size. */
GM_INTERNAL gm_status gm_struct_read(const char *name, void *ours, size_t size, const void *theirs);
GM_INTERNAL gm_status gm_struct_write(const char *name, void *theirs, const void *ours, size_t size);

#endif

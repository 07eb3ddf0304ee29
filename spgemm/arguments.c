#include "spgemm/arguments.h"

#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[sizeof((struct spg_error *)0)->text];

__attribute__((visibility("default"))) const char *gpumem_spgemm_last_error(void) { return last_error; }

enum gpumem_status spg_failed(const struct spg_error *error) {
    snprintf(last_error, sizeof last_error, "%s", error->text);
    return error->status ? (enum gpumem_status)error->status : GPUMEM_UNKNOWN;
}

bool spg_given(const void *pointer, const char *name, struct spg_error *error) {
    return pointer || spg_fail_as(error, GPUMEM_INVALID_VALUE, "%s is NULL", name);
}

#define STRUCT_MOST 4096

bool spg_struct_size(const char *name, const void *theirs, size_t *size, struct spg_error *error) {
    if (!theirs)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "struct %s is NULL", name);
    memcpy(size, theirs, sizeof *size);
    return (*size >= sizeof *size && *size <= STRUCT_MOST) ||
           spg_fail_as(error, GPUMEM_INVALID_VALUE, "struct %s has struct_size %zu: set it to sizeof(struct %s)", name,
                       *size, name);
}

bool spg_struct_read(const char *name, void *ours, size_t size, const void *theirs, struct spg_error *error) {
    size_t their_size;
    if (!spg_struct_size(name, theirs, &their_size, error))
        return false;
    for (size_t at = size; at < their_size; at++)
        if (((const char *)theirs)[at])
            return spg_fail_as(error, GPUMEM_NOT_SUPPORTED,
                               "struct %s has a field at byte %zu that this version does not know (it knows %zu bytes)",
                               name, at, size);
    memset(ours, 0, size);
    memcpy(ours, theirs, their_size < size ? their_size : size);
    return true;
}

void spg_struct_write(void *theirs, const void *ours, size_t size) {
    size_t their_size, head = sizeof their_size;
    memcpy(&their_size, theirs, sizeof their_size);
    memset((char *)theirs + head, 0, their_size - head);
    memcpy((char *)theirs + head, (const char *)ours + head, (their_size < size ? their_size : size) - head);
}

bool spg_read_csr(const char *name, struct gpumem_spgemm_csr *ours, const struct gpumem_spgemm_csr *theirs,
                  unsigned accepts, struct spg_error *error) {
    if (!spg_given(theirs, name, error) || !spg_struct_read("gpumem_spgemm_csr", ours, sizeof *ours, theirs, error))
        return false;
    if (ours->rows < 0 || ours->columns < 0 || ours->stored < 0)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "%s is %lld x %lld with %lld entries", name,
                           (long long)ours->rows, (long long)ours->columns, (long long)ours->stored);
    if (ours->rows > SPG_ROWS_MAX || ours->columns > SPG_ROWS_MAX)
        return spg_fail_as(error, GPUMEM_NOT_SUPPORTED, "%s is %lld x %lld, and 32-bit indices end at %d", name,
                           (long long)ours->rows, (long long)ours->columns, SPG_ROWS_MAX);
    if (ours->wide_offsets && !(accepts & SPG_READ_WIDE))
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "%s has 64-bit offsets, which need GPUMEM_SPGEMM_WIDE", name);
    if (ours->wide_offsets && ours->offsets)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "%s has both 32-bit and 64-bit offsets", name);
    if (!ours->wide_offsets && ours->stored > INT32_MAX - SPG_STEP_MAX)
        return spg_fail_as(error, GPUMEM_NOT_SUPPORTED, "%s has %lld entries, and 32-bit offsets end at %d", name,
                           (long long)ours->stored, INT32_MAX - SPG_STEP_MAX);
    if (ours->operation > GPUMEM_SPGEMM_CONJUGATE)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE,
                           "%s has operation %llu, not 0 (plain), 1 (transposed) or 2 (conjugate transposed)", name,
                           (unsigned long long)ours->operation);
    bool has_values = ours->values || (accepts & SPG_READ_PATTERN);
    bool has_offsets = ours->offsets || ours->wide_offsets;
    if ((accepts & SPG_READ_ARRAYS) && (!has_offsets || (ours->stored && (!ours->indices || !has_values))))
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "%s has %lld entries, and an array is NULL", name,
                           (long long)ours->stored);
    return true;
}

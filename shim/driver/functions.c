#include "shim/driver/functions.h"

#include "shim/driver/driver.h"

static void find_all(struct gm_driver_functions *functions) {
    const char *row = functions->rows;
    for (unsigned i = 0; i < functions->count; i++, row += functions->row_bytes)
        __atomic_store_n(&functions->addresses[i], gm_driver_symbol(*(const char *const *)row), __ATOMIC_RELAXED);
    __atomic_store_n(&functions->known, true, __ATOMIC_RELEASE);
}

int gm_driver_function_row(struct gm_driver_functions *functions, const void *function) {
    if (!__atomic_load_n(&functions->known, __ATOMIC_ACQUIRE))
        find_all(functions);
    for (unsigned i = 0; i < functions->count; i++)
        if (__atomic_load_n(&functions->addresses[i], __ATOMIC_RELAXED) == function)
            return (int)i;
    return -1;
}

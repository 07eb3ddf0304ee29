/* Functions of the driver that a table names: a look-up finds out which row an address belongs to. */
#ifndef GM_DRIVER_FUNCTIONS_H
#define GM_DRIVER_FUNCTIONS_H

#include <stddef.h>

#include "shim/base/base.h"

struct gm_driver_functions {
    const void *rows; /* each begins with the name of its function */
    size_t row_bytes;
    unsigned count;
    void **addresses; /* of each row; NULL: the driver lacks it */
    bool known;       /* the addresses are complete */
};

/* At file scope; `table` is an array of rows. */
#define GM_DRIVER_FUNCTIONS(table)                                                        \
    {                                                                                     \
        .rows = table, .row_bytes = sizeof *table, .count = sizeof table / sizeof *table, \
        .addresses = (void * [sizeof table / sizeof *table]){0},                          \
    }

/* The row of the function, or -1. Safe from any thread. It takes no lock, because the loader, which finds the
 * addresses, takes its own: threads that find them at the same time store the same values. */
GM_INTERNAL int gm_driver_function_row(struct gm_driver_functions *functions, const void *function);

#endif

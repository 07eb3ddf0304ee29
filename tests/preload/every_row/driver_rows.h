/* What a test asks of the driver with every row (driver_rows.c). */
#ifndef PRELOAD_DRIVER_ROWS_H
#define PRELOAD_DRIVER_ROWS_H

#include <stdint.h>

enum { ROWS_FIRST = 2 /* CUDA_ERROR_OUT_OF_MEMORY */, ROWS_LATER = 999, ROWS_WORDS = 16 };

/* The calls of functions that the simulated driver lacks, and the arguments of the last one. */
struct rows_seen {
    unsigned calls;
    uint64_t words[ROWS_WORDS];
    double numbers[2];
};
typedef struct rows_seen *rows_arm_function(void);

/* Functions of this driver that have no row. */
typedef int rows_wide(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                      uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, double, double);
typedef int rows_caller(void (*)(void *), void *);

#endif

#ifndef GM_SORT_H
#define GM_SORT_H

#include <stdlib.h>

/* As qsort, for an array that is NULL while it is empty, too. */
static inline void gm_sort(void *array, size_t count, size_t size, int (*compare)(const void *, const void *)) {
    if (count > 1)
        qsort(array, count, size, compare);
}

#endif

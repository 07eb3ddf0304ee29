#include "places/runtime.h"

#include <execinfo.h>
#include <link.h>
#include <stdio.h>

/* The program's own entry is the first that the loader names. */
static int own_base(struct dl_phdr_info *info, size_t size, void *base) {
    *(unsigned long *)base = info->dlpi_addr;
    return size != 0;
}

/* Prints the return addresses above it, as the hook of a driver function finds them. */
static __attribute__((noinline)) int internal(int size) {
    void *frames[16];
    unsigned long base = 0;
    int count = backtrace(frames, 16);
    dl_iterate_phdr(own_base, &base);
    printf("%d %#lx", size, base);
    for (int i = 1; i < count; i++)
        printf(" %#lx", (unsigned long)frames[i]);
    putchar('\n');
    return size + 1;
}

__attribute__((noinline)) int cudaMalloc(int size) { return internal(size) + 1; }

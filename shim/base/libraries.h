/* The loaded libraries of the process, and the list of those that gpumem knows by name. Nothing here allocates memory.
 * Each walk holds the loader's lock, so its callback must neither load a library nor take a lock of gpumem. */
#ifndef GM_BASE_LIBRARIES_H
#define GM_BASE_LIBRARIES_H

#include <link.h>

#include "shim/base/base.h"

enum gm_library_trait {
    GM_LIBRARY_KERNEL = 1u << 0,    /* mapped by the kernel, without a file */
    GM_LIBRARY_OWN = 1u << 1,       /* gpumem's */
    GM_LIBRARY_DRIVER = 1u << 2,    /* the CUDA driver */
    GM_LIBRARY_RUNTIME = 1u << 3,   /* the CUDA runtime as a shared library */
    GM_LIBRARY_RDMA = 1u << 4,      /* registers device memory with another device */
    GM_LIBRARY_TRANSPORT = 1u << 5, /* passes device memory on to other processes */
    GM_LIBRARY_BUFFERS = 1u << 6,   /* and that of any buffer of the program, which need not ask for it */
    GM_LIBRARY_PYTORCH = 1u << 7,   /* PyTorch's allocator */
};

struct gm_library {
    const char *name;   /* the beginning of the file's name */
    unsigned traits;    /* bits of enum gm_library_trait */
    const char *device; /* RDMA: the device that it works on, without its number, else NULL */
};

enum { GM_LIBRARIES = 19 };
GM_INTERNAL extern const struct gm_library gm_libraries[GM_LIBRARIES];

/* Traits of the library in this file; 0: not in the list. */
GM_INTERNAL unsigned gm_library_traits(const char *path);
/* Number of objects (the program and libraries) that were loaded since the process began, unloaded ones included. 0:
 * the C library does not say. */
GM_INTERNAL unsigned long long gm_libraries_loaded(void);
/* The loaded segment of the object that contains the address; NULL: another object's address. */
GM_INTERNAL const ElfW(Phdr) * gm_library_segment(const struct dl_phdr_info *object, uintptr_t address);
/* Writes the path of the object; of the program itself that of its file. */
GM_INTERNAL void gm_library_path(const struct dl_phdr_info *object, char *path, size_t size);
/* Calls `visit` for the object that contains the address. False: there is none. */
GM_INTERNAL bool gm_library_at(uintptr_t address, void (*visit)(const struct dl_phdr_info *object, void *argument),
                               void *argument);

#endif

/* Products of matrices in host memory. */
#ifndef SPG_HOST_H
#define SPG_HOST_H

#include <stddef.h>
#include <stdint.h>

/* Only tests change these. */
struct spg_host_settings {
    size_t whole; /* bytes of B up to which all of B may lie on the device */
    /* Bytes of device memory that a slab is meant to use at most, if all of B lies on the device, and if not. The more
     * rows a slab has, the fewer rows of B are fetched more than once. */
    size_t slab, fetching_slab;
    int64_t entries; /* of C for each entry of A, as the first slab supposes */
};
extern struct spg_host_settings spg_host_settings;

#endif

/* Arrays of the simulated driver: linear memory with a pitch. */
#ifndef SIM_ARRAY_H
#define SIM_ARRAY_H

#include "sim.h"

struct CUarray_st {
    unsigned magic;
    uintptr_t addr;
    size_t pitch, slice, bytes;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    struct sim_block *block; /* owned unless level of a mipmapped array */
    bool level;
};
bool sim_array_valid(CUarray a);

#endif

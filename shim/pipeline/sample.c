#include "shim/pipeline/sample.h"

void (*gm_pipeline_sample)(int device, enum gm_moment moment);
uint64_t gm_pipeline_sample_from = UINT64_MAX;

void gm_sample(uint64_t context, int device, enum gm_moment moment) {
    void (*take)(int device, enum gm_moment moment) = __atomic_load_n(&gm_pipeline_sample, __ATOMIC_ACQUIRE);
    if (take && context)
        take(device, moment);
}

#include "shim/pipeline/sample.h"

uint64_t gm_pipeline_sample_from = UINT64_MAX;

void gm_sample(uint64_t context, int device, enum gm_moment moment) {
    if (context)
        GM_PUBLISH(account_due, device, moment);
}

/* The moments at which the account of a device is taken (shim/start/untracked.h). */
#ifndef GM_PIPELINE_SAMPLE_H
#define GM_PIPELINE_SAMPLE_H

#include "shim/base/events.h"

GM_INTERNAL extern uint64_t gm_pipeline_sample_from;

/* Lets the account be taken. Nothing is measured without a context. */
GM_RARE void gm_sample(uint64_t context, int device, enum gm_moment moment);

#endif

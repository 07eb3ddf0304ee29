/* The moments at which the account of a device is taken (shim/start/untracked.h). */
#ifndef GM_PIPELINE_SAMPLE_H
#define GM_PIPELINE_SAMPLE_H

#include "shim/base/base.h"

enum gm_moment {
    GM_MOMENT_GROWN,   /* the peak of reserved bytes reached gm_pipeline_sample_from */
    GM_MOMENT_WATCHED, /* a viewer watches */
    GM_MOMENT_FAILED,  /* a request of this thread found no memory, and its event is written */
    GM_MOMENT_ENDING,  /* the context ends */
};

/* Takes the account of the device. Called with a context of the device current. NULL: there is no driver. */
GM_INTERNAL extern void (*gm_pipeline_sample)(int device, enum gm_moment moment);
GM_INTERNAL extern uint64_t gm_pipeline_sample_from;

/* Lets gm_pipeline_sample measure. Nothing is measured without a context. */
GM_RARE void gm_sample(uint64_t context, int device, enum gm_moment moment);

#endif

/* What gpumem_last_error() tells. */
#ifndef GM_REGION_ERROR_H
#define GM_REGION_ERROR_H

#include "shim/base/base.h"
#include "policy/policy.h"

/* Keeps the text for the calling thread and returns `status`. */
GM_INTERNAL gm_status gm_fail(gm_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

/* What others decide about resource "suspendable". */
#ifndef GM_RESOURCE_SUSPENDABLE_H
#define GM_RESOURCE_SUSPENDABLE_H

#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* True for a request that native memory is to serve, for example of a call site whose blocks are exported. May be NULL.
 */
GM_INTERNAL extern bool (*gm_suspendable_spares)(const struct gm_request *request);

#endif

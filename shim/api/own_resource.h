/* A maker of memory that the program wrote itself (gpumem_resource_create_own). It is in no table of names. */
#ifndef GM_OWN_RESOURCE_H
#define GM_OWN_RESOURCE_H

#include "shim/gpumem_resource.h"
#include "shim/base/base.h"
#include "shim/resource/resource.h"

/* A stack of this maker alone. It calls no author->destroy before gm_own_resource_ends. NULL: no memory. */
GM_INTERNAL struct gm_resource *gm_own_resource(const struct gpumem_resource_author *author, uint64_t of_kind);
/* From now on the stack calls `destroy` when it is discarded; may be NULL. */
GM_INTERNAL void gm_own_resource_ends(struct gm_resource *resource, void (*destroy)(void *self));
/* The author of a resource of this maker; NULL: it is another maker's. */
GM_INTERNAL const struct gpumem_resource_author *gm_own_resource_author(const struct gm_resource *resource);

#endif

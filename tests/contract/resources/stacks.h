/* The stacks that the tests with the simulated driver check, and short functions to use them. */
#ifndef STACKS_H
#define STACKS_H

#include "shim/placement/router.h"
#include "shim/resource/host_numa.h"
#include "shim/resource/managed_quota.h"
#include "shim/resource/rows.h"
#include "world.h"

#define BYTES ((size_t)65536)

enum { STACKS = 43 };
extern const char *const stacks[STACKS];  /* their texts */
extern struct gm_resource *built[STACKS]; /* in the same order */

/* Setup of a cmocka group: builds all stacks. */
int build_stacks(void **state);

/* The built stack of this text. Fails the test if there is none. */
struct gm_resource *stack_named(const char *name);
enum gm_kind kind_of(const struct gm_resource *resource);
bool is_pool(const struct gm_resource *resource);
/* True for a resource whose free does not wait and which reuses freed blocks. */
bool is_cache(const struct gm_resource *resource);

/* Each call succeeds or fails the test. */
struct gm_block get(struct gm_resource *resource, const struct gm_request *request);
void give(struct gm_resource *resource, const struct gm_block *block);
void trim(struct gm_resource *resource);

#define EACH_STACK(resource, world)                                                                             \
    for (int stack_ = 0; stack_ < STACKS; stack_++)                                                             \
        for (struct gm_resource *resource = built[stack_], *once_ = resource; once_ && (world_open(&world), 1); \
             world_close(&world, resource), once_ = NULL)

#endif

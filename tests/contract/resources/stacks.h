/* The resources that every test with the driver goes through, and short forms of what the tests do with them. */
#ifndef STACKS_H
#define STACKS_H

#include "shim/placement/router.h"
#include "shim/resource/host_numa.h"
#include "shim/resource/managed_quota.h"
#include "shim/resource/rows.h"
#include "world.h"

#define BYTES ((size_t)65536)

enum { STACKS = 22 };
extern const char *const stacks[STACKS];  /* as options name them */
extern struct gm_resource *built[STACKS]; /* of the same order */

/* A cmocka group's setup: builds all of them. */
int build_stacks(void **state);

/* The built resource of that name; fails the test where there is none. */
struct gm_resource *stack_named(const char *name);
enum gm_kind kind_of(const struct gm_resource *resource);
bool is_pool(const struct gm_resource *resource);
/* Free does not wait, and what is freed stays with the resource for a while. */
bool is_cache(const struct gm_resource *resource);

/* Succeed, or fail the test. */
struct gm_block get(struct gm_resource *resource, const struct gm_request *request);
void give(struct gm_resource *resource, const struct gm_block *block);
void trim(struct gm_resource *resource);

#define EACH_STACK(resource, world)                                                                             \
    for (int stack_ = 0; stack_ < STACKS; stack_++)                                                             \
        for (struct gm_resource *resource = built[stack_], *once_ = resource; once_ && (world_open(&world), 1); \
             world_close(&world, resource), once_ = NULL)

#endif

/* The pipeline over made-up memory as its tests use it: a policy that counts what it is told, a resource that stands
 * still where a test needs it to, short forms of calls. */
#ifndef PIPELINE_WORLD_H
#define PIPELINE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "shim/base/base.h"
#include "shim/core/pipeline.h"
#include "shim/core/registry.h"
#include "shim/base/stats.h"
#include "shim/gpumem.h"
#include "shim/placement/router.h"
#include "shim/resource/sim.h"

/* What the counting policy was told since begin_test. */
struct told {
    int decided, failed, freed;
    size_t last_freed;
};
extern struct told told;
/* Called once, when the policy is told of a free; may be NULL. */
extern void (*when_freed)(void);

/* The resource `delaying` stands still in the middle of a free or an allocation, when the memory below has changed
 * hands already. */
struct door {
    int hold_free, hold_alloc; /* the next such call stops ... */
    int held;                  /* ... is stopped ... */
    int go_on;                 /* ... and may go on */
};
extern struct door door;
extern struct gm_resource delaying;

extern struct gm_resource *sim; /* the maker at the bottom of whatever stack is in use */

/* Builds a stack, or fails the test. */
struct gm_resource *build(const char *text);
/* Counts from zero, marks the trace with `name`. */
void begin_test(const char *name, struct gm_resource *root);
struct gm_scope scope_of(enum gm_call call, size_t size);
gm_status get(size_t size, uint64_t *address);
gm_status give(uint64_t address);

/* The counters of all threads, added up. */
struct gm_stats_shard totals(void);
uint64_t live_on_devices(void);
/* Allocated less freed and released is what lives. */
void check_balance(void);

/* ---- the tests that are not in test_pipeline.c */
void test_reuse_while_the_free_is_under_way(void **state);
void test_remembered_only_after_it_was_got(void **state);
void test_threads_on_few_addresses(void **state);
void test_the_trace_tells_it_all(void **state);

enum { THREADS = 8, ROUNDS = 2000 }; /* of test_threads_on_few_addresses */
int begin_trace(void **state);
int remove_trace(void **state);

#endif

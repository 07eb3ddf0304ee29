/* What the tests of the pipeline share: invented memory (resource sim), a policy that counts its calls, a resource
 * that stops where a test needs it to, and short forms of calls. */
#ifndef PIPELINE_WORLD_H
#define PIPELINE_WORLD_H

/* cmocka needs the four headers above first */
#include "tests/test.h"

#include "shim/base/base.h"
#include "shim/pipeline/pipeline.h"
#include "shim/resource/registry.h"
#include "shim/accounts/stats.h"
#include "shim/gpumem.h"
#include "shim/placement/router.h"
#include "shim/resource/sim.h"

/* The calls of the counting policy since begin_test. */
struct policy_calls {
    int decided, failed, freed;
    size_t last_freed;
};
extern struct policy_calls policy_calls;
/* Called once, at the policy's next report of a free. May be NULL. */
extern void (*when_freed)(void);

/* The resource `delaying` stops in the middle of a free or an allocation, after the memory below it was freed or
 * allocated. */
struct delay {
    int hold_free, hold_alloc; /* the next such call stops ... */
    int held;                  /* ... is stopped ... */
    int go_on;                 /* ... and may go on */
};
extern struct delay delay;
extern struct gm_resource delaying;

extern struct gm_resource *sim; /* the maker at the bottom of the stack in use */

/* Builds a stack, or fails the test. */
struct gm_resource *build(const char *text);
/* Sets all counters to zero and writes a mark `name` to the trace. */
void begin_test(const char *name, struct gm_resource *root);
struct gm_scope scope_of(enum gm_call call, size_t size);
gm_status get(size_t size, uint64_t *address);
gm_status give(uint64_t address);

/* The sum of the counters of all threads. */
struct gm_stats_shard totals(void);
uint64_t live_on_devices(void);
/* Checks that allocations less frees and releases is the number of live blocks. */
void check_balance(void);

/* ---- tests outside test_pipeline.c */
void test_reuse_while_the_free_is_under_way(void **state);
void test_remembered_only_after_it_was_got(void **state);
void test_opened_to_a_device_that_comes_meanwhile(void **state);
void test_threads_on_few_addresses(void **state);
void test_the_trace_tells_it_all(void **state);

enum { THREADS = 8, ROUNDS = 2000 }; /* for test_threads_on_few_addresses */
int begin_trace(void **state);
int remove_trace(void **state);

#endif

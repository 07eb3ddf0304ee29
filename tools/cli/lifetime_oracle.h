/* The oracle of hybrid allocation (III.C): it knows the whole trace. Objects that live less than N are temporary and
 * get asynchronous memory; all others get managed memory. */
#ifndef GM_LIFETIME_ORACLE_H
#define GM_LIFETIME_ORACLE_H

#include "tools/cli/objects.h"

/* Results of the decisions. */
struct gm_oracle {
    uint64_t lifetime_ns; /* N */
    uint32_t async_count, managed_count;
    uint32_t native_count; /* requests during stream capture, which no policy moves */
    uint64_t async_peak;   /* requested bytes, of the device where it is largest */
    uint64_t managed_peak; /* requested bytes, of all devices */
    uint32_t beyond;       /* asynchronous objects created when their device had no capacity left */
};

/* The decision for one object. GM_KIND_MANAGED stands for both kinds of managed memory. */
enum gm_kind gm_oracle_decide(const struct gm_object *object, uint64_t lifetime_ns);

/* Bytes of each device that asynchronous memory may use: `fit` if it is not 0, else the device's memory minus
 * `headroom`; minus the peak of blocks that no policy moves. UINT64_MAX = unknown. */
struct gm_async_capacity {
    uint64_t bytes[64];
};
struct gm_async_capacity gm_oracle_capacity(const struct gm_objects *objects, uint64_t fit, uint64_t headroom);

/* Follows the trace with N. `beyond` is NULL or an array with one flag for each object, which is set for objects over
 * capacity. */
struct gm_oracle gm_oracle_try(const struct gm_objects *objects, uint64_t lifetime_ns,
                               const struct gm_async_capacity *capacity, bool *beyond);

/* N = 2^k seconds for k = -10 .. 9, as in the paper. */
enum { GM_ORACLE_STEPS = 20 };
uint64_t gm_oracle_step(unsigned i);

/* Fills `steps` and returns the index of the largest step whose asynchronous peak fits every device, or -1 if none
 * fits. */
int gm_oracle_fit(const struct gm_objects *objects, const struct gm_async_capacity *capacity, struct gm_oracle *steps);

/* plan_rules.c: writes to `out` rules for the policy static that decide as the oracle does where few rules can. Returns
 * the number of objects with the oracle's decision and sets *rules to the number of rules. UINT64_MAX: no memory. */
#include <stdio.h>
uint64_t gm_oracle_rules(FILE *out, const struct gm_objects *objects, uint64_t lifetime_ns, unsigned *rules);

/* plan_compare.c: prints a table of how often the active list decides as the oracle does, for several L and X. False:
 * no memory. */
bool gm_oracle_compare(FILE *out, const struct gm_objects *objects, uint64_t lifetime_ns);

#endif

/* The oracle of hybrid-allocation-he, III.C: with the whole trace known, objects that live less than N are temporary
 * and asynchronous, the others managed. */
#ifndef GM_LIFETIME_ORACLE_H
#define GM_LIFETIME_ORACLE_H

#include "tools/cli/objects.h"

/* What the decisions come to. */
struct gm_oracle {
    uint64_t lifetime_ns;                              /* N */
    uint32_t async_count, managed_count, native_count; /* native: captured requests, which nothing moves */
    uint64_t async_peak;                               /* bytes asked, of the device where it is largest */
    uint64_t managed_peak;                             /* bytes asked, of all devices */
    uint32_t beyond; /* asynchronous objects born while their device held more than fits */
};

/* The decision for one object; GM_KIND_MANAGED stands for both kinds of managed memory. */
enum gm_kind gm_oracle_decide(const struct gm_object *object, uint64_t lifetime_ns);

/* Bytes of each device left to asynchronous memory: `fit` where given (not 0), else the card less `headroom`; less the
 * peak of what no policy moves. UINT64_MAX where nothing is known. */
struct gm_async_capacity {
    uint64_t bytes[64];
};
struct gm_async_capacity gm_oracle_capacity(const struct gm_objects *objects, uint64_t fit, uint64_t headroom);

/* Follows the trace with N. `beyond` is NULL or a flag for each object, written. */
struct gm_oracle gm_oracle_try(const struct gm_objects *objects, uint64_t lifetime_ns,
                               const struct gm_async_capacity *room, bool *beyond);

/* N = 2^k seconds for k = -10 .. 9, the paper's steps. */
enum { GM_ORACLE_STEPS = 20 };
uint64_t gm_oracle_step(unsigned i);

/* The largest step whose asynchronous peak fits every device, into steps[0 .. GM_ORACLE_STEPS); its place, or -1: none
 * fits. */
int gm_oracle_fit(const struct gm_objects *objects, const struct gm_async_capacity *room, struct gm_oracle *steps);

/* plan_rules.c: rules for the policy static that decide as the oracle does where few of them can; written to `out`.
 * Returns how many objects they decide as the oracle, and their number in *rules. UINT64_MAX: no memory. */
#include <stdio.h>
uint64_t gm_oracle_rules(FILE *out, const struct gm_objects *objects, uint64_t lifetime_ns, unsigned *rules);

/* plan_compare.c: how often the active list says what the oracle says, for several L and X, as a table. False: no
 * memory. */
bool gm_oracle_compare(FILE *out, const struct gm_objects *objects, uint64_t lifetime_ns);

#endif

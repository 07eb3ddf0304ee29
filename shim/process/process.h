/* The life of gpumem in a process: its start, each part in the file of its subject, forks, and the end. */
#ifndef GM_PROCESS_H
#define GM_PROCESS_H

#include "policy/policy.h"
#include "shim/base/events.h"
#include "shim/driver/driver.h"
#include "shim/resource/resource.h"

/* The start. Called by one thread; calls no function of the loader and waits for no other thread. */
GM_INTERNAL void gm_process_start(void);
/* Called after the start by each thread that waited for it or made it. */
GM_INTERNAL void gm_process_started(void);
/* The start is complete. Stored atomically. */
GM_INTERNAL extern bool gm_process_is_started;

/* policy.c: opens the policy. `user_named`: the user chose it. `wants`: what it has to know (GM_WANT_). */
GM_INTERNAL const struct gm_policy *gm_process_policy(bool *user_named, uint32_t *wants);

/* resources.c: the root of all resources, and what the stacks of the user are asked for. */
GM_INTERNAL struct gm_resource *gm_process_resources(const struct gm_policy *policy);
GM_INTERNAL void gm_process_steps(void);
GM_INTERNAL bool gm_process_tracks(void);
GM_INTERNAL void gm_process_report_stacks(void);
GM_INTERNAL void gm_process_trim_managed(void);

/* contexts.c */
GM_INTERNAL gm_status gm_process_synchronise(const struct gm_block *block, bool *settled);
GM_INTERNAL bool gm_process_uuid(int device, unsigned char uuid[16]);
GM_INTERNAL void gm_process_context(const struct gm_context *context);

/* trace.c */
GM_INTERNAL void gm_process_name_trace(const char *file);

#endif

#ifndef GM_SETUP_H
#define GM_SETUP_H

#include "policy/policy.h"

/* Setup step of policies without an argument: GM_INVALID_VALUE and a line in setup->error when one was given. */
gm_status gm_refuse_argument(struct gm_policy_setup *setup, const char *policy);

/* Writes the words one after the other into setup->error, cut to its size. The list ends with NULL. */
void gm_setup_error(struct gm_policy_setup *setup, const char *const *words);

#endif

/* What policies share. */
#ifndef GM_SETUP_H
#define GM_SETUP_H

#include "policy/policy.h"

/* Setup step of policies without an argument: GM_INVALID_VALUE and a line in setup->error when one was given. */
gm_status gm_refuse_argument(struct gm_policy_setup *setup, const char *policy);

/* Every plain call from `kind`; a call that is stream-ordered already stays as it is, and so does everything while its stream captures. */
void gm_decide_plain(const struct gm_request *request, enum gm_kind kind, struct gm_decision *decision);

/* Writes the words one after the other into setup->error, cut to its size. The list ends with NULL. */
void gm_setup_error(struct gm_policy_setup *setup, const char *const *words);

#endif

/* What policies share. */
#ifndef GM_SETUP_H
#define GM_SETUP_H

#include "policy/policy.h"

/* Setup step of policies without an argument: GM_INVALID_VALUE and a line in setup->error when one was given. */
gm_status gm_refuse_argument(struct gm_policy_setup *setup, const char *policy);

/* What a decision for one kind comes to: a call that is stream-ordered already has what async memory and the cache
 * give, and nothing moves while its stream captures. */
void gm_decide_kind(const struct gm_request *request, enum gm_kind kind, enum gm_reason reason,
                    struct gm_decision *decision);

/* Every plain call from `kind`; a call that is stream-ordered already stays as it is, and so does everything while its
 * stream captures. */
void gm_decide_plain(const struct gm_request *request, enum gm_kind kind, struct gm_decision *decision);

/* Writes the words one after the other, cut to `size` and terminated. The list ends with NULL. */
void gm_setup_text(char *out, size_t size, const char *const *words);

/* Writes the words one after the other into setup->error, cut to its size. The list ends with NULL. */
void gm_setup_error(struct gm_policy_setup *setup, const char *const *words);

/* Digits of `value` in `room`; returns their begin. */
#define GM_DIGITS 24
const char *gm_setup_digits(char room[GM_DIGITS], uint64_t value);

/* What a word of a plan or rule says about memory: native, cache, async, managed (setup->managed decides which),
 * managed-pool. False: none of them. */
bool gm_setup_kind(const char *word, size_t length, enum gm_kind managed, enum gm_kind *kind);

#endif

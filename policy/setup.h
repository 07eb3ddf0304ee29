/* Helpers that the policies share: texts of errors, words for kinds of memory, and the common cases of a decision. */
#ifndef GM_SETUP_H
#define GM_SETUP_H

#include "policy/policy.h"

/* Fills *decision for `kind`. The request stays native while its stream captures. A stream-ordered call also stays
 * native for kinds async and cache, because its own pool does the same. */
void gm_decide_kind(const struct gm_request *request, enum gm_kind kind, enum gm_reason reason,
                    struct gm_decision *decision);

/* Concatenates the words into out[size], cut to fit and terminated. The list ends with NULL. */
void gm_setup_text(char *out, size_t size, const char *const *words);

#define GM_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Concatenates the words into setup->error, cut to fit. Returns GM_INVALID_VALUE. */
gm_status gm_setup_error_words(struct gm_policy_setup *setup, const char *const *words);
#define gm_setup_error(setup, ...) gm_setup_error_words(setup, GM_WORDS(__VA_ARGS__))

/* Writes the decimal digits of `value` into `room` and returns their begin. */
#define GM_DIGITS 24
const char *gm_setup_digits(char room[GM_DIGITS], uint64_t value);

/* Reads the word for a kind of memory in a plan or rule: native, cache, async, managed (setup->managed decides which
 * kind), managed-pool, guard. False: it is none of them. */
bool gm_setup_kind(const char *word, size_t length, enum gm_kind managed, enum gm_kind *kind);

#endif

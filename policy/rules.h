/* Rules that place allocations: first match wins. The grammar stands in libgpumem(7), section PLACEMENT RULES.
 *
 * A rule of nothing but conditions on numbers needs no call sites; gm_rules_wants says what a set of rules has to know.
 */
#ifndef GM_RULES_H
#define GM_RULES_H

#include "policy/policy.h"

enum { GM_RULES_MAX = 4096, GM_RULE_SITES = 4, GM_RULE_FRAMES = 6 };

struct gm_range {
    uint64_t low, high;
};

struct gm_rule {
    struct gm_range size, thread, nth;
    struct gm_range device; /* -1 never matches a condition on devices */
    bool has_device;
    int call;           /* enum gm_call, -1 = any */
    int default_stream; /* 1 default streams, 0 others, -1 any */
    unsigned site_count;
    uint64_t sites[GM_RULE_SITES]; /* each stands somewhere in the request's chain */
    uint64_t module;               /* 0 = any */
    bool seen;                     /* "seen": left to the caller, who knows what was seen */
    enum gm_kind kind;
    uint32_t advice;
};

struct gm_rules_error {
    uint32_t line, rule; /* both from 1 */
    char text[160];      /* what is wrong, and what is accepted */
};

/* Rules of `text` into rules[room], or only counted when `rules` is NULL. Returns their number, -1 with *error filled.
 */
int gm_rules_read(const char *text, size_t bytes, enum gm_kind managed, struct gm_rule *rules, unsigned room,
                  struct gm_rules_error *error);

/* The same of rules that are conditions alone, with no memory behind them: what an option takes. Here, and only here,
 * "seen" is one. */
int gm_conditions_read(const char *text, size_t bytes, struct gm_rule *rules, unsigned room,
                       struct gm_rules_error *error);

uint32_t gm_rules_wants(const struct gm_rule *rules, unsigned count);

/* The first rule that holds for the request, NULL: none. */
const struct gm_rule *gm_rules_match(const struct gm_rule *rules, unsigned count, const struct gm_request *request);

#endif

/* Rules that choose the memory of allocations. The first rule that matches decides. libgpumem(7), section PLACEMENT
 * RULES, describes the grammar.
 *
 * Rules that compare only numbers need no call sites. gm_rules_wants() says which members of a request a set of
 * rules needs. */
#ifndef GM_RULES_H
#define GM_RULES_H

#include "policy/policy.h"

enum { GM_RULES_MAX = 4096, GM_RULE_SITES = 4, GM_RULE_FRAMES = 6 };

struct gm_range {
    uint64_t low, high;
};

struct gm_rule {
    struct gm_range size, thread, nth;
    struct gm_range device; /* device -1 never matches a condition on devices */
    bool has_device;
    int call;           /* enum gm_call, -1 = any */
    int default_stream; /* 1 = default streams, 0 = other streams, -1 = any */
    unsigned site_count;
    uint64_t sites[GM_RULE_SITES]; /* each must occur in the request's chain of callers */
    uint64_t module;               /* 0 = any */
    bool seen;                     /* condition "seen": the caller of the matching functions judges it */
    enum gm_kind kind;
    uint32_t advice;
};

struct gm_rules_error {
    uint32_t line, rule; /* both count from 1 */
    char text[160];      /* what is wrong, and what is accepted */
};

/* Reads the rules of `text` into rules[room], or only counts them when `rules` is NULL. Returns their number, or -1
 * with *error filled. */
int gm_rules_read(const char *text, size_t bytes, enum gm_kind managed, struct gm_rule *rules, unsigned room,
                  struct gm_rules_error *error);

/* The same for conditions without a memory kind, as an option takes them. Only here the condition "seen" is
 * accepted. */
int gm_conditions_read(const char *text, size_t bytes, struct gm_rule *rules, unsigned room,
                       struct gm_rules_error *error);

uint32_t gm_rules_wants(const struct gm_rule *rules, unsigned count);

/* The first rule that matches the request. NULL: none. */
const struct gm_rule *gm_rules_match(const struct gm_rule *rules, unsigned count, const struct gm_request *request);

#endif

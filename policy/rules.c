/* Parser and matcher of placement rules. A small hand-written parser reads one rule at a time into struct gm_rule;
 * matching compares the numbers of a request with the ranges of each rule. rules.h is the interface. */
#include "policy/rules.h"

#include "policy/digits.h"
#include "policy/setup.h"
#include "policy/site_key.h"

#include <string.h>

struct parser {
    const char *at, *end; /* the rest of the rule */
    enum gm_kind managed;
    bool conditions_only;
    struct gm_rule *rule;
    struct gm_rules_error *error;
};

/* ---- words */

static bool wrong(struct parser *p, const char *what, const char *word, size_t length, const char *accepted) {
    char shown[49];
    size_t used = 0;
    for (; used < length && used + 1 < sizeof shown; used++)
        shown[used] = word[used] >= ' ' && word[used] < 127 ? word[used] : '?';
    shown[used] = '\0';
    gm_setup_text(p->error->text, sizeof p->error->text, GM_WORDS(what, " \"", shown, "\"; accepted: ", accepted));
    return false;
}

static void skip_blanks(struct parser *p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r'))
        p->at++;
}

static bool take_text(struct parser *p, const char *text) {
    size_t length = strlen(text);
    skip_blanks(p);
    if ((size_t)(p->end - p->at) < length || memcmp(p->at, text, length))
        return false;
    p->at += length;
    return true;
}

/* Length of the text up to a comma, a blank, "->" or the end. */
static size_t value_length(struct parser *p) {
    const char *q;
    skip_blanks(p);
    for (q = p->at; q < p->end && *q != ',' && *q != ' ' && *q != '\t' && *q != '\r'; q++)
        if (*q == '-' && q + 1 < p->end && q[1] == '>')
            break;
    return (size_t)(q - p->at);
}

static bool read_bytes(const char **at, const char *end, uint64_t *value) {
    static const char prefixes[] = "KMGT";
    if (!gm_read_digits(at, end, value))
        return false;
    const char *prefix = *at < end && **at ? strchr(prefixes, **at >= 'a' ? **at - 'a' + 'A' : **at) : NULL;
    if (!prefix)
        return true;
    unsigned shift = 10u * (unsigned)(prefix - prefixes + 1);
    if (*value > UINT64_MAX >> shift)
        return false;
    *value <<= shift;
    *at += end - *at >= 3 && (*at)[1] == 'i' && (*at)[2] == 'B' ? 3 : 1;
    return true;
}

typedef bool (*read_number)(const char **at, const char *end, uint64_t *value);

/* Reads NUMBER or NUMBER..NUMBER. Several conditions on one value: the rule keeps the intersection of the ranges. */
static bool narrow(struct parser *p, struct gm_range *range, read_number number, const char *accepted) {
    size_t length = value_length(p);
    const char *at = p->at, *end = p->at + length;
    struct gm_range given;
    bool good = number(&at, end, &given.low);
    given.high = given.low;
    if (good && end - at > 2 && at[0] == '.' && at[1] == '.') {
        at += 2;
        good = number(&at, end, &given.high);
    }
    if (!good || at != end || given.low > given.high)
        return wrong(p, "wrong value", p->at, length, accepted);
    range->low = given.low > range->low ? given.low : range->low;
    range->high = given.high < range->high ? given.high : range->high;
    p->at = end;
    return true;
}

/* ---- conditions */

static const char bytes_accepted[] = "bytes with K, M, G or T, as size>=1M, size=4K or size=1M..2M";

static bool read_size(struct parser *p) {
    static const struct {
        const char *text;
        int bound; /* -2 < -1 <= 0 = 1 >= 2 > */
    } relations[] = {{"<=", -1}, {">=", 1}, {"<", -2}, {">", 2}, {"=", 0}};
    struct gm_range *range = &p->rule->size, one = {0, UINT64_MAX};
    size_t i = 0;
    while (i < 5 && !take_text(p, relations[i].text))
        i++;
    if (i == 5)
        return wrong(p, "no relation at", p->at, (size_t)(p->end - p->at), "size with <, <=, =, >= or >");
    if (!relations[i].bound)
        return narrow(p, range, read_bytes, bytes_accepted);
    size_t length = value_length(p);
    const char *at = p->at;
    if (!read_bytes(&at, p->at + length, &one.low) || at != p->at + length || (relations[i].bound == -2 && !one.low) ||
        (relations[i].bound == 2 && one.low == UINT64_MAX))
        return wrong(p, "wrong value", p->at, length, bytes_accepted);
    uint64_t value = one.low;
    if (relations[i].bound < 0) {
        value -= relations[i].bound == -2;
        range->high = value < range->high ? value : range->high;
    } else {
        value += relations[i].bound == 2;
        range->low = value > range->low ? value : range->low;
    }
    p->at = at;
    return true;
}

static bool read_call(struct parser *p) {
    static const enum gm_call calls[] = {GM_CALL_ALLOC, GM_CALL_ALLOC_PITCH, GM_CALL_ALLOC_ASYNC};
    size_t length = value_length(p);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const char *name = gm_call_name(calls[i]);
        if (strlen(name) == length && !memcmp(name, p->at, length)) {
            p->rule->call = calls[i];
            p->at += length;
            return true;
        }
    }
    return wrong(p, "wrong call", p->at, length,
                 "cuMemAlloc, cuMemAllocPitch, cuMemAllocAsync (what a policy may move)");
}

static bool read_stream(struct parser *p) {
    size_t length = value_length(p);
    if (length == 7 && !memcmp(p->at, "default", 7))
        p->rule->default_stream = 1;
    else if (length == 5 && !memcmp(p->at, "other", 5))
        p->rule->default_stream = 0;
    else
        return wrong(p, "wrong stream", p->at, length, "default, other");
    p->at += length;
    return true;
}

static bool read_site(struct parser *p) {
    struct gm_site_keys keys;
    size_t length = value_length(p);
    if (!gm_site_keys_parse(p->at, length, &keys) || p->rule->site_count + keys.count > GM_RULE_SITES)
        return wrong(p, "wrong site", p->at, length, "MODULE+0xOFFSET, up to four of a rule");
    for (unsigned i = 0; i < keys.count; i++)
        p->rule->sites[p->rule->site_count++] = keys.frames[i];
    p->at += length;
    return true;
}

static bool read_module(struct parser *p) {
    size_t length = value_length(p);
    if (!gm_site_module_parse(p->at, length, &p->rule->module))
        return wrong(p, "wrong module", p->at, length, "a file name without its folder, as libfoo.so.1");
    p->at += length;
    return true;
}

static bool read_condition(struct parser *p) {
    struct gm_rule *rule = p->rule;
    if (take_text(p, "size"))
        return read_size(p);
    if (take_text(p, "call="))
        return read_call(p);
    if (take_text(p, "device=")) {
        rule->has_device = true;
        return narrow(p, &rule->device, gm_read_digits, "a device's ordinal, or a range as 0..3");
    }
    if (take_text(p, "stream="))
        return read_stream(p);
    if (take_text(p, "thread="))
        return narrow(p, &rule->thread, gm_read_digits, "a number from 1, or a range as 1..4");
    if (take_text(p, "nth="))
        return narrow(p, &rule->nth, gm_read_digits, "a number from 1, or a range as 1..100");
    if (take_text(p, "site="))
        return read_site(p);
    if (take_text(p, "module="))
        return read_module(p);
    if (p->conditions_only && take_text(p, "seen"))
        return rule->seen = true;
    return wrong(p, "wrong condition", p->at, value_length(p),
                 p->conditions_only ? "*, seen, size, call=, device=, stream=, thread=, nth=, site=, module="
                                    : "*, size, call=, device=, stream=, thread=, nth=, site=, module=");
}

/* ---- what a rule does */

static bool read_advice(struct parser *p) {
    static const struct {
        const char *text;
        uint32_t bit;
    } words[] = {
        {"read-mostly", GM_ADVICE_READ_MOSTLY},
        {"preferred-location=device", GM_ADVICE_PREFER_DEVICE},
        {"preferred-location=host", GM_ADVICE_PREFER_HOST},
        {"accessed-by=device", GM_ADVICE_ACCESSED_BY},
        {"prefetch", GM_ADVICE_PREFETCH},
    };
    const uint32_t both = GM_ADVICE_PREFER_DEVICE | GM_ADVICE_PREFER_HOST;
    size_t length = value_length(p);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].text) != length || memcmp(words[i].text, p->at, length))
            continue;
        p->rule->advice |= words[i].bit;
        if ((p->rule->advice & both) == both)
            return wrong(p, "second location", p->at, length, "one preferred location of a rule");
        p->at += length;
        return true;
    }
    return wrong(p, "wrong advice", p->at, length,
                 "read-mostly, preferred-location=device, preferred-location=host, accessed-by=device, prefetch");
}

static bool read_target(struct parser *p) {
    size_t length = value_length(p);
    if (!gm_setup_kind(p->at, length, p->managed, &p->rule->kind))
        return wrong(p, "wrong memory", p->at, length, "native, cache, async, managed, managed-pool, guard");
    p->at += length;
    while (take_text(p, ","))
        if (!read_advice(p))
            return false;
    skip_blanks(p);
    if (p->at != p->end)
        return wrong(p, "text after a rule", p->at, (size_t)(p->end - p->at), "a new line or ;");
    if (p->rule->advice && p->rule->kind != GM_KIND_MANAGED && p->rule->kind != GM_KIND_MANAGED_POOL)
        return wrong(p, "advice for other than managed memory:", gm_kind_name(p->rule->kind),
                     strlen(gm_kind_name(p->rule->kind)), "managed, managed-pool");
    return true;
}

static bool read_rule(struct parser *p) {
    const struct gm_range all = {0, UINT64_MAX};
    *p->rule =
        (struct gm_rule){.size = all, .thread = all, .nth = all, .device = all, .call = -1, .default_stream = -1};
    if (!take_text(p, "*")) {
        do {
            if (!read_condition(p))
                return false;
        } while (take_text(p, ","));
    }
    if (p->conditions_only) {
        skip_blanks(p);
        return p->at == p->end ||
               wrong(p, "text after a condition", p->at, (size_t)(p->end - p->at), "CONDITION[,CONDITION...]");
    }
    if (!take_text(p, "->"))
        return wrong(p, "no -> at", p->at, (size_t)(p->end - p->at), "CONDITION[,CONDITION...]->MEMORY[,ADVICE...]");
    return read_target(p);
}

/* Returns the end of the rule that begins at `at`, without its comment. *next is where the next rule begins. */
static const char *rule_end(const char *at, const char *end, const char **next) {
    const char *stop = at;
    while (stop < end && *stop != ';' && *stop != '\n' && *stop != '#')
        stop++;
    *next = stop;
    if (stop < end && *stop == '#')
        while (*next < end && **next != '\n')
            ++*next;
    return stop;
}

static int read_all(const char *text, size_t bytes, const struct parser *kind, struct gm_rule *rules, unsigned room,
                    struct gm_rules_error *error) {
    const char *end = text + bytes, *next;
    struct gm_rule spare;
    unsigned count = 0;
    *error = (struct gm_rules_error){.line = 1, .rule = 1};
    for (const char *at = text; at < end; at = next < end ? next + 1 : end) {
        struct parser p = *kind;
        p.at = at;
        p.end = rule_end(at, end, &next);
        p.error = error;
        p.rule = rules && count < room ? &rules[count] : &spare;
        skip_blanks(&p);
        if (p.at < p.end) {
            error->rule = count + 1;
            if (!read_rule(&p))
                return -1;
            if (++count > GM_RULES_MAX) {
                wrong(&p, "too many rules at", at, (size_t)(p.end - at), "4096 rules");
                return -1;
            }
        }
        error->line += next < end && *next == '\n';
    }
    return (int)count;
}

int gm_rules_read(const char *text, size_t bytes, enum gm_kind managed, struct gm_rule *rules, unsigned room,
                  struct gm_rules_error *error) {
    const struct parser kind = {.managed = managed};
    return read_all(text, bytes, &kind, rules, room, error);
}

int gm_conditions_read(const char *text, size_t bytes, struct gm_rule *rules, unsigned room,
                       struct gm_rules_error *error) {
    const struct parser kind = {.conditions_only = true};
    return read_all(text, bytes, &kind, rules, room, error);
}

/* ---- matching */

uint32_t gm_rules_wants(const struct gm_rule *rules, unsigned count) {
    uint32_t wants = 0;
    for (unsigned i = 0; i < count; i++) {
        if (rules[i].site_count || rules[i].module || rules[i].seen)
            wants |= GM_WANT_SITE;
        if (rules[i].thread.low || rules[i].thread.high != UINT64_MAX || rules[i].nth.low ||
            rules[i].nth.high != UINT64_MAX)
            wants |= GM_WANT_OBJECT;
        if (rules[i].kind == GM_KIND_GUARD)
            wants |= GM_WANT_GUARD;
    }
    return wants;
}

static bool within(struct gm_range range, uint64_t value) { return value >= range.low && value <= range.high; }

/* 0 is the default stream; handles 1 and 2 are the legacy and the per-thread default stream. */
static bool is_default(uint64_t stream) { return stream <= 2; }

static bool occurs_in(const struct gm_site_keys *where, uint64_t frame) {
    for (unsigned i = 0; i < where->count; i++)
        if (where->frames[i] == frame)
            return true;
    return false;
}

static bool site_matches(const struct gm_rule *rule, const struct gm_site_keys *where) {
    if (!rule->site_count && !rule->module)
        return true;
    if (!where || (rule->module && rule->module != where->module))
        return false;
    for (unsigned i = 0; i < rule->site_count; i++)
        if (!occurs_in(where, rule->sites[i]))
            return false;
    return true;
}

static bool matches(const struct gm_rule *rule, const struct gm_request *request) {
    return within(rule->size, request->size) && within(rule->thread, request->thread) &&
           within(rule->nth, request->object) &&
           (!rule->has_device || (request->device >= 0 && within(rule->device, (uint64_t)request->device))) &&
           (rule->call < 0 || rule->call == (int)request->call) &&
           (rule->default_stream < 0 || rule->default_stream == is_default(request->stream)) &&
           site_matches(rule, request->where);
}

const struct gm_rule *gm_rules_match(const struct gm_rule *rules, unsigned count, const struct gm_request *request) {
    for (unsigned i = 0; i < count; i++)
        if (matches(&rules[i], request))
            return &rules[i];
    return NULL;
}

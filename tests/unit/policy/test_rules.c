/* Tests of the parser and the matching of rules, and of policy static. */
#include "policy/rules.h"
#include "policy/site_key.h"
#include "shim/base/base.h"

#include <stdio.h>

#include "tests/test.h"

static struct gm_rule rules[32];
static int rule_count;

static void read_all(const char *text) {
    struct gm_rules_error error;
    rule_count = gm_rules_read(text, strlen(text), GM_KIND_MANAGED, rules, 32, &error);
    if (rule_count < 0)
        print_error("%s: %s\n", text, error.text);
    assert_true(rule_count >= 0);
}

static struct gm_request usual(void) {
    return (struct gm_request){.call = GM_CALL_ALLOC, .size = 4096, .device = 0, .thread = 1, .object = 1};
}

/* Index of the rule that matches, -1: none. */
static int match(const struct gm_request *request) {
    const struct gm_rule *rule = gm_rules_match(rules, (unsigned)rule_count, request);
    return rule ? (int)(rule - rules) : -1;
}

TEST(sizes) {
    static const struct {
        const char *condition;
        uint64_t low, high;
    } rows[] = {
        {"size=512", 512, 512},
        {"size>=1K", 1024, UINT64_MAX},
        {"size > 1KiB", 1025, UINT64_MAX},
        {"size<2m", 0, (2u << 20) - 1},
        {"size<=2MiB", 0, 2u << 20},
        {"size=1M..2M", 1u << 20, 2u << 20},
        {"size=1..1", 1, 1},
        {"size=16T", UINT64_C(16) << 40, UINT64_C(16) << 40},
        {"size>=1G,size<2G", 1u << 30, (2u << 30) - 1},
        {"size=0..10,size=5..20", 5, 10},
        {"size=18446744073709551615", UINT64_MAX, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s->async", rows[i].condition);
        read_all(text);
        assert_int_equal(rule_count, 1);
        for (int n = -1; n <= 1; n++) {
            struct gm_request request = usual();
            request.size = rows[i].low + (uint64_t)n;
            assert_int_equal(match(&request) == 0, request.size >= rows[i].low && request.size <= rows[i].high);
            request.size = rows[i].high + (uint64_t)n;
            assert_int_equal(match(&request) == 0, request.size >= rows[i].low && request.size <= rows[i].high);
        }
    }
}

TEST(each_condition) {
    struct gm_site_keys keys, other;
    struct gm_request good = usual();
    assert_true(gm_site_keys_parse("app+0x10<lib.so+0x20<app+0x30", 29, &keys));
    assert_true(gm_site_keys_parse("other+0x10<lib.so+0x21", 22, &other));
    good.where = &keys;

#define HOLDS(text, field, right, wrong)       \
    do {                                       \
        struct gm_request request = good;      \
        read_all(text "->managed");            \
        request.field = right;                 \
        assert_int_equal(match(&request), 0);  \
        request.field = wrong;                 \
        assert_int_equal(match(&request), -1); \
    } while (0)
    HOLDS("call=cuMemAllocAsync", call, GM_CALL_ALLOC_ASYNC, GM_CALL_ALLOC);
    HOLDS("call=cuMemAllocPitch", call, GM_CALL_ALLOC_PITCH, GM_CALL_ALLOC);
    HOLDS("device=1", device, 1, 0);
    HOLDS("device=0..3", device, 3, 4);
    HOLDS("device=0..3", device, 0, -1);
    HOLDS("stream=default", stream, 0, 0x5000);
    HOLDS("stream=default", stream, 2, 3);
    HOLDS("stream=other", stream, 0x5000, 1);
    HOLDS("thread=2", thread, 2, 1);
    HOLDS("thread=2..4", thread, 4, 5);
    HOLDS("nth=1..100", object, 100, 101);
    HOLDS("site=lib.so+0x20", where, &keys, &other);
    HOLDS("site=app+0x10<app+0x30", where, &keys, NULL);
    HOLDS("site=lib.so+0x20,site=app+0x10", where, &keys, &other);
    HOLDS("module=app", where, &keys, &other);
    HOLDS("module=app", where, &keys, NULL);
#undef HOLDS
}

TEST(the_first_that_holds_wins) {
    struct gm_request request = usual();
    read_all("# large ones\nsize>=1M->managed,read-mostly,preferred-location=device,accessed-by=device,prefetch\n"
             "\n  size>=1K -> async ; device=1->native # not here\n*->cache;*->managed");
    assert_int_equal(rule_count, 5);
    assert_int_equal(match(&request), 1);
    request.size = 1 << 20;
    assert_int_equal(match(&request), 0);
    assert_int_equal(rules[0].advice,
                     GM_ADVICE_READ_MOSTLY | GM_ADVICE_PREFER_DEVICE | GM_ADVICE_ACCESSED_BY | GM_ADVICE_PREFETCH);
    request.size = 1;
    assert_int_equal(match(&request), 3);
    request.device = 1;
    assert_int_equal(match(&request), 2);
    read_all("nth=5->async");
    assert_int_equal(match(&request), -1);
    assert_int_equal(gm_rules_match(NULL, 0, &request) == NULL, true);
}

TEST(only_what_is_asked_is_wanted) {
    static const struct {
        const char *text;
        uint32_t wants;
    } rows[] = {
        {"size>1->async;device=0,stream=other,call=cuMemAlloc->async;*->native", 0},
        {"*->native;site=app+0x1->async", GM_WANT_SITE},
        {"module=app->async", GM_WANT_SITE},
        {"thread=1->async", GM_WANT_OBJECT},
        {"nth=1..2->async", GM_WANT_OBJECT},
        {"nth=1,module=app->async", GM_WANT_OBJECT | GM_WANT_SITE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        read_all(rows[i].text);
        assert_int_equal(gm_rules_wants(rules, (unsigned)rule_count), rows[i].wants);
    }
}

TEST(wrong_rules_are_named) {
    static const struct {
        const char *text;
        unsigned line, rule;
        const char *says;
    } rows[] = {
        {"size->async", 1, 1, "no relation at \"->async\"; accepted: size with <, <=, =, >= or >"},
        {"size>=1X->async", 1, 1, "wrong value \"1X\"; accepted: bytes with K, M, G or T"},
        {"size<0->async", 1, 1, "wrong value \"0\""},
        {"size=2M..1M->async", 1, 1, "wrong value \"2M..1M\""},
        {"size=99999999999999999999->async", 1, 1, "wrong value"},
        {"size=16777216T->async", 1, 1, "wrong value"},
        {"*->async\n\n# x\n*->fast", 4, 2,
         "wrong memory \"fast\"; accepted: native, cache, async, managed, managed-pool, guard"},
        {"*->async;*->native;*", 1, 3, "no -> at \"\""},
        {"call=cuMemFree->async", 1, 1,
         "wrong call \"cuMemFree\"; accepted: cuMemAlloc, cuMemAllocPitch, cuMemAllocAsync"},
        {"stream=7->async", 1, 1, "wrong stream \"7\"; accepted: default, other"},
        {"device=-1->async", 1, 1, "wrong value \"-1\""},
        {"thread=->async", 1, 1, "wrong value \"\""},
        {"nth=1...2->async", 1, 1, "wrong value \"1...2\""},
        {"site=app->async", 1, 1, "wrong site \"app\""},
        {"site=a+0x1<a+0x2<a+0x3<a+0x4<a+0x5->async", 1, 1, "wrong site"},
        {"module=->async", 1, 1, "wrong module \"\""},
        {"colour=red->async", 1, 1,
         "wrong condition \"colour=red\"; accepted: *, size, call=, device=, stream=, thread=, nth="},
        {"*->async,prefetch", 1, 1, "advice for other than managed memory: \"async\""},
        {"*->managed,faster", 1, 1, "wrong advice \"faster\"; accepted: read-mostly"},
        {"*->managed,preferred-location=host,preferred-location=device", 1, 1, "second location"},
        {"*->managed prefetch", 1, 1, "text after a rule \"prefetch\""},
        {"\001\033[31m", 1, 1, "wrong condition \"??[31m\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gm_rules_error error;
        assert_int_equal(gm_rules_read(rows[i].text, strlen(rows[i].text), GM_KIND_MANAGED, rules, 32, &error), -1);
        assert_int_equal(error.line, rows[i].line);
        assert_int_equal(error.rule, rows[i].rule);
        if (strncmp(error.text, rows[i].says, strlen(rows[i].says)))
            assert_string_equal(error.text, rows[i].says);
    }
}

/* Conditions as an option takes them: without memory, and with "seen", which the caller judges. */
TEST(conditions_alone) {
    static const char good[] = "size>=1M,device=0 ; seen;site=app+0x10,seen # and no more";
    static const struct {
        const char *text;
        unsigned rule;
        const char *says;
    } rows[] = {
        {"size>=1M->async", 1, "text after a condition \"->async\""},
        {"*;seen size", 2, "text after a condition \"size\""},
        {"unseen", 1, "wrong condition \"unseen\"; accepted: *, seen, size, call="},
        {"size>=1M,", 1, "wrong condition \"\""},
    };
    struct gm_rules_error error;
    struct gm_request request = usual();
    request.size = 1 << 20;
    rule_count = gm_conditions_read(good, strlen(good), rules, 32, &error);
    assert_int_equal(rule_count, 3);
    assert_false(rules[0].seen);
    assert_true(rules[1].seen && rules[2].seen);
    assert_int_equal(match(&request), 0);
    assert_int_equal(rules[2].site_count, 1);
    assert_int_equal(gm_rules_wants(rules, 1), 0);
    assert_int_equal(gm_rules_wants(rules + 1, 1), GM_WANT_SITE);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(gm_conditions_read(rows[i].text, strlen(rows[i].text), rules, 32, &error), -1);
        assert_int_equal(error.rule, rows[i].rule);
        if (strncmp(error.text, rows[i].says, strlen(rows[i].says)))
            assert_string_equal(error.text, rows[i].says);
    }
    assert_int_equal(gm_rules_read("seen->async", 11, GM_KIND_MANAGED, rules, 32, &error), -1);
}

TEST(so_many_and_no_more) {
    enum { LENGTH = 9 };
    char *text = malloc((GM_RULES_MAX + 1) * LENGTH + 1);
    struct gm_rules_error error;
    assert_non_null(text);
    for (size_t i = 0; i <= GM_RULES_MAX; i++)
        memcpy(text + i * LENGTH, "*->async\n", LENGTH);
    assert_int_equal(gm_rules_read(text, GM_RULES_MAX * LENGTH, GM_KIND_MANAGED, NULL, 0, &error), GM_RULES_MAX);
    assert_int_equal(gm_rules_read(text, (GM_RULES_MAX + 1) * LENGTH, GM_KIND_MANAGED, NULL, 0, &error), -1);
    assert_int_equal(error.line, GM_RULES_MAX + 1);
    free(text);
}

/* ---- the policy */

static const char file_text[] = "size>=1M -> managed, read-mostly\n* -> async\n";
static const char wrong_text[] = "* -> async\n\n* -> slow\n";

static const char *load(const char *path, size_t *bytes, const char **why) {
    const char *text = !strcmp(path, "good") ? file_text : !strcmp(path, "wrong") ? wrong_text : NULL;
    *bytes = text ? strlen(text) : 0;
    *why = "No such file";
    return text;
}

static void unload(const char *text, size_t bytes) { assert_int_equal(strlen(text), bytes); }

static struct gm_policy_setup setup_of(const char *argument) {
    return (struct gm_policy_setup){
        .argument = argument, .managed = GM_KIND_MANAGED_POOL, .reserve = gm_pages, .load = load, .unload = unload};
}

TEST(the_policy_decides) {
    static const char *const forms[] = {"size>=1M->managed,read-mostly;*->async", "@good"};
    const struct gm_policy *policy = gm_policy_find("static");
    for (size_t i = 0; i < 2; i++) {
        struct gm_policy_setup setup = setup_of(forms[i]);
        struct gm_request request = usual();
        struct gm_decision decision = {0};
        assert_int_equal(gm_policy_open(policy, &setup), GM_OK);
        assert_int_equal(setup.wants, 0);
        policy->decide(&request, &decision);
        assert_int_equal(decision.kind, GM_KIND_ASYNC);
        assert_int_equal(decision.reason, GM_REASON_RULE);
        assert_int_equal(decision.advice, 0);
        request.size = 1 << 20;
        policy->decide(&request, &decision);
        assert_int_equal(decision.kind, GM_KIND_MANAGED_POOL);
        assert_int_equal(decision.advice, GM_ADVICE_READ_MOSTLY);
        request.capturing = true;
        policy->decide(&request, &decision);
        assert_int_equal(decision.kind, GM_KIND_NATIVE);
        assert_int_equal(decision.advice, 0);
    }
}

TEST(without_a_rule_native) {
    const struct gm_policy *policy = gm_policy_find("static");
    struct gm_policy_setup setup = setup_of("size<1->async");
    struct gm_request request = usual();
    struct gm_decision decision = {.kind = GM_KIND_ASYNC};
    assert_int_equal(gm_policy_open(policy, &setup), GM_OK);
    policy->decide(&request, &decision);
    assert_int_equal(decision.kind, GM_KIND_NATIVE);
    assert_int_equal(decision.reason, GM_REASON_POLICY);
}

TEST(wrong_arguments_are_one_line) {
    static const struct {
        const char *argument, *says;
    } rows[] = {
        {NULL, "policy static needs rules: static:RULES or static:@FILE"},
        {"", "policy static needs rules: static:RULES or static:@FILE"},
        {"# nothing", "policy static needs rules: static:RULES or static:@FILE"},
        {"@missing", "missing: No such file"},
        {"@wrong", "wrong line 3: wrong memory \"slow\"; accepted: native, cache, async, managed, managed-pool, guard"},
        {"*->async;*->slow",
         "rule 2: wrong memory \"slow\"; accepted: native, cache, async, managed, managed-pool, guard"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct gm_policy_setup setup = setup_of(rows[i].argument);
        assert_int_equal(gm_policy_open(gm_policy_find("static"), &setup), GM_INVALID_VALUE);
        assert_string_equal(setup.error, rows[i].says);
    }
}

int main(void) { return run_all(NULL, NULL); }

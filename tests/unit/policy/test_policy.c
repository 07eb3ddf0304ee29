/* Tests of the table of policies and of the small policies. */
#include "policy/active_list.h"
#include "policy/policy.h"
#include "shim/base/base.h"

#include "tests/test.h"

static struct gm_policy_setup usual(void) {
    return (struct gm_policy_setup){
        .list_length = 10, .list_range = 5, .managed = GM_KIND_MANAGED, .reserve = gm_pages};
}

TEST(find_reads_up_to_the_colon) {
    for (int i = 0; gm_policies[i]; i++) {
        char text[64];
        strcpy(text, gm_policies[i]->name);
        assert_ptr_equal(gm_policy_find(text), gm_policies[i]);
        strcat(text, ":argument:more");
        assert_ptr_equal(gm_policy_find(text), gm_policies[i]);
        strcpy(text, gm_policies[i]->name);
        strcat(text, "x");
        assert_null(gm_policy_find(text));
        text[strlen(gm_policies[i]->name) - 1] = '\0';
        assert_null(gm_policy_find(text));
    }
    assert_null(gm_policy_find(""));
    assert_null(gm_policy_find(":auto"));
    assert_null(gm_policy_find("AUTO"));
}

TEST(the_default_is_auto) { assert_string_equal(gm_policies[0]->name, "auto"); }

TEST(unwanted_arguments_are_named) {
    for (int i = 0; gm_policies[i]; i++) {
        struct gm_policy_setup setup = usual();
        if (gm_policies[i]->takes_argument)
            continue;
        setup.argument = "surprise";
        assert_int_equal(gm_policy_open(gm_policies[i], &setup), GM_INVALID_VALUE);
        assert_non_null(strstr(setup.error, gm_policies[i]->name));
        assert_non_null(strstr(setup.error, "surprise"));
        assert_null(strchr(setup.error, '\n'));
    }
}

TEST(long_arguments_are_cut) {
    char argument[1000];
    struct gm_policy_setup setup = usual();
    memset(argument, 'a', sizeof argument - 1);
    argument[sizeof argument - 1] = '\0';
    setup.argument = argument;
    assert_int_equal(gm_policy_open(gm_policy_find("observe"), &setup), GM_INVALID_VALUE);
    assert_int_equal(strlen(setup.error), sizeof setup.error - 1);
}

TEST(range_beyond_length_warns) {
    const struct gm_policy *policy = gm_policy_find("active-list");
    struct gm_policy_setup setup = usual();
    assert_int_equal(gm_policy_open(policy, &setup), GM_OK);
    assert_string_equal(setup.error, "");
    setup.list_range = 10;
    assert_int_equal(gm_policy_open(policy, &setup), GM_OK);
    assert_non_null(strstr(setup.error, "never answered with managed memory again"));
}

TEST(managed_means_what_setup_said) {
    const enum gm_kind kinds[] = {GM_KIND_MANAGED, GM_KIND_MANAGED_POOL};
    const char *const names[] = {"managed", "active-list"};
    const struct gm_request request = {.call = GM_CALL_ALLOC, .size = 64};
    for (int n = 0; n < 2; n++) {
        for (int k = 0; k < 2; k++) {
            struct gm_policy_setup setup = usual();
            struct gm_decision decision;
            setup.managed = kinds[k];
            assert_int_equal(gm_policy_open(gm_policy_find(names[n]), &setup), GM_OK);
            gm_policy_find(names[n])->decide(&request, &decision);
            assert_int_equal(decision.kind, kinds[k]);
            assert_int_equal(decision.verdict, kinds[k]);
        }
    }
}

/* auto serves by the cache what active-list would put into a pool and what turns over. The rest is native. */
TEST(auto_follows_the_lists_verdict) {
    struct gm_decision by_auto[60], by_list[60];
    for (int which = 0; which < 2; which++) {
        const struct gm_policy *policy = gm_policy_find(which ? "active-list" : "auto");
        struct gm_policy_setup setup = usual();
        assert_int_equal(gm_policy_open(policy, &setup), GM_OK);
        for (int i = 0; i < 60; i++) {
            struct gm_request request = {
                .call = GM_CALL_ALLOC, .size = i % 2 ? 512 : 1024, .recorded = true}; /* two classes */
            policy->decide(&request, which ? &by_list[i] : &by_auto[i]);
            if (i % 9 == 0)
                policy->failed(&request);
            else if (i % 2)
                policy->freed(&request);
        }
    }
    for (int i = 0; i < 60; i++) {
        assert_int_equal(by_auto[i].kind, GM_KIND_CACHE);
        assert_int_equal(by_auto[i].reason, by_list[i].reason);
        assert_int_equal(by_auto[i].verdict, by_list[i].kind);
        assert_true(by_auto[i].counted && by_list[i].counted);
    }
    assert_int_equal(by_list[59].kind, GM_KIND_ASYNC);
    assert_int_equal(by_list[58].kind, GM_KIND_MANAGED);
}

/* Nobody reads the verdict of a request that no trace holds, so the list does not count its block. */
TEST(auto_judges_what_is_recorded) {
    const struct gm_policy *policy = gm_policy_find("auto");
    struct gm_policy_setup setup = usual();
    assert_int_equal(gm_policy_open(policy, &setup), GM_OK);
    for (size_t i = 0; i < 2 * setup.list_length; i++) {
        const struct gm_request request = {.call = GM_CALL_ALLOC, .size = 4096};
        struct gm_decision decision = {0};
        policy->decide(&request, &decision);
        assert_int_equal(decision.kind, GM_KIND_CACHE);
        assert_false(decision.counted);
    }
    uint32_t entries[64], live;
    assert_int_equal(gm_active_list_read(0, 4096, entries, &live), 0);
    assert_int_equal(live, 0);
}

/* All sizes of a class are one: eight classes to a doubling. */
TEST(auto_judges_by_class) {
    const struct gm_policy *policy = gm_policy_find("auto");
    struct gm_policy_setup setup = usual();
    struct gm_decision decision;
    assert_int_equal(gm_policy_open(policy, &setup), GM_OK);
    for (size_t i = 0; i < 40; i++) {
        const struct gm_request request = {.call = GM_CALL_ALLOC, .size = 1000000 + 512 * i, .recorded = true};
        policy->decide(&request, &decision);
        assert_int_equal(decision.kind, GM_KIND_CACHE);
        assert_int_equal(decision.verdict, i + 1 < setup.list_length ? GM_KIND_MANAGED : GM_KIND_ASYNC);
        policy->freed(&request);
    }
    const struct gm_request next = {.call = GM_CALL_ALLOC, .size = (1 << 21) + 1},
                            huge = {.call = GM_CALL_ALLOC, .size = SIZE_MAX},
                            ordered = {.call = GM_CALL_ALLOC_ASYNC, .size = 1000000};
    for (size_t i = 0; i < 2 * setup.list_length; i++)
        policy->decide(&next, &decision);
    policy->decide(&huge, &decision);
    assert_int_equal(decision.kind, GM_KIND_CACHE);
    policy->decide(&ordered, &decision);
    assert_int_equal(decision.kind, GM_KIND_NATIVE);
}

TEST(names) {
    assert_string_equal(gm_call_name(GM_CALL_ALLOC), "cuMemAlloc");
    assert_string_equal(gm_call_name(GM_CALL_PRIMARY_RELEASE), "cuDevicePrimaryCtxRelease");
    assert_string_equal(gm_kind_name(GM_KIND_MANAGED_POOL), "managed-pool");
    assert_string_equal(gm_reason_name(GM_REASON_LIST_MAP_FULL), "list-map-full");
    assert_string_equal(gm_call_name(GM_CALL_COUNT), "unknown");
    assert_string_equal(gm_kind_name(GM_KIND_COUNT), "unknown");
    assert_string_equal(gm_reason_name((enum gm_reason) - 1), "unknown");
    for (int i = 0; i < GM_CALL_COUNT; i++) {
        for (int j = 0; j < i; j++)
            assert_string_not_equal(gm_call_name((enum gm_call)i), gm_call_name((enum gm_call)j));
    }
}

int main(void) { return run_all(NULL, NULL); }

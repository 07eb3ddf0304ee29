/* Stack texts: parsing, building, errors, and the promises that properties keep. */
#include <stdio.h>

#include "tests/test.h"

#include "shim/resource/stack.h"

TEST(test_plan) {
    struct gm_stack_plan plan;
    char error[320] = "";
    assert_int_equal(gm_stack_parse(" limit( 8 GiB , fail-nth(3,sim) ) ", 0, &plan, error, sizeof error), GM_OK);
    assert_int_equal(plan.count, 3);
    assert_string_equal(plan.items[0].ops->name, "limit");
    assert_string_equal(plan.items[0].argument, "8 GiB");
    assert_string_equal(plan.items[1].argument, "3");
    assert_string_equal(plan.items[2].ops->name, "sim");
    assert_false(plan.items[2].has_argument);
}

TEST(test_two_wrapped_and_given) {
    struct gm_stack_plan plan;
    char error[320] = "";
    const char *text = "log(fallback(limit(1MiB,sim),fallback($2,$1)))";
    assert_int_equal(gm_stack_parse(text, 2, &plan, error, sizeof error), GM_OK);
    assert_int_equal(plan.count, 7);
    assert_int_equal(plan.items[1].second, 4);
    assert_int_equal(plan.items[4].second, 6);
    assert_null(plan.items[5].ops);
    assert_int_equal(plan.items[5].given, 1);
    assert_int_equal(plan.items[6].given, 0);
    assert_int_equal(gm_stack_parse(text, 1, &plan, error, sizeof error), GM_INVALID_VALUE);
    assert_non_null(strstr(error, "$2"));

    struct gm_resource *given[2] = {gm_resource_build("sim", error, sizeof error),
                                    gm_resource_build("aligned(64,sim)", error, sizeof error)};
    struct gm_resource *top = gm_stack_build(text, given, 2, error, sizeof error);
    assert_non_null(top);
    assert_ptr_equal(top->upstream->second->upstream, given[1]);
    assert_ptr_equal(top->upstream->second->second, given[0]);
    assert_int_equal(top->alignment, 8); /* the least of what it wraps */
    assert_ptr_equal(gm_stack_find(top, given[1]->ops), given[1]);
    gm_stack_discard(top);
    gm_stack_discard(given[0]);
    gm_stack_discard(given[1]);
}

TEST(test_properties_of_what_is_wrapped) {
    char error[320] = "";
    struct gm_resource *both = gm_resource_build("fallback(sim,new-delete)", error, sizeof error);
    assert_int_equal(both->properties, GM_PROP_READY_ANYWHERE);
    gm_stack_discard(both);
    assert_null(gm_resource_build("stream-bound(legacy,new-delete)", error, sizeof error));
    assert_non_null(strstr(error, "not stream-ordered"));
}

TEST(test_build) {
    char error[320] = "";
    struct gm_resource *top = gm_resource_build("limit(8GiB,fail-nth(3,sim))", error, sizeof error);
    assert_non_null(top);
    assert_string_equal(top->ops->name, "limit");
    assert_string_equal(top->upstream->ops->name, "fail-nth");
    assert_string_equal(top->upstream->upstream->ops->name, "sim");
    assert_null(top->upstream->upstream->upstream);
    assert_int_equal(top->kind, GM_KIND_SIM);
    assert_int_equal(top->properties, top->upstream->upstream->properties);
    gm_stack_discard(top);
    gm_stack_discard(NULL);
}

/* A wrong text, and two words that its one-line error must contain: the wrong word and an accepted one. */
static const struct {
    const char *text, *word, *accepted;
} wrong[] = {
    {"", "the end", "new-delete"},
    {"nativ", "\"nativ\"", "limit(BYTES,R)"},
    {"Sim", "\"Sim\"", "new-delete"},
    {"limit", "\"limit\"", "limit(BYTES,R)"},
    {"limit(", "the end", "new-delete"},
    {"limit(sim)", "limit", "8GiB"},
    {"limit(8GiB,)", "\")\"", "new-delete"},
    {"limit(8GiB,sim", "the end", "\")\""},
    {"limit(8GiB,sim))", "\")\"", "after the end"},
    {"sim,sim", "\",sim\"", "after the end"},
    {"sim(1)", "\"(1)\"", "after the end"},
    {"limit(8GiB,4GiB,sim)", "\"4GiB\"", "new-delete"},
    {"limit(nonsense,sim)", "nonsense", "limit"},
    {"limit(0,sim)", "\"0\"", "1 byte"},
    {"limit(,sim)", "\"\"", "BYTES"},
    {"fail-nth(0,sim)", "0", "fail-nth"},
    {"fail-nth(-1,sim)", "-1", "fail-nth"},
    {"fail-nth(sim)", "fail-nth", "3"},
    {"limit(4\n4,sim)", "4?4", "limit"},
    {"sim\nsim", "\"sim?sim\"", "sim"},
};

TEST(test_errors) {
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char error[320] = "";
        struct gm_resource *top = gm_resource_build(wrong[i].text, error, sizeof error);
        if (top || !strstr(error, wrong[i].word) || !strstr(error, wrong[i].accepted) || strchr(error, '\n'))
            fail_msg("\"%s\" gave: %s", wrong[i].text, top ? "a resource" : error);
    }
}

TEST(test_depth_and_short_buffers) {
    char text[2048] = "", error[320] = "";
    for (int i = 0; i < GM_STACK_DEPTH; i++)
        strcat(text, "fail-nth(9,");
    strcat(text, "sim");
    for (int i = 0; i < GM_STACK_DEPTH; i++)
        strcat(text, ")");
    assert_null(gm_resource_build(text, error, sizeof error));
    assert_non_null(strstr(error, "too deep"));
    for (size_t size = 1; size < 40; size++) {
        memset(error, 'x', sizeof error);
        assert_null(gm_resource_build("nothing-of-the-kind", error, size));
        assert_true(strlen(error) < size);
        assert_true(error[size] == 'x');
    }
}

TEST(test_promises) {
    struct gm_request request = {.promises =
                                     GM_PROMISE_READY_ANYWHERE | GM_PROMISE_IPC | GM_PROMISE_PEER | GM_PROMISE_RDMA};
    assert_true(gm_resource_keeps(GM_PROP_READY_ANYWHERE, &request));
    assert_false(gm_resource_keeps(GM_PROP_STREAM_ORDERED | GM_PROP_IPC, &request));
    assert_int_equal(gm_resource_drops(GM_PROP_PEER, &request), GM_PROMISE_IPC | GM_PROMISE_RDMA);
    assert_int_equal(gm_resource_drops(~0u, &request), 0);
    request.promises = GM_PROMISE_MANAGED;
    assert_false(gm_resource_keeps(GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_HOST_ACCESSIBLE | GM_PROP_RESIDENT, &request));
    assert_true(
        gm_resource_keeps(GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_HOST_ACCESSIBLE | GM_PROP_OVERSUBSCRIBABLE, &request));
    request.promises = GM_PROMISE_CAPTURE | GM_PROMISE_STREAM_ORDER;
    assert_false(gm_resource_keeps(GM_PROP_STREAM_ORDERED, &request));
    assert_true(gm_resource_keeps(GM_PROP_STREAM_ORDERED | GM_PROP_CAPTURABLE, &request));
}

int main(void) { return run_all(NULL, NULL); }

/* Tests every policy with every call, and every option row, against what the manual says. */
#include "policy/policy.h"
#include "shim/base/base.h"
#include "shim/base/options.h"

#include <stdio.h>

#include "tests/test.h"

/* The decisions of a policy for a lasting size and for a short-lived size, by call. */
struct promise {
    const char *policy;
    enum gm_kind block_lasting, block_transient;     /* cuMemAlloc, cuMemAllocPitch */
    enum gm_kind ordered_lasting, ordered_transient; /* cuMemAllocAsync */
    enum gm_kind verdict_lasting, verdict_transient;
};

#define N GM_KIND_NATIVE
#define A GM_KIND_ASYNC
#define M GM_KIND_MANAGED
#define C GM_KIND_CACHE
static const struct promise promises[] = {
    {"observe", N, N, N, N, N, N}, {"cache", C, C, N, N, C, C},       {"async", A, A, N, N, A, A},
    {"managed", M, M, M, M, M, M}, {"active-list", M, A, M, N, M, A}, {"auto", C, C, N, N, M, A},
    {"plan", M, A, M, N, M, A},    {"static", M, A, M, N, M, A},
};
#undef N
#undef A
#undef M
#undef C

static const enum gm_call movable[] = {GM_CALL_ALLOC, GM_CALL_ALLOC_PITCH, GM_CALL_ALLOC_ASYNC};

/* A plan in the paper's form: repeats the first character of the file's name. */
static const char *load(const char *path, size_t *bytes, const char **why) {
    static char text[30];
    *bytes = sizeof text;
    return memset(text, path[0], sizeof text);
}

static void unload(const char *text, size_t bytes) {}

/* Policies plan and static get as their argument what the other policies find out. */
static void set_up(const struct gm_policy *policy, bool transient) {
    struct gm_policy_setup setup = {.list_length = 4,
                                    .list_range = 2,
                                    .managed = GM_KIND_MANAGED,
                                    .reserve = gm_pages,
                                    .load = load,
                                    .unload = unload};
    if (!strcmp(policy->name, "plan"))
        setup.argument = transient ? "1" : "0";
    else if (!strcmp(policy->name, "static"))
        setup.argument = transient ? "*->async" : "*->managed";
    assert_int_equal(gm_policy_open(policy, &setup), GM_OK);
    assert_string_equal(setup.error, "");
}

static const struct promise *promise_of(const char *policy) {
    for (size_t i = 0; i < sizeof promises / sizeof *promises; i++) {
        if (!strcmp(promises[i].policy, policy))
            return &promises[i];
    }
    return NULL;
}

/* Calls the policy until it has judged a size, with a loop or with growth. Returns the last decision. */
static struct gm_decision drive(const struct gm_policy *policy, enum gm_call call, bool transient, bool capturing) {
    struct gm_request request = {.call = call, .size = 4096, .device = 0, .capturing = capturing, .recorded = true};
    struct gm_decision decision;
    set_up(policy, transient);
    for (int i = 0; i < 12; i++) {
        request.object++;
        memset(&decision, 0xee, sizeof decision);
        policy->decide(&request, &decision);
        if (transient && policy->freed)
            policy->freed(&request);
    }
    return decision;
}

TEST(every_policy_has_a_promise) {
    size_t rows = 0;
    for (; gm_policies[rows]; rows++)
        assert_non_null(promise_of(gm_policies[rows]->name));
    assert_int_equal(rows, sizeof promises / sizeof *promises);
}

TEST(rows_are_complete) {
    for (int i = 0; gm_policies[i]; i++) {
        const struct gm_policy *row = gm_policies[i];
        assert_true(strlen(row->name) > 0 && strspn(row->name, "abcdefghijklmnopqrstuvwxyz-") == strlen(row->name));
        assert_true(strlen(row->summary) > 10 && !strchr(row->summary, '\n'));
        assert_int_equal(row->summary[strlen(row->summary) - 1], '.');
        assert_non_null(row->decide);
        assert_true(!row->failed == !row->freed);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(row->name, gm_policies[j]->name);
    }
}

TEST(only_three_calls_move) {
    for (int call = 0; call < GM_CALL_COUNT; call++) {
        bool listed = false;
        for (size_t i = 0; i < sizeof movable / sizeof *movable; i++)
            listed |= movable[i] == (enum gm_call)call;
        for (int capturing = 0; capturing < 2; capturing++) {
            const struct gm_request request = {.call = (enum gm_call)call, .size = 64, .capturing = capturing};
            assert_int_equal(gm_call_is_movable(&request), listed);
        }
    }
}

TEST(each_call_is_placed_as_promised) {
    for (int p = 0; gm_policies[p]; p++) {
        const struct promise *promise = promise_of(gm_policies[p]->name);
        for (size_t c = 0; c < sizeof movable / sizeof *movable; c++) {
            bool ordered = movable[c] == GM_CALL_ALLOC_ASYNC;
            struct gm_decision lasting = drive(gm_policies[p], movable[c], false, false);
            struct gm_decision transient = drive(gm_policies[p], movable[c], true, false);
            assert_int_equal(lasting.kind, ordered ? promise->ordered_lasting : promise->block_lasting);
            assert_int_equal(transient.kind, ordered ? promise->ordered_transient : promise->block_transient);
            assert_int_equal(lasting.verdict, promise->verdict_lasting);
            assert_int_equal(transient.verdict, promise->verdict_transient);
        }
    }
}

TEST(capture_leaves_all_as_asked) {
    for (int p = 0; gm_policies[p]; p++) {
        const struct promise *promise = promise_of(gm_policies[p]->name);
        for (size_t c = 0; c < sizeof movable / sizeof *movable; c++) {
            struct gm_decision decision = drive(gm_policies[p], movable[c], true, true);
            assert_int_equal(decision.kind, GM_KIND_NATIVE);
            assert_int_equal(decision.verdict, promise->verdict_transient);
            assert_true(decision.reason == GM_REASON_CAPTURE || !strcmp(promise->policy, "observe"));
        }
    }
}

TEST(reasons_are_given) {
    static const struct {
        const char *policy;
        enum gm_reason transient, lasting;
    } others[] = {
        {"active-list", GM_REASON_LIST_STEADY, GM_REASON_LIST_GROWING},
        {"auto", GM_REASON_LIST_STEADY, GM_REASON_LIST_GROWING},
        {"plan", GM_REASON_PLAN, GM_REASON_PLAN},
        {"static", GM_REASON_RULE, GM_REASON_RULE},
    };
    for (int p = 0; gm_policies[p]; p++) {
        enum gm_reason transient = GM_REASON_POLICY, lasting = GM_REASON_POLICY;
        for (size_t i = 0; i < sizeof others / sizeof *others; i++)
            if (!strcmp(gm_policies[p]->name, others[i].policy)) {
                transient = others[i].transient;
                lasting = others[i].lasting;
            }
        assert_int_equal(drive(gm_policies[p], GM_CALL_ALLOC, true, false).reason, transient);
        assert_int_equal(drive(gm_policies[p], GM_CALL_ALLOC, false, false).reason, lasting);
    }
}

/* A failed request leaves no trace in the policy: a run with failures decides like the run without. */
TEST(failures_leave_no_mark) {
    struct gm_request request = {.call = GM_CALL_ALLOC, .size = 640, .recorded = true};
    for (int p = 0; gm_policies[p]; p++) {
        struct gm_decision plain[30], marked[30], lost;
        for (int with = 0; with < 2; with++) {
            set_up(gm_policies[p], true);
            for (int i = 0; i < 30; i++) {
                request.object = (uint64_t)i + 1;
                gm_policies[p]->decide(&request, with ? &marked[i] : &plain[i]);
                for (int n = 0; with && n < i % 4; n++) {
                    gm_policies[p]->decide(&request, &lost);
                    if (gm_policies[p]->failed)
                        gm_policies[p]->failed(&request);
                }
                if (i % 3 && gm_policies[p]->freed)
                    gm_policies[p]->freed(&request);
            }
        }
        for (int i = 0; i < 30; i++) {
            assert_int_equal(plain[i].kind, marked[i].kind);
            assert_int_equal(plain[i].verdict, marked[i].verdict);
            assert_int_equal(plain[i].reason, marked[i].reason);
        }
    }
}

/* ---- option rows */

TEST(option_rows_are_complete) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const struct gm_option *row = &gm_option_rows[i];
        assert_int_equal(row->id, i);
        assert_memory_equal(row->name, "GPUMEM_", 7);
        assert_int_equal(strspn(row->name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"), strlen(row->name));
        assert_non_null(row->initial);
        assert_non_null(row->unit);
        assert_true(strlen(row->help) > 10 && !strchr(row->help, '\n'));
        assert_int_equal(row->help[strlen(row->help) - 1], '.');
        assert_int_equal(row->choices != NULL, row->type == GM_OPTION_CHOICE);
        assert_true(row->type != GM_OPTION_COUNT || row->low < row->high);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(row->name, gm_option_rows[j].name);
    }
}

/* --trace-flush is GPUMEM_TRACE_FLUSH. */
TEST(flags_follow_names) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const char *name = gm_option_rows[i].name + 7, *flag = gm_option_rows[i].flag;
        if (!flag)
            continue;
        assert_int_equal(strlen(name), strlen(flag));
        for (; *name; name++, flag++)
            assert_int_equal(*flag, *name == '_' ? '-' : *name - 'A' + 'a');
    }
}

TEST(defaults_parse) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        char error[256];
        uint64_t number = 1;
        assert_int_equal(gm_option_parse(&gm_option_rows[i], gm_option_rows[i].initial, &number, error, sizeof error),
                         0);
        assert_int_equal(number, gm_option_number((enum gm_option_id)i));
        assert_string_equal(gm_option_rows[i].initial, gm_option_text((enum gm_option_id)i));
    }
    assert_non_null(gm_policy_find(gm_option_text(GM_OPT_POLICY)));
    assert_string_equal(gm_option_text(GM_OPT_POLICY), gm_policies[0]->name);
}

TEST(choices_parse_in_order) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        char words[256], error[256], *rest = words, *word;
        uint64_t number, expected = 0;
        if (gm_option_rows[i].type != GM_OPTION_CHOICE)
            continue;
        snprintf(words, sizeof words, "%s", gm_option_rows[i].choices);
        for (; (word = strsep(&rest, " ")); expected++) {
            assert_int_equal(gm_option_parse(&gm_option_rows[i], word, &number, error, sizeof error), 0);
            assert_int_equal(number, expected);
        }
        assert_true(expected >= 2);
    }
}

TEST(bad_values_are_explained) {
    static const char *const accepted[] = {
        [GM_OPTION_BOOL] = "on",    [GM_OPTION_COUNT] = "count", [GM_OPTION_BYTES] = "512M",
        [GM_OPTION_MEMORY] = "50%", [GM_OPTION_TIME] = "100ms",  [GM_OPTION_CHOICE] = NULL,
    };
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const struct gm_option *row = &gm_option_rows[i];
        char error[256];
        uint64_t number = 42;
        if (row->type == GM_OPTION_TEXT)
            continue;
        assert_int_equal(gm_option_parse(row, "no?such", &number, error, sizeof error), -1);
        assert_int_equal(number, 42);
        assert_non_null(strstr(error, row->name));
        assert_non_null(strstr(error, "no?such"));
        assert_null(strchr(error, '\n'));
        if (row->type == GM_OPTION_CHOICE) {
            char words[256], *rest = words, *word;
            snprintf(words, sizeof words, "%s", row->choices);
            while ((word = strsep(&rest, " ")))
                assert_non_null(strstr(error, word));
        } else {
            assert_non_null(strstr(error, accepted[row->type]));
        }
    }
}

TEST(counts_end_where_they_say) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const struct gm_option *row = &gm_option_rows[i];
        char text[32], error[256];
        uint64_t number;
        if (row->type != GM_OPTION_COUNT)
            continue;
        for (int high = 0; high < 2; high++) {
            uint64_t edge = high ? row->high : row->low;
            snprintf(text, sizeof text, "%llu", (unsigned long long)edge);
            assert_int_equal(gm_option_parse(row, text, &number, error, sizeof error), 0);
            assert_int_equal(number, edge);
            if (high ? edge == UINT64_MAX : edge == 0)
                continue;
            snprintf(text, sizeof text, "%llu", (unsigned long long)(high ? edge + 1 : edge - 1));
            assert_int_equal(gm_option_parse(row, text, &number, error, sizeof error), -1);
        }
    }
}

int main(void) { return run_all(NULL, NULL); }

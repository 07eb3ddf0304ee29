/* Tests of the reader of plans and of policy plan. */
#include "policy/plan_text.h"
#include "policy/site_key.h"
#include "shim/base/base.h"

#include <stdio.h>

#include "tests/test.h"

#define A GM_KIND_ASYNC
#define M GM_KIND_MANAGED

static const char *file_text;
static size_t file_bytes;

static const char *load(const char *path, size_t *bytes, const char **why) {
    *bytes = file_bytes;
    *why = "No such file";
    return strcmp(path, "missing") ? file_text : NULL;
}

static void unload(const char *text, size_t bytes) { assert_ptr_equal(text, file_text); }

static struct gm_policy_setup setup_of(const char *text) {
    file_text = text;
    file_bytes = strlen(text);
    return (struct gm_policy_setup){.argument = "p",
                                    .list_length = 3,
                                    .list_range = 2,
                                    .managed = M,
                                    .reserve = gm_pages,
                                    .load = load,
                                    .unload = unload};
}

static const struct gm_policy *plan(void) { return gm_policy_find("plan"); }

static void follow(const char *text) {
    struct gm_policy_setup setup = setup_of(text);
    gm_status status = gm_policy_open(plan(), &setup);
    if (status)
        print_error("%s\n", setup.error);
    assert_int_equal(status, GM_OK);
    assert_int_equal(setup.wants, GM_WANT_OBJECT | GM_WANT_SITE);
}

static void refused(const char *text, const char *line) {
    struct gm_policy_setup setup = setup_of(text);
    assert_int_equal(gm_policy_open(plan(), &setup), GM_INVALID_VALUE);
    assert_string_equal(setup.error, line);
}

static struct gm_decision ask(uint64_t object, size_t size, const char *site) {
    struct gm_site_keys keys;
    struct gm_request request = {.call = GM_CALL_ALLOC, .size = size, .object = object};
    struct gm_decision decision = {0};
    if (site) {
        assert_true(gm_site_keys_parse(site, strlen(site), &keys));
        request.where = &keys;
    }
    plan()->decide(&request, &decision);
    return decision;
}

#define ASK(object, size, site, wanted, why)                   \
    do {                                                       \
        struct gm_decision decision = ask(object, size, site); \
        assert_int_equal(decision.kind, wanted);               \
        assert_int_equal(decision.reason, why);                \
    } while (0)

static void said(const char *line) {
    char text[256];
    assert_true(plan()->ended(text, sizeof text));
    assert_string_equal(text, line);
}

static const char two_sites[] = "gpumem-plan 1\n"
                                "# a comment\n"
                                "site 1 app+0x10<app+0x99\n"
                                "site 2 lib.so+0x20\n"
                                "1 async 100 1\n"
                                "2 managed 100 2 # beyond what fits\n"
                                "3 managed 100 1\r\n"
                                "\n"
                                "  4 async 200 lib.so+0x20\n"
                                "5 native 300 -\n"
                                "7 cache - -\n"
                                "8 managed-pool";

TEST(the_order_of_the_profile) {
    follow(two_sites);
    ASK(1, 100, "app+0x10<app+0x99", A, GM_REASON_PLAN);
    ASK(2, 100, "lib.so+0x20", M, GM_REASON_PLAN);
    ASK(3, 100, "app+0x10<app+0x99", M, GM_REASON_PLAN);
    ASK(4, 200, "lib.so+0x20", A, GM_REASON_PLAN);
    ASK(5, 300, NULL, GM_KIND_NATIVE, GM_REASON_PLAN);
    ASK(7, 1, NULL, GM_KIND_CACHE, GM_REASON_PLAN);
    ASK(8, 77, NULL, GM_KIND_MANAGED_POOL, GM_REASON_PLAN);
    said("plan: matched by order 7, by call site 0, not in the plan 0; objects in the plan 7");
}

TEST(another_order) {
    follow(two_sites);
    ASK(1, 100, "lib.so+0x20", M, GM_REASON_PLAN_SITE);
    ASK(2, 100, "app+0x10<app+0x99", A, GM_REASON_PLAN_SITE);
    ASK(3, 200, "lib.so+0x20", A, GM_REASON_PLAN_SITE);
    ASK(4, 100, "app+0x10<app+0x99", M, GM_REASON_PLAN_SITE);
    said("plan: matched by order 0, by call site 4, not in the plan 0; objects in the plan 7");
}

/* The active list, L = 3: managed while it fills. */
TEST(what_the_plan_does_not_know) {
    follow(two_sites);
    ASK(9, 64, "app+0x10", M, GM_REASON_LIST_FILLING);
    ASK(6, 64, NULL, M, GM_REASON_LIST_FILLING);
    ASK(1, 101, NULL, M, GM_REASON_LIST_FILLING);
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(ask(i + 1, 100, "app+0x10<app+0x99").kind, i ? M : A);
    const struct gm_request gone = {.call = GM_CALL_ALLOC, .size = 100};
    plan()->freed(&gone);
    ASK(10, 100, "app+0x10<app+0x99", A, GM_REASON_LIST_STEADY);       /* one more than the plan has */
    assert_int_equal(ask(0, 64, NULL).reason, GM_REASON_LIST_GROWING); /* without a context: no object, not counted */
    said("plan: matched by order 1, by call site 1, not in the plan 4; objects in the plan 7");
}

/* A rebuilt program has other offsets, but the order and sizes of the profile. */
TEST(sites_that_moved) {
    follow(two_sites);
    ASK(1, 100, "app+0x18", A, GM_REASON_PLAN);
    ASK(4, 200, "lib.so+0x28", A, GM_REASON_PLAN);
    ASK(4, 100, "lib.so+0x28", M, GM_REASON_LIST_FILLING);
}

TEST(the_papers_list) {
    static const char *const forms[] = {"10011", "1\n0\n0\n1\n1\n", " 1, 0, 0, 1, 1", "1,0,0,1,1\r\n", "\n\n100\n11"};
    static const enum gm_kind kinds[] = {A, M, M, A, A};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        follow(forms[f]);
        for (uint64_t i = 0; i < 5; i++)
            ASK(i + 1, 64 + f, i % 2 ? "app+0x10" : NULL, kinds[i], GM_REASON_PLAN);
        ASK(6, 64 + f, NULL, M, GM_REASON_LIST_GROWING);
    }
}

TEST(managed_means_what_setup_said) {
    struct gm_policy_setup setup = setup_of("gpumem-plan 1\n1 managed\n2 async\n");
    setup.managed = GM_KIND_MANAGED_POOL;
    assert_int_equal(gm_policy_open(plan(), &setup), GM_OK);
    assert_int_equal(ask(1, 8, NULL).kind, GM_KIND_MANAGED_POOL);
    assert_int_equal(ask(2, 8, NULL).kind, A);
}

TEST(a_child_begins_anew) {
    follow(two_sites);
    ASK(1, 100, "app+0x10<app+0x99", A, GM_REASON_PLAN);
    plan()->after_fork();
    said("plan: matched by order 0, by call site 0, not in the plan 0; objects in the plan 7");
    ASK(1, 100, "app+0x10<app+0x99", A, GM_REASON_PLAN);
}

TEST(wrong_lines_are_named) {
    static const char decisions[] = "a decision is native, cache, async, managed, managed-pool or guard";
    static const char lines[] =
        "a line is \"ID DECISION SIZE SITE\" or \"site NUMBER FRAMES\", ids rising from 1 to 100000000";
    char text[256];
    refused("", "p line 1: neither \"gpumem-plan 1\" nor a list of 0 and 1");
    refused("gpumem-plan 2\n", "p line 1: neither \"gpumem-plan 1\" nor a list of 0 and 1");
    refused("hello", "p line 1: neither \"gpumem-plan 1\" nor a list of 0 and 1");
    refused("gpumem-plan 1\n# nothing\n", "p: the plan has no object");
    refused("0 1\n0 2\n", "p line 2: a plain list may hold only 0 (managed) and 1 (async)");
    snprintf(text, sizeof text, "p line 3: %s", decisions);
    refused("gpumem-plan 1\n1 async\n2 fast 64\n", text);
    snprintf(text, sizeof text, "p line 4: %s", lines);
    refused("gpumem-plan 1\n\n2 async\n2 async\n", text);
    snprintf(text, sizeof text, "p line 2: %s", lines);
    refused("gpumem-plan 1\n0 async\n", text);
    refused("gpumem-plan 1\n100000001 async\n", text);
    refused("gpumem-plan 1\n-1 async\n", text);
    refused("gpumem-plan 1\nsite 2 app+0x1\n1 async\n",
            "p line 2: a site line is \"site NUMBER FRAMES\", the numbers 1, 2, 3 ...");
    refused("gpumem-plan 1\nsite 1 app\n1 async\n",
            "p line 2: a call site is MODULE+0xOFFSET, each caller after \"<\", or ?");
}

TEST(wrong_words_are_refused) {
    static const char *const rests[] = {"1 async 1k",    "1 async 18446744073709551616",
                                        "1 async 8 1",   "1 async 8 0",
                                        "1 async 8 app", "1 async 8 - more"};
    char text[128];
    for (size_t i = 0; i < sizeof rests / sizeof *rests; i++) {
        struct gm_policy_setup setup;
        snprintf(text, sizeof text, "gpumem-plan 1\n%s\n", rests[i]);
        setup = setup_of(text);
        assert_int_equal(gm_policy_open(plan(), &setup), GM_INVALID_VALUE);
        assert_memory_equal(setup.error, "p line 2: ", 10);
    }
}

TEST(files_that_are_none) {
    struct gm_policy_setup setup = setup_of("");
    setup.argument = "missing";
    assert_int_equal(gm_policy_open(plan(), &setup), GM_INVALID_VALUE);
    assert_string_equal(setup.error, "missing: No such file");
    setup.argument = NULL;
    assert_int_equal(gm_policy_open(plan(), &setup), GM_INVALID_VALUE);
    assert_string_equal(setup.error, "policy plan needs a plan file: plan:FILE");
}

static void *no_memory(size_t bytes) { return NULL; }

TEST(no_memory_is_said) {
    struct gm_policy_setup setup = setup_of("1");
    setup.reserve = no_memory;
    assert_int_equal(gm_policy_open(plan(), &setup), GM_OUT_OF_MEMORY);
    assert_string_equal(setup.error, "p: no memory for a plan of this size");
}

/* Every object of a large plan finds its entry, in any order. */
TEST(many) {
    enum { OBJECTS = 20000, SITES = 37 };
    char *text = malloc(OBJECTS * 40 + 4096), site[32];
    uint32_t taken[SITES] = {0};
    size_t used = (size_t)sprintf(text, "gpumem-plan 1\n");
    assert_non_null(text);
    for (unsigned i = 1; i <= SITES; i++)
        used += (size_t)sprintf(text + used, "site %u app+0x%x\n", i, i);
    for (unsigned i = 0; i < OBJECTS; i++)
        used +=
            (size_t)sprintf(text + used, "%u %s 64 %u\n", i + 1, i / SITES % 3 ? "async" : "managed", i % SITES + 1);
    follow(text);
    for (unsigned i = 0; i < OBJECTS; i++) {
        unsigned which = (i * 7919u + i / 5) % SITES;
        bool known = taken[which] * SITES + which < OBJECTS;
        sprintf(site, "app+0x%x", which + 1);
        struct gm_decision decision = ask(i + 1, 64, site);
        if (known)
            assert_int_equal(decision.kind, taken[which] % 3 ? A : M);
        assert_int_equal(known, decision.reason == GM_REASON_PLAN || decision.reason == GM_REASON_PLAN_SITE);
        taken[which]++;
    }
    free(text);
}

int main(void) { return run_all(NULL, NULL); }

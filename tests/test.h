/* What every unit test starts from: cmocka with the headers that it wants before it, and the list of tests, which grows
 * from their definitions:
 *
 *     TEST(adds) { assert_int_equal(1 + 1, 2); }
 *     int main(void) { return run_all(NULL, NULL); } */
#ifndef GM_TEST_H
#define GM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants those above first */
#include <cmocka.h>

struct test_row {
    struct CMUnitTest test;
    int line;
};

/* Lists a test that is declared: `row` is a name for the row, `label` the text that is printed. */
#define LIST_TEST(row, label, function, set_up, tear_down)                                              \
    static const struct test_row row_of_##row = {{label, function, set_up, tear_down, NULL}, __LINE__}; \
    static const struct test_row *const listed_##row __attribute__((used, section("gm_tests"))) = &row_of_##row

/* Defines a test, which gets `state`, between a set-up and a tear-down (NULL: none). */
#define TEST_WITH(name, set_up, tear_down)           \
    static void name(void **state);                  \
    LIST_TEST(name, #name, name, set_up, tear_down); \
    static void name(void **state)
#define TEST(name) TEST_WITH(name, NULL, NULL)

extern const struct test_row *const __start_gm_tests[] __attribute__((weak, visibility("hidden")));
extern const struct test_row *const __stop_gm_tests[] __attribute__((weak, visibility("hidden")));

static inline int in_order(const void *a, const void *b) {
    const struct test_row *const *first = a, *const *second = b;
    return (*first)->line - (*second)->line;
}

/* Runs the tests in the order of the file, between a set-up and a tear-down of all. Returns the number that failed. */
static inline int run_all(CMFixtureFunction set_up, CMFixtureFunction tear_down) {
    enum { MOST = 256 };
    const struct test_row *rows[MOST];
    struct CMUnitTest tests[MOST];
    size_t count = (size_t)(__stop_gm_tests - __start_gm_tests);
    if (count == 0 || count > MOST)
        return 1;
    memcpy(rows, __start_gm_tests, count * sizeof *rows);
    qsort(rows, count, sizeof *rows, in_order);
    for (size_t i = 0; i < count; i++)
        tests[i] = rows[i]->test;
    return _cmocka_run_group_tests("tests", tests, count, set_up, tear_down);
}

#endif

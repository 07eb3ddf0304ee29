/* Which functions of a program are its own allocation wrappers (own_wrappers.h). A stack is text: a letter for each
 * function, innermost first, with the number of the line in it. ? is a function without a name. */
/* cmocka needs the four headers above first */
#include "tests/test.h"

#include "tools/cli/own_wrappers.h"

enum { STACKS = 64 };

static struct gm_own_stack stacks[STACKS];

static size_t read_stacks(const char *text) {
    static char names[256][2];
    size_t count = 0;
    memset(stacks, 0, sizeof stacks);
    for (const char *at = text; *at; at++) {
        struct gm_own_stack *s = &stacks[count];
        if (*at == ' ') {
            count++;
            continue;
        }
        unsigned char function = (unsigned char)*at++;
        names[function][0] = (char)function;
        s->frames[s->count++] = (struct gm_own_frame){function == '?' ? 0 : function,
                                                      (uint64_t)function << 8 | (unsigned char)*at, names[function]};
    }
    return count + 1;
}

static void expect(const char *text, const char *wrappers) {
    struct gm_own_wrappers found;
    char names[GM_OWN_WRAPPERS + 1] = "";
    size_t count = read_stacks(text);
    gm_own_wrappers_find(&found, stacks, count);
    for (unsigned i = 0; i < found.count; i++)
        names[i] = found.names[i][0];
    assert_string_equal(names, wrappers);
    assert_int_equal(found.stacks, count);
    assert_true(found.count ? found.passing * 4 >= count * 3 : found.passing == 0);
}

TEST(test_one_function_requests_for_all) {
    expect("w1a1m1 w1b1m2", "w");
    expect("w1a1m1 w1b1m2 w1c1m3 d1m4", "w");
    expect("v1w1a1m1 v1w1b1m2", "vw"); /* through a chain */
    expect("w1w1a1m1 w1b1m2", "w");    /* recursion */
    expect("w1a1m1 w2b1m2 w1c1m3 w2d1m4", "w");
}

TEST(test_what_is_no_wrapper) {
    expect("a1m1", "");
    expect("a1m1 a2m1 a3m1", "");          /* a function with places of its own */
    expect("a1m1 a2m1 a1m2 a2m2", "");     /* its callers say no more than its lines */
    expect("w1a1m1 w1b1m2 c1m3 d1m4", ""); /* half of the stacks */
    expect("m1 m2 m3", "");                /* main ends the stacks */
    expect("?1a1m1 ?1b1m2", "");           /* nobody could say what was stepped past */
    expect("a1m1 b1m2 c1m3", "");
}

/* A class of the program requests in its constructor and when it grows, from one function. */
TEST(test_several_wrappers) {
    expect("w1c1a1 w1c1b1 w1c1d1 w1c1e1 w1r1a2 w1r1b2 w1r1d2 w1r1e2", "wcr");
    expect("c1a1 c1b1 c1d1 c1e1 r1a2 r1b2 r1d2 r1e2", "cr");
    expect("c1a1 c1b1 r1a2 r1b2", ""); /* too few callers for two functions */
}

int main(void) { return run_all(NULL, NULL); }

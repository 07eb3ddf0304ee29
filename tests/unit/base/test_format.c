/* The formatter of shim/base/fmt.c against snprintf. */
#include "shim/base/base.h"

#include <limits.h>
#include <stdio.h>
#include <sys/types.h>

#include "tests/test.h"

/* Formats with snprintf and with gm_format, whole and cut at every size, and compares. */
#define SAME(...)                                                          \
    do {                                                                   \
        char want[256], got[256];                                          \
        int length = snprintf(want, sizeof want, __VA_ARGS__);             \
        assert_int_equal(gm_format(got, sizeof got, __VA_ARGS__), length); \
        assert_string_equal(got, want);                                    \
        for (size_t size = 1; size <= (size_t)length + 1; size++) {        \
            memset(got, 'Z', sizeof got);                                  \
            assert_int_equal(gm_format(got, size, __VA_ARGS__), length);   \
            assert_memory_equal(got, want, size - 1);                      \
            assert_int_equal(got[size - 1], '\0');                         \
            assert_int_equal(got[size], 'Z');                              \
        }                                                                  \
    } while (0)

TEST(numbers) {
    SAME("%d %i %d", 0, -1, 2147483647);
    SAME("%d", INT_MIN);
    SAME("%ld %lld", LONG_MIN, LLONG_MAX);
    SAME("%u %lu %llu", UINT_MAX, ULONG_MAX, ULLONG_MAX);
    SAME("%x %lx %llx", 0u, 0xdeadbeeful, ULLONG_MAX);
    SAME("%zu %zx %zd", (size_t)-1, (size_t)255, (ssize_t)-5);
    SAME("%p", (void *)0x7f001234);
}

TEST(widths) {
    SAME("[%5d][%05d][%1d]", 42, 42, 4242);
    SAME("[%5d][%05d][%08d]", -42, -42, INT_MIN);
    SAME("[%016lx][%16lx]", 0xabcul, 0xabcul);
    SAME("[%*d][%0*d]", 7, 99, 7, 99);
    SAME("[%6c][%c]", 'x', 'y');
    SAME("[%20p]", (void *)0x10);
}

TEST(texts) {
    char bytes[3] = {'a', 'b', 'c'}; /* not terminated: with a precision it must not be read beyond */
    SAME("%s|%8s|%.2s|%8.2s|%.0s|", "plain", "right", "cut", "both", "nothing");
    SAME("%.*s|%.*s|%.*s", 3, bytes, 0, bytes, -1, "whole");
    SAME("%s", "");
    SAME("100%% of %s", "it");
    SAME("no conversion at all");
}

TEST(null_text) {
    char got[32];
    const char *volatile nothing = NULL;
    assert_int_equal(gm_format(got, sizeof got, "%s", nothing), 6);
    assert_string_equal(got, "(null)");
    assert_int_equal(gm_format(got, sizeof got, "%p", (void *)NULL), 3);
    assert_string_equal(got, "0x0");
}

TEST(size_zero_writes_nothing) { assert_int_equal(gm_format(NULL, 0, "%s-%d", "abc", 12), 6); }

/* An unknown conversion is shown as it stands, and so is everything behind it. */
TEST(unknown_conversions) {
    char got[64];
    const char *volatile format = "%d then %f and %d";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
    gm_format(got, sizeof got, format, 7, 8);
    assert_string_equal(got, "7 then %f and %d");
    format = "tail %";
    gm_format(got, sizeof got, format);
    assert_string_equal(got, "tail %");
    format = "%08l";
    gm_format(got, sizeof got, format);
    assert_string_equal(got, "%08l");
#pragma GCC diagnostic pop
}

int main(void) { return run_all(NULL, NULL); }

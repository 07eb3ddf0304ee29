/* Text that others wrote: what of it a terminal gets, whole, cut at every size, and in a line of the log. */
#include "shim/base/foreign.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/test.h"

static const struct {
    const char *text, *shown;
} rows[] = {
    {"", ""},
    {"solve<int>(float *) at a b.c:12 ~!\"'\\", "solve<int>(float *) at a b.c:12 ~!\"'\\"},
    {"caf\u00e9 \u6f22 \U0001f600 \u200d", "caf\u00e9 \u6f22 \U0001f600 \u200d"}, /* other scripts stay */
    {"\033]0;title\a\033[31m", "\\x1b]0;title\\x07\\x1b[31m"},
    {"a\nb\r\tc\177\b", "a\\x0ab\\x0d\\x09c\\x7f\\x08"},
    {"\xc2\x80\xc2\x9b"
     "2J\xc2\x9f\u00a0",
     "\\u0080\\u009b2J\\u009f\u00a0"}, /* controls of 8 bits; a blank */
    {"\u202egpj.exe\u202c", "\\u202egpj.exe\\u202c"},
    {"\u061c\u200e\u200f\u202a\u2066\u2069\u2028\u2029", "\\u061c\\u200e\\u200f\\u202a\\u2066\\u2069\\u2028\\u2029"},
    {"\u202f\u2065\u206a\u2010", "\u202f\u2065\u206a\u2010"},
    {"\xff\xfe", "\\xff\\xfe"},
    {"\xc3", "\\xc3"}, /* cut */
    {"\xe2\x80", "\\xe2\\x80"},
    {"\xf0\x9f\x98", "\\xf0\\x9f\\x98"},
    {"\x80\xbf", "\\x80\\xbf"},                   /* without a beginning */
    {"\xc0\x9b\xc1\xbf", "\\xc0\\x9b\\xc1\\xbf"}, /* longer than needed */
    {"\xe0\x80\x9b\xf0\x80\x80\x9b", "\\xe0\\x80\\x9b\\xf0\\x80\\x80\\x9b"},
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"}, /* half of a pair */
    {"\xf4\x90\x80\x80\xf8\x88\x80\x80\x80", "\\xf4\\x90\\x80\\x80\\xf8\\x88\\x80\\x80\\x80"},
    {"\xc3\x1b[m", "\\xc3\\x1b[m"}, /* a control character in its place */
};

TEST(whole_texts) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char out[256];
        size_t length = strlen(rows[i].shown);
        assert_int_equal(gm_foreign_text(out, sizeof out, rows[i].text, SIZE_MAX), length);
        assert_string_equal(out, rows[i].shown);
        assert_true(gm_foreign_is_plain(out));
        assert_int_equal(gm_foreign_is_plain(rows[i].text), !strcmp(rows[i].text, rows[i].shown));
        char again[256];
        assert_int_equal(gm_foreign_text(again, sizeof again, out, SIZE_MAX), length);
        assert_string_equal(again, out);
    }
}

/* The text ends at its terminator or its length, and what does not fit is left out in whole characters. */
TEST(cut_texts) {
    char out[256];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t length = strlen(rows[i].shown);
        assert_int_equal(gm_foreign_text(NULL, 0, rows[i].text, SIZE_MAX), length);
        for (size_t size = 1; size <= length + 1; size++) {
            memset(out, 'Z', sizeof out);
            assert_int_equal(gm_foreign_text(out, size, rows[i].text, SIZE_MAX), length);
            size_t used = strlen(out);
            assert_true(used < size && !strncmp(out, rows[i].shown, used));
            assert_true(gm_foreign_is_plain(out) && used + 6 >= (length < size ? length : size));
            assert_int_equal(out[size], 'Z');
        }
    }
    gm_foreign_text(out, sizeof out, "ab\xc3\xa9", 3);
    assert_string_equal(out, "ab\\xc3");
    gm_foreign_text(out, sizeof out, "ab\0\033", 4);
    assert_string_equal(out, "ab");
}

/* What a function writes to a descriptor. */
static size_t written(char *out, size_t size, void (*say)(int fd, const char *text), const char *text) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    say(ends[1], text);
    close(ends[1]);
    ssize_t length = read(ends[0], out, size - 1);
    close(ends[0]);
    assert_true(length >= 0);
    out[length] = '\0';
    return (size_t)length;
}

static void say_line(int fd, const char *text) { gm_say_line(fd, "at %s", text); }

static void with_stderr(int fd, void (*say)(const char *text), const char *text) {
    int kept = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    say(text);
    dup2(kept, STDERR_FILENO);
    close(kept);
}

static void log_it(const char *text) { gm_log(GM_LOG_ERROR, "at %s", text); }
static void log_line(int fd, const char *text) { with_stderr(fd, log_it, text); }

static void log_it_once(const char *text) {
    int once = 0;
    gm_log_once(&once, GM_LOG_ERROR, "at %s", text);
}
static void log_once(int fd, const char *text) { with_stderr(fd, log_it_once, text); }

static void log_them(const char *text) {
    char room[512];
    struct gm_log_lines lines = {room, sizeof room, 0};
    gm_log_add(&lines, "at %s", text);
    gm_log_lines(GM_LOG_ERROR, &lines);
}
static void log_lines(int fd, const char *text) { with_stderr(fd, log_them, text); }

TEST(lines_of_the_log) {
    static void (*const says[])(int, const char *) = {say_line, log_line, log_once, log_lines};
    for (size_t way = 0; way < sizeof says / sizeof *says; way++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            char out[512], want[512];
            snprintf(want, sizeof want, "%sat %s\n", way ? "gpumem: " : "", rows[i].shown);
            written(out, sizeof out, says[way], rows[i].text);
            assert_string_equal(out, want);
        }
    }
}

/* A line that is too long ends with dots, and not within a character. */
TEST(long_lines) {
    static const char *const parts[] = {"x", "\033", "\u00e9", "\u202e", "\xff", "\U0001f600"};
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
        for (size_t shift = 0; shift < 6; shift++) {
            char text[4096], out[4096];
            size_t used = shift;
            memset(text, 'x', used);
            while (used + strlen(parts[part]) < 2000)
                used += (size_t)snprintf(text + used, sizeof text - used, "%s", parts[part]);
            size_t length = written(out, sizeof out, log_line, text);
            assert_true(length > 1000 && length <= 1023);
            assert_string_equal(out + length - 4, "...\n");
            out[length - 1] = '\0';
            assert_true(gm_foreign_is_plain(out));
        }
    }
}

int main(void) { return run_all(NULL, NULL); }

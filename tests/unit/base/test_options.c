/* The options: defaults, values, error texts. A process reads its values only once, so each case runs in a child. */
#include "shim/base/base.h"
#include "shim/base/options.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

enum { LOG_SIZE = 32768 };
static char log_text[LOG_SIZE];

/* Loads `environment` in a child, runs check() there (0 = correct), and collects what the child writes to stderr. */
static int in_child(char *const *environment, int (*check)(void)) {
    int ends[2], status;
    size_t used = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        gm_options_load(environment);
        _exit(check());
    }
    close(ends[1]);
    while ((got = read(ends[0], log_text + used, LOG_SIZE - 1 - used)) > 0)
        used += (size_t)got;
    log_text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define CHECK(condition)               \
    do {                               \
        if (!(condition))              \
            return __LINE__ % 250 + 1; \
    } while (0)

static int good(void) { return 0; }

static int all_defaults(void) {
    CHECK(!strcmp(gm_option_text(GM_OPT_POLICY), "auto"));
    CHECK(!strcmp(gm_option_text(GM_OPT_TRACE), ""));
    CHECK(gm_option_number(GM_OPT_TRACE_FORMAT) == 0);
    CHECK(gm_option_number(GM_OPT_TRACE_FLUSH) == 100000000);
    CHECK(!gm_option_bool(GM_OPT_TRACE_COPIES));
    CHECK(gm_option_number(GM_OPT_STACKS) == 32);
    CHECK(gm_option_number(GM_OPT_LOG) == GM_LOG_WARN);
    CHECK(!gm_option_bool(GM_OPT_COVERAGE));
    CHECK(!gm_option_bool(GM_OPT_STRICT));
    CHECK(gm_option_number(GM_OPT_MANAGED_HEADROOM) == 512ull << 20);
    CHECK(gm_option_number(GM_OPT_LIST_LENGTH) == 10);
    CHECK(gm_option_number(GM_OPT_LIST_RANGE) == 5);
    CHECK(gm_option_bool(GM_OPT_PYTHON));
    CHECK(gm_option_number(GM_OPT_LIMIT) == 0);
    for (int i = 0; i < GM_OPTION_COUNT_; i++)
        CHECK(!gm_option_is_set((enum gm_option_id)i));
    return 0;
}

TEST(defaults) {
    char *const nothing[] = {"PATH=/bin", "GPUMEMORY=1", "XGPUMEM_POLICY=x", NULL};
    assert_int_equal(all_defaults(), 0); /* before loading */
    gm_options_load(NULL);               /* without an environment this is not a load */
    assert_int_equal(in_child(nothing, all_defaults), 0);
    assert_string_equal(log_text, "");
}

static int all_given(void) {
    CHECK(!strcmp(gm_option_text(GM_OPT_POLICY), "plan:/tmp/a=b"));
    CHECK(gm_option_is_set(GM_OPT_POLICY));
    CHECK(gm_option_number(GM_OPT_TRACE_FORMAT) == 2);
    CHECK(gm_option_number(GM_OPT_TRACE_FLUSH) == 2000000000);
    CHECK(gm_option_number(GM_OPT_STACKS) == 64);
    CHECK(gm_option_bool(GM_OPT_COVERAGE));
    CHECK(gm_option_bool(GM_OPT_TRACE_COPIES));
    CHECK(!gm_option_bool(GM_OPT_STRICT) && gm_option_is_set(GM_OPT_STRICT));
    CHECK(!gm_option_bool(GM_OPT_PYTHON));
    CHECK(gm_option_number(GM_OPT_LIMIT) == 8ull << 30);
    CHECK(gm_option_number(GM_OPT_LIST_LENGTH) == 3); /* the first of two entries */
    CHECK(!gm_option_is_set(GM_OPT_FILL));            /* empty = not set */
    CHECK(!strcmp(gm_option_text(GM_OPT_LIMIT), "8GiB"));
    CHECK(gm_option_number(GM_OPT_WORKSPACE_SIZE) == 3 << 20);
    return 0;
}

TEST(given) {
    char *const environment[] = {"GPUMEM_POLICY=plan:/tmp/a=b", "GPUMEM_TRACE_FORMAT=csv",
                                 "GPUMEM_TRACE_FLUSH=2s",       "GPUMEM_STACKS=64",
                                 "GPUMEM_COVERAGE=yes",         "GPUMEM_TRACE_COPIES=1",
                                 "GPUMEM_STRICT=off",           "GPUMEM_PYTHON=0",
                                 "GPUMEM_LIMIT=8GiB",           "GPUMEM_LIST_LENGTH=3",
                                 "GPUMEM_LIST_LENGTH=99",       "GPUMEM_FILL=",
                                 "GPUMEM_WORKSPACE_SIZE=3M",    NULL};
    assert_int_equal(in_child(environment, all_given), 0);
    assert_string_equal(log_text, "");
}

TEST(parts_of_a_device) {
    static const struct {
        const char *text;
        uint64_t of_400; /* 0: wrong */
    } rows[] = {{"50%", 200}, {"100%", 400}, {"0.25%", 1}, {"12.5%", 50},  {"1.5%", 6},
                {"300", 300}, {"0%", 0},     {"101%", 0},  {"100.01%", 0}, {"0.125%", 0},
                {"5.%", 0},   {"%", 0},      {"50 %", 0},  {"50%x", 0},    {"8388608T", 0}};
    char error[200];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t value = 0;
        int status = gm_option_parse(&gm_option_rows[GM_OPT_LIMIT], rows[i].text, &value, error, sizeof error);
        assert_int_equal(!status, rows[i].of_400 != 0);
        assert_int_equal(gm_memory_of(value, 400), rows[i].of_400);
    }
    uint64_t value = 0, huge = UINT64_MAX / 2;
    assert_int_equal(gm_option_parse(&gm_option_rows[GM_OPT_CACHE_LIMIT], "99.99%", &value, error, sizeof error), 0);
    assert_true(gm_memory_of(value, huge) > huge / 10000 * 9998 && gm_memory_of(value, huge) < huge);
    assert_true(gm_memory_of(UINT64_MAX, 400) == UINT64_MAX);
    assert_int_equal(gm_option_parse(&gm_option_rows[GM_OPT_TRACE_LIMIT], "50%", &value, error, sizeof error), -1);
}

TEST(ring) {
    static const struct {
        const char *text;
        uint64_t bytes, ns;
    } rows[] = {{"1M", 1 << 20, 0}, {"1.5M", 3 << 19, 0}, {"30s", 0, 30000000000}, {"64K", 0, 0}, {"0", 0, 0},
                {"", 0, 0},         {"x", 0, 0}};
    uint64_t bytes, ns;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(gm_option_ring(rows[i].text, &bytes, &ns), rows[i].bytes || rows[i].ns);
        assert_true(bytes == rows[i].bytes && ns == rows[i].ns);
    }
}

static int load_again(void) {
    char *const other[] = {"GPUMEM_STACKS=7", "GPUMEM_NONSENSE=1", NULL};
    gm_options_load(other);
    CHECK(gm_option_number(GM_OPT_STACKS) == 3);
    return 0;
}

TEST(only_the_first_load_counts) {
    char *const environment[] = {"GPUMEM_STACKS=3", NULL};
    assert_int_equal(in_child(environment, load_again), 0);
    assert_string_equal(log_text, "");
}

TEST(error_texts) {
    static const struct {
        char *entry;
        const char *says;
    } cases[] = {
        {"GPUMEM_POLCY=auto", "gpumem: GPUMEM_POLCY is not an option of gpumem; did you mean GPUMEM_POLICY? "
                              "(\"gpumem run --help\" lists them)\n"},
        {"GPUMEM_WEATHER=fine",
         "gpumem: GPUMEM_WEATHER is not an option of gpumem (\"gpumem run --help\" lists them)\n"},
        {"GPUMEM_=", "gpumem: GPUMEM_ is not an option of gpumem (\"gpumem run --help\" lists them)\n"},
        {"GPUMEM_PYTHON=2", "gpumem: GPUMEM_PYTHON=2 is not one of 0, 1, off, on, no, yes, false or true; using 1\n"},
        {"GPUMEM_STACKS=abc", "gpumem: GPUMEM_STACKS=abc is not a count between 0 and 64; using 32\n"},
        {"GPUMEM_STACKS=65", "gpumem: GPUMEM_STACKS=65 is not a count between 0 and 64; using 32\n"},
        {"GPUMEM_STACKS=-1", "gpumem: GPUMEM_STACKS=-1 is not a count between 0 and 64; using 32\n"},
        {"GPUMEM_FAIL_NTH=1x", "gpumem: GPUMEM_FAIL_NTH=1x is not a count of 0 or more; using 0\n"},
        {"GPUMEM_TRACE_COPIES=all",
         "gpumem: GPUMEM_TRACE_COPIES=all is not one of 0, 1, off, on, no, yes, false or true; using 0\n"},
        {"GPUMEM_COVERAGE=maybe",
         "gpumem: GPUMEM_COVERAGE=maybe is not one of 0, 1, off, on, no, yes, false or true; using 0\n"},
        {"GPUMEM_FILL=ones", "gpumem: GPUMEM_FILL=ones is not one of off, zero or poison; using off\n"},
        {"GPUMEM_GROW=move-overcommit",
         "gpumem: GPUMEM_GROW=move-overcommit is not one of off, report, vmm or move; using off\n"},
        {"GPUMEM_LIMIT=8XB",
         "gpumem: GPUMEM_LIMIT=8XB is not a number of bytes such as 0, 4096, 512M or 2GiB, or a part of the device "
         "such as 50%; using 0\n"},
        {"GPUMEM_WORKSPACE_SIZE=-1",
         "gpumem: GPUMEM_WORKSPACE_SIZE=-1 is not a number of bytes such as 0, 4096, 512M or 2GiB; using 0\n"},
        {"GPUMEM_TRACE_FLUSH=5",
         "gpumem: GPUMEM_TRACE_FLUSH=5 is not a time such as 500us, 100ms, 2s, 1min or 0; using 100ms\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *const environment[] = {cases[i].entry, NULL};
        assert_int_equal(in_child(environment, all_defaults), 0);
        assert_string_equal(log_text, cases[i].says);
    }
}

TEST(very_long_entries) {
    static char entry[20000];
    char *const environment[] = {entry, NULL};
    memset(entry, 'A', sizeof entry - 1);
    memcpy(entry, "GPUMEM_TRACE=", 13);
    assert_int_equal(in_child(environment, all_defaults), 0);
    assert_non_null(strstr(log_text, "AAA... is not a text shorter than 4096 bytes; using none\n"));
    memcpy(entry, "GPUMEM_TRACEA", 13);
    entry[10000] = '=';
    assert_int_equal(in_child(environment, all_defaults), 0);
    assert_non_null(strstr(log_text, "is not an option of gpumem ("));
    assert_true(strlen(log_text) < 300);
}

TEST(log_level_applies_to_error_texts) {
    char *const environment[] = {"GPUMEM_STACKS=abc", "GPUMEM_NONSENSE=1", "GPUMEM_LOG=off", NULL};
    assert_int_equal(in_child(environment, good), 0);
    assert_string_equal(log_text, "");
}

static int print(void) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++)
        dprintf(STDERR_FILENO, "%s=%s\n", gm_option_rows[i].name, gm_option_text(gm_option_rows[i].id));
    return 0;
}

TEST(printing) {
    char *const environment[] = {"GPUMEM_STACKS=5", "GPUMEM_TRACE=/tmp/t.%p", NULL};
    char expected[64], *line = log_text;
    assert_int_equal(in_child(environment, print), 0);
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const char *value = i == GM_OPT_STACKS ? "5" : i == GM_OPT_TRACE ? "/tmp/t.%p" : gm_option_rows[i].initial;
        snprintf(expected, sizeof expected, "%s=%s\n", gm_option_rows[i].name, value);
        assert_memory_equal(line, expected, strlen(expected));
        line += strlen(expected);
    }
    assert_string_equal(line, "");
}

TEST(values) {
    static const struct {
        enum gm_option_id id;
        const char *text;
        int result;
        uint64_t number;
    } cases[] = {
        {GM_OPT_TRACE_LIMIT, "0", 0, 0},
        {GM_OPT_TRACE_LIMIT, "1K", 0, 1024},
        {GM_OPT_TRACE_LIMIT, "1k", 0, 1024},
        {GM_OPT_TRACE_LIMIT, "3KiB", 0, 3072},
        {GM_OPT_TRACE_LIMIT, "2M", 0, 2 << 20},
        {GM_OPT_TRACE_LIMIT, "1T", 0, 1ull << 40},
        {GM_OPT_TRACE_LIMIT, "16777215TiB", 0, 16777215ull << 40},
        {GM_OPT_TRACE_LIMIT, "16777216TiB", -1, 0},
        {GM_OPT_TRACE_LIMIT, "18446744073709551615", 0, UINT64_MAX},
        {GM_OPT_TRACE_LIMIT, "18446744073709551616", -1, 0},
        {GM_OPT_TRACE_LIMIT, "1GB", 0, 1000000000},
        {GM_OPT_TRACE_LIMIT, "1.5GiB", 0, 3ull << 29},
        {GM_OPT_TRACE_LIMIT, "2.75MB", 0, 2750000},
        {GM_OPT_TRACE_LIMIT, "0.1K", 0, 102}, /* the part of a byte is left out */
        {GM_OPT_TRACE_LIMIT, "16777215.999999999T", 0, 18446744073709550516ull},
        {GM_OPT_TRACE_LIMIT, "1.5", -1, 0},
        {GM_OPT_TRACE_LIMIT, "1.", -1, 0},
        {GM_OPT_TRACE_LIMIT, "1.G", -1, 0},
        {GM_OPT_TRACE_LIMIT, ".5G", -1, 0},
        {GM_OPT_TRACE_LIMIT, "1.0000000000G", -1, 0},
        {GM_OPT_TRACE_LIMIT, "1B", -1, 0},
        {GM_OPT_TRACE_LIMIT, "1Gi", -1, 0},
        {GM_OPT_TRACE_LIMIT, "G", -1, 0},
        {GM_OPT_TRACE_LIMIT, " 1", -1, 0},
        {GM_OPT_TRACE_LIMIT, "", -1, 0},
        {GM_OPT_TRACE_FLUSH, "0", 0, 0},
        {GM_OPT_TRACE_FLUSH, "0s", 0, 0},
        {GM_OPT_TRACE_FLUSH, "7us", 0, 7000},
        {GM_OPT_TRACE_FLUSH, "2min", 0, 120000000000},
        {GM_OPT_TRACE_FLUSH, "7", -1, 0},
        {GM_OPT_TRACE_FLUSH, "7m", -1, 0},
        {GM_OPT_TRACE_FLUSH, "18446744074s", -1, 0},
        {GM_OPT_STACKS, "064", 0, 64},
        {GM_OPT_STACKS, "0x10", -1, 0},
        {GM_OPT_LIST_LENGTH, "0", -1, 0},
        {GM_OPT_LIST_LENGTH, "1", 0, 1},
        {GM_OPT_STRICT, "true", 0, 1},
        {GM_OPT_STRICT, "no", 0, 0},
        {GM_OPT_STRICT, "2", -1, 0},
        {GM_OPT_MANAGED, "pool", 0, 2},
        {GM_OPT_MANAGED, "poo", -1, 0},
        {GM_OPT_MANAGED, "plain pool", -1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char error[256] = "";
        uint64_t number = 77;
        int result = gm_option_parse(&gm_option_rows[cases[i].id], cases[i].text, &number, error, sizeof error);
        assert_int_equal(result, cases[i].result);
        assert_int_equal(number, result ? 77 : cases[i].number);
    }
}

/* A short buffer for the error text is filled and terminated, never overrun. */
TEST(short_error_buffers) {
    for (size_t size = 1; size < 80; size++) {
        char error[96];
        uint64_t number;
        memset(error, 'Z', sizeof error);
        assert_int_equal(gm_option_parse(&gm_option_rows[GM_OPT_FILL], "ones", &number, error, size), -1);
        assert_true(strnlen(error, size) < size);
        assert_int_equal(error[size], 'Z');
    }
}

/* ---- the file of GPUMEM_CONFIG */

static char config_path[64], config_entry[96];

static char *config_file(const char *text) {
    strcpy(config_path, "/tmp/gpumem-options-XXXXXX");
    int fd = mkstemp(config_path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    snprintf(config_entry, sizeof config_entry, "GPUMEM_CONFIG=%s", config_path);
    return config_entry;
}

static int from_file(void) {
    CHECK(!strcmp(gm_option_text(GM_OPT_POLICY), "static:size<1M=async;native"));
    CHECK(gm_option_number(GM_OPT_LIMIT) == 40ull << 30 && gm_option_is_set(GM_OPT_LIMIT));
    CHECK(!strcmp(gm_option_text(GM_OPT_TRACE), "/tmp/a#b.trace"));
    CHECK(gm_option_number(GM_OPT_STACKS) == 9); /* of the environment */
    CHECK(gm_option_number(GM_OPT_TRACE_FORMAT) == 2);
    CHECK(gm_option_number(GM_OPT_FILL) == 0 && !gm_option_is_set(GM_OPT_FILL)); /* emptied by the environment */
    CHECK(!gm_option_is_set(GM_OPT_GROW));                                       /* emptied by a later line */
    CHECK(gm_option_number(GM_OPT_LIST_LENGTH) == 4);                            /* of two lines the last */
    CHECK(gm_option_number(GM_OPT_LIST_RANGE) == 5);                             /* a bad value of the environment */
    return 0;
}

TEST(config_and_environment) {
    char *const environment[] = {config_file("# of this machine\n\n"
                                             "policy = static:size<1M=async;native\n"
                                             "  limit=40GiB   # of each device\r\n"
                                             "trace = /tmp/a#b.trace\n"
                                             "stacks = 3\nfill = zero\ngrow = move\ngrow =\n"
                                             "list_length = 3\nlist_length = 4\nlist_range = 7\n"
                                             "trace_format = csv"),
                                 "GPUMEM_STACKS=9", "GPUMEM_FILL=", "GPUMEM_LIST_RANGE=x", NULL};
    assert_int_equal(in_child(environment, from_file), 0);
    assert_string_equal(log_text, "gpumem: GPUMEM_LIST_RANGE=x is not a count between 0 and 1000000; using 5\n");
    unlink(config_path);
}

static int only_stacks(void) {
    CHECK(gm_option_number(GM_OPT_STACKS) == 2);
    CHECK(gm_option_number(GM_OPT_LIMIT) == 0 && !gm_option_is_set(GM_OPT_LIMIT));
    CHECK(!gm_option_is_set(GM_OPT_STATS));
    return 0;
}

/* Each bad line is named once and the rest counts. */
TEST(config_errors) {
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"polcy = cache", "'polcy' is not an option; did you mean policy?"},
        {"trace-format = csv", "'trace-format' is not an option; did you mean trace_format?"},
        {"POLICY = cache", "'POLICY' is not an option; names are those of libgpumem(7) without GPUMEM_, in lower case"},
        {"weather = fine",
         "'weather' is not an option; names are those of libgpumem(7) without GPUMEM_, in lower case"},
        {"= cache", "'' is not an option; names are those of libgpumem(7) without GPUMEM_, in lower case"},
        {"limit = 8XB", "GPUMEM_LIMIT=8XB is not a number of bytes such as 0, 4096, 512M or 2GiB, or a part of the "
                        "device such as 50%"},
        {"limit 8G", "the line is not of the form NAME = VALUE"},
        {"stats = /tmp/x", "only the environment sets stats"},
        {"config = other", "only the environment sets config"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200], says[400];
        snprintf(text, sizeof text, "limit = 1G\n%s\nstacks = 2\n%s", cases[i].line, i == 5 ? "" : "limit =\n");
        char *const environment[] = {config_file(text), NULL};
        snprintf(says, sizeof says, "gpumem: %s:2: %s; the line is ignored\n", config_path, cases[i].says);
        assert_int_equal(in_child(environment, only_stacks), 0);
        assert_string_equal(log_text, says);
        unlink(config_path);
    }
}

TEST(config_log_level) {
    char *const quiet[] = {config_file("nonsense\nlog = off\n"), "GPUMEM_STACKS=x", NULL};
    assert_int_equal(in_child(quiet, good), 0);
    assert_string_equal(log_text, "");
    char *const loud[] = {config_entry, "GPUMEM_LOG=warn", NULL};
    assert_int_equal(in_child(loud, good), 0);
    assert_non_null(strstr(log_text, ":1: the line is not of the form NAME = VALUE"));
    unlink(config_path);
}

static int nothing_but_config(void) {
    CHECK(gm_option_is_set(GM_OPT_CONFIG));
    CHECK(!gm_option_is_set(GM_OPT_POLICY));
    return 0;
}

TEST(config_that_cannot_be_read) {
    static const struct {
        char *entry;
        const char *says;
    } cases[] = {
        {"GPUMEM_CONFIG=/none/such",
         "gpumem: GPUMEM_CONFIG=/none/such: no such file or directory; no option is read from it\n"},
        {"GPUMEM_CONFIG=/tmp", "gpumem: GPUMEM_CONFIG=/tmp: is a directory; no option is read from it\n"},
        {"GPUMEM_CONFIG=/dev/null",
         "gpumem: GPUMEM_CONFIG=/dev/null: is not a plain file; no option is read from it\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *const environment[] = {cases[i].entry, NULL};
        assert_int_equal(in_child(environment, nothing_but_config), 0);
        assert_string_equal(log_text, cases[i].says);
    }
    char *const environment[] = {config_file(""), NULL};
    assert_int_equal(in_child(environment, nothing_but_config), 0);
    assert_string_equal(log_text, "");
    assert_int_equal(truncate(config_path, (1 << 20) + 1), 0);
    assert_int_equal(in_child(environment, nothing_but_config), 0);
    assert_non_null(strstr(log_text, ": is larger than 1 MiB; no option is read from it\n"));
    unlink(config_path);
}

int main(void) { return run_all(NULL, NULL); }

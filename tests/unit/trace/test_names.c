/* File name patterns and ranks (shim/trace/path.c), and CSV lines (shim/trace/csv.c). */
#include "shim/trace/writer.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/test.h"

TEST(expands_the_four_patterns) {
    char out[256], expected[256], host[128];
    setenv("RANK", "3", 1);
    gethostname(host, sizeof host);
    assert_int_equal(gm_trace_expand("t.%p.%r.%h.100%%", out, sizeof out), 0);
    snprintf(expected, sizeof expected, "t.%d.3.%s.100%%", (int)getpid(), host);
    assert_string_equal(out, expected);
}

TEST(refuses_unknown_patterns_and_long_names) {
    char out[8];
    assert_int_equal(gm_trace_expand("a%q", out, sizeof out), -1);
    assert_int_equal(gm_trace_expand("a%", out, sizeof out), -1);
    assert_int_equal(gm_trace_expand("12345678", out, sizeof out), -1);
    assert_int_equal(gm_trace_expand("1234567", out, sizeof out), 0);
    assert_string_equal(out, "1234567");
}

TEST(finds_the_rank_of_each_launcher) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"};
    unsetenv("RANK");
    assert_int_equal(gm_trace_rank(), -1);
    for (int i = 0; i < 5; i++) {
        setenv(names[i], "12", 1);
        assert_int_equal(gm_trace_rank(), 12);
        setenv(names[i], "x1", 1);
        assert_int_equal(gm_trace_rank(), -1);
        unsetenv(names[i]);
    }
}

TEST(writes_every_column) {
    char line[GM_TRACE_CSV_LINE];
    struct gm_event e = {.seq = 7,
                         .time_ns = 1234,
                         .address = 0x7f0012000000,
                         .bytes = 4096,
                         .stream = 0x1a,
                         .slack = 104,
                         .duration_ns = 55,
                         .site = 9,
                         .context = 2,
                         .device = -1,
                         .call = GM_CALL_ALLOC_ASYNC,
                         .action = GM_ACT_ALLOC,
                         .kind = GM_KIND_MANAGED_POOL,
                         .reason = GM_REASON_LIST_STEADY,
                         .verdict = GM_KIND_ASYNC,
                         .result = 0,
                         .hit = 1,
                         .flags = 3};
    int length = gm_trace_csv_line(line, sizeof line, &e, 11, 12);
    line[length] = 0;
    assert_string_equal(line,
                        "7,1234,alloc,cuMemAllocAsync,0x7f0012000000,4096,-1,0x1a,12,55,4200,managed-pool,list-steady,"
                        "async,1,9,2,0,3,11\n");
}

TEST(a_line_never_exceeds_its_buffer) {
    char line[GM_TRACE_CSV_LINE];
    struct gm_event e;
    memset(&e, 0xff, sizeof e);
    for (int call = 0; call < GM_CALL_COUNT; call++) {
        e.call = (uint8_t)call;
        assert_in_range(gm_trace_csv_line(line, sizeof line, &e, INT32_MIN, INT32_MIN), 20, sizeof line);
    }
    assert_int_equal(gm_trace_csv_line(line, 100, &e, 1, 1), 0);
}

int main(void) { return run_all(NULL, NULL); }

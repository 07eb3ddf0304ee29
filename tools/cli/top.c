/* gpumem top: shows the counters of running processes repeatedly. */
#include "tools/cli/top.h"
#include "shim/base/options.h"
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/process_counters.h"
#include "tools/cli/screen.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256 }; /* maximum number of processes */

#define SECOND 1000000000ull

struct options {
    uint64_t interval_ns, count; /* count 0 = unlimited */
    bool all, json, batch;
};

struct observer {
    struct gm_process_counters *counters;
    struct gm_counter_sample before, now;
    struct gm_rates rates;
    bool timed; /* the process timed its calls since `before` */
    bool seen_before, ended, reported;
};

struct table {
    struct observer *rows[MOST];
    unsigned count;
    uint64_t readings;
};

static const struct gm_option interval_row = {.type = GM_OPTION_TIME,
                                              .name = "--interval",
                                              .initial = "1s",
                                              .unit = "us, ms or s",
                                              .help = "time between two readings"};
static const struct gm_option count_row = {.type = GM_OPTION_COUNT,
                                           .name = "--count",
                                           .initial = "0",
                                           .unit = "readings",
                                           .low = 1,
                                           .high = UINT64_MAX,
                                           .help = "readings"};

void gm_command_top_help(void) {
    puts("usage: gpumem top [OPTION...] PID...\n"
         "       gpumem top [OPTION...] [--all]\n\n"
         "Shows what running processes do with GPU memory: the named processes, or all of this user that run "
         "under\ngpumem. It reads their counters from outside. It ends when they have ended, or by Ctrl-C.\n");
    gm_flags_help("top");
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* ---- which processes */

static bool is_listed(const struct table *table, pid_t pid) {
    for (unsigned i = 0; i < table->count; i++)
        if (!table->rows[i]->ended && gm_process_counters_pid(table->rows[i]->counters) == pid)
            return true;
    return false;
}

static enum gm_counters_status add(struct table *table, pid_t pid) {
    struct gm_process_counters *counters;
    enum gm_counters_status status = gm_process_counters_open(pid, &counters);
    if (status)
        return status;
    struct observer *row = table->count < MOST ? calloc(1, sizeof *row) : NULL;
    if (!row) {
        gm_process_counters_close(counters);
        return GM_COUNTERS_NO_MEMORY;
    }
    row->counters = counters;
    table->rows[table->count++] = row;
    return GM_COUNTERS_OK;
}

static bool add_found(pid_t pid, void *arg) {
    struct table *table = arg;
    if (pid != getpid() && !is_listed(table, pid))
        add(table, pid);
    return table->count < MOST;
}

static void drop(struct table *table, unsigned i) {
    gm_process_counters_close(table->rows[i]->counters);
    free(table->rows[i]);
    table->count--;
    memmove(&table->rows[i], &table->rows[i + 1], (table->count - i) * sizeof table->rows[0]);
}

static void drop_reported(struct table *table) {
    for (unsigned i = table->count; i-- > 0;)
        if (table->rows[i]->reported)
            drop(table, i);
}

static unsigned alive(const struct table *table) {
    unsigned count = 0;
    for (unsigned i = 0; i < table->count; i++)
        count += !table->rows[i]->ended;
    return count;
}

/* ---- readings */

static void read_one(struct observer *row, uint64_t interval_ns) {
    static struct gm_stats page; /* 50 KiB */
    struct gm_counter_sample now;
    memset(&page, 0, sizeof page);
    enum gm_counters_status status = gm_process_counters_read(row->counters, &page);
    row->ended = status != GM_COUNTERS_OK;
    if (page.magic) {
        gm_counter_sample_take(&now, &page, (int32_t)gm_process_counters_pid(row->counters), now_ns());
        row->rates = gm_counter_sample_rates(row->seen_before ? &row->now : NULL, &now, row->timed || now.timed);
        row->before = row->now;
        row->now = now;
        row->seen_before = true;
    }
    if (!row->ended)
        row->timed = gm_process_counters_time_calls(row->counters, 2 * interval_ns + SECOND);
}

static void read_all(struct table *table, const struct options *options) {
    static uint64_t looked;
    if (options->all && (!looked || now_ns() - looked > SECOND)) {
        looked = now_ns();
        gm_each_process(add_found, table);
    }
    for (unsigned i = 0; i < table->count; i++)
        if (!table->rows[i]->ended)
            read_one(table->rows[i], options->interval_ns);
    table->readings++;
}

/* ---- showing */

static bool show_json(struct table *table) {
    for (unsigned i = 0; i < table->count; i++) {
        struct observer *row = table->rows[i];
        if (row->seen_before && !gm_top_json(stdout, &row->now, &row->rates, row->ended))
            return false;
        row->reported = row->ended;
    }
    return true;
}

static void show_lines(struct table *table) {
    char clock[16];
    time_t now = time(NULL);
    struct tm local;
    strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &local));
    if (table->readings == 1)
        gm_top_head(stdout, true, UINT32_MAX, "\n");
    for (unsigned i = 0; i < table->count; i++) {
        struct observer *row = table->rows[i];
        if (row->seen_before)
            gm_top_row(stdout, clock, &row->now, &row->rates, UINT32_MAX, "\n");
        if (row->ended)
            printf("%s %7d has ended\n", clock, (int)gm_process_counters_pid(row->counters));
        row->reported = row->ended;
    }
}

/* Shows one process in detail, or one line for each of several. */
static void show_table(FILE *out, const struct table *table, unsigned width, unsigned height, const char *ending) {
    if (table->count == 1 && table->rows[0]->seen_before) {
        gm_top_detail(out, &table->rows[0]->now, &table->rows[0]->rates, width, ending);
        return;
    }
    gm_top_head(out, false, width, ending);
    for (unsigned i = 0; i < table->count && i + 2 < height; i++)
        if (table->rows[i]->seen_before)
            gm_top_row(out, NULL, &table->rows[i]->now, &table->rows[i]->rates, width, ending);
}

static void show_screen(struct table *table) {
    unsigned width, height;
    gm_screen_size(&width, &height);
    gm_screen_frame_begin();
    show_table(stdout, table, width, height, gm_screen_line_end);
    gm_screen_frame_end();
    for (unsigned i = 0; i < table->count; i++)
        table->rows[i]->reported = table->rows[i]->ended;
}

/* ---- the loop */

/* Prints the last reading and the processes that ended, which remain on the terminal. */
static void print_last(const struct table *table) {
    if (table->count)
        show_table(stdout, table, UINT32_MAX, UINT32_MAX, "\n");
    for (unsigned i = 0; i < table->count; i++)
        if (table->rows[i]->ended)
            printf("process %d has ended\n", (int)gm_process_counters_pid(table->rows[i]->counters));
}

static int watch_all(struct table *table, const struct options *options) {
    bool screen = !options->json && !options->batch && isatty(STDOUT_FILENO), written = true;
    uint64_t next = now_ns();
    gm_screen_catch(screen);
    for (bool last = false; !last && written;) {
        read_all(table, options);
        last = !alive(table) || (options->count && table->readings >= options->count);
        if (options->json)
            written = show_json(table);
        else if (!screen)
            show_lines(table);
        else
            show_screen(table);
        written = written && !fflush(stdout) && !ferror(stdout);
        if (!last)
            drop_reported(table);
        next += options->interval_ns;
        if (next < now_ns()) /* the process was stopped or too slow */
            next = now_ns();
        for (enum gm_screen_event event = GM_SCREEN_REDRAW; !last && event != GM_SCREEN_TIME;) {
            event = gm_screen_wait(next);
            last = event == GM_SCREEN_LEAVE;
            if (event == GM_SCREEN_REDRAW)
                show_screen(table);
        }
    }
    gm_screen_release();
    if (screen)
        print_last(table);
    else if (!options->json && !alive(table))
        puts("all processes have ended");
    if (!written || fflush(stdout) || ferror(stdout)) {
        if (errno != EPIPE)
            fputs("gpumem: top: cannot write\n", stderr);
        return 1;
    }
    return 0;
}

/* ---- arguments */

static int take_number(const struct gm_option *row, const char *value, uint64_t *out) {
    char error[256];
    return gm_option_parse(row, value, out, error, sizeof error) ? gm_usage_error("top: %s", error) : 0;
}

static int take(void *data, const char *name, const char *value) {
    struct options *options = data;
    if (!strcmp(name, "all"))
        options->all = true;
    else if (!strcmp(name, "batch"))
        options->batch = true;
    else if (!strcmp(name, "json"))
        options->json = true;
    else if (!strcmp(name, "count"))
        return take_number(&count_row, value, &options->count);
    else
        return take_number(&interval_row, value, &options->interval_ns);
    return 0;
}

/* Reads the options. -1 = continue with the arguments from *first on, else the exit status. */
static int read_options(int argc, char **argv, struct options *options, int *first) {
    int status = gm_flags_read(argc, argv, take, options, gm_command_top_help, first);
    if (status >= 0)
        return status;
    if (options->interval_ns < SECOND / 100 || options->interval_ns > 86400 * SECOND)
        return gm_usage_error("top: --interval is from 10ms to 86400s");
    if (options->all && *first < argc)
        return gm_usage_error("top: --all and a process id exclude each other");
    if (options->json && !gm_top_json_there())
        return gm_usage_error("top: this gpumem was built without jansson and has no --json");
    return -1;
}

/* Adds the processes of the command line. Prints an error for each process whose counters cannot be read. */
static int add_named(struct table *table, char **names) {
    int status = 0;
    for (; *names; names++) {
        char *end;
        long pid = strtol(*names, &end, 10);
        if (end == *names || *end || pid <= 0 || pid > INT32_MAX)
            return gm_usage_error("top: '%s' is not a process id", *names);
        if (is_listed(table, (pid_t)pid))
            continue;
        enum gm_counters_status found = add(table, (pid_t)pid);
        if (found) {
            fprintf(stderr, "gpumem: process %ld: %s\n", pid, gm_process_counters_reason(found));
            status = 1;
        }
    }
    return status;
}

int gm_command_top(int argc, char **argv) {
    struct options options = {.interval_ns = SECOND};
    struct table table = {0};
    int first, status = read_options(argc, argv, &options, &first);
    if (status >= 0)
        return status;
    options.all |= first == argc;
    if (options.all) {
        gm_each_process(add_found, &table);
        if (!table.count) {
            fputs("gpumem: found no readable process that runs under gpumem and has used CUDA\n", stderr);
            return 1;
        }
        status = 0;
    } else {
        status = add_named(&table, argv + first);
    }
    if (status != GM_EXIT_USAGE && table.count)
        status |= watch_all(&table, &options);
    while (table.count)
        drop(&table, table.count - 1);
    return status;
}

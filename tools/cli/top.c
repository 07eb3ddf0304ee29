/* gpumem top: shows the counters of running processes repeatedly. */
#include "tools/cli/shown.h"
#include "tools/cli/sort.h"
#include "tools/cli/top.h"
#include "shim/base/options.h"
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/process_counters.h"
#include "tools/cli/process_root.h"
#include "tools/cli/screen.h"
#include "tools/cli/top_sort.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256 };    /* maximum number of processes */
enum { HISTORY = 128 }; /* readings that the history line can show */
enum { SITES = 10 };    /* call sites of a process without a screen */

#define SECOND 1000000000ull

struct options {
    uint64_t interval_ns, count; /* count 0 = unlimited */
    bool all, json, batch, prometheus, sites;
    int sort; /* row of gm_top_sorts, -1 = as given */
    int card; /* of the table: only this one is shown, -1 = all */
    const char *group;
};

struct observer {
    struct gm_process_counters *counters;
    struct gm_counter_sample before, now;
    struct gm_rates rates;
    struct gm_top_sites sites;
    bool timed; /* the process timed its calls since `before` */
    bool seen_before, ended, reported;
};

struct table {
    struct observer *rows[MOST];
    unsigned count;
    uint64_t readings;
    bool headed; /* the head line is written */
    struct gm_group_file group;
    struct gm_group_sample group_sample;
    struct card {
        char uuid[sizeof((struct gm_device_sample *)0)->uuid];
        int number;                /* of the first process */
        uint64_t history[HISTORY]; /* live bytes of all processes */
    } cards[GM_STATS_DEVICES];
    unsigned card_count, history_count;
};

static const struct gm_option interval_row = {.type = GM_OPTION_TIME,
                                              .name = "--interval",
                                              .initial = "1s",
                                              .unit = "us, ms, s or min",
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
         "       gpumem top [OPTION...] [--all]\n"
         "       gpumem top [OPTION...] --group=NAME\n\n"
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

static void drop(struct table *table, unsigned i) {
    gm_process_counters_close(table->rows[i]->counters);
    gm_top_sites_free(&table->rows[i]->sites);
    free(table->rows[i]);
    table->count--;
    memmove(&table->rows[i], &table->rows[i + 1], (table->count - i) * sizeof table->rows[0]);
}

/* Whether the process belongs to the group that is shown, which is one of this user. */
static bool is_wanted(const struct table *table, struct gm_process_counters *counters) {
    static struct gm_stats page;
    uid_t user;
    return !table->group.group || (gm_process_user(gm_process_counters_pid(counters), &user) && user == geteuid() &&
                                   gm_process_counters_read(counters, &page) == GM_COUNTERS_OK &&
                                   !strcmp(page.group, table->group_sample.name));
}

static bool add_found(pid_t pid, void *arg) {
    struct table *table = arg;
    if (pid != getpid() && !is_listed(table, pid) && add(table, pid) == GM_COUNTERS_OK &&
        !is_wanted(table, table->rows[table->count - 1]->counters))
        drop(table, table->count - 1);
    return table->count < MOST;
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

/* ---- order */

static const struct gm_top_sort *sort_by;

static int by_sort(const void *x, const void *y) {
    const struct observer *a = *(struct observer *const *)x, *b = *(struct observer *const *)y;
    int order = sort_by->compare(&a->now, &a->rates, &b->now, &b->rates);
    return order ? order : a->now.pid - b->now.pid;
}

static void sort_rows(struct table *table, int sort) {
    sort_by = &gm_top_sorts[sort];
    gm_sort(table->rows, table->count, sizeof table->rows[0], by_sort);
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
        if (now.group[0])
            gm_counter_sample_limit(&now, gm_group_limit_of(row->counters, now.group));
        row->rates = gm_counter_sample_rates(row->seen_before ? &row->now : NULL, &now, row->timed || now.timed);
        row->before = row->now;
        row->now = now;
        row->seen_before = true;
    }
    if (!row->ended)
        row->timed = gm_process_counters_time_calls(row->counters, 2 * interval_ns + SECOND);
}

/* The card of a process's device, new where it was not seen before; NULL: there is no room for it. */
static struct card *find_card(struct table *table, const struct gm_device_sample *device, int number) {
    struct card *card = table->cards, *end = card + table->card_count;
    while (card < end && !gm_device_is(device, number, card->uuid, card->number))
        card++;
    if (card == table->cards + GM_STATS_DEVICES)
        return NULL;
    if (card == end) {
        *card = (struct card){.number = number};
        snprintf(card->uuid, sizeof card->uuid, "%s", device->uuid);
        table->card_count++;
    }
    return card;
}

static void note_history(struct table *table) {
    bool full = table->history_count == HISTORY;
    for (unsigned i = 0; i < table->card_count && full; i++)
        memmove(table->cards[i].history, table->cards[i].history + 1, (HISTORY - 1) * sizeof(uint64_t));
    unsigned now = full ? HISTORY - 1 : table->history_count++;
    for (unsigned i = 0; i < table->card_count; i++)
        table->cards[i].history[now] = 0;
    for (unsigned i = 0; i < table->count; i++)
        for (int device = 0; device < GM_STATS_DEVICES && !table->rows[i]->ended; device++) {
            const struct gm_device_sample *sample = &table->rows[i]->now.devices[device];
            struct card *card = sample->used ? find_card(table, sample, device) : NULL;
            if (card)
                card->history[now] += sample->live;
        }
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
    if (table->group.group)
        gm_group_sample_take(&table->group_sample, options->group, &table->group);
    if (options->sort >= 0)
        sort_rows(table, options->sort);
    for (unsigned i = 0; i < table->count; i++)
        if (options->sites && table->rows[i]->seen_before)
            gm_top_sites_read(&table->rows[i]->sites, table->rows[i]->counters, table->rows[i]->now.trace);
    note_history(table);
    table->readings++;
}

/* ---- showing */

static bool show_prometheus(struct table *table) {
    const struct gm_counter_sample *samples[MOST];
    unsigned count = 0;
    for (unsigned i = 0; i < table->count; i++) {
        if (table->rows[i]->seen_before && !table->rows[i]->ended)
            samples[count++] = &table->rows[i]->now;
        table->rows[i]->reported = table->rows[i]->ended;
    }
    gm_top_prometheus(stdout, samples, count, &table->group_sample);
    return true;
}

static bool show_json(struct table *table, const struct options *options) {
    if (table->group.group && !gm_top_json_group(stdout, &table->group_sample, now_ns()))
        return false;
    for (unsigned i = 0; i < table->count; i++) {
        struct observer *row = table->rows[i];
        if (row->seen_before &&
            !gm_top_json(stdout, &row->now, &row->rates, row->ended, options->sites ? &row->sites : NULL))
            return false;
        row->reported = row->ended;
    }
    return true;
}

static void show_lines(struct table *table, const struct options *options) {
    char clock[16];
    time_t now = time(NULL);
    struct tm local;
    strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &local));
    if (table->group.group)
        gm_top_group(stdout, &table->group_sample, UINT32_MAX, "\n");
    if (!table->headed)
        gm_top_head(stdout, true, UINT32_MAX, "\n");
    table->headed = true;
    for (unsigned i = 0; i < table->count; i++) {
        struct observer *row = table->rows[i];
        if (row->seen_before)
            gm_top_rows(stdout, clock, &row->now, &row->rates, "", -1, UINT32_MAX, "\n");
        if (row->seen_before && options->sites)
            gm_top_print_sites(stdout, &row->sites, SITES, UINT32_MAX, "\n");
        if (row->ended)
            printf("%s %7d has ended\n", clock, (int)gm_process_counters_pid(row->counters));
        row->reported = row->ended;
    }
}

/* Shows one process in detail, or lines for each of several. */
static void show_table(FILE *out, const struct table *table, int shown, bool sites, unsigned width, unsigned height,
                       const char *ending) {
    const struct card *card = shown < 0 ? NULL : &table->cards[shown];
    unsigned used = 1;
    if (table->group.group)
        gm_top_group(out, &table->group_sample, width, ending);
    for (const struct card *c = table->cards; c < table->cards + table->card_count; c++)
        if (!card || c == card) {
            gm_top_history(out, c->number, c->history, table->history_count, width, ending);
            used++;
        }
    if (table->count == 1 && table->rows[0]->seen_before) {
        used += gm_top_detail(out, &table->rows[0]->now, &table->rows[0]->rates, width, ending) + 2;
        if (sites)
            gm_top_print_sites(out, &table->rows[0]->sites,
                               height == UINT32_MAX ? SITES
                               : height > used      ? height - used
                                                    : 0,
                               width, ending);
        return;
    }
    gm_top_head(out, false, width, ending);
    for (unsigned i = 0; i < table->count && used + 2 < height; i++)
        if (table->rows[i]->seen_before)
            used += gm_top_rows(out, NULL, &table->rows[i]->now, &table->rows[i]->rates, card ? card->uuid : "",
                                card ? card->number : -1, width, ending);
}

static void show_screen(struct table *table, const struct options *options) {
    unsigned width, height;
    gm_screen_size(&width, &height);
    gm_screen_frame_begin();
    gm_top_keys(stdout, gm_top_sorts[options->sort].name, options->card < 0 ? -1 : table->cards[options->card].number,
                width, gm_screen_line_end);
    show_table(stdout, table, options->card, options->sites, width, height - 1, gm_screen_line_end);
    gm_screen_frame_end();
    for (unsigned i = 0; i < table->count; i++)
        table->rows[i]->reported = table->rows[i]->ended;
}

static void press(struct table *table, struct options *options, char key) {
    if (key == 's') {
        options->sort = gm_top_sorts[options->sort + 1].name ? options->sort + 1 : 0;
        sort_rows(table, options->sort);
    }
    if (key == 'd') /* the next card, or all again */
        options->card = options->card + 1 < (int)table->card_count ? options->card + 1 : -1;
}

/* ---- the loop */

/* Prints the last reading and the processes that ended, which remain on the terminal. */
static void print_last(const struct table *table, bool sites) {
    if (table->count)
        show_table(stdout, table, -1, sites, UINT32_MAX, UINT32_MAX, "\n");
    for (unsigned i = 0; i < table->count; i++)
        if (table->rows[i]->ended)
            printf("process %d has ended\n", (int)gm_process_counters_pid(table->rows[i]->counters));
}

/* A first reading that is not shown, so that the first one shown has rates. */
static void read_for_rates(struct table *table, const struct options *options) {
    const struct timespec pause = {0, (long)(options->interval_ns < SECOND / 10 ? options->interval_ns : SECOND / 10)};
    read_all(table, options);
    table->readings = 0;
    table->history_count = table->card_count = 0;
    nanosleep(&pause, NULL);
}

static int watch_all(struct table *table, struct options *options) {
    bool records = options->json || options->prometheus, written = true;
    bool screen = !records && !options->batch && isatty(STDOUT_FILENO);
    uint64_t next = now_ns();
    if (screen && options->sort < 0)
        options->sort = gm_top_sort_find("live");
    options->sites |= screen && table->count == 1 && !options->all;
    if (!records)
        read_for_rates(table, options);
    gm_screen_catch(screen);
    for (bool last = false; !last && written;) {
        read_all(table, options);
        last = !alive(table) || (options->count && table->readings >= options->count);
        if (options->prometheus)
            written = show_prometheus(table);
        else if (options->json)
            written = show_json(table, options);
        else if (!screen)
            show_lines(table, options);
        else
            show_screen(table, options);
        written = written && !fflush(stdout) && !ferror(stdout);
        if (!last)
            drop_reported(table);
        next += options->interval_ns;
        if (next < now_ns()) /* the process was stopped or too slow */
            next = now_ns();
        for (enum gm_screen_event event = GM_SCREEN_REDRAW; !last && event != GM_SCREEN_TIME;) {
            char key = 0;
            event = gm_screen_wait(next, &key);
            last = event == GM_SCREEN_LEAVE || key == 'q';
            press(table, options, key);
            if (event == GM_SCREEN_REDRAW || event == GM_SCREEN_KEY)
                show_screen(table, options);
        }
    }
    gm_screen_release();
    if (screen)
        print_last(table, options->sites);
    else if (!records && !alive(table))
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

static int take_interval(const char *value, uint64_t *ns) {
    int status = take_number(&interval_row, value, ns);
    if (!status && (*ns < SECOND / 100 || *ns > 86400 * SECOND))
        status = gm_usage_error("top: --interval=%s is not a time from 10ms to 86400s", value);
    return status;
}

static int take(void *data, const char *name, const char *value) {
    struct options *options = data;
    if (!strcmp(name, "all"))
        options->all = true;
    else if (!strcmp(name, "batch"))
        options->batch = true;
    else if (!strcmp(name, "json"))
        options->json = true;
    else if (!strcmp(name, "sites"))
        options->sites = true;
    else if (!strcmp(name, "prometheus"))
        options->prometheus = true;
    else if (!strcmp(name, "group"))
        options->group = value;
    else if (!strcmp(name, "sort"))
        return (options->sort = gm_top_sort_find(value)) < 0
                   ? gm_usage_error("top: --sort=%s is not an order; accepted: " GM_TOP_SORT_NAMES, value)
                   : 0;
    else if (!strcmp(name, "count"))
        return take_number(&count_row, value, &options->count);
    else
        return take_interval(value, &options->interval_ns);
    return 0;
}

/* Reads the options. -1 = continue with the arguments from *first on, else the exit status. */
static int read_options(int argc, char **argv, struct options *options, int *first) {
    int status = gm_flags_read(argc, argv, take, options, gm_command_top_help, first);
    if (status >= 0)
        return status;
    if (options->all && *first < argc)
        return gm_usage_error("top: --all and a process id exclude each other");
    if (options->group && (options->all || *first < argc))
        return gm_usage_error("top: --group excludes --all and a process id");
    if (options->group && !gm_group_name_is_valid(options->group))
        return gm_usage_error("top: --group=%s is not a name; " GM_GROUP_ACCEPTED, options->group);
    if (options->json && options->prometheus)
        return gm_usage_error("top: --json and --prometheus exclude each other");
    if (options->prometheus && options->sites)
        return gm_usage_error("top: --prometheus and --sites exclude each other");
    if (options->prometheus && !options->count)
        options->count = 1;
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
            gm_complain("process %ld: %s", pid, gm_process_counters_reason(found));
            status = 1;
        }
    }
    return status;
}

static int open_group(struct table *table, const char *name) {
    const char *why;
    if (!gm_group_open(name, false, &table->group, &why)) {
        gm_complain("top: group %s %s", name, why);
        return 1;
    }
    gm_group_sample_take(&table->group_sample, name, &table->group);
    return 0;
}

int gm_command_top(int argc, char **argv) {
    struct options options = {.interval_ns = SECOND, .sort = -1, .card = -1};
    static struct table table = {.group = {NULL, -1}};
    int first, status = read_options(argc, argv, &options, &first);
    if (status >= 0)
        return status;
    options.all |= first == argc;
    if (options.group && (status = open_group(&table, options.group)))
        return status;
    if (options.all) {
        gm_each_process(add_found, &table);
        if (!table.count && !options.group) {
            fputs("gpumem: found no readable process that runs under gpumem and has used CUDA\n", stderr);
            return 1;
        }
        status = 0;
    } else {
        status = add_named(&table, argv + first);
    }
    if (status != GM_EXIT_USAGE && (table.count || options.group))
        status |= watch_all(&table, &options);
    gm_group_close(&table.group);
    while (table.count)
        drop(&table, table.count - 1);
    return status;
}

/* gpumem run and share: set the environment, start the program, and print what it did with GPU memory. */
#include "shim/base/base.h"
#include "shim/base/config.h"
#include "shim/base/file.h"
#include "shim/accounts/group.h"
#include "shim/base/options.h"
#include "shim/pipeline/guard.h"
#include "shim/placement/oom.h"
#include "shim/resource/stack.h"
#include "shim/trace/writer.h"
#include "tools/cli/colour.h"
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/foreign_file.h"
#include "tools/cli/launch.h"
#include "tools/cli/meant.h"
#include "tools/cli/reader.h"
#include "tools/cli/shown.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum own { OWN_LIBRARY = 1000, OWN_SIM, OWN_AUDIT, OWN_NVTX, OWN_EXEC, OWN_GUARD_EXIT, OWN_COLOUR, OWN_HELP, ROWS };

/* Their help texts are in gm_flags. */
static const struct option own_options[] = {
    {"library", required_argument, NULL, OWN_LIBRARY},
    {"sim", no_argument, NULL, OWN_SIM},
    {"audit", no_argument, NULL, OWN_AUDIT},
    {"nvtx", no_argument, NULL, OWN_NVTX},
    {"exec", no_argument, NULL, OWN_EXEC},
    {"guard-exit", required_argument, NULL, OWN_GUARD_EXIT},
    {"color", required_argument, NULL, OWN_COLOUR},
    {"help", no_argument, NULL, OWN_HELP},
};
#define OWN_OPTIONS (sizeof own_options / sizeof own_options[0])

struct setup {
    const char *library;
    bool sim, audit, nvtx, exec;
    bool shares;    /* gpumem share */
    int guard_exit; /* status when memory errors were found */
};

/* In gpumem share two rows have shorter names, one of them that of another row. */
static void make_options(struct option *out, bool shares) {
    size_t count = OWN_OPTIONS;
    memcpy(out, own_options, sizeof own_options);
    if (shares) {
        out[count++] = (struct option){"group", required_argument, NULL, ROWS + GM_OPT_SHARE};
        out[count++] = (struct option){"quantum", required_argument, NULL, ROWS + GM_OPT_SHARE_QUANTUM};
    }
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const struct gm_option *row = &gm_option_rows[i];
        if (row->flag && !(shares && row->id == GM_OPT_GROUP))
            out[count++] = (struct option){
                row->flag, row->type == GM_OPTION_BOOL ? optional_argument : required_argument, NULL, ROWS + i};
    }
    out[count] = (struct option){0};
}

static void *reserve(size_t bytes) { return gm_pages(bytes); }

/* The library would warn of a wrong plan or rule and go on with another policy: a lost run. */
static int check_policy_argument(const struct gm_policy *policy, const char *value) {
    const char *colon = strchr(value, ':');
    struct gm_policy_setup setup = {
        .argument = colon ? colon + 1 : NULL,
        .list_length = (unsigned)strtoul(gm_option_rows[GM_OPT_LIST_LENGTH].initial, NULL, 10),
        .list_range = (unsigned)strtoul(gm_option_rows[GM_OPT_LIST_RANGE].initial, NULL, 10),
        .managed = GM_KIND_MANAGED,
        .reserve = reserve,
        .load = gm_file_load,
        .unload = gm_file_unmap,
    };
    return gm_policy_open(policy, &setup) ? gm_usage_error("policy '%s': %s", value, setup.error) : 0;
}

static int check_policy(const char *value) {
    const struct gm_policy *policy = gm_policy_find(value);
    char known[512] = "";
    struct gm_meant meant = gm_meant_begin(value, strcspn(value, ":"), "");
    if (policy)
        return check_policy_argument(policy, value);
    for (size_t i = 0; gm_policies[i]; i++) {
        size_t used = strlen(known);
        gm_meant_try(&meant, gm_policies[i]->name, strlen(gm_policies[i]->name));
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", gm_policies[i]->name);
    }
    return gm_usage_error("unknown policy '%s'; there are: %s%s", value, known, gm_meant_text(&meant).text);
}

static int check_steps(const char *value) {
    struct gm_oom_chain chain;
    char error[160];
    return gm_oom_parse(value, &chain, error, sizeof error) ? gm_usage_error("GPUMEM_OOM=%s: %s", value, error) : 0;
}

static int check_guard(const char *value) {
    struct gm_guard_choice choice;
    char error[160];
    return gm_guard_parse(value, &choice, error, sizeof error) ? gm_usage_error("GPUMEM_GUARD=%s: %s", value, error)
                                                               : 0;
}

static int check_group(enum gm_option_id id, const char *value) {
    if (gm_group_name_is_valid(value))
        return 0;
    return gm_usage_error("%s=%s is not a name; " GM_GROUP_ACCEPTED, gm_option_rows[id].name, value);
}

static int check_ring(const char *value) {
    uint64_t bytes, ns;
    return gm_option_ring(value, &bytes, &ns)
               ? 0
               : gm_usage_error("GPUMEM_TRACE_RING=%s: accepted: " GM_RING_ACCEPTED, value);
}

static int check_resource(enum gm_option_id id, const char *value) {
    struct gm_stack_plan plan;
    char error[256];
    return gm_stack_parse(value, 0, &plan, error, sizeof error)
               ? gm_usage_error("%s=%s: %s", gm_option_rows[id].name, value, error)
               : 0;
}

static bool is_resource(enum gm_option_id id) {
    return id == GM_OPT_RESOURCE_NATIVE || id == GM_OPT_RESOURCE_ASYNC || id == GM_OPT_RESOURCE_MANAGED;
}

/* A stack of the user's serves memory, so that no other one may take its place. */
static int check_resources_of_environment(void) {
    for (unsigned i = 0; i < GM_OPTION_COUNT_; i++) {
        enum gm_option_id id = (enum gm_option_id)i;
        const char *value = is_resource(id) ? getenv(gm_option_rows[i].name) : NULL;
        if (value && *value && check_resource(id, value))
            return GM_EXIT_USAGE;
    }
    return 0;
}

/* What the syntax of the row does not say. An empty value is the default. */
static int check_value(enum gm_option_id id, const char *value) {
    if (id == GM_OPT_POLICY)
        return check_policy(value);
    if (id == GM_OPT_OOM && *value)
        return check_steps(value);
    if (id == GM_OPT_GUARD)
        return check_guard(value);
    if (id == GM_OPT_TRACE_RING && *value)
        return check_ring(value);
    if (is_resource(id) && *value)
        return check_resource(id, value);
    return (id == GM_OPT_GROUP || id == GM_OPT_SHARE) && *value ? check_group(id, value) : 0;
}

static void ignore_line(void *arg, const struct gm_config_line *line) {}

/* Names the file of options in the environment, so that the program finds it from any folder. */
static int take_config(const char *path) {
    int error = gm_config_read(path, ignore_line, NULL);
    if (error)
        return gm_usage_error("config file '%s': %s", path, gm_config_reason(error));
    char *whole = realpath(path, NULL);
    error = !whole || setenv("GPUMEM_CONFIG", whole, 1) ? errno : 0;
    free(whole);
    return error ? gm_usage_error("config file '%s': %s", path, strerror(error)) : 0;
}

/* Sets one option of the library in the environment. 0, or GM_EXIT_USAGE. */
static int take_row(const struct gm_option *row, const char *value) {
    char error[512], expanded[GM_PATH];
    uint64_t number;
    if (!value)
        value = "1";
    if (gm_option_parse(row, value, &number, error, sizeof error)) {
        struct gm_meant meant = gm_meant_begin(value, strlen(value), "");
        gm_meant_try_list(&meant, row->choices ? row->choices : "", ' ');
        return gm_usage_error("%s%s", error, gm_meant_text(&meant).text);
    }
    if (check_value(row->id, value))
        return GM_EXIT_USAGE;
    if (row->id == GM_OPT_CONFIG)
        return take_config(value);
    if (row->id == GM_OPT_TRACE && gm_trace_expand(value, expanded, sizeof expanded))
        return gm_usage_error("trace file name '%s' is too long or has a %% that is not one of %%p %%h %%r %%%%",
                              value);
    return setenv(row->name, value, 1) ? gm_usage_error("%s", strerror(errno)) : 0;
}

static int bad_option(const char *command, char **argv, const struct option *options) {
    const char *given = argv[optind - 1];
    if (optopt >= OWN_LIBRARY)
        return gm_usage_error("%s: option '%s' takes %s", command, given, strchr(given, '=') ? "no value" : "a value");
    size_t length = strcspn(given, "=");
    unsigned similar = 0;
    bool is_long = !strncmp(given, "--", 2) && length > 2;
    struct gm_meant meant = gm_meant_begin(is_long ? given + 2 : "", is_long ? length - 2 : 0, "--");
    for (const struct option *o = options; o->name && is_long; o++) {
        similar += !strncmp(o->name, given + 2, length - 2);
        gm_meant_try(&meant, o->name, strlen(o->name));
    }
    if (similar <= 1 && meant.best)
        return gm_usage_error("%s: unknown option '%s'%s (`gpumem help %s` lists all)", command, given,
                              gm_meant_text(&meant).text, command);
    return gm_usage_error("%s: %s option '%s'; `gpumem help %s` lists them", command,
                          similar > 1 ? "ambiguous" : "unknown", given, command);
}

static int take_guard_exit(const char *text, int *status) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value > 255)
        return gm_usage_error("--guard-exit '%s' is not a number from 0 to 255", text);
    *status = (int)value;
    return 0;
}

/* Reads the options before the program's name. -1 = continue, else the exit status. */
static int read_options(int argc, char **argv, struct setup *setup) {
    struct option options[OWN_OPTIONS + GM_OPTION_COUNT_ + 2];
    int option, status;
    make_options(options, setup->shares);
    opterr = 0;
    while ((option = getopt_long(argc, argv, "+:h", options, NULL)) != -1) {
        switch (option) {
        case OWN_LIBRARY: setup->library = optarg; break;
        case OWN_SIM: setup->sim = true; break;
        case OWN_AUDIT: setup->audit = true; break;
        case OWN_NVTX: setup->nvtx = true; break;
        case OWN_EXEC: setup->exec = true; break;
        case OWN_GUARD_EXIT:
            if (take_guard_exit(optarg, &setup->guard_exit))
                return GM_EXIT_USAGE;
            break;
        case OWN_COLOUR:
            if (!gm_colour_choose(optarg))
                return gm_flag_bad_choice(argv[0], "color", "auto|always|never", optarg);
            break;
        case OWN_HELP:
        case 'h': (setup->shares ? gm_command_share_help : gm_command_run_help)(); return 0;
        case ':':
        case '?': return bad_option(argv[0], argv, options);
        default:
            status = take_row(&gm_option_rows[option - ROWS], optarg);
            if (status)
                return status;
        }
    }
    if (optind == argc)
        return gm_usage_error("%s: no program given; usage: gpumem %s [OPTION...] -- PROGRAM [ARGUMENT...]", argv[0],
                              argv[0]);
    return -1;
}

/* Checks that the folder of the trace file exists and is writable. An error is more useful before a long run than after
 * it. */
static int check_folder(const char *name) {
    char folder[GM_PATH];
    struct stat st;
    const char *slash = strrchr(name, '/');
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == name ? 1 : (int)(slash - name), name);
    else
        strcpy(folder, ".");
    if (!stat(folder, &st) && !S_ISDIR(st.st_mode))
        return gm_usage_error("trace file '%s': '%s' is not a folder", name, folder);
    if (access(folder, W_OK | X_OK))
        return gm_usage_error("trace file '%s': folder '%s': %s", name, folder, strerror(errno));
    return 0;
}

static void find_trace(void *arg, const struct gm_config_line *line) {
    char **trace = arg;
    if (line->error || strcmp(line->name, "trace"))
        return;
    free(*trace);
    *trace = strdup(line->value);
}

/* Moves the trace that the file of options names to the environment, where this program checks it. */
static int settle_trace(void) {
    const char *config = getenv("GPUMEM_CONFIG");
    char *trace = NULL;
    int status = 0;
    if (!config || !*config || getenv("GPUMEM_TRACE") || gm_config_read(config, find_trace, &trace))
        return 0;
    if (trace && *trace)
        status = take_row(&gm_option_rows[GM_OPT_TRACE], trace);
    free(trace);
    return status;
}

/* Removes the trace of an earlier run, so that this run's processes can use the name. Refuses to replace any other
 * file. */
static int clear_trace(void) {
    char name[GM_PATH], begin[64] = "";
    struct stat st;
    const char *pattern = getenv("GPUMEM_TRACE");
    if (!pattern || !*pattern || gm_trace_expand(pattern, name, sizeof name))
        return 0;
    if (stat(name, &st))
        return check_folder(name);
    if (S_ISDIR(st.st_mode))
        return gm_usage_error("trace file '%s': is a directory", name);
    if (!S_ISREG(st.st_mode) || !strncmp(name, "/dev/", 5) || !strncmp(name, "/proc/", 6))
        return 0;
    const char *why;
    int fd = gm_foreign_open(name, O_RDONLY, &why);
    ssize_t length = fd >= 0 ? pread(fd, begin, sizeof begin - 1, 0) : -1;
    if (fd < 0)
        return gm_usage_error("trace file '%s': %s", name, why);
    close(fd);
    if (length &&
        (length < 8 || (memcmp(begin, GM_TRACE_MAGIC, 8) && strncmp(begin, gm_trace_csv_header, sizeof begin - 1))))
        return gm_usage_error("trace file '%s': exists and is not a gpumem trace; give another name or remove it",
                              name);
    return unlink(name) ? gm_usage_error("trace file '%s': %s", name, strerror(errno)) : 0;
}

/* Sets the variable that makes NVTX in the program load the library and report to it. */
static int take_nvtx(const char *library) {
    const char *other = getenv("NVTX_INJECTION64_PATH"), *trace = getenv("GPUMEM_TRACE"),
               *suspend = getenv("GPUMEM_SUSPEND");
    if ((!trace || !*trace) && (!suspend || !*suspend))
        return gm_usage_error("--nvtx writes into the trace: give --trace=FILE, too");
    if (other && *other) {
        gm_complain("NVTX ranges go to '%s' and not into the trace (NVTX_INJECTION64_PATH)", other);
        return 0;
    }
    return setenv("NVTX_INJECTION64_PATH", library, 1) ? gm_usage_error("%s", strerror(errno)) : 0;
}

static int run(int argc, char **argv, struct setup setup) {
    struct gm_run_counters counters = {0};
    struct timespec begin, end;
    char library[GM_PATH], path[GM_PATH];
    int status = read_options(argc, argv, &setup);
    if (status >= 0)
        return status;
    char **program = argv + optind;
    status = gm_program_find(program[0], path, sizeof path);
    if (status)
        return status;
    if (gm_preload_find(setup.library, library, sizeof library) || gm_preload_set(library) ||
        (setup.audit && gm_preload_audit(library)) || (setup.sim && gm_preload_sim()))
        return GM_EXIT_USAGE;
    if (check_resources_of_environment() || settle_trace() || clear_trace())
        return GM_EXIT_USAGE;
    const char *range = getenv("GPUMEM_TRACE_RANGE"), *traces = getenv("GPUMEM_TRACE");
    setup.nvtx |= range && *range && traces && *traces;
    if (setup.nvtx && (status = take_nvtx(library)))
        return status;
    gm_program_warn_preload(path);
    if (setup.sim)
        gm_program_warn_sim(path);
    if (setup.exec) {
        unsetenv("GPUMEM_STATS");
        execv(path, program);
        gm_complain("%s: %s", path, strerror(errno));
        return errno == ENOENT ? 127 : 126;
    }
    gm_run_counters_create(&counters);
    counters.simulated = setup.sim;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    status = gm_child_run(path, program);
    clock_gettime(CLOCK_MONOTONIC, &end);
    gm_run_counters_print(&counters,
                          (uint64_t)((end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec - begin.tv_nsec));
    if (!status && setup.guard_exit && gm_run_counters_errors(&counters)) {
        gm_complain("exit status %d: there were memory errors; --guard-exit=0 keeps the program's status",
                    setup.guard_exit);
        status = setup.guard_exit;
    }
    gm_run_counters_destroy(&counters);
    return status;
}

int gm_command_run(int argc, char **argv) { return run(argc, argv, (struct setup){.guard_exit = 1}); }

int gm_command_share(int argc, char **argv) {
    if (setenv(gm_option_rows[GM_OPT_SUSPEND].name, "1", 1) || setenv(gm_option_rows[GM_OPT_SHARE].name, "default", 0))
        return gm_usage_error("%s", strerror(errno));
    return run(argc, argv, (struct setup){.guard_exit = 1, .shares = true});
}

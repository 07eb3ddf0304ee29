/* The program gpumem: selects the subcommand. */
#include "tools/cli/commands.h"
#include "tools/cli/meant.h"
#include "tools/cli/shown.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct gm_command commands[] = {
    {"run", "run a program under libgpumem and print what it did with GPU memory", gm_command_run, gm_command_run_help},
    {"top", "show live counters of processes that run under libgpumem", gm_command_top, gm_command_top_help},
    {"limit", "show or change the memory limit of a group or a process while it runs", gm_command_limit,
     gm_command_limit_help},
    {"suspend", "let a process give its device memory back for a while", gm_command_suspend, gm_command_suspend_help},
    {"resume", "bring the memory of a suspended process back", gm_command_resume, gm_command_resume_help},
    {"share", "run a program that shares the devices with others, each of which may use all memory", gm_command_share,
     gm_command_share_help},
    {"trace", "start, stop or copy the trace of a running process", gm_command_trace, gm_command_trace_help},
    {"report", "read a trace: totals, peak, leaks, lifetimes, call sites", gm_command_report, gm_command_report_help},
    {"diff", "compare two traces by call site and kind of memory", gm_command_diff, gm_command_diff_help},
    {"export", "write a trace as csv, rmm, heaptrack, pprof, collapsed, perfetto, sqlite, torch", gm_command_export,
     gm_command_export_help},
    {"plot", "draw pictures of traces and write them as one HTML report", gm_command_plot, gm_command_plot_help},
    {"html", "write a page to explore a trace in a web browser", gm_command_html, gm_command_html_help},
    {"plan", "decide from a trace which memory each object should have in later runs", gm_command_plan,
     gm_command_plan_help},
#ifdef GM_HAVE_CUDA
    {"replay", "predict from a trace what other policies would do", gm_command_replay, gm_command_replay_help},
#endif
};
#define COMMANDS (sizeof commands / sizeof commands[0])

int gm_usage_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    gm_vcomplain(format, args);
    va_end(args);
    return GM_EXIT_USAGE;
}

static void overview(void) {
    puts("usage: gpumem COMMAND [OPTION...] ...\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-8s  %s\n", commands[i].name, commands[i].summary);
    puts("\n`gpumem help COMMAND` explains a command. `gpumem --version` prints the version.");
}

static const struct gm_command *find(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static int unknown(const char *name) {
    char known[256] = "";
    struct gm_meant meant = gm_meant_begin(name, strlen(name), "");
    for (size_t i = 0; i < COMMANDS; i++) {
        size_t used = strlen(known);
        gm_meant_try(&meant, commands[i].name, strlen(commands[i].name));
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", commands[i].name);
    }
    gm_meant_try_list(&meant, "help|--help|--version", '|');
    if (meant.best)
        return gm_usage_error("unknown command '%s'%s (`gpumem help` lists all)", name, gm_meant_text(&meant).text);
    return gm_usage_error("unknown command '%s'; there are: %s, help", name, known);
}

/* Without this a file that is opened later could get the number of a closed standard stream, and its text. Programs
 * that gpumem starts find the stream closed as before. */
static void fill_closed_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

static int run(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (!*name) {
        overview();
        return GM_EXIT_USAGE;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        puts("gpumem " GM_VERSION);
        return 0;
    }
    if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h")) {
        if (argc < 3) {
            overview();
            return 0;
        }
        const struct gm_command *command = find(argv[2]);
        if (!command)
            return unknown(argv[2]);
        command->help();
        return 0;
    }
    const struct gm_command *command = find(name);
    if (!command)
        return unknown(name);
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    fill_closed_streams();
    int status = run(argc, argv);
    bool written = !fflush(stdout) && !ferror(stdout);
    if (!written && !status)
        fputs("gpumem: cannot write to standard output\n", stderr);
    return written || status ? status : 1;
}

/* The help of gpumem run and share: the options by subject, and examples. */
#include "shim/base/options.h"
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"

#include <stdio.h>

/* Neighbouring rows of the options. Rows without a heading belong to the one before. */
static const struct {
    const char *heading;
    enum gm_option_id first, last;
} groups[] = {
    {"Which memory serves an allocation", GM_OPT_POLICY, GM_OPT_POLICY},
    {NULL, GM_OPT_LIST_LENGTH, GM_OPT_LIST_RANGE},
    {NULL, GM_OPT_MANAGED, GM_OPT_MANAGED_PREFETCH},
    {NULL, GM_OPT_RESOURCE_NATIVE, GM_OPT_RESOURCE_MANAGED},
    {NULL, GM_OPT_GROW, GM_OPT_GROW_MATCH},
    {NULL, GM_OPT_WORKSPACE_SIZE, GM_OPT_WORKSPACE_SIZE},
    {"Frees, and the cache of free blocks", GM_OPT_FREE, GM_OPT_CHECK_ORDER},
    {NULL, GM_OPT_FENCE_BATCH, GM_OPT_CACHE_IDLE},
    {"Limits, and what happens when memory runs out", GM_OPT_LIMIT, GM_OPT_OOM},
    {"Suspend the program, or share the device", GM_OPT_SUSPEND, GM_OPT_SHARE_QUANTUM},
    {"Find errors", GM_OPT_FILL, GM_OPT_GUARD_RANGE},
    {NULL, GM_OPT_FAIL_NTH, GM_OPT_FAIL_NTH},
    {"Trace", GM_OPT_TRACE, GM_OPT_SKIP},
    {"Messages and options", GM_OPT_LOG, GM_OPT_COVERAGE},
    {NULL, GM_OPT_CONFIG, GM_OPT_CONFIG},
};

static void print_option(const struct gm_option *row) {
    char help[1024];
    printf("  --%s", row->flag);
    if (row->type == GM_OPTION_BOOL) {
        fputs("[=0|1]", stdout);
    } else {
        putchar('=');
        gm_flag_value(stdout, row, "|");
    }
    putchar('\n');
    snprintf(help, sizeof help, "%s (%s, default %s)", row->help, row->name, *row->initial ? row->initial : "none");
    gm_help_wrapped(help, 0, 6);
}

void gm_command_run_help(void) {
    puts("usage: gpumem run [OPTION...] -- PROGRAM [ARGUMENT...]\n\n"
         "Runs the program under libgpumem.so and prints at its end what it did with GPU memory. The exit "
         "status is the\n"
         "program's; 128 + N when signal N ended it, 127 and 126 when it was not found or not executable, 2 "
         "for a bad option;\n--guard-exit when it was 0 and memory errors were found.");
    for (unsigned i = 0; i < sizeof groups / sizeof *groups; i++) {
        if (groups[i].heading)
            printf("\n%s:\n", groups[i].heading);
        for (unsigned id = groups[i].first; id <= (unsigned)groups[i].last; id++)
            print_option(&gm_option_rows[id]);
    }
    puts("\nHow the program is started:");
    gm_flags_help("run");
    puts("\nExamples:\n"
         "  gpumem run -- ./program                            what it did with GPU memory, and what leaked\n"
         "  gpumem run --trace=run.gmt -- python3 train.py     record each block; next: gpumem report run.gmt\n"
         "  gpumem run --guard=all -- ./program                find wrong accesses, and name block and call site");
}

void gm_command_share_help(void) {
    puts("usage: gpumem share [OPTION...] -- PROGRAM [ARGUMENT...]\n\n"
         "Runs the program as gpumem run does. Programs that are started so, in one terminal or several, share each\n"
         "device: every one of them may use all of its memory, and where that is too small for all, the memory of\n"
         "some is on the host meanwhile.\n");
    gm_flags_help("share");
    puts("\nAll other options of gpumem run are accepted, too.");
}

#include "tools/gen/gen.h"

#include <string.h>

const struct gm_gen_command gm_gen_commands[] = {
    {"run", "Run a program with its GPU memory placed and watched.", true},
    {"stat", "Run a program and print a table of counters.", true},
    {"report", "Tell from a trace who held GPU memory, since when, from where, and what leaked.", false},
    {"help", "Explain a command.", false},
    {NULL, NULL, false},
};

const struct gm_gen_flag gm_gen_flags[] = {
    {"library", "FILE", true, false, "The libgpumem.so to load instead of this tool's own."},
    {"sim", "", true, false,
     "Run on a simulated GPU; for programs built with -cudart shared, on machines without a GPU."},
    {"audit", "", true, false, "Load the audit companion too; it sees plug-ins that escape LD_PRELOAD."},
    {"exec", "", true, false, "Become the program instead of waiting for it; no closing lines."},
    {"top", "N", false, true, "Rows of each list; default 10."},
    {"stacks", "", false, true, "Callers of each call site too, as far as the trace has them; run with --stacks=N records more."},
    {"json", "", false, true, "Everything as one JSON document, for programs."},
    {"help", "", true, true, "Print a summary and leave."},
    {NULL, NULL, false, false, NULL},
};

bool gm_gen_takes(const struct gm_gen_command *command, const struct gm_gen_flag *flag) {
    if (!strcmp(command->name, "help"))
        return false;
    return command->launches ? flag->launching : flag->reporting;
}

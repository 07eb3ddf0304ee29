#include "tools/gen/gen.h"

#include <string.h>

const struct gm_gen_command gm_gen_commands[] = {
    {"run", "Run a program with its GPU memory placed and watched.", true},
    {"stat", "Run a program and print a table of counters.", true},
    {"top", "Show what running processes do with GPU memory, live.", false},
    {"report", "Tell from a trace who held GPU memory, since when, from where, and what leaked.", false},
    {"plan", "Decide from a trace which memory each object should have in later runs.", false},
    {"replay", "Tell from a trace, without a GPU, what it would have come to under other policies.", false},
    {"help", "Explain a command.", false},
    {NULL, NULL, false},
};

const struct gm_gen_flag gm_gen_flags[] = {
    {"library", "FILE", "run stat", "The libgpumem.so to load instead of this tool's own."},
    {"sim", "", "run stat",
     "Run on a simulated GPU; for programs built with -cudart shared, on machines without a GPU."},
    {"audit", "", "run stat", "Load the audit companion too; it sees plug-ins that escape LD_PRELOAD."},
    {"exec", "", "run stat", "Become the program instead of waiting for it; no closing lines."},
    {"top", "N", "report", "Rows of each list; default 10."},
    {"stacks", "", "report", "Callers of each call site too, as far as the trace has them; run with --stacks=N records more."},
    {"json", "", "report", "Everything as one JSON document, for programs."},
    {"all", "", "top", "All processes of this user, also those that start later; for root those of all users. So it is without a PID."},
    {"interval", "TIME", "top", "Time between two readings, a number with ms or s; default 1s."},
    {"count", "N", "top", "Leave after N readings."},
    {"batch", "", "top", "Append lines instead of refreshing the screen. So it is when the output is no terminal."},
    {"json", "", "top", "One JSON object a line for each process and reading, for programs."},
    {"lifetime", "TIME", "plan", "Objects that live less than this are temporary: async; seconds, or with us, ms or s."},
    {"fit", "BYTES", "plan", "The largest N of 2^-10 to 2^9 s whose async objects fit; without it the card less the headroom."},
    {"headroom", "BYTES", "plan", "Memory of the card left alone; default 512M."},
    {"as-rules", "", "plan", "Write few rules for GPUMEM_POLICY=static:@FILE instead, for people to edit."},
    {"compare", "", "plan", "Print how often the active list would decide the same, for several L and X."},
    {"output", "FILE", "plan", "Where to write; - is standard output."},
    {"policy", "NAME[:ARGUMENT]", "replay", "A value of GPUMEM_POLICY, or all, which is every one that needs no argument (the default); may be given several times."},
    {"limit", "BYTES", "replay", "Memory of each card; default what the trace says of it."},
    {"json", "", "replay", "Everything as one JSON document, for programs."},
    {"help", "", "run stat top report plan replay", "Print a summary and leave."},
    {NULL, NULL, NULL, NULL},
};

bool gm_gen_takes(const struct gm_gen_command *command, const struct gm_gen_flag *flag) {
    size_t length = strlen(command->name);
    for (const char *p = flag->commands; (p = strstr(p, command->name)) != NULL; p += length)
        if ((p == flag->commands || p[-1] == ' ') && (p[length] == ' ' || !p[length]))
            return true;
    return false;
}

const struct gm_gen_command *gm_gen_command(const char *name) {
    const struct gm_gen_command *command = gm_gen_commands;
    while (command->name && strcmp(command->name, name))
        command++;
    return command->name ? command : NULL;
}

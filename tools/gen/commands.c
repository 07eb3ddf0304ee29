#include "tools/gen/gen.h"

const struct gm_command gm_commands[] = {
    {"run", "run a program with its GPU memory placed and watched", "[options] [--] program [argument ...]"},
    {"stat", "show the counters of a run", "[file]"},
    {"report", "tell from a trace who held GPU memory, since when, from where, and what leaked", "file ..."},
    {NULL, NULL, NULL},
};

const struct gm_flag gm_flags[] = {
    {"", "help", "Print a summary of commands and options and leave."},
    {"", "version", "Print the version and leave."},
    {"run", "sim", "Run on a simulated GPU; for programs built with -cudart shared, on machines without a GPU."},
    {"run", "audit", "Watch look-ups through LD_AUDIT as well, which also sees plug-ins opened with RTLD_DEEPBIND."},
    {"run", "exec", "Become the program instead of waiting for it: one process less, no closing lines."},
    {NULL, NULL, NULL},
};

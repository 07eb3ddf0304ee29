#include "tools/gen/gen.h"

const struct gm_gen_command gm_gen_commands[] = {
    {"run", "Run a program with its GPU memory placed and watched.", true},
    {"stat", "Run a program and print a table of counters.", true},
    {"report", "Tell from a trace who held GPU memory, since when, from where, and what leaked.", false},
    {"diff", "Compare two traces by call site and kind of memory.", false},
    {"export", "Write a trace in another program's format.", false},
    {"help", "Explain a command.", false},
    {NULL, NULL, false},
};

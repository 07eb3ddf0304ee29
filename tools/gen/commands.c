#include "tools/gen/gen.h"

const struct gm_gen_command gm_gen_commands[] = {
    {"run", "Run a program under libgpumem and print what it did with GPU memory.", true, false},
    {"top", "Show what running processes do with GPU memory, live.", false, true},
    {"limit", "Show or change the memory limit of a group or a process while it runs.", false, true,
     "$(ls /dev/shm 2>/dev/null | sed -n s/^gpumem-group-$(id -u)-//p)"},
    {"suspend", "Let a process give its device memory back for a while.", false, true},
    {"resume", "Bring the memory of a suspended process back.", false, true},
    {"share", "Run a program that shares the devices with others.", false, false},
    {"trace", "Start, stop or copy the trace of a running process.", false, true, "start stop dump"},
    {"report", "Print from a trace who held GPU memory, since when, from where, and what leaked.", false, false},
    {"diff", "Compare two traces by call site and kind of memory.", false, false},
    {"export", "Write a trace in another program's format.", false, false},
    {"plot", "Draw pictures of traces and write them as one HTML report.", false, false},
    {"html", "Write a page to explore a trace in a web browser.", false, false},
    {"plan", "Decide from a trace which memory each object should have in later runs.", false, false},
    {"replay", "Predict from a trace, without a GPU, what other policies would do.", false, false},
    {"help", "Explain a command.", false, false},
    {NULL, NULL, false, false, NULL},
};

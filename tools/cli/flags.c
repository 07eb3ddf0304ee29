/* The table of flags of the gpumem program. */
#include "tools/cli/flags.h"
#include "shim/base/options.h"
#include "tools/cli/export_rows.h"

#include <stddef.h>
#include <string.h>

const struct gm_flag gm_flags[] = {
    {"library", "FILE", "run", "The libgpumem.so to load instead of this tool's own."},
    {"sim", "", "run",
     "Run on the simulated CUDA, without a GPU; for programs built with nvcc -cudart shared. It does not run a "
     "program's own kernels: their launches fail, and stderr names each kernel once."},
    {"audit", "", "run", "Load the audit companion too; it sees plug-ins that escape LD_PRELOAD."},
    {"nvtx", "", "run",
     "Record the program's NVTX ranges and marks in the trace, unless another tool receives them; see report "
     "--phases. With --suspend=on, ranges are names for gpumem suspend."},
    {"guard-exit", "N", "run",
     "Exit status when --guard or a rule found memory errors and the program's own status is 0: 0 to 255; default 1, "
     "0 = keep the program's. Possible races do not count."},
    {"exec", "", "run", "Replace this process by the program instead of waiting for it; no closing lines."},
    {"top", "N", "report diff plot", "Rows of each list; default 10."},
    {"stacks", "", "report",
     "One row for each stack: the call site, how many wrappers it calls through, and its callers; run with --stacks=N "
     "records more."},
    {"skip", "GLOBS", "report diff export plot html",
     "Further allocation wrappers, besides the known ones and GPUMEM_SKIP: globs of functions, modules or source "
     "files, separated by commas; may be given several times. none: do not step past functions of the program through "
     "which nearly all call stacks pass."},
    {"from", "TIME", "report export html",
     "Only what happens from this time of the trace on, a number with ns, us, ms, s or min; blocks that are live then "
     "count as made before, and times count from there."},
    {"until", "TIME", "report export html", "Only what happens before this time of the trace."},
    {"min-bytes", "BYTES", "report export html", "Only blocks of at least so many bytes; all totals are theirs."},
    {"peak", "", "report", "Who held device memory at the peak, as a tree of callers."},
    {"leaks", "", "report",
     "Blocks never freed, by call site, blocks released with their context, and blocks held to the end, which were "
     "freed "
     "only after the last allocation."},
    {"memory-errors", "", "report",
     "What run --guard=all found, each error once: the call at fault, or that saw it, and the allocation and free of "
     "the "
     "block."},
    {"temporary", "", "report", "Blocks freed before their thread allocated again, by call site."},
    {"sizes", "", "report", "Sizes by powers of two: allocations, bytes, peak of live bytes."},
    {"lifetimes", "", "report",
     "Lifetimes, and for thresholds from 1/1024 s to the length of the run the peaks of blocks that live shorter and "
     "longer, compared with the device's memory."},
    {"objects", "", "report", "One row for each allocation: size, kind, device, creation, end, lifetime, site."},
    {"threads", "", "report", "Allocations, frees, peak and time by thread."},
    {"streams", "", "report", "Allocations, frees, peak and time by stream."},
    {"kinds", "", "report", "Allocations, frees and peaks by kind of memory."},
    {"reserved", "", "report",
     "Memory taken from the devices over time: live, kept and reserved bytes; why kept memory went back or could not; "
     "what the process holds beyond gpumem's view."},
    {"growth", "", "report", "Arrays that probably grow by allocating anew, copying and freeing."},
    {"duplicates", "", "report",
     "Copies from host memory to a device that sent the same bytes again; GPUMEM_TRACE_COPIES=1 records copies."},
    {"oom", "", "report",
     "The steps taken when memory ran out, and each failed allocation with the holders of memory and a likely reason."},
    {"phases", "", "report",
     "Allocations, bytes and peak of each phase: the program's marks, and with run --nvtx its NVTX ranges."},
    {"suspends", "", "report",
     "When memory left the devices and came back (GPUMEM_SUSPEND): bytes, time, and what failed."},
    {"processes", "", "report", "For several traces, only the table of processes and the peaks of devices."},
    {"suppressions", "FILE", "report",
     "File of known leaks and memory errors that do not count; may be given several times."},
    {"fail-on-leak", "[BYTES]", "report",
     "Exit with 3 when more than BYTES leaked (default 0); suppressed leaks and leaks of toolkit libraries do not "
     "count."},
    {"fail-on-error", "", "report",
     "Exit with 3 when there are memory errors; suppressed ones and possible races do not count."},
    {"limit", "BYTES", "report", "Exit with 3 when the peak of live device memory is above BYTES."},
    {"worse", "PERCENT", "diff",
     "Exit with 3 when allocations, bytes, peak or leaks grew by more than PERCENT; time varies and does not count."},
    {"sarif", "", "report",
     "Memory errors and leaks as one SARIF document, which code hosts and editors show beside the source."},
    {"json", "", "report diff", "Everything as one JSON document, for programs."},
    {"all", "", "top",
     "All processes of this user, also later ones; for root those of all users. Default without a PID."},
    {"interval", "TIME", "top", "Time between two readings, a number with ms or s; default 1s."},
    {"count", "N", "top", "End after N readings."},
    {"batch", "", "top", "Append lines instead of refreshing the screen. Default if the output is not a terminal."},
    {"json", "", "top", "One JSON object a line for each process and reading, for programs."},
    {"group", "NAME", "top", "The processes of this group (GPUMEM_GROUP), its limit, and what it uses of it."},
    {"sort", GM_TOP_SORT_NAMES, "top", "Order of the processes; default live on a terminal, else as given."},
    {"sites", "", "top",
     "Live bytes by call site, from the trace that a process writes. Default for one PID on a terminal."},
    {"prometheus", "", "top", "One reading in the text format that Prometheus and its exporters read."},
    {"remove", "", "limit", "Remove a group without running processes, and its limit."},
    {"keep", "GLOB", "suspend", "Blocks with such a tag, NVTX range or call site stay on the device."},
    {"drop", "GLOB", "suspend",
     "Blocks with such a tag, NVTX range or call site are not copied; they come back as zeros."},
    {"to", "DIR", "suspend", "The contents go to a file in this folder, not to host memory."},
    {"wait", "", "suspend", "Calls that submit work wait for gpumem resume, instead of resuming the process."},
    {"context", "", "suspend",
     "The process leaves the device as a whole, until gpumem resume: what gpumem does not serve is saved by the "
     "driver's checkpoint API (driver 570 and later)."},
    {"quantum", "TIME", "share",
     "The least time for which a program keeps the device before its memory leaves for another one, a number with ms, "
     "s "
     "or min (GPUMEM_SHARE_QUANTUM); default 2s."},
    {"group", "NAME", "share",
     "Share with the programs that have the same name here (GPUMEM_SHARE), instead of those without a name."},
    {"to", GM_EXPORT_NAMES, "export", "Format to write."},
    {"trace", "FILE", "trace",
     "Of start: name of the trace, where %p is the process id; default gpumem.%p.gmt in the current folder."},
    {"stacks", "N", "trace",
     "Of start: stack frames of each call site beyond the first; default what GPUMEM_STACKS says in the process. The "
     "first start of a process decides."},
    {"output", "FILE", "trace", "Of dump: file to write; it must not exist."},
    {"output", "FILE", "export plan", "File to write; - is standard output."},
    {"only-blocks", "", "export",
     "Of sqlite: without the tables events and memory, which take most of the time and of the file."},
    {"force", "", "export html plan", "Write over an output file that exists."},
    {"compare", "", "html", "Begin with the difference between the first two traces, as gpumem diff has it."},
    {"measure", "peak|bytes|allocations|leaked", "export",
     "What collapsed stacks count: bytes at the peak (the default), all bytes, allocations, or bytes never "
     "freed."},
    {"output", "FOLDER", "plot", "Folder for the pictures and report.html; it is created if it is missing."},
    {"output", "FILE", "html",
     "File to write, - is standard output; default the name of the first trace with .html, in the current folder."},
    {"json", "", "plot",
     "The numbers of the pictures of one trace as JSON instead: intervals, bars and marks, whatever the trace's size."},
    {"zoom", "OBJECTS", "plot", "Number of objects in the enlarged parts of scatter pictures; default 1000."},
    {"lifetime", "TIME", "plan",
     "Objects that live less than TIME are temporary (async); seconds, or a number with us, ms, s or min."},
    {"fit", "BYTES", "plan",
     "Choose the largest lifetime of 2^-10 to 2^9 s whose async objects fit in BYTES; default the device's memory "
     "minus the headroom."},
    {"headroom", "BYTES", "plan", "Device memory that the plan does not use; default 512M."},
    {"as-rules", "", "plan", "Write a few rules for GPUMEM_POLICY=static:@FILE instead, which people can edit."},
    {"compare", "", "plan", "Print how often the active list decides the same, for several L and X."},
    {"policy", "NAME[:ARGUMENT]", "replay",
     "A value of GPUMEM_POLICY, or all: every one that needs no argument (default); may be given several times."},
    {"limit", "BYTES", "replay", "Memory of each device; default as in the trace."},
    {"json", "", "replay", "Everything as one JSON document, for programs."},
    {"color", "auto|always|never", "run top report diff",
     "Colours of the text; auto (the default) uses them on a terminal unless NO_COLOR is set."},
    {"help", "", "run top limit suspend resume share trace report diff export plot html plan replay",
     "Print a summary and exit."},
    {NULL, NULL, NULL, NULL},
};

bool gm_flag_is_of(const struct gm_flag *flag, const char *command) {
    size_t length = strlen(command);
    for (const char *p = flag->commands; p; p = strchr(p, ' ')) {
        p += *p == ' ';
        if (!strncmp(p, command, length) && (p[length] == ' ' || !p[length]))
            return true;
    }
    return false;
}

void gm_flag_value(FILE *out, const struct gm_option *row, const char *joint) {
    if (row->type == GM_OPTION_BOOL) {
        fputs("0", out);
        fputs(joint, out);
        fputs("1", out);
    } else if (row->type == GM_OPTION_CHOICE) {
        for (const char *p = row->choices; *p; p++) {
            if (*p == ' ')
                fputs(joint, out);
            else
                fputc(*p, out);
        }
    } else if (row->type == GM_OPTION_COUNT && row->high != UINT64_MAX) {
        fprintf(out, "%llu..%llu %s", (unsigned long long)row->low, (unsigned long long)row->high, row->unit);
    } else {
        fputs(row->unit, out);
    }
}

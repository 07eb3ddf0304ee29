#include "tools/cli/flags.h"
#include "tools/cli/export_rows.h"

#include <stddef.h>
#include <string.h>

const struct gm_flag gm_flags[] = {
    {"library", "FILE", "run stat", "The libgpumem.so to load instead of this tool's own."},
    {"sim", "", "run stat",
     "Run on the simulated CUDA, without a GPU; for programs built with nvcc -cudart shared. It does not run a "
     "program's own kernels: their launches fail, and stderr names each kernel once."},
    {"audit", "", "run stat", "Load the audit companion too; it sees plug-ins that escape LD_PRELOAD."},
    {"nvtx", "", "run stat",
     "Take the program's NVTX ranges and marks into the trace, unless another tool takes them; see report --phases."},
    {"exec", "", "run stat", "Become the program instead of waiting for it; no closing lines."},
    {"top", "N", "report diff plot", "Rows of each list; default 10."},
    {"stacks", "", "report",
     "Callers of each call site too, as far as the trace has them; run with --stacks=N records more."},
    {"peak", "", "report", "Who held device memory at the peak, as a tree of callers."},
    {"leaks", "", "report", "Blocks never freed, by call site; beside them what went with its context."},
    {"temporary", "", "report", "Blocks freed before their thread allocated again, by call site."},
    {"sizes", "", "report", "Sizes by powers of two: allocations, bytes, peak of live bytes."},
    {"lifetimes", "", "report",
     "Lifetimes, and for thresholds from 1/1024 s to 512 s the peaks of what lives shorter and longer, "
     "against "
     "the card's size."},
    {"objects", "", "report", "One row for each allocation: size, kind, device, birth, end, lifetime, site."},
    {"threads", "", "report", "Allocations, frees, peak and time by thread."},
    {"streams", "", "report", "Allocations, frees, peak and time by stream."},
    {"kinds", "", "report", "Allocations, frees and peaks by kind of memory."},
    {"growth", "", "report", "Arrays that grow by allocating anew, copying and freeing, as far as can be guessed."},
    {"oom", "", "report",
     "What was done when memory ran out, and each allocation that failed: who held the memory then, and why "
     "it may have failed."},
    {"phases", "", "report",
     "Allocations, bytes and peak of each phase: the program's marks, and with run --nvtx its NVTX ranges."},
    {"processes", "", "report", "Of several traces the table of processes and the peaks of devices alone."},
    {"suppressions", "FILE", "report", "Leaks that are known and not counted; may be given several times."},
    {"fail-on-leak", "[BYTES]", "report",
     "Exit with 3 when more than BYTES leaked (default 0), without suppressed ones and those of toolkit "
     "libraries."},
    {"limit", "BYTES", "report", "Exit with 3 when the peak of live device memory is above BYTES."},
    {"worse", "PERCENT", "diff",
     "Exit with 3 when allocations, bytes, peak or leaks grew by more than PERCENT; time is not judged, it "
     "varies."},
    {"json", "", "report diff", "Everything as one JSON document, for programs."},
    {"all", "", "top",
     "All processes of this user, also those that start later; for root those of all users. So it is "
     "without a PID."},
    {"interval", "TIME", "top", "Time between two readings, a number with ms or s; default 1s."},
    {"count", "N", "top", "Leave after N readings."},
    {"batch", "", "top", "Append lines instead of refreshing the screen. So it is when the output is no terminal."},
    {"json", "", "top", "One JSON object a line for each process and reading, for programs."},
    {"to", GM_EXPORT_NAMES, "export", "Format to write."},
    {"output", "FILE", "export plan", "File to write; - is standard output."},
    {"measure", "peak|bytes|allocations|leaked", "export",
     "What collapsed stacks count: bytes at the peak (the default), all bytes, allocations, or bytes never "
     "freed."},
    {"output", "FOLDER", "plot", "Where the pictures and report.html go; it is made where it is missing."},
    {"zoom", "OBJECTS", "plot", "Objects that the enlarged parts of scatter pictures show; default 1000."},
    {"lifetime", "TIME", "plan",
     "Objects that live less than this are temporary, async; seconds, or a number with us, ms or s."},
    {"fit", "BYTES", "plan",
     "The largest N of 2^-10 to 2^9 s whose async objects fit; without it the card less the headroom."},
    {"headroom", "BYTES", "plan", "Memory of the card left alone; default 512M."},
    {"as-rules", "", "plan", "Write few rules for GPUMEM_POLICY=static:@FILE instead, for people to edit."},
    {"compare", "", "plan", "Print how often the active list would decide the same, for several L and X."},
    {"policy", "NAME[:ARGUMENT]", "replay",
     "A value of GPUMEM_POLICY, or all: every one that needs no argument (default); may be given several times."},
    {"limit", "BYTES", "replay", "Memory of each card; default what the trace says of it."},
    {"json", "", "replay", "Everything as one JSON document, for programs."},
    {"help", "", "run stat top report diff export plot plan replay", "Print a summary and leave."},
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

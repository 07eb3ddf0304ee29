/* The options of gpumem, one row each. Help, manual, completion, the table of the README and the parser read the same
 * rows. Values are read once from the environment. An unknown GPUMEM_ name, or a value that does not parse, is
 * reported once on stderr with the name, the value and what is accepted. The default then applies. */
#ifndef GM_OPTIONS_H
#define GM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gm_option_type {
    GM_OPTION_BOOL,   /* 0|1|on|off|yes|no|true|false */
    GM_OPTION_COUNT,  /* unsigned integer within [low, high] */
    GM_OPTION_BYTES,  /* integer with optional K, M, G, T or KiB, MiB, GiB, TiB (powers of 1024); 0 = off */
    GM_OPTION_MEMORY, /* the same, or a part of a device's memory such as 50%; see gm_memory_of */
    GM_OPTION_TIME,   /* integer with us, ms, s or min; stored as nanoseconds */
    GM_OPTION_CHOICE, /* one of `choices`, space separated; stored as index */
    GM_OPTION_TEXT,   /* free text, checked by the code that uses it */
};

/* The rows: X(id, type, flag, default, unit, choices, low, high, help); struct gm_option has the members. The variable
 * is GPUMEM_id, and the number GM_OPT_id. */
#define GM_OPTIONS(X)                                                                                                  \
    X(POLICY, TEXT, "policy", "auto", "NAME[:ARGUMENT]", NULL, 0, 0,                                                   \
      "Placement policy that decides which memory serves each allocation.")                                            \
    X(TRACE, TEXT, "trace", "", "FILE", NULL, 0, 0,                                                                    \
      "Write the life of every block to this file; %p becomes the process id, %h the host, %r the rank, %% a percent " \
      "sign; empty = no trace.")                                                                                       \
    X(TRACE_FORMAT, CHOICE, "trace-format", "auto", "", "auto binary csv", 0, 0,                                       \
      "Format of the trace; auto writes CSV when the file name ends in .csv and the binary format otherwise.")         \
    X(TRACE_FLUSH, TIME, "trace-flush", "100ms", "us, ms, s or min", NULL, 0, 0,                                       \
      "Longest time an event waits in memory before it is written to the trace; 0 = each at once.")                    \
    X(TRACE_LIMIT, BYTES, "trace-limit", "0", "bytes", NULL, 0, 0,                                                     \
      "Largest size of the trace's file; later events are counted and not written; 0 = any size, the least is 1M.")    \
    X(TRACE_RING, TEXT, "trace-ring", "", "BYTES|TIME", NULL, 0, 0,                                                    \
      "Keep only the latest events in the binary trace: so many bytes (64M), or those of so much time (30s); "         \
      "allocations of live blocks are kept too; empty = keep all.")                                                    \
    X(TRACE_SUMMARY, TIME, "trace-summary", "0", "us, ms, s or min", NULL, 0, 0,                                       \
      "Write no single blocks into the trace but, for each interval of this time, a row for each call site and kind "  \
      "of memory that was active, for runs of days; 0 = single blocks, the least is 10ms.")                            \
    X(TRACE_RANGE, TEXT, "trace-range", "", "GLOB", NULL, 0, 0,                                                        \
      "Record allocations only while an NVTX range of such a name (NAME, or DOMAIN:NAME) is open in any thread; "      \
      "blocks that are live at its beginning and the frees of recorded blocks are recorded too; gpumem run turns on "  \
      "--nvtx with it; empty = all the time.")                                                                         \
    X(TRACE_COPIES, BOOL, "trace-copies", "0", "", NULL, 0, 0,                                                         \
      "Also record each copy from host memory to a device in the trace, with a hash of its bytes, for gpumem report "  \
      "--duplicates; the processor reads all bytes of each copy once more.")                                           \
    X(STACKS, COUNT, "stacks", "32", "frames", NULL, 0, 64,                                                            \
      "Stack frames that a trace records for each call site beyond the first.")                                        \
    X(PYTHON, BOOL, "python", "1", "", NULL, 0, 0,                                                                     \
      "With GPUMEM_STACKS and a trace, also record the Python functions of each call site, with file and line: the "   \
      "innermost 48, of CPython 3.9 to 3.15.")                                                                         \
    X(SKIP, TEXT, "skip", "", "GLOBS", NULL, 0, 0,                                                                     \
      "Further allocation wrappers, globs of functions, modules or source files separated by commas: the call site "   \
      "is the first frame outside them, in explanations of errors, reports, exports and pictures; none: the tools do " \
      "not step past functions of the program through which nearly all call stacks pass.")                             \
    X(LOG, CHOICE, "log", "warn", "", "off error warn info debug", 0, 0, "Which messages to write to standard error.") \
    X(LOG_FILE, TEXT, "log-file", "", "FILE", NULL, 0, 0,                                                              \
      "Append the messages to this file instead; %p becomes the process id, %h the host, %r the rank, %% a percent "   \
      "sign; the closing lines of gpumem run stay on standard error.")                                                 \
    X(COVERAGE, BOOL, "coverage", "0", "", NULL, 0, 0,                                                                 \
      "At exit, print which functions of the driver were called, and which were possibly bypassed.")                   \
    X(FREE, CHOICE, "free", "safe", "", "safe wait order async", 0, 0,                                                 \
      "When a cudaFree returns: safe = at once where the program cannot tell, else as wait; wait = when earlier work " \
      "of its context is done, as natively; order = at once, and later work runs behind earlier work; async = at "     \
      "once, which breaks programs that rely on the wait.")                                                            \
    X(STRICT, BOOL, "strict", "0", "", NULL, 0, 0, "Another name for GPUMEM_FREE=wait.")                               \
    X(CHECK_ORDER, BOOL, "check-order", "0", "", NULL, 0, 0,                                                           \
      "At exit, name the call sites of cudaFree whose wait another stream or the host may rely on, because no event "  \
      "or synchronisation orders them; every free waits in this mode.")                                                \
    X(MANAGED, CHOICE, "managed", "auto", "", "auto plain pool", 0, 0,                                                 \
      "What managed placement uses: plain cuMemAllocManaged or a private managed pool; auto takes the pool where the " \
      "driver has it.")                                                                                                \
    X(MANAGED_HEADROOM, BYTES, "managed-headroom", "512M", "bytes", NULL, 0, 0,                                        \
      "Free device memory that managed placement does not use; a request that would need it is refused.")              \
    X(MANAGED_OVERSUBSCRIBE, BOOL, "managed-oversubscribe", "0", "", NULL, 0, 0,                                       \
      "Let managed memory exceed the device's free memory, as far as the host has room; only while no other process "  \
      "has memory of the device, as it can hang the device for all.")                                                  \
    X(MANAGED_PREFETCH, BOOL, "managed-prefetch", "0", "", NULL, 0, 0,                                                 \
      "Move a managed block to its device before the program gets it, so that the first kernel does not fault page "   \
      "by page.")                                                                                                      \
    X(LIST_LENGTH, COUNT, "list-length", "10", "entries", NULL, 1, 64,                                                 \
      "Length L of the active list: how many of the latest live counts of a size are compared.")                       \
    X(LIST_RANGE, COUNT, "list-range", "5", "blocks", NULL, 0, 1000000,                                                \
      "Range X of the active list: a size whose live counts differ by less than X counts as short-lived.")             \
    X(FENCE_BATCH, COUNT, "fence-batch", "16", "frees", NULL, 1, 1024,                                                 \
      "How many frees of the cache share one fence; with 1 a block is reusable soonest, with more a free is cheaper.") \
    X(CACHE_LIMIT, MEMORY, "cache-limit", "0", "bytes|N%", NULL, 0, 0,                                                 \
      "Limit of the free blocks that the cache holds for reuse on each device, or a part of it (50%); 0 = none, "      \
      "since memory goes back where somebody needs it.")                                                               \
    X(CACHE_IDLE, TIME, "cache-idle", "10s", "us, ms, s or min", NULL, 0, 0,                                           \
      "Free blocks that were unused for this time are released when later blocks are freed; 0 = never, also not when " \
      "the program makes no more calls.")                                                                              \
    X(FILL, CHOICE, "fill", "off", "", "off zero poison", 0, 0,                                                        \
      "Fill new blocks with zeros, or with a poison pattern that shows reads of memory never written.")                \
    X(GUARD, TEXT, "guard", "off", "off|all|1/N[,WORD...]", NULL, 0, 0,                                                \
      "Find memory errors: give all blocks, or one of N, addresses of their own, so that wrong accesses fault; with "  \
      "begin exact before a block; with align=1 (4, 16) exact behind it; with blocking wait for each kernel, to name " \
      "it; with noraces no possible races of cudaMallocAsync.")                                                        \
    X(GUARD_RANGE, BYTES, "guard-range", "4T", "bytes", NULL, 0, 0,                                                    \
      "Addresses that guarded blocks use up before those of the blocks that were freed longest ago are used again.")   \
    X(LIMIT, MEMORY, "limit", "0", "bytes|N%", NULL, 0, 0,                                                             \
      "Memory of each device that this process may hold, or a part of it (50%), as if the device were smaller; "       \
      "requests above the limit take the steps of GPUMEM_OOM; 0 = no limit.")                                          \
    X(GROUP, TEXT, "group", "", "NAME", NULL, 0, 0,                                                                    \
      "Share GPUMEM_LIMIT with all processes of this user and machine that have the same name here; gpumem limit "     \
      "NAME BYTES changes it; empty = each process has its own limit.")                                                \
    X(OOM, TEXT, "oom", "trim,fail", "STEPS", NULL, 0, 0,                                                              \
      "Steps when the device is out of memory, in this order: trim = release free blocks, host = host memory mapped "  \
      "to the device, at most half of what the host can spare, split = the same for what the device lacks, managed = " \
      "managed memory while it fits free device memory, fail = return the error.")                                     \
    X(GROW, CHOICE, "grow", "off", "", "off report vmm move", 0, 0,                                                    \
      "What to do with arrays that the program grows by hand (allocate a larger one, copy, free): report counts them " \
      "at exit, vmm serves matching allocations from memory that can be remapped, move hands their pages over "        \
      "instead of copying them.")                                                                                      \
    X(GROW_MATCH, TEXT, "grow-match", "size>=2M,seen", "RULES", NULL, 0, 0,                                            \
      "Which cudaMalloc allocations GPUMEM_GROW takes: conditions of the placement rules, or seen (a call site with "  \
      "a block that was grown by hand before, and with no exported block); a comma joins conditions, ; separates "     \
      "alternatives. Such a block cannot be exported to other processes: without seen, no matching block can.")        \
    X(RESOURCE_NATIVE, TEXT, "resource-native", "", "RESOURCE", NULL, 0, 0,                                            \
      "Resources that serve what the policy leaves native, such as log(limit(2GiB,cache(async))); policy observe "     \
      "leaves everything so; the program's own call serves what they do not support; empty = the program's own call.") \
    X(RESOURCE_ASYNC, TEXT, "resource-async", "", "RESOURCE", NULL, 0, 0,                                              \
      "Resources that serve what the policy places as async; empty = cache(async).")                                   \
    X(RESOURCE_MANAGED, TEXT, "resource-managed", "", "RESOURCE", NULL, 0, 0,                                          \
      "Resources that serve what the policy places as managed; empty = managed.")                                      \
    X(FAIL_NTH, COUNT, "fail-nth", "0", "allocations", NULL, 0, UINT64_MAX,                                            \
      "Let the n-th allocation that a policy may place fail with out of memory, to try error handling; 0 = none.")     \
    X(WORKSPACE_SIZE, BYTES, "workspace-size", "0", "bytes", NULL, 0, 0,                                               \
      "Fixed size of each workspace that a library makes by gpumem_workspace_create and to which it gives no size "    \
      "itself; 0 = managed: 1 MiB at first, and larger when a call needs more.")                                       \
    X(SUSPEND, BOOL, "suspend", "0", "", NULL, 0, 0,                                                                   \
      "Serve cudaMalloc from memory that gpumem suspend PID copies to the host and gives back to the device, and "     \
      "that "                                                                                                          \
      "returns under the same addresses at the next call that submits work, or by gpumem resume PID.")                 \
    X(SUSPEND_IDLE, TIME, "suspend-idle", "0", "us, ms, s or min", NULL, 0, 0,                                         \
      "With GPUMEM_SUSPEND, suspend the process when it has submitted no work for this time; 0 = never.")              \
    X(SUSPEND_BACKING, CHOICE, "suspend-backing", "registered", "", "dropped kept registered", 0, 0,                   \
      "What becomes of the host's copy after a resume: dropped; kept, so that the next suspend copies only what "      \
      "changed; registered, also with the driver in the background, so that it is copied at the speed of the link; "   \
      "when the host runs short of memory it is dropped.")                                                             \
    X(SHARE, TEXT, "share", "", "NAME", NULL, 0, 0,                                                                    \
      "Share each device with all processes of this user and machine that have the same name here, as gpumem share "   \
      "does: where one finds no memory, that of another one leaves the device for a while, as with GPUMEM_SUSPEND; "   \
      "empty = no sharing.")                                                                                           \
    X(SHARE_QUANTUM, TIME, "share-quantum", "2s", "us, ms, s or min", NULL, 0, 0,                                      \
      "With GPUMEM_SHARE, the least time for which the process keeps the device before it leaves for another one, or " \
      "four times as long as its memory took to move, if that is longer.")                                             \
    X(CONFIG, TEXT, "config", "", "FILE", NULL, 0, 0,                                                                  \
      "Read options from this file, one a line such as policy = cache; variables come before it; libgpumem(7) "        \
      "describes the file.")                                                                                           \
    X(STATS, TEXT, NULL, "", "FILE", NULL, 0, 0,                                                                       \
      "File of counters that gpumem run creates and reads; not meant to be set by hand.")

enum gm_option_id {
#define X(id, ...) GM_OPT_##id,
    GM_OPTIONS(X)
#undef X
        GM_OPTION_COUNT_
};

struct gm_option {
    enum gm_option_id id;
    enum gm_option_type type;
    const char *name;    /* "GPUMEM_POLICY" */
    const char *flag;    /* long option of gpumem run without dashes, "policy"; NULL = environment only */
    const char *initial; /* default as text */
    const char *unit;    /* "bytes", "" ... */
    const char *choices; /* GM_OPTION_CHOICE: space separated; else NULL */
    uint64_t low, high;  /* GM_OPTION_COUNT */
    const char *help;    /* one sentence */
};

extern const struct gm_option gm_option_rows[GM_OPTION_COUNT_];

/* True in a program that runs with more rights than its user has (set-uid, file capabilities): the environment is the
 * user's, the files are opened with the rights of the program. So no option is read there, and no hook acts. */
bool gm_options_are_ignored(void);

/* Reads `environment` (in the form of environ), and the file that it names in GPUMEM_CONFIG, into the values of the
 * process. The environment comes before the file. Later calls are ignored. Texts are copied into fixed storage. */
void gm_options_load(char *const *environment);

bool gm_option_bool(enum gm_option_id id);
uint64_t gm_option_number(enum gm_option_id id);  /* count, bytes, nanoseconds or choice index */
const char *gm_option_text(enum gm_option_id id); /* never NULL */
bool gm_option_is_set(enum gm_option_id id);      /* set by the user, and valid */

/* A value of type GM_OPTION_MEMORY: bytes, or GM_MEMORY_PART and so many ten-thousandths of a device's memory.
 * UINT64_MAX, which no text gives, stays what it is. */
#define GM_MEMORY_PART  ((uint64_t)1 << 63)
#define GM_MEMORY_WHOLE ((uint64_t)10000)
static inline bool gm_memory_is_part(uint64_t value) { return value & GM_MEMORY_PART && value != UINT64_MAX; }
/* Its ten-thousandths. The value may come from another process, so they are never more than the whole. */
static inline uint64_t gm_memory_part(uint64_t value) {
    uint64_t part = value & ~GM_MEMORY_PART;
    return part < GM_MEMORY_WHOLE ? part : GM_MEMORY_WHOLE;
}
/* Its bytes on a device of `total` bytes. */
static inline uint64_t gm_memory_of(uint64_t value, uint64_t total) {
    uint64_t part = gm_memory_part(value);
    return gm_memory_is_part(value) ? total / GM_MEMORY_WHOLE * part + total % GM_MEMORY_WHOLE * part / GM_MEMORY_WHOLE
                                    : value;
}

/* How many letters must be put in, left out or replaced to make one name of the other (Levenshtein); SIZE_MAX: one is
 * longer than any name here. */
size_t gm_name_distance(const char *a, size_t a_length, const char *b, size_t b_length);

/* The value of a variable of any name in an environment; "" = it has none, or options are ignored. */
const char *gm_environment_value(char *const *environment, const char *name);

/* Names the option in a message: GPUMEM_POLICY, or FILE:3: GPUMEM_POLICY if that line of the file of options set it. */
struct gm_option_label {
    char text[160];
};
struct gm_option_label gm_option_label(enum gm_option_id id);

/* Parses `text` by the type of `row`. Returns 0 and writes *number (choice index, bytes, ns ...), or returns -1 and
 * writes one line into error[size], which names the value and what is accepted. */
int gm_option_parse(const struct gm_option *row, const char *text, uint64_t *number, char *error, size_t size);

/* Reads GPUMEM_TRACE_RING: bytes from GM_TRACE_LEAST on, or a time; the other number becomes 0. False: it is neither.
 */
#define GM_TRACE_LEAST   ((uint64_t)1 << 20)
#define GM_RING_ACCEPTED "bytes from 1M on, such as 64M, or a time such as 30s"
bool gm_option_ring(const char *text, uint64_t *bytes, uint64_t *ns);

#endif

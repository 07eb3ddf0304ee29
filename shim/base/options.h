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
    GM_OPTION_TIME,   /* integer with us, ms, s or min; stored as nanoseconds */
    GM_OPTION_CHOICE, /* one of `choices`, space separated; stored as index */
    GM_OPTION_TEXT,   /* free text, checked by the code that uses it */
};

enum gm_option_id {
    GM_OPT_POLICY,        /* GPUMEM_POLICY text name[:argument], default auto */
    GM_OPT_TRACE,         /* GPUMEM_TRACE text file name with %p %h %r %%, default empty = off */
    GM_OPT_TRACE_FORMAT,  /* GPUMEM_TRACE_FORMAT choice auto binary csv */
    GM_OPT_TRACE_FLUSH,   /* GPUMEM_TRACE_FLUSH time, default 100ms: longest time an event waits in memory; 0 = none */
    GM_OPT_TRACE_LIMIT,   /* GPUMEM_TRACE_LIMIT bytes: largest size of the trace's file, default 0 = any */
    GM_OPT_TRACE_RING,    /* GPUMEM_TRACE_RING text: bytes or time of the latest events to keep, default empty = all */
    GM_OPT_TRACE_SUMMARY, /* GPUMEM_TRACE_SUMMARY time: interval of a summary, default 0 = an event for each block */
    GM_OPT_TRACE_RANGE,   /* GPUMEM_TRACE_RANGE text: glob of NVTX ranges; record while one is open, default empty */
    GM_OPT_TRACE_COPIES,  /* GPUMEM_TRACE_COPIES bool: record copies from host memory, with a hash of their bytes */
    GM_OPT_STACKS,   /* GPUMEM_STACKS count 0..64: frames recorded for each call site beyond the first, default 8 */
    GM_OPT_PYTHON,   /* GPUMEM_PYTHON bool, default 1: with GPUMEM_STACKS, record Python frames, too */
    GM_OPT_SKIP,     /* GPUMEM_SKIP text: globs of allocation wrappers, separated by commas */
    GM_OPT_LOG,      /* GPUMEM_LOG choice off error warn info debug, default warn */
    GM_OPT_COVERAGE, /* GPUMEM_COVERAGE bool: print the coverage report at exit */
    GM_OPT_FREE, /* GPUMEM_FREE choice safe wait order async (enum gm_free_level), default safe: when a cudaFree returns
                  */
    GM_OPT_STRICT,           /* GPUMEM_STRICT bool: GPUMEM_FREE=wait */
    GM_OPT_CHECK_ORDER,      /* GPUMEM_CHECK_ORDER bool: report frees whose wait the program may rely on */
    GM_OPT_MANAGED,          /* GPUMEM_MANAGED choice auto plain pool */
    GM_OPT_MANAGED_HEADROOM, /* GPUMEM_MANAGED_HEADROOM bytes that managed memory leaves free, default 512M */
    GM_OPT_MANAGED_PREFETCH, /* GPUMEM_MANAGED_PREFETCH bool: move a new managed block to its device */
    GM_OPT_LIST_LENGTH,      /* GPUMEM_LIST_LENGTH count L, default 10 */
    GM_OPT_LIST_RANGE,       /* GPUMEM_LIST_RANGE count X, default 5 */
    GM_OPT_FENCE_BATCH,      /* GPUMEM_FENCE_BATCH count 1..1024: frees that share one fence, default 16 */
    GM_OPT_CACHE_LIMIT, /* GPUMEM_CACHE_LIMIT bytes of free blocks on each device, default 0 = a quarter of the device
                         */
    GM_OPT_CACHE_IDLE, /* GPUMEM_CACHE_IDLE time after which an unused free block is released, default 10s; 0 = never */
    GM_OPT_FILL,       /* GPUMEM_FILL choice off zero poison */
    GM_OPT_GUARD,      /* GPUMEM_GUARD text: which blocks are guarded, and how (shim/pipeline/guard.h), default off */
    GM_OPT_GUARD_RANGE, /* GPUMEM_GUARD_RANGE bytes of addresses of guarded blocks, default 256G */
    GM_OPT_LIMIT,       /* GPUMEM_LIMIT bytes: requests beyond it take the steps of GPUMEM_OOM, default 0 = off */
    GM_OPT_GROUP,       /* GPUMEM_GROUP text: processes of this name share GPUMEM_LIMIT, default empty = none */
    GM_OPT_OOM,         /* GPUMEM_OOM text, comma separated steps out of trim host managed fail, default trim,fail */
    GM_OPT_GROW,        /* GPUMEM_GROW choice off report vmm move */
    GM_OPT_GROW_MATCH,  /* GPUMEM_GROW_MATCH text, default size>=2M,seen: which allocations GPUMEM_GROW takes */
    GM_OPT_RESOURCE_NATIVE,  /* GPUMEM_RESOURCE_NATIVE text: the stack that serves kind native */
    GM_OPT_RESOURCE_ASYNC,   /* GPUMEM_RESOURCE_ASYNC */
    GM_OPT_RESOURCE_MANAGED, /* GPUMEM_RESOURCE_MANAGED */
    GM_OPT_FAIL_NTH,         /* GPUMEM_FAIL_NTH count: the n-th movable allocation fails, default 0 = off */
    GM_OPT_WORKSPACE_SIZE, /* GPUMEM_WORKSPACE_SIZE bytes of each workspace (gpumem_workspace.h), default 0 = managed */
    GM_OPT_CONFIG,         /* GPUMEM_CONFIG text: file of more options (config.h) */
    GM_OPT_STATS,          /* GPUMEM_STATS text: file of counters that gpumem run reads */
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

/* Reads `environment` (in the form of environ), and the file that it names in GPUMEM_CONFIG, into the values of the
 * process. The environment comes before the file. Later calls are ignored. Texts are copied into fixed storage. */
void gm_options_load(char *const *environment);

bool gm_option_bool(enum gm_option_id id);
uint64_t gm_option_number(enum gm_option_id id);  /* count, bytes, nanoseconds or choice index */
const char *gm_option_text(enum gm_option_id id); /* never NULL */
bool gm_option_is_set(enum gm_option_id id);      /* set by the user, and valid */

/* Names the option in a message: GPUMEM_POLICY, or FILE:3: GPUMEM_POLICY if that line of the file of options set it. */
struct gm_option_label {
    char text[160];
};
const char *gm_option_label(enum gm_option_id id, struct gm_option_label *room);

/* Parses `text` by the type of `row`. Returns 0 and writes *number (choice index, bytes, ns ...), or returns -1 and
 * writes one line into error[size], which names the value and what is accepted. */
int gm_option_parse(const struct gm_option *row, const char *text, uint64_t *number, char *error, size_t size);

/* Reads GPUMEM_TRACE_RING: bytes from GM_TRACE_LEAST on, or a time; the other number becomes 0. False: it is neither.
 */
#define GM_TRACE_LEAST   ((uint64_t)1 << 20)
#define GM_RING_ACCEPTED "bytes from 1M on, such as 64M, or a time such as 30s"
bool gm_option_ring(const char *text, uint64_t *bytes, uint64_t *ns);

/* Writes the effective values, one NAME=value line each, to file descriptor `fd`. */
void gm_options_print(int fd);

#endif

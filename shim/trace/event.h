/* The binary format of the trace: a public, versioned contract between one writer (shim/trace) and one reader
 * (tools/cli).
 *
 * A file is a header page followed by chunks. A chunk has a multiple of GM_TRACE_HEADER bytes, at most GM_TRACE_CHUNK,
 * and states its own length. The first chunk of a thread is small, later ones grow. Each chunk belongs to one thread.
 * Its content is valid up to the length that it states. Chunks are written at every flush interval, so a killed
 * process loses at most its last interval. The file may end inside its last chunk.
 *
 * A hole is a page without a chunk magic where a chunk is expected. It results from a full disk, from a chunk that was
 * taken but not written yet, or from a file that somebody cut. Readers skip a hole page by page.
 *
 * Events of one chunk have rising seq numbers, except for calls that interrupt each other. All integers are little
 * endian. Times are nanoseconds since the header's start_ns (CLOCK_MONOTONIC). */
#ifndef GM_TRACE_EVENT_H
#define GM_TRACE_EVENT_H

#include "policy/policy.h"

#define GM_TRACE_MAGIC   "GPUMEM\r\n" /* 8 bytes; shows damage by text mode */
#define GM_TRACE_VERSION 3u           /* a trace without packed events has version 1 */
#define GM_TRACE_HEADER  4096u
#define GM_TRACE_CHUNK   (1024u * 1024u)

/* X(enumerator, name in CSV) */
#define GM_ACTIONS(X)                                                                                                 \
    X(GM_ACT_NONE, "none")                                                                                            \
    X(GM_ACT_ALLOC, "alloc")                                                                                          \
    X(GM_ACT_ALLOC_FAIL, "alloc_fail")                                                                                \
    X(GM_ACT_FREE, "free")                                                                                            \
    X(GM_ACT_FREE_FAIL, "free_fail")                                                                                  \
    X(GM_ACT_RELEASE, "release") /* destroyed with its context, or replaced by a newer block */                       \
    X(GM_ACT_RESERVE, "reserve") /* address space */                                                                  \
    X(GM_ACT_UNRESERVE, "unreserve")                                                                                  \
    X(GM_ACT_MAP, "map")                                                                                              \
    X(GM_ACT_UNMAP, "unmap")                                                                                          \
    X(GM_ACT_TRIM, "trim")     /* free blocks of a kind were released, all of one trim together; reason = why */      \
    X(GM_ACT_EXPORT, "export") /* IPC, dma-buf or shareable handle of the block */                                    \
    X(GM_ACT_DROP, "drop")     /* soft promises that the memory does not keep; bytes = promise bits */                \
    X(GM_ACT_MARK, "mark")     /* phase mark of the program; site = string id */                                      \
    X(GM_ACT_CAPTURE_BEGIN, "capture_begin")                                                                          \
    X(GM_ACT_CAPTURE_END, "capture_end")                                                                              \
    X(GM_ACT_PEER, "peer")       /* peer access enabled */                                                            \
    X(GM_ACT_CONTEXT, "context") /* context created; address = handle */                                              \
    X(GM_ACT_CONTEXT_DESTROYED, "context_destroyed")                                                                  \
    X(GM_ACT_PHASE_BEGIN, "phase_begin") /* site = string id; address below GM_PHASE_STARTED: nested in its           \
                                            thread, of that domain; else the range's own number */                    \
    X(GM_ACT_PHASE_END, "phase_end")     /* the innermost of the thread and domain, or that number */                 \
    /* These two follow each other in a thread, for each copy from host memory to a device: */                        \
    X(GM_ACT_COPY_SOURCE, "copy_source") /* address = host memory; bytes = hash of what the copy read,                \
                                            unless result is not 0 */                                                 \
    X(GM_ACT_COPY, "copy")               /* address = destination; kind array: handle of the array */                 \
    X(GM_ACT_POOL_SIZE, "pool_size")     /* a pool of gpumem changed: bytes that it has taken on its device */        \
    /* measured now and then: */                                                                                      \
    X(GM_ACT_UNTRACKED, "beyond") /* bytes that the process holds on the device beyond gpumem's view; address = bytes \
                                  in use on the card */                                                               \
    X(GM_ACT_HELD, "held")        /* unused bytes that could not be released; reason = why */                         \
    /* of a summary, which has no events of single blocks: */                                                         \
    X(GM_ACT_SUM, "sum")     /* a call site and kind since its row before; without allocations and frees: at the peak \
                                that follows */                                                                       \
    X(GM_ACT_PEAK, "peak")   /* maximum of device memory in the interval; the rows before it say what sites held */   \
    X(GM_ACT_TOTAL, "total") /* end of the interval */                                                                \
    X(GM_ACT_KEPT, "kept")   /* recording begins or goes on: bytes of freed blocks of the kind that are kept now */   \
    X(GM_ACT_ACCOUNT, "account") /* behind "beyond": an item of the account of the device (shim/accounts/account.h);  \
                                    site = item, bytes; of a pool address = handle, stream = bytes in use */          \
    X(GM_ACT_ERROR, "memory_error") /* result = enum gm_memory_error; site = call at fault, or that saw it, 0 unknown \
                                     */                                                                               \
    /* memory left the devices, or came back; if result is not 0 it did not, and site = string id of the reason: */   \
    X(GM_ACT_SUSPEND, "suspend") /* bytes: that left; stream = of these, without a copy; address = that stayed */     \
    X(GM_ACT_RESUME, "resume")   /* bytes: that came back */

/* Of GM_ACT_ERROR. X(enumerator, name) */
#define GM_MEMORY_ERRORS(X)                                                                       \
    X(GM_ERROR_NONE, "none")                                                                      \
    X(GM_ERROR_OUT_OF_BOUNDS, "out-of-bounds") /* a copy or fill, or bytes written by a kernel */ \
    X(GM_ERROR_FREED, "use-after-free")                                                           \
    X(GM_ERROR_FAULT, "device-fault") /* an error of the device, as 700 */                        \
    X(GM_ERROR_WRONG_FREE, "wrong-free")                                                          \
    X(GM_ERROR_RACE, "possible-race") /* it need not be an error */

enum gm_memory_error {
#define X(e, n) e,
    GM_MEMORY_ERRORS(X)
#undef X
        GM_ERROR_COUNT
};

enum gm_action {
#define X(e, n) e,
    GM_ACTIONS(X)
#undef X
        GM_ACT_COUNT
};

/* One event, one cache line. The rows of a summary have members of their own. */
struct gm_event {
    uint64_t seq;     /* global order, from 1; taken before the driver call of a free and after that of an allocation */
    uint64_t time_ns; /* start of the call */
    union {
        struct {
            uint64_t address;     /* or handle; 0 for a failed allocation */
            uint64_t bytes;       /* requested; for a free the size of the block, 0 = unknown */
            uint64_t stream;      /* handle, 0 = default; of mapped memory: handle of the memory; of kind split, of its
                                     allocation: bytes of the first part, on the device */
            uint32_t slack;       /* provided bytes - requested bytes, saturating */
            uint32_t duration_ns; /* saturating */
        };
        struct {
            uint64_t address, bytes;       /* of the block; 0: none is known */
            uint32_t text, freed_at;       /* string id; call site, 0: it was not freed */
            uint32_t allocated_at, unused; /* call site */
        } error;
        struct {
            uint64_t alloc_bytes, live, most_live; /* bytes: allocated; live at the time; most live */
            uint32_t frees, allocs;                /* reason context-gone: blocks released with their context */
        } sum;
        struct {
            uint64_t most_reserved, live; /* bytes: most reserved of the run so far; live at the time */
            uint64_t unused[2];
        } peak;
        struct {
            uint64_t kept, live, reserved; /* bytes on devices */
            uint32_t failures, unused;     /* failed calls without an event */
        } total;
    };
    uint32_t site;    /* call site id, 0 = unknown */
    uint16_t context; /* small number of the context, 0 = none */
    int8_t device;    /* ordinal, -1 unknown */
    uint8_t call;     /* enum gm_call */
    uint8_t action;   /* enum gm_action */
    uint8_t kind;     /* enum gm_kind */
    uint8_t reason;   /* enum gm_reason */
    uint8_t verdict;  /* enum gm_kind that the heuristic chose */
    uint16_t result;  /* CUresult */
    uint8_t hit;      /* served from a free block of the cache */
    uint8_t flags;    /* GM_EVENT_* */
};
#define GM_PHASE_STARTED    (UINT64_C(1) << 32) /* ranges with this number or above may end in any thread */
#define GM_EVENT_CAPTURING  1u                  /* during stream capture */
#define GM_EVENT_PER_THREAD 2u                  /* call variant for per-thread default streams */
#define GM_EVENT_SHARED     8u                  /* beyond: memory of other processes is included */
#define GM_EVENT_KEPT       4u                  /* free: gpumem keeps the block for reuse */
#define GM_EVENT_LACK       32u                 /* beyond: of the request of this thread that failed just before */
#define GM_EVENT_LIVE       16u /* alloc, reserve, map: made before recording began; time_ns is when it was noted */
_Static_assert(sizeof(struct gm_event) == 64, "one cache line");

/* Fills in what all events have. The rest becomes 0. */
static inline void gm_event_fill(struct gm_event *event, uint64_t number, uint64_t time_ns, enum gm_action action,
                                 enum gm_kind kind, int device) {
    *event = (struct gm_event){.seq = number,
                               .time_ns = time_ns,
                               .device = (int8_t)device,
                               .action = (uint8_t)action,
                               .kind = (uint8_t)kind,
                               .verdict = (uint8_t)kind};
}

struct gm_trace_header { /* padded to GM_TRACE_HEADER */
    char magic[8];
    uint32_t version;
    uint32_t header_bytes; /* GM_TRACE_HEADER */
    uint32_t chunk_bytes;  /* GM_TRACE_CHUNK */
    uint32_t event_bytes;  /* 64 */
    uint64_t start_ns;     /* CLOCK_MONOTONIC at opening */
    uint64_t epoch_ns;     /* CLOCK_REALTIME at the same moment */
    int32_t pid;
    int32_t parent;    /* ppid */
    int32_t rank;      /* MPI/torchrun/Slurm, -1 none */
    uint32_t finished; /* enum gm_trace_end */
    uint64_t dropped;  /* events that could not be written (disk full) or that somebody cut off */
    char host[64];
    char program[256]; /* /proc/self/exe */
    char policy[64];
    char library[32];    /* version of gpumem */
    uint64_t file_bytes; /* length of the file after an orderly exit; 0: unknown */
    uint64_t summary_ns; /* interval of a summary; 0: the trace has an event for each block */
    uint64_t limit;      /* GPUMEM_TRACE_LIMIT; 0: none */
    uint64_t ring;       /* 1: only the latest events, GPUMEM_TRACE_RING */
};
enum gm_trace_end {
    GM_TRACE_CUT,     /* the program was killed, or still runs */
    GM_TRACE_WHOLE,   /* orderly exit of the program */
    GM_TRACE_STOPPED, /* recording was stopped before */
};

enum gm_chunk_type { GM_CHUNK_NONE = 0, GM_CHUNK_EVENTS = 1, GM_CHUNK_RECORDS = 2, GM_CHUNK_PACKED = 3 };
struct gm_trace_chunk { /* 64 bytes, then payload */
    uint32_t magic;     /* GM_TRACE_CHUNK_MAGIC */
    uint16_t type;      /* enum gm_chunk_type */
    uint16_t reserved;
    int32_t thread; /* kernel thread id */
    uint32_t used;  /* valid payload bytes; raised after each event or record is complete */
    uint32_t bytes; /* the whole chunk with this header, a multiple of GM_TRACE_HEADER, at most GM_TRACE_CHUNK */
    uint8_t padding[44];
};
#define GM_TRACE_CHUNK_MAGIC 0x4b4e4843u /* "CHNK" */
_Static_assert(sizeof(struct gm_trace_chunk) == 64, "");

/* Events lie in GM_CHUNK_PACKED chunks, those of a ring in GM_CHUNK_EVENTS chunks, as they are. A packed event is
 * compared with earlier ones of its chunk. Before the first one all words are 0. An event is eight words of 64 bits.
 *
 * The first byte: bit 0 says which of two events the words from the third one on are compared with: the latest one
 * whose bit 0 was the same. Bit 1: seq is not that of the event before + 1. Bit n, from 2 on: word n differs.
 *
 * Then come the differences: of seq, if bit 1 is set, from what was expected; of time_ns from the event before; of each
 * word whose bit is set. Word 5 has two, slack before duration, of 32 bits each. A difference d is a number with sign:
 * d * 2, or -d * 2 - 1 if it is negative, in groups of 7 bits, the lowest first, with the highest bit set in all bytes
 * but the last. */
#define GM_PACKED_MOST  81u /* bytes of an event */
#define GM_PACKED_WORDS 8u
_Static_assert(sizeof(struct gm_event) == GM_PACKED_WORDS * 8, "");

/* Records have a variable length and are aligned to 8 bytes. They lie in GM_CHUNK_RECORDS chunks. A definition is
 * written before every event that names it. */
enum gm_record_type {
    GM_RECORD_MODULE = 1, /* id, base, limit, build id bytes, path */
    GM_RECORD_SITE = 2, /* id, count frames, first frame outside the CUDA runtime, then frames as absolute addresses */
    GM_RECORD_DEVICE = 3,  /* ordinal, total bytes, name */
    GM_RECORD_CONTEXT = 4, /* small number, handle, id, device */
    GM_RECORD_STRING = 5,  /* id, text (marks) */
    GM_RECORD_PYTHON = 6,  /* id, line, function, file: a Python frame */
};
struct gm_record {    /* header of each */
    uint32_t bytes;   /* whole record, multiple of 8 */
    uint16_t type;    /* enum gm_record_type */
    uint16_t id_high; /* reserved, 0 */
};
struct gm_record_module {
    struct gm_record head;
    uint64_t base;         /* load bias: address - base = address in the file's image */
    uint64_t start, limit; /* executable range [start, limit) */
    uint32_t build_id_bytes;
    uint32_t path_bytes;
    /* build id, padded to 8; path, padded to 8, not terminated */
};
struct gm_record_site {
    struct gm_record head;
    uint32_t id;
    uint16_t frames;
    uint16_t outside; /* index of the first frame known to be outside the CUDA runtime; the reader may move it further
                         by symbols */
    /* uint64_t return addresses, innermost first; then Python frames as GM_FRAME_PYTHON + id, innermost first */
};
#define GM_FRAME_PYTHON           (UINT64_C(0x5059) << 48) /* no machine has code at such an address */
#define GM_FRAME_IS_PYTHON(frame) ((frame) >> 48 == 0x5059)
struct gm_record_device {
    struct gm_record head;
    int32_t device;
    uint32_t name_bytes;
    uint64_t total; /* bytes of memory */
    /* name, padded */
};
struct gm_record_context {
    struct gm_record head;
    uint32_t number;
    int32_t device;
    uint64_t handle, id;
};
struct gm_record_string {
    struct gm_record head;
    uint32_t id;
    uint32_t bytes;
    /* text, padded */
};

struct gm_record_python {
    struct gm_record head;
    uint32_t id;
    int32_t line;
    uint32_t name_bytes, file_bytes;
    /* function, qualified from Python 3.11 on, padded; file as the interpreter names it, padded; both UTF-8 */
};

const char *gm_action_name(enum gm_action action);

/* CSV: the first line; and one event as a line with '\n'. Returns its length, at most GM_TRACE_CSV_LINE; `size` must
 * be at least that. */
#define GM_TRACE_CSV_LINE 512
extern const char gm_trace_csv_header[];
int gm_trace_csv_line(char *out, size_t size, const struct gm_event *event, int pid, int thread);

#endif

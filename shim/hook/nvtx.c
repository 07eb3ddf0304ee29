/* The program's NVTX ranges and marks become phases of the trace.
 *
 * NVTX 3 consists of headers in the program. Its first call loads the library that NVTX_INJECTION64_PATH names and
 * calls InitializeInjectionNvtx2 there, which fills NVTX's table of functions. Without that variable this file is
 * never used. The declarations that NVTX shares with such a library are repeated here, because its headers do not
 * come with every toolkit. Tests compile against the real headers.
 *
 * Under GPUMEM_SUSPEND the ranges that a thread pushed are names of the blocks that it allocates, too
 * (shim/suspend/select.h).
 *
 * Ranges may begin before the first CUDA call, when there is no trace yet. Each thread stores its open ranges. The
 * thread that starts gpumem writes its own ranges then; another thread writes them at its next range. */
#include <pthread.h>
#include <string.h>
#include <wchar.h>

#include "shim/base/options.h"
#include "shim/base/real_dl.h"
#include "shim/base/room.h"
#include "shim/base/wrappers.h"
#include "shim/pipeline/phase.h"
#include "shim/base/events.h"
#include "shim/hook/nvtx.h"
#include "shim/hook/hook.h"
#include "shim/start/recording.h"
#include "shim/suspend/select.h"

extern char **environ;

enum { TABLE_CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { MESSAGE_ASCII = 1, MESSAGE_UNICODE = 2, MESSAGE_REGISTERED = 3 };
enum { NO_PUSH_POP_TRACKING = -2 };

typedef void (*function)(void);
struct callbacks {
    size_t size;
    int (*module_table)(int module, function ***table, unsigned *size);
};

struct attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    union {
        const char *ascii;
        const wchar_t *unicode;
        const void *registered; /* number of a text */
    } message;
};
_Static_assert(sizeof(struct attributes) == 48, "nvtxEventAttributes_v2");

static bool registered;  /* NVTX calls this file */
static const char *glob; /* GPUMEM_TRACE_RANGE; NULL = none. Stored by each copy of NVTX that begins. */

static bool selects; /* GPUMEM_SUSPEND: globs name ranges */

static const char *named_ranges(void) { return __atomic_load_n(&glob, __ATOMIC_ACQUIRE); }

/* While another thread starts gpumem, the trace is not ready. */
static bool traces(void) { return __atomic_load_n(&gm_hooks_active, __ATOMIC_ACQUIRE) && gm_trace_is_on(); }

/* ---- texts, with their domain's name in front. A number of a text is that of phase.h, and says with NAMED that
 * GPUMEM_TRACE_RANGE names the text. */

enum { NAMED = 1 << 30 };

enum { DOMAINS = 64, DOMAIN_NAME = 48 };
struct domain {
    char name[DOMAIN_NAME];
    size_t length;
};
static struct domain domains[DOMAINS]; /* the first is the default one, which has no name */
static unsigned domain_count = 1;
GM_LOCK(domain_lock);

static uint32_t domain_number(const struct domain *domain) {
    return domain >= domains && domain < domains + DOMAINS ? (uint32_t)(domain - domains) : 0;
}

/* Converts to UTF-8. Invalid characters become '?'. */
static size_t to_utf8(char *out, size_t size, const wchar_t *text) {
    size_t used = 0;
    for (; text && *text && used + 4 <= size; text++) {
        static const unsigned char heads[] = {0, 0xc0, 0xe0, 0xf0};
        uint32_t c = (uint32_t)*text;
        if (c >= 0x110000 || (c >= 0xd800 && c <= 0xdfff))
            c = '?';
        unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        out[used++] = (char)(heads[more] | c >> 6 * more);
        while (more--)
            out[used++] = (char)(0x80 | (c >> 6 * more & 63));
    }
    return used;
}

static uint32_t text_of(uint32_t domain, const char *ascii, const wchar_t *unicode) {
    char text[GM_PHASE_TEXT];
    size_t used = 0;
    if (domains[domain].length) {
        used = domains[domain].length;
        memcpy(text, domains[domain].name, used);
        text[used++] = ':';
    }
    if (unicode) {
        used += to_utf8(text + used, sizeof(text) - used, unicode);
    } else if (ascii) {
        size_t length = strnlen(ascii, sizeof(text) - used);
        memcpy(text + used, ascii, length);
        used += length;
    }
    const char *wanted = named_ranges();
    if (GM_LIKELY(!wanted))
        return gm_phase_text(text, used);
    char name[GM_PHASE_TEXT + 1];
    memcpy(name, text, used);
    name[used] = '\0';
    return gm_phase_text(text, used) | (gm_glob_matches(wanted, name) ? NAMED : 0);
}

static uint32_t text_in(uint32_t domain, const struct attributes *a) {
    if (!a || a->size < sizeof(*a))
        return text_of(domain, "", NULL);
    switch (a->message_type) {
    case MESSAGE_ASCII: return text_of(domain, a->message.ascii, NULL);
    case MESSAGE_UNICODE: return text_of(domain, NULL, a->message.unicode);
    case MESSAGE_REGISTERED: return (uint32_t)(uintptr_t)a->message.registered;
    default: return text_of(domain, "", NULL);
    }
}

/* ---- ranges that are open before there is a trace */

enum { WAITING = 16 };
struct waiting {
    unsigned count;
    struct {
        uint64_t range;
        uint32_t text;
    } rows[WAITING];
};

GM_ROOM_FITS(struct waiting, ranges);

/* Writes the open ranges of the calling thread to the trace, once there is one. */
void gm_nvtx_begin_waiting(void) {
    struct waiting *waiting = gm_room_part_known(GM_ROOM_RANGES);
    if (!waiting)
        return;
    for (unsigned i = 0; i < waiting->count && traces(); i++)
        gm_phase_note(GM_ACT_PHASE_BEGIN, waiting->rows[i].range, waiting->rows[i].text);
    waiting->count = 0;
}

/* ---- ranges that GPUMEM_TRACE_RANGE names */

/* Of one thread: a bit for each open range of each domain, the innermost one lowest. */
struct named {
    uint64_t open[DOMAINS];
};
GM_ROOM_FITS(struct named, named);

static unsigned open_started; /* named ranges of start and end, in any thread */

/* Of a range that was begun by start, and may end in any thread, the number itself says whether it is named. */
static uint64_t started_number(uint64_t number, bool is_named) { return GM_PHASE_STARTED + 2 * number + is_named; }
static bool is_started(uint64_t range) { return range >= GM_PHASE_STARTED; }

static void note_begin(uint64_t range, bool is_named) {
    struct named *named = is_started(range) ? NULL : gm_room_part(GM_ROOM_NAMED);
    bool forgets = named && named->open[range] >> 63; /* of more than 64 ranges within each other the outermost */
    if (named)
        named->open[range] = named->open[range] << 1 | is_named;
    if (is_started(range) && is_named)
        __atomic_add_fetch(&open_started, 1, __ATOMIC_RELAXED);
    if (is_named && (named || is_started(range)))
        gm_recording_opened();
    if (forgets)
        gm_recording_closed();
}

static void note_end(uint64_t range) {
    struct named *named = is_started(range) ? NULL : gm_room_part_known(GM_ROOM_NAMED);
    bool is_named = is_started(range) ? range & 1 : named && named->open[range] & 1;
    if (named)
        named->open[range] >>= 1;
    if (is_started(range) && is_named)
        __atomic_sub_fetch(&open_started, 1, __ATOMIC_RELAXED);
    if (is_named)
        gm_recording_closed();
}

static unsigned count_open(const struct named *named) {
    unsigned open = 0;
    for (unsigned i = 0; i < DOMAINS; i++)
        open += (unsigned)__builtin_popcountll(named->open[i]);
    return open;
}

/* A thread that ends closes its ranges. */
static void thread_ends(void *named) {
    for (unsigned open = count_open(named); open; open--)
        gm_recording_closed();
}

unsigned gm_nvtx_open_ranges(void) {
    const struct named *named = gm_room_part_known(GM_ROOM_NAMED);
    return open_started + (named ? count_open(named) : 0);
}

bool gm_nvtx_is_used(void) { return __atomic_load_n(&registered, __ATOMIC_RELAXED); }

/* ---- ranges */

static void begin_range(uint64_t range, uint32_t text) {
    if (GM_UNLIKELY(named_ranges() != NULL))
        note_begin(range, text & NAMED);
    text &= ~(uint32_t)NAMED;
    if (GM_LIKELY(traces())) {
        gm_nvtx_begin_waiting();
        gm_phase_note(GM_ACT_PHASE_BEGIN, range, text);
        return;
    }
    struct waiting *waiting = gm_room_part(GM_ROOM_RANGES);
    if (waiting && waiting->count < WAITING) {
        waiting->rows[waiting->count].range = range;
        waiting->rows[waiting->count++].text = text;
    }
}

static void end_in_trace(uint64_t range) {
    if (GM_LIKELY(traces())) {
        gm_nvtx_begin_waiting();
        gm_phase_note(GM_ACT_PHASE_END, range, 0);
        return;
    }
    struct waiting *waiting = gm_room_part_known(GM_ROOM_RANGES);
    for (unsigned i = waiting ? waiting->count : 0; i-- > 0;) {
        if (waiting->rows[i].range == range) {
            memmove(&waiting->rows[i], &waiting->rows[i + 1], (--waiting->count - i) * sizeof(waiting->rows[0]));
            return;
        }
    }
}

static void end_range(uint64_t range) {
    end_in_trace(range);
    if (GM_UNLIKELY(named_ranges() != NULL))
        note_end(range);
}

static uint64_t start_range(uint32_t domain, uint32_t text) {
    static uint64_t started;
    uint64_t range = started_number(__atomic_add_fetch(&started, 1, __ATOMIC_RELAXED), text & NAMED);
    begin_range(range, text);
    return range;
}

static int push_range(uint32_t domain, uint32_t text) {
    begin_range(domain, text);
    if (GM_UNLIKELY(__atomic_load_n(&selects, __ATOMIC_RELAXED)))
        gm_select_begin_range(domain, text & ~(uint32_t)NAMED);
    return NO_PUSH_POP_TRACKING;
}

static int pop_range(uint32_t domain) {
    end_range(domain);
    if (GM_UNLIKELY(__atomic_load_n(&selects, __ATOMIC_RELAXED)))
        gm_select_end_range(domain);
    return NO_PUSH_POP_TRACKING;
}

static void mark_range(uint32_t domain, uint32_t text) {
    if (traces())
        gm_phase_note(GM_ACT_MARK, 0, text & ~(uint32_t)NAMED);
}

/* ---- functions that NVTX calls */

/* Those of the default domain, which give the text in three ways, and of a domain. The domain tells only ranges that
 * are pushed apart. */
#define TAKES_TEXT(type, name)                                                                    \
    static type name##_ex(const struct attributes *a) { return name##_range(0, text_in(0, a)); }  \
    static type name##_a(const char *text) { return name##_range(0, text_of(0, text, NULL)); }    \
    static type name##_w(const wchar_t *text) { return name##_range(0, text_of(0, NULL, text)); } \
    static type domain_##name(const struct domain *domain, const struct attributes *a) {          \
        return name##_range(domain_number(domain), text_in(domain_number(domain), a));            \
    }
TAKES_TEXT(void, mark)
TAKES_TEXT(uint64_t, start)
TAKES_TEXT(int, push)

static int pop_default(void) { return pop_range(0); }
static void domain_end(const struct domain *domain, uint64_t range) { end_range(range); }
static int domain_pop(const struct domain *domain) { return pop_range(domain_number(domain)); }

static void *register_a(const struct domain *domain, const char *text) {
    return (void *)(uintptr_t)text_of(domain_number(domain), text, NULL);
}
static void *register_w(const struct domain *domain, const wchar_t *text) {
    return (void *)(uintptr_t)text_of(domain_number(domain), NULL, text);
}

/* One domain for each name, for all libraries of the program. When there are too many, further domains share the
 * default domain. */
static struct domain *domain_of(const char *name, size_t length) {
    struct domain *found = NULL;
    gm_spin_lock(&domain_lock);
    for (unsigned i = 1; i < domain_count && !found; i++)
        if (domains[i].length == length && !memcmp(domains[i].name, name, length))
            found = &domains[i];
    if (!found && domain_count < DOMAINS) {
        found = &domains[domain_count++];
        memcpy(found->name, name, length);
        found->length = length;
    }
    gm_spin_unlock(&domain_lock);
    return found;
}
static struct domain *create_a(const char *name) {
    return domain_of(name ? name : "", name ? strnlen(name, DOMAIN_NAME) : 0);
}
static struct domain *create_w(const wchar_t *name) {
    char text[DOMAIN_NAME];
    return domain_of(text, to_utf8(text, sizeof(text), name));
}

/* Indexed by NVTX's numbers of its functions. */
static const function core[] = {
    [1] = (function)mark_ex, [2] = (function)mark_a,  [3] = (function)mark_w,       [4] = (function)start_ex,
    [5] = (function)start_a, [6] = (function)start_w, [7] = (function)end_range,    [8] = (function)push_ex,
    [9] = (function)push_a,  [10] = (function)push_w, [11] = (function)pop_default,
};
static const function core2[] = {
    [1] = (function)domain_mark, [2] = (function)domain_start, [3] = (function)domain_end,
    [4] = (function)domain_push, [5] = (function)domain_pop,   [10] = (function)register_a,
    [11] = (function)register_w, [12] = (function)create_a,    [13] = (function)create_w,
};

static void fill_table(const struct callbacks *callbacks, int module, const function *functions, unsigned count) {
    function **table = NULL;
    unsigned size = 0;
    if (!callbacks->module_table(module, &table, &size) || !table)
        return;
    for (unsigned i = 0; i < count && i < size; i++)
        if (functions[i] && table[i])
            *table[i] = functions[i];
}

static bool child_is_left;

void gm_nvtx_leave_child(void) { __atomic_store_n(&child_is_left, true, __ATOMIC_RELAXED); }

/* When gpumem has not started: ranges take locks before. */
static void in_child(void) {
    if (child_is_left)
        return;
    gm_fork_zero();
    gm_phase_again();
    gm_recording_after_fork(gm_nvtx_open_ranges());
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id));
/* Called by each copy of NVTX in the process. 0 leaves NVTX without a tool. */
int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id)) {
    bool wanted = *gm_environment_value(environ, "GPUMEM_TRACE") || *gm_environment_value(environ, "GPUMEM_SUSPEND");
    const struct callbacks *callbacks = wanted ? export_table(TABLE_CALLBACKS) : NULL;
    if (!callbacks || callbacks->size < sizeof(*callbacks))
        return 0;
    gm_options_load(environ);
    __atomic_store_n(&selects, gm_option_bool(GM_OPT_SUSPEND), __ATOMIC_RELAXED);
    if (gm_option_text(GM_OPT_TRACE_RANGE)[0]) {
        __atomic_store_n(&glob, gm_option_text(GM_OPT_TRACE_RANGE), __ATOMIC_RELEASE);
        gm_room_on_leave(GM_ROOM_NAMED, thread_ends);
    }
    if (!__atomic_exchange_n(&registered, true, __ATOMIC_RELAXED))
        pthread_atfork(NULL, NULL, in_child);
    fill_table(callbacks, MODULE_CORE, core, sizeof(core) / sizeof(core[0]));
    fill_table(callbacks, MODULE_CORE2, core2, sizeof(core2) / sizeof(core2[0]));
    return 1;
}

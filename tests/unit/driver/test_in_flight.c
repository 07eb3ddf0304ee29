/* All interleavings of two threads that run short sequences of calls, over the real code of in_flight.c, free_sync.c
 * and the files below them. The device is a model (device.h), and so are the threads (interleave.h).
 *
 *     test_in_flight [SECONDS [SEED]]      explores longer sequences for that time (default 5 s)
 *     test_in_flight BEFORE FIRST SECOND   explores one program: three strings of operations ("-": none)
 *
 * What has to hold (W: the work of the context that was submitted before a free began):
 * 1. Work submitted by an operation that began after the free returned runs behind W, or W is done.
 * 2. W is done when an operation that could notice makes its call.
 * 3. Nobody waits for work of an operation that began after the last free returned, but the frees themselves.
 * 4. No call disturbs a capture or uses what a destroyed context had (device.c).
 * 5. All operations end (interleave.c).
 * 6. While two contexts exist, a stream captures, or a reason is known, a free waits.
 * 7. After the note of a reason nothing is in flight.
 * 8. After the end of the only context nothing is in flight.
 * 9. A free that waits returns the error of the work. */
#include "tests/unit/driver/interleave.h"

#include <stdio.h>
#include <time.h>

#include "tests/test.h"

#include "shim/base/events.h"
#include "shim/driver/free_sync.h"
#include "shim/driver/in_flight.h"
#include "tests/unit/driver/device.h"

/* An operation of a program:
 *     l b n t   a launch on the legacy, a blocking, a non-blocking, the thread's own default stream
 *     p         a launch on the legacy stream that may overtake its earlier work
 *     x         a launch on the legacy stream of a kernel with a fault
 *     f g       a free, which may take the fast path, or not
 *     q w       a query of an event; the program synchronises the context
 *     r         a call that gives a reason to wait
 *     S D s d   creates and destroys the blocking and the non-blocking stream
 *     ( )       begins and ends a capture of the non-blocking stream
 *     c e m h   creates and destroys the second context; launches and frees in it
 *     v z       releases the first context, which lives on, or ends
 * and before the threads begin
 *     !         the next event cannot be created
 *     ^         the driver cannot record contexts */
#define OPERATIONS "lbntpxfgqwrSDsd()cemhvz"

enum { MOST = 6, ITEMS_FIRST = 8, ITEMS_LATER = 20 }; /* items of the threads; of the main thread afterwards */

/* ---- what happened, as the program sees it. Static data: part of the state */

enum life { ABSENT, BEGINS, USABLE, ENDS };

static struct history {
    items returned;             /* their submissions have returned */
    items must;                 /* before all operations that begin now: frees that returned */
    items since;                /* of operations that began after the last free returned, while none ran */
    unsigned frees;             /* running */
    unsigned changes, changing; /* begins and ends of calls that change contexts or captures; those that run */
    bool noted, free_while_ending, releases;      /* releases: a call that may end a context runs */
    uint8_t streams[STREAMS], contexts[CONTEXTS]; /* enum life */
    uint8_t capturer, users;                      /* users: threads that use the second context */
    struct gm_context known[CONTEXTS];
    uint8_t role[IL_THREADS + 1], kind;
} now;

/* ---- the table of states (in_flight.h) */

enum kind { NONE, UNRECORDED, RECORDING, RECORDED, KINDS };
enum role { FREE, SUBMISSION, NOTICE, END, ROLES };
static const char *const kind_names[] = {"none", "unrecorded", "recording", "recorded"};
static const char *const role_names[] = {"free", "submission", "notice", "end of the context"};

static struct session { /* on the heap: stays from run to run */
    const char *before, *threads[IL_THREADS];
    uint64_t seen[KINDS][ROLES][KINDS];
    uint64_t programs, runs, states, open, faults; /* open: with more runs than were made */
} * session;

static enum kind kind_of(uint16_t state) {
    return !state ? NONE : state == GM_FLIGHT_UNRECORDED ? UNRECORDED : state & GM_FLIGHT_OPEN ? RECORDING : RECORDED;
}

static void written(void) {
    enum kind kind = kind_of(gm_watch.state);
    if (kind == now.kind)
        return;
    session->seen[now.kind][now.role[il_thread()]][kind]++;
    now.kind = (uint8_t)kind;
    il_note(kind_names[kind]);
}

static void in_role(enum role role) { now.role[il_thread()] = (uint8_t)role; }

/* ---- operations, as the entries and hooks do them (shim/hook) */

static CUstream handle_of(enum stream stream) {
    return stream == LEGACY || stream == LEGACY_SECOND ? NULL
           : stream >= OWN_FIRST && stream <= OWN_LAST ? CU_STREAM_PER_THREAD
                                                       : (CUstream)(uintptr_t)(0x100 + stream);
}

static void expect_done(items some, const char *text) {
    if (some & ~device.done)
        il_fault(text);
}

static uint32_t watched(void) {
    il_point(&gm_watch.flags, false, IL_HERE);
    il_point(&gm_watch.state, false, IL_HERE);
    return (uint32_t)gm_watch.state | (uint32_t)gm_watch.flags << 16;
}

/* gm_called in shim/hook/called.c. */
static void look_submits(CUstream stream, bool per_thread, bool ordinary) {
    if (per_thread)
        gm_free_sync_per_thread();
    if (gm_capture_any() && gm_capture_on(stream, false))
        return;
    if (!ordinary && gm_in_flight_state())
        gm_free_sync_overtake();
    else if (gm_in_flight_state() & GM_FLIGHT_OPEN)
        gm_free_sync_submit(!per_thread && !stream);
}

static void launch(enum stream stream, unsigned item, bool overtakes, bool faulty) {
    items must = now.must, behind;
    bool per_thread = handle_of(stream) == CU_STREAM_PER_THREAD;
    in_role(SUBMISSION);
    if (!now.frees)
        now.since |= 1u << item;
    uint32_t bits = GM_FLIGHT_OPEN | GM_WATCH_CAPTURES << 16 | (overtakes ? GM_FLIGHT_LOOSE : 0) |
                    (per_thread ? GM_WATCH_PER_THREAD << 16 : 0);
    if (watched() & bits)
        look_submits(handle_of(stream), per_thread, !overtakes);
    device.faulty |= faulty ? 1u << item : 0;
    bool submitted = device_submit(stream, item, overtakes, &behind);
    il_note(submitted ? "submits" : "does not submit");
    if (!submitted)
        return;
    if (must & ~(behind | device.done))
        il_fault("work does not run behind the work before a free");
    now.returned |= 1u << item;
}

/* Somebody waits. */
static void waits(items covered, bool all) {
    if (now.role[il_thread()] != FREE && covered & now.since)
        il_fault("a call waits for work that was submitted after the last free");
}

static bool has_to_wait(void) {
    return now.noted || device.capturing || (now.contexts[0] == USABLE && now.contexts[1] == USABLE);
}

static void release(unsigned context, bool may_be_fast) {
    const struct gm_context *of = &now.known[context];
    bool settled, waiting = !now.changing && has_to_wait();
    items before = now.returned & device.contexts[context].of;
    unsigned changes = now.changes;
    gm_status status = GM_OK;
    in_role(FREE);
    now.frees++;
    now.since = 0;
    now.free_while_ending |= now.contexts[context] == ENDS;
    enum gm_free_fast fast = gm_free_sync_fast_now();
    if (may_be_fast && fast && !device.contexts[context].fault) {
        if (fast == GM_FAST_LEAVE)
            gm_in_flight_leave();
    } else {
        status = gm_free_sync_before(of->handle, of->id, of->device, &settled);
    }
    il_note(status ? "free fails" : "free returns");
    now.frees--;
    now.since = 0;
    waiting = waiting && changes == now.changes;
    if (status && !device.contexts[context].fault && device.contexts[context].lives)
        il_fault("a free returns an error that the device does not have");
    if (!status && waiting) {
        expect_done(before, "a free leaves work in flight where it has to wait");
        if (before & device.faulty && device.contexts[context].lives)
            il_fault("a free that waits does not return the error of the work");
    }
    if (!status)
        now.must |= before;
}

/* gm_hook_look, and the entry of a function of this role. */
static void look_notices(void) {
    in_role(NOTICE);
    if (watched() & GM_FLIGHT_PENDING)
        gm_free_sync_notice();
}

static void notice(void) {
    items must = now.must;
    look_notices();
    il_point(&device, true, IL_HERE);
    il_note("true call");
    expect_done(must, "a call could notice what is in flight");
}

static void note_reason(void) {
    items must = now.must;
    in_role(NOTICE);
    gm_free_sync_note(GM_SYNC_HOST_MEMORY);
    il_point(&device, true, IL_HERE);
    il_note("true call");
    expect_done(must, "work is in flight after the note of a reason");
    now.noted = true;
}

static void create_stream(enum stream stream) {
    if (now.streams[stream] != ABSENT)
        return;
    now.streams[stream] = BEGINS;
    items must = now.must;
    look_notices();
    il_point(&device, true, IL_HERE);
    expect_done(must, "work is in flight while a stream is created");
    device.streams[stream].exists = true;
    gm_free_sync_stream_created(device_handle(0), handle_of(stream));
    now.streams[stream] = USABLE;
}

static void destroy_stream(enum stream stream) {
    items must = now.must;
    if (now.streams[stream] != USABLE)
        return;
    now.streams[stream] = ENDS;
    look_notices();
    gm_capture_ending(handle_of(stream), NULL);
    il_point(&device, true, IL_HERE);
    expect_done(must, "a call could notice what is in flight");
    device.streams[stream].exists = false;
    device.streams[stream].tail = device.streams[stream].behind = 0;
    gm_free_sync_stream_destroyed(device_handle(0));
    gm_capture_destroyed(handle_of(stream), NULL, true);
    now.streams[stream] = ABSENT;
}

static void begin_change(void) { now.changes++, now.changing++; }
static void end_change(void) { now.changes++, now.changing--; }

static void begin_capture(void) {
    if (now.streams[NON_BLOCKING] != USABLE)
        return;
    now.streams[NON_BLOCKING] = BEGINS; /* no other thread uses the stream before the capture has ended */
    begin_change();
    in_role(SUBMISSION);
    if (watched() & GM_FLIGHT_OPEN)
        gm_free_sync_submit(false);
    uint64_t serial = gm_capture_begin(handle_of(NON_BLOCKING), false, CU_STREAM_CAPTURE_MODE_GLOBAL);
    il_point(&device, true, IL_HERE);
    il_note("capture begins");
    device.streams[NON_BLOCKING].captures = true;
    device.capturing++;
    gm_capture_begun(serial, true);
    now.capturer = (uint8_t)(1 + il_thread());
    end_change();
}

static void end_capture(void) {
    if (!now.capturer || (now.capturer != 1 + il_thread() && now.capturer != 1 + IL_MAIN && il_thread() != IL_MAIN))
        return;
    now.capturer = 0;
    begin_change();
    il_point(&device, true, IL_HERE);
    il_note("capture ends");
    device.streams[NON_BLOCKING].captures = false;
    device.capturing--;
    gm_capture_end(handle_of(NON_BLOCKING), false);
    now.streams[NON_BLOCKING] = USABLE;
    end_change();
}

static void make_context(unsigned context) {
    items must = now.must;
    if (now.contexts[context] != ABSENT)
        return;
    now.contexts[context] = BEGINS;
    begin_change();
    in_role(NOTICE);
    gm_free_sync_context_making();
    il_point(&device, true, IL_HERE);
    il_note("context exists");
    expect_done(must, "work is in flight while a context is created");
    device_make(context);
    gm_free_sync_context_made(device_handle(context));
    now.contexts[context] = USABLE;
    end_change();
}

static bool is_capturing(unsigned context) {
    return !context && (device.capturing || now.capturer || now.streams[NON_BLOCKING] == BEGINS);
}

static void end_context(unsigned context, bool ends) {
    CUcontext handle = device_handle(context);
    uint64_t id;
    if (now.contexts[context] != USABLE || is_capturing(context) || (context && now.users) || now.releases)
        return;
    now.releases = true;
    if (ends) { /* otherwise other threads go on using it */
        now.contexts[context] = ENDS;
        now.free_while_ending = now.frees > 0;
        begin_change();
    }
    look_notices();
    in_role(END);
    gm_capture_ending(NULL, handle);
    id = gm_context_ending(handle);
    il_point(&device, true, IL_HERE);
    il_note(ends ? "context is destroyed" : "context stays");
    if (ends) {
        device_destroy(context);
        gm_capture_destroyed(NULL, handle, true);
        id = 0;
        gm_context_end(handle, &id);
        gm_free_sync_context_destroyed(handle, id);
    } else {
        gm_capture_destroyed(NULL, handle, false);
        gm_context_stays(handle, id);
    }
    now.releases = false;
    if (!ends)
        return;
    now.contexts[context] = ABSENT;
    if (!context)
        memset(now.streams, ABSENT, sizeof now.streams);
    end_change();
    if (!now.free_while_ending && !now.frees && now.contexts[1 - context] == ABSENT && gm_watch.state)
        il_fault("work is in flight after the end of the only context");
}

/* The program makes the second context current, and uses memory in it. */
static void in_second(bool frees, unsigned item) {
    if (now.contexts[1] != USABLE)
        return;
    now.users++;
    device.threads[il_thread()].context = 1;
    if (frees) {
        struct gm_context known;
        gm_context_current(&known);
        now.known[1] = known;
        release(1, true);
    } else {
        launch(LEGACY_SECOND, item, false, false);
    }
    device.threads[il_thread()].context = 0;
    now.users--;
}

static void operate(char operation, unsigned item) {
    static const char names[] = "\0l\0b\0n\0t\0p\0x\0f\0g\0q\0w\0r\0S\0D\0s\0d\0(\0)\0c\0e\0m\0h\0v\0z";
    il_clean_stack();
    il_point(&now, true, IL_HERE);
    il_note(&names[1 + 2 * (strchr(OPERATIONS, operation) - OPERATIONS)]);
    unsigned context = operation == 'm' || operation == 'h' || operation == 'e' || operation == 'c';
    if (!context && now.contexts[0] != USABLE)
        return;
    switch (operation) {
    case 'l': launch(LEGACY, item, false, false); break;
    case 'p': launch(LEGACY, item, true, false); break;
    case 'x': launch(LEGACY, item, false, true); break;
    case 't': launch(OWN_FIRST + il_thread(), item, false, false); break;
    case 'b':
    case 'n':
        if (now.streams[operation == 'b' ? BLOCKING : NON_BLOCKING] == USABLE)
            launch(operation == 'b' ? BLOCKING : NON_BLOCKING, item, false, false);
        break;
    case 'f':
    case 'g': release(0, operation == 'f'); break;
    case 'q': notice(); break;
    case 'w': device_synchronise(0); break;
    case 'r': note_reason(); break;
    case 'S':
    case 's': create_stream(operation == 'S' ? BLOCKING : NON_BLOCKING); break;
    case 'D':
    case 'd': destroy_stream(operation == 'D' ? BLOCKING : NON_BLOCKING); break;
    case '(': begin_capture(); break;
    case ')': end_capture(); break;
    case 'c': make_context(1); break;
    case 'e': end_context(1, true); break;
    case 'm':
    case 'h': in_second(operation == 'h', item); break;
    case 'v': end_context(0, false); break;
    case 'z': end_context(0, true); break;
    }
}

static void sequence(const char *operations, unsigned item) {
    for (; *operations; operations++)
        operate(*operations, item++);
}

/* ---- programs */

static void before(void) {
    const char *operations = session->before;
    gm_mine.holds = gm_mine.held = 0; /* a run may stop anywhere */
    device.waits = waits;
    device_use(*operations != '^');
    operations += *operations == '^';
    gm_watch_set(GM_WATCH_CLOSED, false);
    gm_free_sync_setup(GM_FREE_SAFE);
    make_context(0);
    gm_context_current(&now.known[0]);
    device.refuses_event = *operations == '!';
    operations += *operations == '!';
    sequence(operations, 0);
}

static void run(unsigned thread) { sequence(session->threads[thread], ITEMS_FIRST + MOST * thread); }

/* Work on all streams and a call that notices show what the threads left. */
static void after(void) {
    il_note("afterwards");
    sequence(")lnbtmqlpq", ITEMS_LATER);
    if (!il_has_fault() && gm_in_flight_state() && now.contexts[0] == USABLE && !device.contexts[0].fault)
        il_fault("work is in flight after a call that notices");
}

static const struct il_program explored = {before, run, after, written};

static void explore(const char *before_both, const char *first, const char *second, unsigned preemptions,
                    uint64_t most_runs) {
    struct il_result result, least;
    session->before = before_both, session->threads[0] = first, session->threads[1] = second;
    il_explore(&explored, preemptions, most_runs, &result);
    session->programs++, session->runs += result.runs, session->states += result.states;
    session->open += !result.complete && !result.fault;
    if (!result.fault)
        return;
    for (unsigned i = 0; i <= 4 && i < preemptions; i++) { /* the same with few preemptions, which is easier to read */
        il_explore(&explored, i, 1000000, &least);
        if (least.fault) {
            result = least;
            break;
        }
    }
    bool is_new = ++session->faults <= 20;
    print_message("test_in_flight '%s' '%s' '%s': %s (%u preemptions)\n%s", before_both, first, second, result.fault,
                  result.preemptions, is_new ? result.schedule : "");
}

static const char *const preludes[] = {
    "", "lf", "lfl", "snlf", "snlfl", "SsblnfbD", "tlf", "cmlf", "!lf", "^lf", "xf", "s(lf", "snlfd",
};

static bool has(const char *operations, char operation) { return strchr(operations, operation) != NULL; }

/* False: an operation can do nothing, because another one is missing. */
static bool is_sensible(const char *before_both, const char *first, const char *second) {
    static const char needs[][2] = {"ns", "ds", "(s", "bS", "DS", ")(", "ec", "mc", "hc"};
    for (size_t i = 0; i < sizeof needs / 2; i++)
        if ((has(first, needs[i][0]) || has(second, needs[i][0])) &&
            !(has(before_both, needs[i][1]) || has(first, needs[i][1]) || has(second, needs[i][1])))
            return false;
    return true;
}

static double seconds(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void report(const char *text) {
    print_message("%s: %llu programs, %llu runs, %llu states, %llu programs not completely\n", text,
                  (unsigned long long)session->programs, (unsigned long long)session->runs,
                  (unsigned long long)session->states, (unsigned long long)session->open);
    assert_int_equal(session->faults, 0);
    session->programs = session->runs = session->states = session->open = 0;
}

TEST(every_pair_of_operations) {
    for (size_t i = 0; i < sizeof preludes / sizeof *preludes; i++)
        for (const char *a = OPERATIONS; *a; a++)
            for (const char *b = a; *b; b++) {
                const char first[] = {*a, 0}, second[] = {*b, 0};
                if (is_sensible(preludes[i], first, second))
                    explore(preludes[i], first, second, 2, UINT64_MAX);
            }
    report("pairs");
}

/* With any number of preemptions. */
TEST(chosen_programs) {
    static const char *const programs[][3] = {
        {"lf", "l", "q"},    {"lf", "fl", "v"},     {"lf", "fq", "v"},    {"lf", "fg", "v"},   {"lf", "lf", "lq"},
        {"lf", "snf", "ll"}, {"snlf", "lf", "ndl"}, {"snlf", "nf", "ql"}, {"s(lf", "lf", "l"}, {"lf", "r", "r"},
        {"l", "fq", "v"},    {"l", "fg", "v"},      {"l", "fl", "v"},     {"snlf", "f", "z"},  {"snlfl", "f", "c"},
        {"lfl", "p", "z"},   {"", "csn", "pfm"},
    };
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        explore(programs[i][0], programs[i][1], programs[i][2], UINT32_MAX, 1000000);
    report("chosen programs");
}

static double allowed = 5;
static uint64_t seed = 1;

static unsigned random_below(unsigned limit) {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)((seed >> 33) % limit);
}

static void random_sequence(char *operations, unsigned most) {
    unsigned length = 1 + random_below(most);
    for (unsigned i = 0; i < length; i++)
        operations[i] = OPERATIONS[random_below(sizeof OPERATIONS - 1)];
    operations[length] = '\0';
}

TEST(longer_sequences) {
    uint64_t *at = *state = malloc(sizeof *at); /* il_explore sets static data back */
    double begin = seconds();
    for (*at = seed; seconds() - begin < allowed;) {
        char first[MOST + 1], second[MOST + 1];
        seed = *at;
        const char *prelude = preludes[random_below(sizeof preludes / sizeof *preludes)];
        random_sequence(first, 3);
        random_sequence(second, 3);
        *at = seed;
        if (is_sensible(prelude, first, second))
            explore(prelude, first, second, 2, 20000);
    }
    free(at);
    report("longer sequences");
}

/* Each change of state that occurred, and none other. */
TEST(states_change_as_the_table_says) {
    static const struct {
        uint8_t from, role, to;
    } table[] = {
        {NONE, FREE, UNRECORDED},
        {UNRECORDED, FREE, RECORDING}, /* with several streams a free orders what runs later */
        {RECORDING, FREE, RECORDED},
        {RECORDING, FREE, NONE}, /* nothing can be recorded, or a context is created meanwhile: waits */
        {RECORDED, FREE, NONE},
        {UNRECORDED, SUBMISSION, RECORDING},
        {UNRECORDED, NOTICE, RECORDING},
        {UNRECORDED, END, NONE},
        {RECORDING, FREE, UNRECORDED},
        {RECORDING, SUBMISSION, RECORDED},
        {RECORDING, SUBMISSION, UNRECORDED}, /* the context may be ending: again */
        {RECORDING, SUBMISSION, NONE},       /* nothing can be recorded: waits */
        {RECORDING, NOTICE, RECORDED},
        {RECORDING, NOTICE, UNRECORDED},
        {RECORDING, NOTICE, NONE},
        {RECORDED, FREE, UNRECORDED},
        {RECORDED, SUBMISSION, NONE}, /* another launch may overtake, and nothing can be ordered: waits */
        {RECORDED, NOTICE, NONE},
        {RECORDING, END, NONE},
        {RECORDED, END, NONE},
    };
    bool wrong = false;
    for (int from = 0; from < KINDS; from++)
        for (int role = 0; role < ROLES; role++)
            for (int to = 0; to < KINDS; to++) {
                bool expected = false;
                for (size_t i = 0; i < sizeof table / sizeof *table; i++)
                    expected |= table[i].from == from && table[i].role == role && table[i].to == to;
                if (expected == (session->seen[from][role][to] > 0))
                    continue;
                print_message("%s: %s, %s: %s\n", expected ? "did not occur" : "not in the table", kind_names[from],
                              role_names[role], kind_names[to]);
                wrong = true;
            }
    assert_false(wrong);
}

static const char *operations_of(const char *argument) { return strcmp(argument, "-") ? argument : ""; }

int main(int count, char **arguments) {
    if (count == 2 || count == 3)
        allowed = atof(arguments[1]);
    if (count == 3)
        seed = strtoull(arguments[2], NULL, 0);
    gm_clock_init();
    device_use(true);
    gm_capture_begun(gm_capture_begin(NULL, false, CU_STREAM_CAPTURE_MODE_GLOBAL), true); /* numbers the thread */
    gm_capture_end(NULL, false);
    session = calloc(1, sizeof *session);
    gm_events.context_new = gm_free_sync_context;
    il_start();
    if (count == 4)
        return explore(operations_of(arguments[1]), arguments[2], arguments[3], 4, 3000000), report("program"), 0;
    return run_all(NULL, NULL);
}

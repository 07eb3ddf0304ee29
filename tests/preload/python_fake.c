/* Exports the names of a CPython with FAKE_VERSION (run_python.py). FAKE_FIELDS says what its structs hold:
 *
 *   frames  3.13 and later: a frame of a C function, called by made() in line 9 of /fake/made.py
 *   self    pointers to the struct itself
 *   far     offsets that no struct has
 *   other   pointers to nothing */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uintptr_t thread[64];
long PyCode_Type[64], PyUnicode_Type[64], PyBytes_Type[64];
uint64_t _PyRuntime[128];

const char *Py_GetVersion(void);
const char *Py_GetVersion(void) { return getenv("FAKE_VERSION"); }

int Py_IsFinalizing(void);
int Py_IsFinalizing(void) { return 0; }

void *PyGILState_GetThisThreadState(void);
void *PyGILState_GetThisThreadState(void) { return thread; }

/* ---- frames */

struct object {
    uintptr_t references;
    void *type;
    uintptr_t length;
};
static struct string {
    struct object object;
    uintptr_t hash;
    uint32_t state; /* interned: 16 bits; size of a character: 3; compact; ASCII */
    char text[28];  /* from byte 36 on; the characters begin at byte 40 */
} file, name;
static struct {
    struct object object;
    uintptr_t hash;
    unsigned char entries[2];
} lines;
static struct {
    struct object object;
    struct string *file, *name;
    void *lines;
    int32_t first_line;
    char bytecode[32];
} code;
static struct frame {
    struct frame *previous;
    uintptr_t executable;
    char *instruction;
    unsigned char owner;
} caller, innermost;

/* How many 64-bit numbers each version states of a struct in _PyRuntime.debug_offsets, in this order: head and runtime,
 * interpreter, thread, frame, code. The first number of a struct is its size. */
static const struct stated {
    unsigned minor, interpreter, thread, frame;
} stated[] = {{13, 13, 9, 6}, {14, 16, 9, 8}, {15, 16, 17, 8}};
enum { HEAD = 6, CURRENT_FRAME = 4, PREVIOUS = 1, EXECUTABLE, INSTRUCTION, OWNER = 5 };
enum { FILE_NAME = 1, QUALIFIED_NAME = 3, LINES, FIRST_LINE, BYTECODE = 9 };

static void set_string(struct string *string, const char *text) {
    string->object = (struct object){1, PyUnicode_Type, strlen(text)};
    string->state = (1u | 8u | 16u) << 16;
    memcpy(string->text + 4, text, strlen(text) + 1);
}

static void make_frames(void) {
    set_string(&file, "/fake/made.py");
    set_string(&name, "made");
    lines.object = (struct object){1, PyBytes_Type, sizeof lines.entries};
    lines.entries[0] = 128 | 13 << 3 | 7; /* a line without columns, for eight code units */
    lines.entries[1] = 2 << 1;            /* two lines further */
    code.object = (struct object){1, PyCode_Type, sizeof code.bytecode / 2};
    code.file = &file;
    code.name = &name;
    code.lines = &lines;
    code.first_line = 7;
    caller = (struct frame){NULL, (uintptr_t)&code | 1, code.bytecode + 6, 0};
    innermost = (struct frame){&caller, 0, NULL, 3};
    thread[9] = (uintptr_t)&innermost;
}

static void state_offsets(const struct stated *version) {
    uint64_t *interpreter = _PyRuntime + HEAD, *thread_at = interpreter + version->interpreter;
    uint64_t *frame_at = thread_at + version->thread, *code_at = frame_at + version->frame;
    _PyRuntime[1] = 3u << 24 | version->minor << 16 | 0xf0;
    _PyRuntime[2] = 0;
    for (int i = 3; i < 128; i++)
        _PyRuntime[i] = 4000; /* nothing is there */
    thread_at[CURRENT_FRAME] = 9 * sizeof *thread;
    frame_at[PREVIOUS] = offsetof(struct frame, previous);
    frame_at[EXECUTABLE] = offsetof(struct frame, executable);
    frame_at[INSTRUCTION] = offsetof(struct frame, instruction);
    frame_at[OWNER] = offsetof(struct frame, owner);
    code_at[FILE_NAME] = (uint64_t)((char *)&code.file - (char *)&code);
    code_at[QUALIFIED_NAME] = (uint64_t)((char *)&code.name - (char *)&code);
    code_at[LINES] = (uint64_t)((char *)&code.lines - (char *)&code);
    code_at[FIRST_LINE] = (uint64_t)((char *)&code.first_line - (char *)&code);
    code_at[BYTECODE] = (uint64_t)(code.bytecode - (char *)&code);
}

__attribute__((constructor)) static void fill(void) {
    const char *fields = getenv("FAKE_FIELDS"), *version = getenv("FAKE_VERSION");
    uintptr_t value = fields && !strcmp(fields, "self") ? (uintptr_t)thread : 0x1000;
    for (int i = 0; i < 64; i++)
        thread[i] = value;
    memcpy(_PyRuntime, "xdebugpy", 8);
    _PyRuntime[1] = UINT64_C(0x030d00f0);
    for (int i = 3; i < 128; i++)
        _PyRuntime[i] = fields && !strcmp(fields, "far") ? UINT64_MAX : 8;
    if (!fields || strcmp(fields, "frames") != 0 || !version)
        return;
    make_frames();
    for (size_t i = 0; i < sizeof stated / sizeof *stated; i++)
        if (stated[i].minor == strtoul(version + 2, NULL, 10))
            state_offsets(&stated[i]);
}

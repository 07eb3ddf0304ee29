/* Finds and checks the layout of CPython's structs (python_layout.h). */
#include "shim/sites/python_layout.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>

#include "policy/digits.h"
#include "shim/base/file.h"
#include "shim/base/libraries.h"
#include "shim/base/real_dl.h"

enum { NO = GM_PYTHON_NO_FIELD, FIRST_WITH_OFFSETS = 13, DEEPEST_CHECK = 32, MOST_OFFSET = 4096 };

/* From 3.13 on a row has the positions in _PyRuntime.debug_offsets at which the interpreter states the offsets. */
static const struct gm_python_layout rows[] = {
    /* frame, holder, previous, code, instruction, owner; file, name, first line, lines, bytecode; string, unit */
    {9, 24, NO, 24, 32, 104, NO, 104, 112, 40, 120, NO, 48, 1, GM_PYTHON_LNOTAB},
    {10, 24, NO, 24, 32, 96, NO, 104, 112, 40, 120, NO, 48, 2, GM_PYTHON_LINETABLE},
    {11, 56, 8, 48, 32, 56, 69, 112, 128, 72, 136, 184, 48, 1, GM_PYTHON_LOCATIONS},
    {12, 56, 0, 8, 0, 56, 70, 112, 128, 68, 136, 192, 40, 1, GM_PYTHON_LOCATIONS},
    {13, 184, NO, 232, 240, 248, 264, 280, 296, 312, 304, 344, 40, 1, GM_PYTHON_LOCATIONS},
    {14, 208, NO, 256, 264, 272, 288, 320, 336, 352, 344, 384, 40, 1, GM_PYTHON_LOCATIONS},
    {15, 208, NO, 320, 328, 336, 352, 384, 400, 416, 408, 448, 40, 1, GM_PYTHON_LOCATIONS},
};

/* ---- finding */

static void keep_path(const struct dl_phdr_info *object, void *path) { gm_format(path, 256, "%s", object->dlpi_name); }

static int visit_object(struct dl_phdr_info *object, size_t size, void *path) {
    const char *slash = object->dlpi_name ? strrchr(object->dlpi_name, '/') : NULL;
    if (!slash || strncmp(slash + 1, "libpython3.", 11) != 0 || slash[12] < '0' || slash[12] > '9')
        return 0;
    keep_path(object, path);
    return 1;
}

/* The object that has the interpreter: the program with its libraries (RTLD_DEFAULT), or a libpython that was opened
 * privately. It must not be unloaded while its functions are in use. */
static bool find_object(void **object) {
    char path[256] = "";
    void *known = gm_real_dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    if (known)
        gm_library_at((uintptr_t)known, keep_path, path);
    else if (!dl_iterate_phdr(visit_object, path))
        return false;
    void *kept = path[0] ? gm_real_dlopen(path, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) : NULL;
    *object = known ? RTLD_DEFAULT : kept;
    return known || kept;
}

/* "3.12.1 (main, ...": 12. 0: another text. */
static unsigned minor_of(const char *version) {
    uint64_t minor = 0;
    if (version[0] != '3' || version[1] != '.')
        return 0;
    version += 2;
    gm_read_digits(&version, NULL, &minor);
    return minor < 100 ? (unsigned)minor : 0;
}

/* Replaces positions by the offsets that the interpreter states there. */
static bool read_offsets(struct gm_python_layout *layout, const char *offsets) {
    uint64_t version, free_threaded, offset;
    uint16_t *const fields[] = {&layout->thread_frame, &layout->previous, &layout->code, &layout->instruction,
                                &layout->owner,        &layout->file,     &layout->name, &layout->first_line,
                                &layout->lines,        &layout->bytecode};
    if (!offsets || memcmp(offsets, "xdebugpy", 8) != 0)
        return false;
    memcpy(&version, offsets + 8, sizeof version);
    memcpy(&free_threaded, offsets + 16, sizeof free_threaded);
    if (version >> 24 != 3 || (version >> 16 & 255) != layout->minor || free_threaded)
        return false;
    for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++) {
        memcpy(&offset, offsets + *fields[i], sizeof offset);
        if (offset >= MOST_OFFSET)
            return false;
        *fields[i] = (uint16_t)offset;
    }
    return true;
}

static const char *fill_layout(struct gm_python *python, void *object, const char *version) {
    const struct gm_python_layout *row = NULL;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].minor == minor_of(version))
            row = &rows[i];
    if (!row)
        return "its version is not known";
    if (strstr(version, "free-threading"))
        return "it has no global interpreter lock";
    python->layout = *row;
    if (row->minor >= FIRST_WITH_OFFSETS && !read_offsets(&python->layout, gm_real_dlsym(object, "_PyRuntime")))
        return "it does not state its offsets as expected";
    void *finalizing = gm_real_dlsym(object, "Py_IsFinalizing");
    if (!finalizing)
        finalizing = gm_real_dlsym(object, "_Py_IsFinalizing");
    python->thread_state = (void *(*)(void))gm_real_dlsym(object, "PyGILState_GetThisThreadState");
    python->finalizing = (int (*)(void))finalizing;
    python->code_type = (uintptr_t)gm_real_dlsym(object, "PyCode_Type");
    python->string_type = (uintptr_t)gm_real_dlsym(object, "PyUnicode_Type");
    python->bytes_type = (uintptr_t)gm_real_dlsym(object, "PyBytes_Type");
    bool complete = python->thread_state && finalizing && python->code_type && python->string_type;
    return complete && python->bytes_type ? NULL : "symbols are missing";
}

bool gm_python_find(struct gm_python *python) {
    char version[128];
    void *object;
    const char *(*get_version)(void) =
        find_object(&object) ? (const char *(*)(void))gm_real_dlsym(object, "Py_GetVersion") : NULL;
    if (!get_version)
        return false;
    gm_format(version, sizeof version, "%s", get_version());
    const char *reason = fill_layout(python, object, version);
    if (reason)
        gm_log(GM_LOG_INFO, "Python %.40s: call sites have no Python frames, because %s", version, reason);
    return !reason;
}

/* ---- checking */

/* Reads by the kernel, which returns an error where nothing is mapped. */
static bool copy(int memory, uintptr_t from, void *to, size_t bytes) {
    return gm_pread(memory, to, bytes, from) == (ssize_t)bytes;
}

static bool is_a(int memory, uintptr_t object, uintptr_t type) {
    uintptr_t found;
    return object && copy(memory, object + 8, &found, sizeof found) && found == type;
}

/* The state of a string has interning, character size (3 bits: 1, 2 or 4 bytes) and compactness. Interning takes 2
 * bits, or 8 or 16 in newer builds. */
static bool find_state(int memory, struct gm_python *python, uintptr_t name) {
    static const unsigned shifts[] = {2, 8, 16};
    uint32_t state;
    if (!copy(memory, name + 32, &state, sizeof state))
        return false;
    for (unsigned i = 0; i < sizeof shifts / sizeof *shifts; i++) {
        unsigned bits = state >> shifts[i], size = bits & 7;
        python->string_state = shifts[i];
        if ((size == 1 || size == 2 || size == 4) && bits & 8)
            return true;
    }
    return false;
}

static bool check_code(int memory, struct gm_python *python, uintptr_t code) {
    const struct gm_python_layout *l = &python->layout;
    uintptr_t file, name, lines;
    int32_t first_line;
    return copy(memory, code + l->file, &file, sizeof file) && is_a(memory, file, python->string_type) &&
           copy(memory, code + l->name, &name, sizeof name) && is_a(memory, name, python->string_type) &&
           copy(memory, code + l->lines, &lines, sizeof lines) && is_a(memory, lines, python->bytes_type) &&
           copy(memory, code + l->first_line, &first_line, sizeof first_line) && first_line >= 0 &&
           first_line < 100000000 && find_state(memory, python, name);
}

/* The instruction lies in the code: at most its size of 2 GiB behind the first one, or just before it. */
static bool check_instruction(int memory, const struct gm_python_layout *l, uintptr_t frame, uintptr_t code) {
    uintptr_t address, units;
    int32_t number;
    if (l->bytecode == NO)
        return copy(memory, frame + l->instruction, &number, sizeof number) && number >= -1;
    if (!copy(memory, frame + l->instruction, &address, sizeof address) ||
        !copy(memory, code + 16 /* ob_size */, &units, sizeof units))
        return false;
    return address + 2 - (code + l->bytecode) <= 2 * units + 2;
}

/* Counts frames of Python functions. */
static bool check_frame(int memory, struct gm_python *python, uintptr_t frame, unsigned *functions) {
    const struct gm_python_layout *l = &python->layout;
    uintptr_t code;
    unsigned char owner = 0;
    if (l->owner != NO && !copy(memory, frame + l->owner, &owner, 1))
        return false;
    if (owner >= GM_PYTHON_OWNER_C)
        return true;
    if (!copy(memory, frame + l->code, &code, sizeof code))
        return false;
    code &= ~(uintptr_t)7;
    ++*functions;
    return is_a(memory, code, python->code_type) && check_code(memory, python, code) &&
           check_instruction(memory, l, frame, code);
}

static enum gm_python_verdict check_stack(int memory, struct gm_python *python, uintptr_t thread) {
    const struct gm_python_layout *l = &python->layout;
    uintptr_t frame;
    unsigned functions = 0;
    if (!copy(memory, thread + l->thread_frame, &frame, sizeof frame) ||
        (frame && l->holder_frame != NO && !copy(memory, frame + l->holder_frame, &frame, sizeof frame)))
        return GM_PYTHON_BAD;
    for (unsigned depth = 0; frame && depth < DEEPEST_CHECK; depth++)
        if (!check_frame(memory, python, frame, &functions) || !copy(memory, frame + l->previous, &frame, sizeof frame))
            return GM_PYTHON_BAD;
    return functions ? GM_PYTHON_GOOD : frame ? GM_PYTHON_BAD : GM_PYTHON_NO_FRAMES;
}

enum gm_python_verdict gm_python_check(struct gm_python *python, uintptr_t thread) {
    int memory = gm_open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    enum gm_python_verdict verdict = memory >= 0 ? check_stack(memory, python, thread) : GM_PYTHON_BAD;
    if (memory >= 0)
        gm_close(memory);
    if (verdict == GM_PYTHON_BAD)
        gm_log(GM_LOG_INFO, "Python 3.%u: call sites have no Python frames, because its frames are not as expected",
               python->layout.minor);
    return verdict;
}

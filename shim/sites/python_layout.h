/* The CPython interpreter in this process: its functions, and where its structs keep their fields.
 *
 * Nothing is linked: symbols are looked up in the loaded objects. Known are CPython 3.9 to 3.15 with a global
 * interpreter lock. Up to 3.12 the offsets are a table; from 3.13 on the interpreter exports them
 * (_PyRuntime.debug_offsets). Before the first use the offsets are checked against a real stack of frames, by reads
 * that cannot fault. Where the check fails, Python frames are left out. */
#ifndef GM_PYTHON_LAYOUT_H
#define GM_PYTHON_LAYOUT_H

#include "shim/base/base.h"
#include "shim/sites/python_lines.h"

enum { GM_PYTHON_NO_FIELD = 0xffff };

struct gm_python_layout {
    unsigned minor;         /* 3.minor */
    uint16_t thread_frame;  /* thread state -> innermost frame, or structure that holds it */
    uint16_t holder_frame;  /* that structure -> innermost frame; none: there is no such structure */
    uint16_t previous;      /* frame -> calling frame */
    uint16_t code;          /* frame -> code object */
    uint16_t instruction;   /* frame -> current instruction: an address, or an int before 3.11 */
    uint16_t owner;         /* frame -> byte; GM_PYTHON_OWNER_C and above: no function of Python */
    uint16_t file;          /* code -> file name */
    uint16_t name;          /* code -> function name, qualified from 3.11 on */
    uint16_t first_line;    /* code -> int */
    uint16_t lines;         /* code -> line table, a bytes object */
    uint16_t bytecode;      /* code -> first instruction; none: `instruction` is a number */
    uint16_t string_header; /* bytes before the characters of an ASCII string */
    uint16_t unit;          /* bytes of one instruction number */
    enum gm_python_table table;
};
enum { GM_PYTHON_OWNER_C = 3 };

struct gm_python {
    struct gm_python_layout layout;
    uintptr_t code_type, string_type, bytes_type;
    unsigned string_state; /* lowest bit of the character size in the state of a string */
    void *(*thread_state)(void);
    int (*finalizing)(void);
};

/* Looks for an interpreter among the loaded objects. False: there is none, or none of a known version, which is logged
 * (info). Asks the loader. */
GM_INTERNAL bool gm_python_find(struct gm_python *python);

/* Checks the layout with the frames of this thread, whose state is given. GM_PYTHON_GOOD: they are as expected, and
 * python->string_state is set. A failed check is logged (info). */
enum gm_python_verdict { GM_PYTHON_NO_FRAMES, GM_PYTHON_GOOD, GM_PYTHON_BAD };
GM_INTERNAL enum gm_python_verdict gm_python_check(struct gm_python *python, uintptr_t thread);

#endif

/* Line tables of CPython's code objects: which source line an instruction belongs to. Pure: reads only the table. */
#ifndef GM_PYTHON_LINES_H
#define GM_PYTHON_LINES_H

#include <stddef.h>

/* Formats of the table, by the version that introduced them. */
enum gm_python_table {
    GM_PYTHON_LNOTAB,    /* 3.9 and before: co_lnotab */
    GM_PYTHON_LINETABLE, /* 3.10: co_linetable */
    GM_PYTHON_LOCATIONS, /* 3.11: co_linetable with columns */
};

/* The line of the instruction at byte `offset` of the bytecode. A negative offset gives the first line. -1: the
 * instruction belongs to no line, or the table does not contain it. */
int gm_python_line(enum gm_python_table format, const unsigned char *table, size_t bytes, int first_line, long offset);

#endif

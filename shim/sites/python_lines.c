/* Decodes the three formats of CPython's line tables (python_lines.h). A damaged table never makes a decoder read
 * beyond `bytes`. */
#include "shim/sites/python_lines.h"

#include <stdbool.h>
#include <stdint.h>

/* Pairs of unsigned byte and signed line increments. The line is that of the last pair at or before the offset. */
static int line_of_lnotab(const unsigned char *at, const unsigned char *end, int line, long offset) {
    long address = 0;
    for (; end - at >= 2; at += 2) {
        address += at[0];
        if (address > offset)
            break;
        line += (int8_t)at[1];
    }
    return line;
}

/* Pairs of the length of a range in bytes and its line increment. -128: the range has no line. */
static int line_of_linetable(const unsigned char *at, const unsigned char *end, int line, long offset) {
    long limit = 0;
    for (; end - at >= 2; at += 2) {
        bool none = (int8_t)at[1] == -128;
        line += none ? 0 : (int8_t)at[1];
        limit += at[0];
        if (offset < limit)
            return none ? -1 : line;
    }
    return -1;
}

/* An integer in groups of six bits, lowest first; bit 6 marks that another group follows. The lowest bit of the result
 * is the sign. */
static int take_signed(const unsigned char **at, const unsigned char *end) {
    uint32_t value = 0;
    for (unsigned shift = 0; *at < end; shift += 6) {
        unsigned char byte = *(*at)++;
        value |= shift < 32 ? (uint32_t)(byte & 63) << shift : 0;
        if (!(byte & 64))
            break;
    }
    return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

/* Entries begin with a byte that has bit 7 set: kind of the entry (4 bits) and length of its range in code units of two
 * bytes, less one (3 bits). */
static int line_of_locations(const unsigned char *at, const unsigned char *end, int line, long offset) {
    enum { ONE_LINE_FIRST = 10, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    long limit = 0;
    while (at < end) {
        unsigned char first = *at++;
        unsigned kind = first >> 3 & 15;
        if (kind == NO_COLUMNS || kind == LONG)
            line += take_signed(&at, end);
        else if (kind >= ONE_LINE_FIRST && kind < NO_COLUMNS)
            line += (int)kind - ONE_LINE_FIRST;
        limit += 2 * ((first & 7) + 1);
        if (offset < limit)
            return kind == NONE ? -1 : line;
        while (at < end && !(*at & 128))
            at++;
    }
    return -1;
}

int gm_python_line(enum gm_python_table format, const unsigned char *table, size_t bytes, int first_line, long offset) {
    const unsigned char *end = table + bytes;
    if (offset < 0)
        return first_line;
    switch (format) {
    case GM_PYTHON_LNOTAB: return line_of_lnotab(table, end, first_line, offset);
    case GM_PYTHON_LINETABLE: return line_of_linetable(table, end, first_line, offset);
    default: return line_of_locations(table, end, first_line, offset);
    }
}

/* Text that others wrote: names of programs, functions and files, ranges, words of a file. It may hold anything, also
 * what moves a terminal's cursor, sets its title or turns the direction of a line. */
#ifndef GM_BASE_FOREIGN_H
#define GM_BASE_FOREIGN_H

#include "shim/base/base.h"

/* Copies the first `length` bytes of a text, or all before its terminator, so that they only show: as "\x1b" each
 * control character of ASCII and each byte that is not UTF-8, as "\u202e" each further control character, each one that
 * changes the direction, and what separates lines. A copy of the copy is the same. `out` holds whole characters, valid
 * UTF-8 and a terminator if `size` > 0. Returns the length that the whole copy would have. */
GM_INTERNAL size_t gm_foreign_text(char *out, size_t size, const char *text, size_t length);

/* The copy would be the same. */
GM_INTERNAL bool gm_foreign_is_plain(const char *text);

/* Length of the character at the begin of a text of at least one byte. 1 if the byte there is not UTF-8. *plain: it is
 * a character that stays what it is in a copy. */
GM_INTERNAL unsigned gm_foreign_character(const char *text, size_t length, bool *plain);

#endif

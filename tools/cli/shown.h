/* Text that others wrote (shim/base/foreign.h) on its way to a terminal: names of files, of programs, in counters and
 * files of others. Names in traces and in debug information need none of this: they are shown texts where they are
 * read (reader.h, symbols.h). */
#ifndef GM_SHOWN_H
#define GM_SHOWN_H

#include <stdarg.h>
#include <stddef.h>

/* Copies what a terminal may have of the text. Returns `room`. */
const char *gm_shown(char *room, size_t size, const char *text);
/* The same, as an argument of printf. */
#define GM_SHOWN(text) gm_shown((char[4352]){0}, 4352, text)

/* Prints one line "gpumem: ..." to stderr, whatever the texts in it hold. errno stays. */
void gm_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void gm_vcomplain(const char *format, va_list args);

#endif

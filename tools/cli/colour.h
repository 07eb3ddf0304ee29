/* Colours of text on a terminal. Without --color a stream has colours when it is a terminal, NO_COLOR is unset or empty
 * and TERM is not "dumb". */
#ifndef GM_COLOUR_H
#define GM_COLOUR_H

#include <stdbool.h>
#include <stdio.h>

enum gm_paint { GM_PLAIN, GM_BOLD, GM_GOOD, GM_BAD };

/* Takes the value of --color: auto, always or never. False: it is none of these. */
bool gm_colour_choose(const char *when);

/* The escape sequence that begins the paint on the stream, GM_PLAIN ends it; "" when the stream has no colours. */
const char *gm_paint(FILE *stream, enum gm_paint paint);

/* Prints an empty line and a heading to stdout. */
void gm_print_heading(const char *text);

#endif

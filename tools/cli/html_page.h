/* The page that gpumem html writes: a template of tools/html, into which the data of traces are inserted. */
#ifndef GM_HTML_PAGE_H
#define GM_HTML_PAGE_H

#include "tools/cli/symbols.h"
#include "tools/cli/timeline.h"

#include <stdio.h>

/* The template around the data, made by tools/html/embed.py. Empty if this build lacks the plotting library. */
extern const unsigned char gm_html_before[], gm_html_after[];
extern const size_t gm_html_before_bytes, gm_html_after_bytes;

/* Writes a page: begin, add for each trace, end. The caller checks `out` for errors. `compare`: the page begins with
 * the difference between its first two traces. */
void gm_html_begin(FILE *out, bool compare);
/* `definitions` are complete. False = no memory. */
bool gm_html_add(FILE *out, const char *path, const struct gm_reader *definitions, struct gm_symbols *symbols,
                 const struct gm_timeline *timeline, bool first);
void gm_html_end(FILE *out);

#endif

/* The page that gpumem html writes: a template of tools/html, into which the data of one trace is inserted. */
#ifndef GM_HTML_PAGE_H
#define GM_HTML_PAGE_H

#include "tools/cli/symbols.h"
#include "tools/cli/timeline.h"

#include <stdio.h>

/* The template around the data, made by tools/html/embed.py. Empty if this build lacks the plotting library. */
extern const unsigned char gm_html_before[], gm_html_after[];
extern const size_t gm_html_before_bytes, gm_html_after_bytes;

/* `definitions` are complete. The caller checks `out` for errors. False = no memory. */
bool gm_html_write(FILE *out, const char *path, const struct gm_reader *definitions, struct gm_symbols *symbols,
                   const struct gm_timeline *timeline);

#endif

/* A call site as text in a line of the log. */
#ifndef GM_SITE_TEXT_H
#define GM_SITE_TEXT_H

#include "shim/base/base.h"

struct gm_site_text {
    char text[200];
};

/* "function (module+0xoffset)", or "module+0xoffset" where the module's file has no symbol there. Finds the first frame
 * outside the CUDA runtime, also where the runtime is linked into the program. Asks the loader and reads the module's
 * file, so call it only for a line that is written once. Site 0: "unknown". Returns the text. */
GM_INTERNAL const char *gm_site_text(struct gm_site_text *room, uint32_t site);

#endif

#include "tools/cli/section.h"

const struct gm_section gm_sections[GM_SECTION_COUNT] = {
#define ROW(name, observe, print, drop) {#name, observe, print, drop},
    GM_SECTION_ROWS(ROW)
#undef ROW
};

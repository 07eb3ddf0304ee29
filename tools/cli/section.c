#include "tools/cli/section.h"

const struct gm_section gm_sections[GM_SECTION_COUNT] = {
#define ROW(name, observe, print, drop, blocks) {#name, observe, print, drop, blocks},
    GM_SECTION_ROWS(ROW)
#undef ROW
};

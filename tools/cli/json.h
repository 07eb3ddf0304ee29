/* JSON helpers for all tools; only in builds with jansson. */
#ifndef GM_JSON_H
#define GM_JSON_H

#include "tools/cli/symbols.h"

#include <jansson.h>

json_t *gm_json_string(const char *bytes); /* as it is shown (shown.h) */
json_t *gm_json_text(const char *bytes);   /* null for "" */
json_t *gm_json_number(uint64_t value);
json_t *gm_json_frame(const struct gm_frame_name *name);
json_t *gm_json_frames(const struct gm_frame_name *names, unsigned count);

#endif

#ifdef GM_HAVE_JANSSON
#include "tools/cli/json.h"
#include "tools/cli/shown.h"

json_t *gm_json_string(const char *bytes) { return json_string(GM_SHOWN(bytes)); }

json_t *gm_json_text(const char *bytes) { return *bytes ? gm_json_string(bytes) : json_null(); }

json_t *gm_json_number(uint64_t value) { return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value); }

json_t *gm_json_frame(const struct gm_frame_name *name) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "text", gm_json_text(name->text), "function",
                     gm_json_text(name->function), "file", gm_json_text(name->file), "line",
                     name->line ? json_integer(name->line) : json_null(), "module", gm_json_text(name->module),
                     "offset", name->module[0] ? gm_json_number(name->offset) : json_null());
}

json_t *gm_json_frames(const struct gm_frame_name *names, unsigned count) {
    json_t *frames = json_array();
    for (unsigned i = 0; i < count; i++)
        json_array_append_new(frames, gm_json_frame(&names[i]));
    return frames;
}
#endif

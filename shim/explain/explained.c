#include "shim/explain/explained.h"

#include <string.h>

#include "shim/trace/writer.h"

enum { MOST_TEXT = 480 };
#define FIRST_TEXT UINT32_C(0x80000000) /* texts of phases have lower numbers (pipeline/phase.c) */

static uint32_t write_text(const struct gm_log_lines *lines, const char *more) {
    static uint32_t count;
    union {
        struct gm_record_string record;
        char bytes[sizeof(struct gm_record_string) + MOST_TEXT + 8];
    } out = {0};
    const char *end = memchr(lines->text, '\n', lines->length), *text = strstr(lines->text, ": ");
    if (!end || !text || text > end)
        return 0;
    text += 2;
    gm_format(out.bytes + sizeof out.record, MOST_TEXT, "%.*s%s", (int)(end - text), text, more ? more : "");
    size_t bytes = strlen(out.bytes + sizeof out.record);
    out.record.id = FIRST_TEXT + __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    out.record.bytes = (uint32_t)bytes;
    out.record.head.type = GM_RECORD_STRING;
    out.record.head.bytes = (uint32_t)(sizeof out.record + ((bytes + 7) & ~(size_t)7));
    gm_trace_record(&out.record.head);
    return out.record.id;
}

void gm_explained_note(const struct gm_explained *found, const struct gm_log_lines *lines, const char *more) {
    struct gm_event event;
    if (!gm_trace_is_on() || !lines->length)
        return;
    uint32_t text = write_text(lines, more);
    gm_event_fill(&event, gm_trace_sequence(), gm_now_ns(), GM_ACT_ERROR, GM_KIND_GUARD, found->device);
    event.error.address = found->address;
    event.error.bytes = found->bytes;
    event.error.text = text;
    event.error.allocated_at = found->allocated_at;
    event.error.freed_at = found->freed_at;
    event.site = found->site;
    event.result = (uint16_t)found->error;
    event.hit = found->again;
    gm_trace_event(&event);
}

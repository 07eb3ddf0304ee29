#include "shim/core/phase.h"

#include <string.h>

#include "shim/base/base.h"
#include "shim/core/pipeline.h"
#include "shim/trace/writer.h"

enum { TEXTS = 4096, SLOTS = 2 * TEXTS, ROOM = 256 * 1024 };

/* Texts by number - 1, found by an open hash of numbers. */
struct texts {
    struct {
        uint32_t offset, bytes, told; /* told: the life in which the trace got it */
    } rows[TEXTS];
    uint16_t slots[SLOTS];
    char room[ROOM];
    uint32_t count, used;
};

static struct texts *texts;
static gm_spin lock;
static uint32_t life = 1;       /* of this process: a forked child writes a trace of its own */
static uint32_t beyond = TEXTS; /* last number given to a text that is not kept */

static void tell(uint32_t id, const char *text, size_t bytes) {
    union {
        struct gm_record_string record;
        char bytes[sizeof(struct gm_record_string) + GM_PHASE_TEXT + 8];
        uint64_t align;
    } out = {0};

    out.record.id = id;
    out.record.bytes = (uint32_t)bytes;
    out.record.head.type = GM_RECORD_STRING;
    out.record.head.bytes = (uint32_t)(sizeof(out.record) + ((bytes + 7) & ~(size_t)7));
    memcpy(out.bytes + sizeof(out.record), text, bytes);
    gm_trace_record(&out.record.head);
}

static uint32_t hash_of(const char *text, size_t bytes) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

/* With `lock` held. 0: no room. */
static uint32_t keep(const char *text, size_t bytes) {
    if (!texts && !(texts = gm_pages(sizeof(*texts))))
        return 0;
    uint32_t slot = hash_of(text, bytes) % SLOTS;
    for (; texts->slots[slot]; slot = (slot + 1) % SLOTS) {
        uint32_t id = texts->slots[slot];
        if (texts->rows[id - 1].bytes == bytes && !memcmp(texts->room + texts->rows[id - 1].offset, text, bytes))
            return id;
    }
    if (texts->count == TEXTS || texts->used + bytes > ROOM)
        return 0;
    texts->rows[texts->count].offset = texts->used;
    texts->rows[texts->count].bytes = (uint32_t)bytes;
    memcpy(texts->room + texts->used, text, bytes);
    texts->used += (uint32_t)bytes;
    return texts->slots[slot] = (uint16_t)++texts->count;
}

uint32_t gm_phase_text(const char *text, size_t bytes) {
    if (bytes > GM_PHASE_TEXT)
        bytes = GM_PHASE_TEXT;
    gm_spin_lock(&lock);
    uint32_t id = keep(text, bytes);
    gm_spin_unlock(&lock);
    if (!id && gm_trace_on) {
        id = __atomic_add_fetch(&beyond, 1, __ATOMIC_RELAXED);
        tell(id, text, bytes);
    }
    return id;
}

void gm_phase_note(enum gm_action action, uint64_t range, uint32_t text) {
    struct gm_scope scope;

    if (!gm_trace_on)
        return;
    if (text && text <= TEXTS && (!texts || __atomic_load_n(&texts->rows[text - 1].told, __ATOMIC_ACQUIRE) != life)) {
        gm_spin_lock(&lock);
        if (!texts || text > texts->count) {
            text = 0; /* a handle that nobody was given */
        } else if (texts->rows[text - 1].told != life) {
            tell(text, texts->room + texts->rows[text - 1].offset, texts->rows[text - 1].bytes);
            __atomic_store_n(&texts->rows[text - 1].told, life, __ATOMIC_RELEASE);
        }
        gm_spin_unlock(&lock);
    }
    gm_scope_begin(&scope, GM_CALL_NONE, 0, text);
    gm_pipeline_note(&scope, action, range, GM_OK);
}

void gm_phase_after_fork(void) {
    lock.held = 0;
    life++;
}

/* Texts of phases. A text is stored once and gets a number; the trace receives the text before the first event that
 * uses the number. */
#include "shim/pipeline/phase.h"

#include <string.h>

#include "shim/base/base.h"
#include "shim/pipeline/pipeline.h"
#include "shim/trace/writer.h"

enum { TEXTS = 4096, SLOTS = 2 * TEXTS, ROOM = 256 * 1024 };

/* rows[number - 1] describes a text. An open hash of numbers finds a text's number. */
struct texts {
    struct {
        uint32_t offset, bytes, written_in; /* written_in: the process generation whose trace has the text */
    } rows[TEXTS];
    uint16_t slots[SLOTS];
    char room[ROOM];
    uint32_t count, used;
};

static struct texts *texts; /* made under the lock */
GM_LOCK(lock);
static uint32_t generation = 1;        /* of the trace: a forked child writes one of its own */
static uint32_t last_unstored = TEXTS; /* last number of a text that is not stored */

static void write_text(uint32_t id, const char *text, size_t bytes) {
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

static uint32_t hash_of_text(const char *text, size_t bytes) {
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

/* The caller holds `lock`. 0: no room. */
static uint32_t store_text(const char *text, size_t bytes) {
    if (!texts)
        __atomic_store_n(&texts, gm_pages(sizeof(*texts)), __ATOMIC_RELEASE);
    if (!texts)
        return 0;
    uint32_t slot = hash_of_text(text, bytes) % SLOTS;
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
    uint32_t id = store_text(text, bytes);
    gm_spin_unlock(&lock);
    if (!id && gm_trace_is_on()) {
        id = __atomic_add_fetch(&last_unstored, 1, __ATOMIC_RELAXED);
        write_text(id, text, bytes);
    }
    return id;
}

void gm_phase_text_of(uint32_t number, char *out, size_t size) {
    size_t bytes = 0;
    gm_spin_lock(&lock);
    if (texts && number && number <= texts->count) {
        bytes = texts->rows[number - 1].bytes < size ? texts->rows[number - 1].bytes : size - 1;
        memcpy(out, texts->room + texts->rows[number - 1].offset, bytes);
    }
    gm_spin_unlock(&lock);
    out[bytes] = '\0';
}

static bool is_written(uint32_t text) {
    const struct texts *all = __atomic_load_n(&texts, __ATOMIC_ACQUIRE);
    return all && __atomic_load_n(&all->rows[text - 1].written_in, __ATOMIC_ACQUIRE) ==
                      __atomic_load_n(&generation, __ATOMIC_RELAXED);
}

/* Writes the text unless the trace has it. Returns its number; 0: it was never handed out. The generation is read
 * first: a trace that begins meanwhile gets the text again. */
static uint32_t write_stored(uint32_t text) {
    gm_spin_lock(&lock);
    uint32_t now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
    if (!texts || text > texts->count) {
        text = 0;
    } else if (texts->rows[text - 1].written_in != now) {
        write_text(text, texts->room + texts->rows[text - 1].offset, texts->rows[text - 1].bytes);
        __atomic_store_n(&texts->rows[text - 1].written_in, now, __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&lock);
    return text;
}

uint32_t gm_phase_written(uint32_t text) {
    return text && text <= TEXTS && !is_written(text) ? write_stored(text) : text;
}

void gm_phase_note(enum gm_action action, uint64_t range, uint32_t text) {
    struct gm_scope scope;

    if (!gm_trace_is_on())
        return;
    gm_scope_begin(&scope, GM_CALL_NONE, 0, gm_phase_written(text));
    gm_pipeline_note(&scope, action, range, GM_OK);
}

void gm_phase_again(void) { __atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE); }

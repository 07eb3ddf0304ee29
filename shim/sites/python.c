/* Walks the frames of CPython and numbers them (python.h).
 *
 * The whole stack is hashed at each call, and the hash finds the call site. A code object may be freed and another one
 * created at its address. So the hash contains not only addresses, but also parts of the file name and of the line
 * table. */
#include "shim/sites/python.h"

#include <string.h>
#include <sys/mman.h>

#include "policy/digits.h"
#include "shim/base/libraries.h"
#include "shim/base/wrappers.h"
#include "shim/sites/python_layout.h"
#include "shim/trace/writer.h"

enum {
    STEPS = 4 * GM_PYTHON_FRAMES, /* frames that a walk visits, with those of C functions */
    CACHED = 1 << 14,             /* entries of a cache, a power of two */
    DEFINED = 1 << 16,            /* frames; further ones have no Python frames in their call sites */
    TEXTS = 4 << 20,              /* bytes of their texts for the log */
    MOST_FILE = 2040,
    MOST_NAME = 1000,
};

/* A cache overwrites. The upper half of `value` repeats a part of the key, so a reader notices an entry that two
 * threads wrote at the same time. */
struct entry {
    uint64_t low;
    uint64_t value; /* upper half of the key's `high`, then the number */
};

enum gm_python_state gm_python_state;
static struct gm_python python;
static unsigned long long searched_at; /* value of gm_libraries_loaded */
GM_LOCK(lock);                         /* for definitions; the loader is not called under it */

static struct entry *sites, *frames;       /* caches by stack, and by code and instruction */
static struct gm_python_key *defined;      /* open addressing, by the content of a definition */
static uint32_t *defined_number, *text_at; /* of the definition in the same slot; by number */
static uint32_t defined_count, text_bytes;
static char *texts;
#define NO_TEXT UINT32_MAX
#define WRAPPER (1u << 31) /* bit of text_at */

static union {
    struct gm_record_python record;
    char bytes[sizeof(struct gm_record_python) + MOST_FILE + MOST_NAME + 32];
    uint64_t align;
} out; /* under the lock, because the stack may be small */

/* ---- setup */

void gm_python_setup(void) {
    sites = gm_pages(CACHED * sizeof *sites);
    frames = gm_pages(CACHED * sizeof *frames);
    defined = gm_pages(2 * DEFINED * sizeof *defined);
    defined_number = gm_pages(2 * DEFINED * sizeof *defined_number);
    text_at = gm_pages((DEFINED + 1) * sizeof *text_at);
    texts = gm_pages(TEXTS);
    if (sites && frames && defined && defined_number && text_at && texts)
        __atomic_store_n(&gm_python_state, GM_PYTHON_ABSENT, __ATOMIC_RELEASE);
}

void gm_python_search(void) {
    static int searching;
    if (__atomic_load_n(&gm_python_state, __ATOMIC_ACQUIRE) != GM_PYTHON_ABSENT)
        return;
    unsigned long long loaded = gm_libraries_loaded();
    if ((loaded && loaded == __atomic_load_n(&searched_at, __ATOMIC_RELAXED)) ||
        __atomic_exchange_n(&searching, 1, __ATOMIC_ACQUIRE))
        return;
    __atomic_store_n(&searched_at, loaded, __ATOMIC_RELAXED);
    if (__atomic_load_n(&gm_python_state, __ATOMIC_RELAXED) == GM_PYTHON_ABSENT && gm_python_find(&python))
        __atomic_store_n(&gm_python_state, GM_PYTHON_UNCHECKED, __ATOMIC_RELEASE);
    __atomic_store_n(&searching, 0, __ATOMIC_RELEASE);
}

static void forget_all(void) {
    madvise(sites, CACHED * sizeof *sites, MADV_DONTNEED);
    madvise(frames, CACHED * sizeof *frames, MADV_DONTNEED);
    madvise(defined, 2 * DEFINED * sizeof *defined, MADV_DONTNEED);
    madvise(defined_number, 2 * DEFINED * sizeof *defined_number, MADV_DONTNEED);
}

void gm_python_after_fork(void) {
    if (gm_python_state == GM_PYTHON_OFF)
        return;
    defined_count = text_bytes = 0;
    forget_all();
}

/* Of a known frame there is only the text for the log: the name of the file without its folder. */
static void define_by_text(uint32_t number) {
    const char *text = text_at[number] != NO_TEXT ? texts + (text_at[number] & ~WRAPPER) : "?:0 ?";
    const char *colon = text;
    while (*colon && !(colon[0] == ':' && colon[1] >= '0' && colon[1] <= '9'))
        colon++;
    const char *name = *colon ? colon + 1 : colon;
    uint64_t line = 0;
    gm_read_digits(&name, NULL, &line);
    name += *name == ' ';
    struct gm_record_python *record = &out.record;
    memset(&out, 0, sizeof out);
    record->id = number;
    record->line = (int32_t)line;
    record->file_bytes = (uint32_t)(colon - text);
    record->name_bytes = (uint32_t)strlen(name);
    record->head.type = GM_RECORD_PYTHON;
    uint32_t padded = (record->name_bytes + 7) & ~7u;
    memcpy(out.bytes + sizeof *record, name, record->name_bytes);
    memcpy(out.bytes + sizeof *record + padded, text, record->file_bytes);
    record->head.bytes = (uint32_t)sizeof *record + padded + ((record->file_bytes + 7) & ~7u);
    gm_trace_record(&record->head);
}

void gm_python_define_again(void) {
    if (__atomic_load_n(&gm_python_state, __ATOMIC_ACQUIRE) == GM_PYTHON_OFF)
        return;
    gm_spin_lock(&lock);
    for (uint32_t number = 1; number <= defined_count; number++)
        define_by_text(number);
    forget_all(); /* further calls define their frames anew, as a whole */
    gm_spin_unlock(&lock);
}

/* ---- reading structs */

static inline uintptr_t word_at(uintptr_t at) { return *(const uintptr_t *)at; }
static inline int32_t int_at(uintptr_t at) { return *(const int32_t *)at; }
static inline bool is_a(uintptr_t object, uintptr_t type) { return object && word_at(object + 8) == type; }

/* Fields that no version moved. */
static inline size_t length_of(uintptr_t object) { return word_at(object + 16); } /* of a string or bytes object */
static inline unsigned state_of(uintptr_t string) { return (unsigned)int_at(string + 32) >> python.string_state; }
static inline const unsigned char *bytes_of_object(uintptr_t object) { return (const unsigned char *)(object + 32); }
enum { CHARACTER_SIZE = 7, COMPACT = 8, ASCII = 16 }; /* bits of state_of */

/* 0: the thread has none. While the interpreter ends, it deletes the states of other threads, so none is read then. */
static uintptr_t thread_state(void) { return python.finalizing() ? 0 : (uintptr_t)python.thread_state(); }

static uintptr_t innermost_frame(void) {
    uintptr_t thread = thread_state();
    if (!thread)
        return 0;
    uintptr_t at = word_at(thread + python.layout.thread_frame);
    return at && python.layout.holder_frame != GM_PYTHON_NO_FIELD ? word_at(at + python.layout.holder_frame) : at;
}

struct position {
    uintptr_t next; /* frame to visit */
    unsigned steps;
    uintptr_t code, instruction;
};

/* Moves to the next frame of a Python function. */
static inline bool advance(struct position *p) {
    const struct gm_python_layout *l = &python.layout;
    while (p->next && p->steps++ < STEPS) {
        uintptr_t frame = p->next;
        p->next = word_at(frame + l->previous);
        if (l->owner != GM_PYTHON_NO_FIELD && *(const unsigned char *)(frame + l->owner) >= GM_PYTHON_OWNER_C)
            continue;
        p->code = word_at(frame + l->code) & ~(uintptr_t)7; /* the low bits may hold a tag */
        if (!is_a(p->code, python.code_type))
            continue;
        p->instruction = l->bytecode == GM_PYTHON_NO_FIELD ? (uintptr_t)(intptr_t)int_at(frame + l->instruction)
                                                           : word_at(frame + l->instruction);
        return true;
    }
    return false;
}

/* ---- hashing */

static inline void mix_value(struct gm_python_key *key, uint64_t value) {
    key->low = (key->low ^ value) * 0xff51afd7ed558ccdull;
    key->low ^= key->low >> 32;
    key->high = (key->high + value) * 0x9e3779b97f4a7c15ull;
    key->high = key->high << 29 | key->high >> 35;
}

/* The words before `end`, or of the object's header where the object is shorter. */
static inline uint64_t words_before(uintptr_t end) {
    return word_at(end - 16) * 0xd6e8feb86659fd93ull + word_at(end - 8) * 0xa0761d6478bd642full;
}

/* A sum of products, each with an odd number of its own: one multiplication for each field. */
static inline uint64_t hash_of_frame(const struct position *p) {
    const struct gm_python_layout *l = &python.layout;
    uintptr_t file = word_at(p->code + l->file), lines = word_at(p->code + l->lines);
    uint64_t sum = p->code * 0x9e3779b97f4a7c15ull + p->instruction * 0xff51afd7ed558ccdull +
                   (uint64_t)(uint32_t)int_at(p->code + l->first_line) * 0xc4ceb9fe1a85ec53ull +
                   word_at(p->code + l->name) * 0xe7037ed1a0b428dbull + file * 0x8ebc6af09c88c6e3ull;
    if (is_a(file, python.string_type) && state_of(file) & COMPACT)
        sum += words_before(file + l->string_header + length_of(file)) * 0x589965cc75374cc3ull;
    if (is_a(lines, python.bytes_type)) {
        size_t bytes = length_of(lines);
        sum += words_before(lines + 32 + bytes) * 0x1d8e4e27c47d124full;
        sum += words_before(lines + 32 + (bytes < 16 ? bytes : 16)) * 0xeb44accab455d165ull;
    }
    return sum ^ sum >> 32;
}

/* Other threads wait for the first one, so that their call sites have Python frames, too. */
static GM_APART bool check(void) {
    uintptr_t thread = thread_state();
    if (!thread)
        return false;
    gm_spin_lock(&lock);
    enum gm_python_state state = __atomic_load_n(&gm_python_state, __ATOMIC_ACQUIRE);
    if (state == GM_PYTHON_UNCHECKED) {
        static const enum gm_python_state states[] = {GM_PYTHON_UNCHECKED, GM_PYTHON_KNOWN, GM_PYTHON_OFF};
        state = states[gm_python_check(&python, thread)];
        __atomic_store_n(&gm_python_state, state, __ATOMIC_RELEASE);
    }
    gm_spin_unlock(&lock);
    return state == GM_PYTHON_KNOWN;
}

bool gm_python_key(uint32_t native_site, struct gm_python_key *key) {
    if (GM_UNLIKELY(__atomic_load_n(&gm_python_state, __ATOMIC_ACQUIRE) != GM_PYTHON_KNOWN) && !check())
        return false;
    struct position p = {.next = innermost_frame()};
    unsigned count = 0;
    *key = (struct gm_python_key){native_site, 1};
    for (; count < GM_PYTHON_FRAMES && advance(&p); count++)
        mix_value(key, hash_of_frame(&p));
    return count != 0;
}

/* Whoever finds a number also finds what it stands for. */
static uint32_t recall(const struct entry *cache, const struct gm_python_key *key) {
    const struct entry *entry = &cache[key->low % CACHED];
    uint64_t low = __atomic_load_n(&entry->low, __ATOMIC_RELAXED);
    uint64_t value = __atomic_load_n(&entry->value, __ATOMIC_ACQUIRE);
    return low == key->low && value >> 32 == key->high >> 32 ? (uint32_t)value : 0;
}

static void store(struct entry *cache, const struct gm_python_key *key, uint32_t number) {
    struct entry *entry = &cache[key->low % CACHED];
    __atomic_store_n(&entry->low, key->low, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->value, (key->high >> 32) << 32 | number, __ATOMIC_RELEASE);
}

uint32_t gm_python_recall(const struct gm_python_key *key) { return recall(sites, key); }
void gm_python_store(const struct gm_python_key *key, uint32_t site) { store(sites, key, site); }

/* ---- definitions */

static size_t put_character(char *at, uint32_t c) {
    unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    if (c >= 0xdc80 && c <= 0xdcff) { /* a byte of a file name that is not UTF-8 */
        at[0] = (char)(c & 0xff);
        return 1;
    }
    at[0] = (char)(first[more] | c >> 6 * more);
    for (unsigned i = 1; i <= more; i++)
        at[i] = (char)(0x80 | (c >> 6 * (more - i) & 63));
    return more + 1;
}

static uint32_t character_at(const unsigned char *data, unsigned size, size_t i) {
    uint16_t two;
    uint32_t four;
    if (size == 1)
        return data[i];
    memcpy(&two, data + 2 * i, sizeof two);
    if (size == 2)
        return two;
    memcpy(&four, data + 4 * i, sizeof four);
    return four;
}

/* Copies a string as UTF-8; a long one without its beginning, which for a file is less important. Returns its bytes. */
static uint32_t put_string(char *text, size_t most, uintptr_t string) {
    if (!is_a(string, python.string_type) || !(state_of(string) & COMPACT))
        return 0;
    unsigned state = state_of(string), size = state & CHARACTER_SIZE;
    size_t header = python.layout.string_header + (state & ASCII ? 0 : python.layout.minor < 12 ? 24 : 16);
    const unsigned char *data = (const unsigned char *)(string + header);
    size_t used = 0, length = length_of(string), widest = state & ASCII ? 1 : 4;
    for (size_t i = length > most / widest ? length - most / widest : 0; i < length; i++)
        used += put_character(text + used, character_at(data, size, i) & 0x1fffff);
    return (uint32_t)used;
}

static int line_of(const struct position *p) {
    const struct gm_python_layout *l = &python.layout;
    uintptr_t lines = word_at(p->code + l->lines);
    int first_line = int_at(p->code + l->first_line), line = -1;
    long offset = l->bytecode == GM_PYTHON_NO_FIELD ? (long)p->instruction * l->unit
                                                    : (long)(p->instruction - (p->code + l->bytecode));
    if (is_a(lines, python.bytes_type))
        line = gm_python_line(l->table, bytes_of_object(lines), length_of(lines), first_line, offset);
    return line > 0 ? line : first_line;
}

static bool is_wrapper(const char *file, unsigned file_bytes, const char *name, unsigned name_bytes) {
    static char path[MOST_FILE + 1], function[MOST_NAME + 1]; /* under the lock */
    gm_format(path, sizeof path, "%.*s", (int)file_bytes, file);
    gm_format(function, sizeof function, "%.*s", (int)name_bytes, name);
    return gm_wrapper_kind(&(struct gm_wrapper_frame){.function = function, .source = path}) != GM_WRAPPER_NONE;
}

static void keep_text(uint32_t number, const char *file, unsigned file_bytes, const char *name, unsigned name_bytes) {
    unsigned base = file_bytes;
    while (base && file[base - 1] != '/')
        base--;
    text_at[number] = NO_TEXT;
    if (text_bytes + file_bytes - base + name_bytes + 16 > TEXTS)
        return;
    text_at[number] = text_bytes | (is_wrapper(file, file_bytes, name, name_bytes) ? WRAPPER : 0);
    text_bytes +=
        1u + (uint32_t)gm_format(texts + text_bytes, TEXTS - text_bytes, "%.*s:%d %.*s", (int)(file_bytes - base),
                                 file + base, out.record.line, (int)name_bytes, name);
}

/* Fills `out`, and hashes its content. The lock is held. */
static struct gm_python_key describe_frame(const struct position *p) {
    struct gm_record_python *record = &out.record;
    char *name = out.bytes + sizeof *record;
    memset(&out, 0, sizeof out);
    record->line = line_of(p);
    record->name_bytes = put_string(name, MOST_NAME, word_at(p->code + python.layout.name));
    record->file_bytes =
        put_string(name + ((record->name_bytes + 7) & ~7u), MOST_FILE, word_at(p->code + python.layout.file));
    record->head.type = GM_RECORD_PYTHON;
    record->head.bytes =
        (uint32_t)(sizeof *record + ((record->name_bytes + 7) & ~7u) + ((record->file_bytes + 7) & ~7u));
    struct gm_python_key key = {1, 2};
    for (unsigned at = 8; at < record->head.bytes; at += 8) {
        uint64_t value;
        memcpy(&value, out.bytes + at, sizeof value);
        mix_value(&key, value);
    }
    return key;
}

/* The number of the frame, which is written to the trace when it is new. 0: there is no room for it. */
static GM_APART uint32_t define(const struct position *p) {
    gm_spin_lock(&lock);
    struct gm_python_key key = describe_frame(p);
    uint64_t mask = 2 * DEFINED - 1, at = key.low & mask;
    while (defined_number[at] && memcmp(&defined[at], &key, sizeof key) != 0)
        at = (at + 1) & mask;
    uint32_t number = defined_number[at];
    if (!number && defined_count < DEFINED) {
        number = defined_count + 1;
        defined[at] = key;
        defined_number[at] = out.record.id = number;
        const char *name = out.bytes + sizeof out.record;
        keep_text(number, name + ((out.record.name_bytes + 7) & ~7u), out.record.file_bytes, name,
                  out.record.name_bytes);
        __atomic_store_n(&defined_count, number, __ATOMIC_RELEASE); /* text_of reads it without the lock */
        gm_trace_record(&out.record.head);
    }
    gm_spin_unlock(&lock);
    return number;
}

unsigned gm_python_frames(uintptr_t words[GM_PYTHON_FRAMES]) {
    struct position p = {.next = innermost_frame()};
    unsigned count = 0;
    while (count < GM_PYTHON_FRAMES && advance(&p)) {
        struct gm_python_key key = {3, 4};
        mix_value(&key, hash_of_frame(&p));
        uint32_t number = recall(frames, &key);
        if (!number && (number = define(&p)))
            store(frames, &key, number);
        if (!number)
            return 0;
        words[count++] = GM_FRAME_PYTHON | number;
    }
    return count;
}

static uint32_t text_of(uintptr_t word) {
    uint32_t number = (uint32_t)word;
    bool known = number && number <= __atomic_load_n(&defined_count, __ATOMIC_ACQUIRE);
    return known ? text_at[number] : NO_TEXT;
}

const char *gm_python_text(uintptr_t word) {
    uint32_t at = text_of(word);
    return at != NO_TEXT ? texts + (at & ~WRAPPER) : "";
}

bool gm_python_is_wrapper(uintptr_t word) {
    uint32_t at = text_of(word);
    return at != NO_TEXT && at & WRAPPER;
}

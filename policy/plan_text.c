/* Reader of plans, line by line, without memory of its own. plan_text.h describes the format. */
#include "policy/plan_text.h"

#include "policy/digits.h"
#include "policy/setup.h"
#include "policy/site_key.h"

#include <string.h>

struct word {
    const char *text;
    size_t length;
};

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static bool word_is(struct word word, const char *text) {
    return strlen(text) == word.length && !memcmp(text, word.text, word.length);
}

/* The next word of [*at, end); its length is 0 when there is none. A comment ends the line. */
static struct word next_word(const char **at, const char *end) {
    const char *p = *at;
    while (p < end && is_blank(*p))
        p++;
    struct word word = {p, 0};
    while (p < end && !is_blank(*p) && *p != '#')
        p++;
    word.length = (size_t)(p - word.text);
    *at = p;
    return word;
}

static bool read_count(struct word word, uint64_t limit, uint64_t *value) {
    const char *at = word.text, *end = word.text + word.length;
    return gm_read_digits(&at, end, value) && at == end && *value <= limit;
}

static struct gm_plan_item wrong(struct gm_plan_reader *reader, const char *what) {
    reader->error = what;
    return (struct gm_plan_item){.type = GM_PLAN_WRONG};
}

void gm_plan_open(struct gm_plan_reader *reader, const char *text, size_t bytes, enum gm_kind managed) {
    *reader = (struct gm_plan_reader){.at = text, .end = text + bytes, .managed = managed};
}

/* ---- the paper's plain list */

static struct gm_plan_item next_bit(struct gm_plan_reader *reader) {
    for (; reader->at < reader->end; reader->at++) {
        char c = *reader->at;
        if (c == '\n')
            reader->line++;
        else if (!is_blank(c) && c != ',')
            break;
    }
    if (reader->at == reader->end)
        return (struct gm_plan_item){.type = GM_PLAN_END};
    if (*reader->at != '0' && *reader->at != '1')
        return wrong(reader, "a plain list may hold only 0 (managed) and 1 (async)");
    if (reader->id == GM_PLAN_ENTRIES_MAX)
        return wrong(reader, "more than 100000000 objects");
    return (struct gm_plan_item){
        .type = GM_PLAN_OBJECT,
        .id = ++reader->id,
        .kind = *reader->at++ == '1' ? GM_KIND_ASYNC : reader->managed,
    };
}

/* ---- the versioned text */

static struct gm_plan_item read_site(struct gm_plan_reader *reader, const char *at, const char *end) {
    uint64_t number;
    struct gm_site_keys keys;
    struct word name = next_word(&at, end), frames = next_word(&at, end);
    if (!read_count(name, GM_PLAN_ENTRIES_MAX, &number) || number != reader->sites + 1u)
        return wrong(reader, "a site line is \"site NUMBER FRAMES\", the numbers 1, 2, 3 ...");
    if (!gm_site_keys_parse(frames.text, frames.length, &keys) || next_word(&at, end).length)
        return wrong(reader, "a call site is MODULE+0xOFFSET, each caller after \"<\", or ?");
    reader->sites++;
    return (struct gm_plan_item){.type = GM_PLAN_SITE, .id = (uint32_t)number, .key = keys.chain};
}

static bool read_place(struct gm_plan_reader *reader, struct word word, struct gm_plan_item *item) {
    uint64_t number;
    struct gm_site_keys keys;
    if (!word.length || word_is(word, "-"))
        return true;
    if (read_count(word, reader->sites, &number)) {
        item->site = (uint32_t)number;
        return number > 0;
    }
    if (!memchr(word.text, '+', word.length) || !gm_site_keys_parse(word.text, word.length, &keys))
        return false;
    item->key = keys.chain;
    return true;
}

static struct gm_plan_item read_object(struct gm_plan_reader *reader, struct word id, const char *at, const char *end) {
    struct gm_plan_item item = {.type = GM_PLAN_OBJECT};
    uint64_t number;
    if (!read_count(id, GM_PLAN_ENTRIES_MAX, &number) || number <= reader->id)
        return wrong(reader,
                     "a line is \"ID DECISION SIZE SITE\" or \"site NUMBER FRAMES\", ids rising from 1 to 100000000");
    struct word decision = next_word(&at, end), size = next_word(&at, end), place = next_word(&at, end);
    if (!gm_setup_kind(decision.text, decision.length, reader->managed, &item.kind))
        return wrong(reader, "a decision is native, cache, async, managed, managed-pool or guard");
    item.has_size = size.length && !word_is(size, "-");
    if (item.has_size && !read_count(size, UINT64_MAX, &item.size))
        return wrong(reader, "a size is a number of bytes, or -");
    if (!read_place(reader, place, &item))
        return wrong(reader, "a site is the number of an earlier site line, MODULE+0xOFFSET, or -");
    if (next_word(&at, end).length)
        return wrong(reader, "more than id, decision, size and site");
    item.id = reader->id = (uint32_t)number;
    return item;
}

/* Takes one line from the text. False at the end of the text. */
static bool next_line(struct gm_plan_reader *reader, const char **at, const char **end) {
    if (reader->at == reader->end)
        return false;
    const char *newline = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
    *at = reader->at;
    *end = newline ? newline : reader->end;
    reader->at = newline ? newline + 1 : reader->end;
    reader->line++;
    return true;
}

static bool begin_plan(struct gm_plan_reader *reader) {
    const char *at = reader->at, *end;
    reader->begun = true;
    while (at < reader->end && (is_blank(*at) || *at == '\n'))
        at++;
    reader->bare = at < reader->end && (*at == '0' || *at == '1');
    if (reader->bare) {
        reader->line = 1;
        return true;
    }
    reader->line = 0;
    if (!next_line(reader, &at, &end)) {
        reader->line = 1;
        return false;
    }
    struct word first = next_word(&at, end), second = next_word(&at, end);
    return word_is(first, "gpumem-plan") && word_is(second, "1") && !next_word(&at, end).length;
}

struct gm_plan_item gm_plan_next(struct gm_plan_reader *reader) {
    const char *at, *end;
    if (!reader->begun && !begin_plan(reader))
        return wrong(reader, "neither \"" GM_PLAN_VERSION "\" nor a list of 0 and 1");
    if (reader->bare)
        return next_bit(reader);
    while (next_line(reader, &at, &end)) {
        struct word first = next_word(&at, end);
        if (!first.length)
            continue;
        if (word_is(first, "site"))
            return read_site(reader, at, end);
        return read_object(reader, first, at, end);
    }
    return (struct gm_plan_item){.type = GM_PLAN_END};
}

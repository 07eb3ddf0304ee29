#include "tools/cli/suppressions.h"
#include "tools/cli/number_text.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES 64
#define LINE   (1 << 16)

enum what { ANY_NUMBER, FUNCTION, MODULE, SOURCE, SITE };

struct pattern {
    enum what what;
    char *text; /* NULL for ANY_NUMBER */
};

struct suppression {
    char *name;
    enum gm_suppressed kind;
    unsigned count;
    uint64_t blocks, bytes;
    struct suppression *next;
    struct pattern patterns[FRAMES];
};

struct gm_suppressions {
    struct suppression *first, **last;
};

struct gm_suppressions *gm_suppressions_new(void) {
    struct gm_suppressions *s = calloc(1, sizeof *s);
    if (s)
        s->last = &s->first;
    return s;
}

static void free_one(struct suppression *s) {
    if (!s)
        return;
    for (unsigned i = 0; i < s->count; i++)
        free(s->patterns[i].text);
    free(s->name);
    free(s);
}

void gm_suppressions_free(struct gm_suppressions *s) {
    if (!s)
        return;
    for (struct suppression *one = s->first, *next; one; one = next) {
        next = one->next;
        free_one(one);
    }
    free(s);
}

/* ---- reading */

static char *trimmed(char *line) {
    size_t length = strlen(line);
    while (length && strchr(" \t\r\n", line[length - 1]))
        line[--length] = 0;
    return line + strspn(line, " \t");
}

/* Adds a pattern. Returns NULL, or the reason why the line is wrong. */
static const char *add_pattern(struct suppression *s, const char *text) {
    static const struct {
        const char *word;
        enum what what;
    } rows[] = {{"fun:", FUNCTION}, {"obj:", MODULE}, {"src:", SOURCE}, {"site:", SITE}};
    if (s->count == FRAMES)
        return "more frames than a suppression can have (64)";
    if (!strcmp(text, "...")) {
        s->patterns[s->count++] = (struct pattern){ANY_NUMBER, NULL};
        return NULL;
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t length = strlen(rows[i].word);
        if (strncmp(text, rows[i].word, length))
            continue;
        if (!text[length])
            return "a frame without a pattern";
        char *copy = strdup(text + length);
        if (!copy)
            return "out of memory";
        s->patterns[s->count++] = (struct pattern){rows[i].what, copy};
        return NULL;
    }
    return "expected fun:, obj:, src:, site:, ... or }";
}

struct parser {
    struct gm_suppressions *all;
    struct suppression *open; /* the suppression between the current braces */
    bool has_kind;
};

/* Parses a line. Returns NULL, or the reason why it is wrong. */
static const char *take_line(struct parser *p, const char *text) {
    if (!p->open) {
        if (strcmp(text, "{"))
            return "expected {";
        p->open = calloc(1, sizeof *p->open);
        p->has_kind = false;
        return p->open ? NULL : "out of memory";
    }
    if (!p->open->name)
        return *text == '}' ? "a suppression without a name" : (p->open->name = strdup(text)) ? NULL : "out of memory";
    if (!p->has_kind) {
        p->has_kind = true;
        p->open->kind = strcmp(text, "gpumem:error") ? GM_SUPPRESSED_LEAK : GM_SUPPRESSED_ERROR;
        return p->open->kind == GM_SUPPRESSED_LEAK && strcmp(text, "gpumem:leak")
                   ? "expected gpumem:leak or gpumem:error"
                   : NULL;
    }
    if (strcmp(text, "}"))
        return add_pattern(p->open, text);
    if (!p->open->count)
        return "a suppression without frames";
    *p->all->last = p->open;
    p->all->last = &p->open->next;
    p->open = NULL;
    return NULL;
}

bool gm_suppressions_parse(struct gm_suppressions *s, FILE *file, const char *path, char *error, size_t size) {
    struct parser p = {.all = s};
    char line[LINE];
    const char *wrong = NULL;
    unsigned long number = 0;
    while (!wrong && (line[LINE - 2] = '\n', fgets(line, sizeof line, file))) {
        bool whole = line[LINE - 2] == '\n'; /* else the line has filled the room */
        char *text = trimmed(line);
        number++;
        if (!whole)
            wrong = "a line of more than 65532 bytes";
        else if (*text && *text != '#')
            wrong = take_line(&p, text);
    }
    if (!wrong && ferror(file))
        wrong = strerror(errno);
    if (!wrong && p.open)
        wrong = "the file ends within a suppression";
    free_one(p.open);
    if (wrong && ferror(file))
        snprintf(error, size, "%s: %s", path, wrong);
    else if (wrong)
        snprintf(error, size, "%s:%lu: %s", path, number, wrong);
    return !wrong;
}

bool gm_suppressions_read(struct gm_suppressions *s, const char *path, char *error, size_t size) {
    FILE *file = fopen(path, "re");
    if (!file) {
        snprintf(error, size, "%s: %s", path, strerror(errno));
        return false;
    }
    bool done = gm_suppressions_parse(s, file, path, error, size);
    fclose(file);
    return done;
}

/* ---- matching */

static bool matches(const char *pattern, const char *text) { return !fnmatch(pattern, text, 0); }

static bool frame_matches(const struct pattern *p, const struct gm_frame_name *f) {
    char text[400];
    switch (p->what) {
    case FUNCTION: return matches(p->text, f->function);
    case MODULE: return matches(p->text, f->module) || matches(p->text, gm_text_base_name(f->module));
    case SOURCE:
        snprintf(text, sizeof text, "%s:%d", f->file, f->line);
        return matches(p->text, f->file) || matches(p->text, gm_text_base_name(f->file)) || matches(p->text, text) ||
               matches(p->text, gm_text_base_name(text));
    case SITE:
        snprintf(text, sizeof text, "%s+0x%llx", gm_text_base_name(f->module), (unsigned long long)f->offset);
        return matches(p->text, text) || matches(p->text, f->text);
    default: return false;
    }
}

/* reach[i]: the patterns so far match exactly the first i frames. */
static bool covers(const struct suppression *s, const struct gm_frame_name *names, unsigned count) {
    bool reach[256] = {true}, next[256];
    if (count > 255)
        count = 255;
    for (unsigned p = 0; p < s->count; p++) {
        memset(next, 0, sizeof next);
        for (unsigned i = 0; i <= count; i++) {
            if (s->patterns[p].what == ANY_NUMBER)
                next[i] = reach[i] || (i && next[i - 1]);
            else
                next[i] = i && reach[i - 1] && frame_matches(&s->patterns[p], &names[i - 1]);
        }
        memcpy(reach, next, sizeof reach);
    }
    for (unsigned i = 0; i <= count; i++)
        if (reach[i])
            return true;
    return false;
}

bool gm_suppressions_cover(struct gm_suppressions *all, enum gm_suppressed kind, const struct gm_frame_name *names,
                           unsigned count, uint64_t blocks, uint64_t bytes) {
    for (struct suppression *s = all->first; s; s = s->next) {
        if (s->kind != kind || !covers(s, names, count))
            continue;
        s->blocks += blocks;
        s->bytes += bytes;
        return true;
    }
    return false;
}

void gm_suppressions_reset_use(struct gm_suppressions *all) {
    for (struct suppression *s = all->first; s; s = s->next)
        s->blocks = s->bytes = 0;
}

bool gm_suppressions_use(const struct gm_suppressions *all, size_t index, struct gm_suppression_use *use) {
    const struct suppression *s = all->first;
    while (s && index--)
        s = s->next;
    if (s)
        *use = (struct gm_suppression_use){s->name, s->kind, s->blocks, s->bytes};
    return s != NULL;
}

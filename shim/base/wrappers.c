/* The rows of known wrappers and the user's globs (wrappers.h). */
#include "shim/base/wrappers.h"

#include <string.h>

#include "shim/base/function_name.h"
#include "shim/base/wrapper_rows.h"

enum where { FUNCTION, MODULE, SOURCE, TOOLKIT, DISPATCH, STANDARD, SYSTEM, START, ANYWHERE };

struct row {
    enum where where;
    const char *glob;
};

static const struct row rows[] = {
#define ROW(layer, where, glob) {where, glob},
    GM_WRAPPER_ROWS(ROW)
#undef ROW
};

enum { ROWS = sizeof rows / sizeof *rows, USER_GLOBS = 256, USER_TEXT = 8192 };

static const char *user_globs[USER_GLOBS];
static unsigned user_count;
static char user_text[USER_TEXT];
static size_t user_used;
static bool unstepped;

bool gm_glob_matches(const char *glob, const char *text) {
    const char *star = NULL, *again = NULL;
    while (*text) {
        if (*glob == '*') {
            star = ++glob;
            again = text;
        } else if (*glob == '?' || *glob == *text) {
            glob++;
            text++;
        } else if (star) {
            glob = star;
            text = ++again;
        } else {
            return false;
        }
    }
    while (*glob == '*')
        glob++;
    return !*glob;
}

static bool has(const char *text) { return text && *text; }

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool path_matches(const char *glob, const char *path) {
    return has(path) && (gm_glob_matches(glob, last_part(path)) || gm_glob_matches(glob, path));
}

struct names {
    const struct gm_wrapper_frame *frame;
    char name[256]; /* "" = unknown */
};

static bool function_matches(const char *glob, const struct names *n) {
    return (n->name[0] && gm_glob_matches(glob, n->name)) ||
           (has(n->frame->function) && gm_glob_matches(glob, n->frame->function));
}

static bool matches(enum where where, const char *glob, const struct names *n) {
    switch (where) {
    case FUNCTION:
    case DISPATCH:
    case START: return function_matches(glob, n);
    case SOURCE: return path_matches(glob, n->frame->source);
    case STANDARD:
    case ANYWHERE:
        return function_matches(glob, n) || path_matches(glob, n->frame->module) ||
               path_matches(glob, n->frame->source);
    default: return path_matches(glob, n->frame->module);
    }
}

static enum gm_wrapper_kind kind_of_place(enum where where) {
    switch (where) {
    case DISPATCH: return GM_WRAPPER_DISPATCH;
    case STANDARD: return GM_WRAPPER_STANDARD;
    case SYSTEM:
    case START: return GM_WRAPPER_SYSTEM;
    default: return GM_WRAPPER_LAYER;
    }
}

enum gm_wrapper_kind gm_wrapper_kind(const struct gm_wrapper_frame *frame) {
    struct names n = {.frame = frame};
    if (has(frame->symbol))
        gm_function_name(n.name, sizeof n.name, frame->symbol);
    for (unsigned i = 0; i < ROWS; i++)
        if (matches(rows[i].where, rows[i].glob, &n))
            return kind_of_place(rows[i].where);
    for (unsigned i = 0; i < user_count; i++)
        if (matches(ANYWHERE, user_globs[i], &n))
            return GM_WRAPPER_LAYER;
    return GM_WRAPPER_NONE;
}

bool gm_wrapper_is_toolkit(const char *module) {
    for (unsigned i = 0; i < ROWS; i++)
        if (rows[i].where == TOOLKIT && gm_glob_matches(rows[i].glob, last_part(module)))
            return true;
    return false;
}

/* Splits user_text from `from` on. NULL, or the reason why it is wrong. */
static const char *split(char *from) {
    for (;;) {
        char *comma = strchr(from, ',');
        if (comma)
            *comma = '\0';
        if (!*from)
            return "an empty glob";
        if (user_count == USER_GLOBS)
            return "more than 256 globs";
        if (!strcmp(from, "none"))
            unstepped = true;
        else
            user_globs[user_count++] = from;
        if (!comma)
            return NULL;
        from = comma + 1;
    }
}

bool gm_wrappers_step(void) { return !unstepped; }

bool gm_wrappers_skip(const char *globs, char *error, size_t size) {
    size_t length = strlen(globs), before = user_used;
    unsigned count = user_count;
    const char *wrong = "more than 8191 characters";
    if (length < USER_TEXT - user_used) {
        memcpy(user_text + user_used, globs, length + 1);
        user_used += length + 1;
        wrong = split(user_text + before);
    }
    if (!wrong)
        return true;
    user_count = count;
    user_used = before;
    gm_format(error, size, "%s; accepted: globs of functions, modules or source files, separated by commas", wrong);
    return false;
}

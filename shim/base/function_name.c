/* Reads the part of a mangled name that names the function, and skips the arguments of templates (function_name.h).
 * Grammar: Itanium C++ ABI, section 5.1. */
#include "shim/base/function_name.h"

#include <string.h>

struct name {
    const char *at;
    char *out;
    size_t size, used, last; /* last: where the last part begins */
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

static void append_text(struct name *n, const char *text, size_t length) {
    if (length > n->size - 1 - n->used)
        length = n->size - 1 - n->used;
    memcpy(n->out + n->used, text, length);
    n->used += length;
    n->out[n->used] = '\0';
}

static void begin_part(struct name *n) {
    if (n->used)
        append_text(n, "::", 2);
    n->last = n->used;
}

static void put_part(struct name *n, const char *text) {
    begin_part(n);
    append_text(n, text, strlen(text));
}

/* Reads a name that begins with its length. NULL: its end is missing. */
static const char *source_name(const char **at, size_t *length) {
    const char *begin;
    *length = 0;
    while (is_digit(**at) && *length < 100000)
        *length = 10 * *length + (size_t)(*(*at)++ - '0');
    begin = *at;
    if (strnlen(begin, *length) < *length)
        return NULL;
    *at += *length;
    return begin;
}

static const char *skip_number(const char *at) {
    while (is_digit(*at))
        at++;
    return at + (*at == '_');
}

/* Skips "S_", "S0_", "St", "T_", "T0_". */
static const char *skip_substitution(const char *at) {
    if (*at == 'S' && is_lower(at[1]))
        return at + 2;
    at++;
    while (*at && *at != '_')
        at++;
    return at + (*at == '_');
}

enum opened { GROUP, LITERAL, LAMBDA };

/* Skips the number of a literal ("Lj4E"), which is no length of a name. */
static const char *after_name(const char *at, enum opened inside) {
    return inside == LITERAL ? at + strcspn(at, "E") : at;
}

/* Skips what begins here and ends with the E that belongs to it. NULL: the name ends before. */
static const char *skip_to_end(const char *at) {
    enum { DEPTH = 64 };
    enum opened opened[DEPTH] = {GROUP};
    unsigned depth = 0;
    size_t length;
    do {
        char c = *at;
        if (!c || depth == DEPTH - 1)
            return NULL;
        if (c == 'E') {
            at = opened[depth--] == LAMBDA ? skip_number(at + 1) : at + 1;
            at = after_name(at, opened[depth]);
        } else if (c == 'U' && at[1] == 'l') {
            opened[++depth] = LAMBDA;
            at += 2;
        } else if (c == 'U' && at[1] == 't') {
            at = skip_number(at + 2);
        } else if (c == 'L' && at[1] && at[1] != '_') {
            opened[++depth] = LITERAL;
            at += is_digit(at[1]) || at[1] == 'N' ? 1 : 1 + strcspn(at + 1, "E");
        } else if (strchr("INXJFZL", c) || (c == 'D' && (at[1] == 't' || at[1] == 'T'))) {
            opened[++depth] = GROUP;
            at += 1 + (c == 'D');
        } else if (is_digit(c)) {
            if (!source_name(&at, &length))
                return NULL;
            at = after_name(at, opened[depth]);
        } else if (c == 'S' || c == 'T') {
            at = skip_substitution(at);
        } else {
            at = c == 'A' ? skip_number(at + 1) : at + 1;
        }
        if (!depth)
            return at;
    } while (true);
}

static const char *operator_name(const char *code) {
    static const struct {
        char code[3];
        const char *name;
    } rows[] = {{"nw", "operator new"},      {"na", "operator new[]"}, {"dl", "operator delete"},
                {"da", "operator delete[]"}, {"cl", "operator()"},     {"ix", "operator[]"},
                {"aS", "operator="}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strncmp(code, rows[i].code, 2))
            return rows[i].name;
    return is_lower(code[0]) && code[1] ? "operator" : NULL;
}

static void put_constructor(struct name *n, const char *tilde) {
    char last[256];
    gm_format(last, sizeof last, "%s%s", tilde, n->out + n->last);
    put_part(n, last);
    n->at += 2;
}

static const char *standard_name(char letter) {
    switch (letter) {
    case 't': return "std";
    case 'a': return "std::allocator";
    case 's':
    case 'b': return "std::basic_string";
    case 'i': return "std::istream";
    case 'o': return "std::ostream";
    case 'd': return "std::iostream";
    default: return NULL;
    }
}

static bool put_source_name(struct name *n) {
    size_t length;
    const char *text = source_name(&n->at, &length);
    if (!text)
        return false;
    if (length >= 12 && !strncmp(text, "_GLOBAL__N_1", 12)) {
        put_part(n, "(anonymous namespace)");
        return true;
    }
    begin_part(n);
    append_text(n, text, length);
    return true;
}

/* Reads one part of a qualified name. False: the name ends here, or this part is unknown. */
static bool read_part(struct name *n) {
    const char *at = n->at, *word;
    switch (*at) {
    case 'L': n->at++; return true; /* internal linkage */
    case 'I': n->at = skip_to_end(at); return n->at != NULL;
    case 'B': {
        size_t length;
        n->at++;
        return source_name(&n->at, &length) != NULL;
    }
    case 'S':
        if (!(word = standard_name(at[1])))
            return false;
        put_part(n, word);
        n->at += 2;
        return true;
    case 'C':
    case 'D':
        if (!is_digit(at[1]) || !n->used)
            return false;
        put_constructor(n, *at == 'D' ? "~" : "");
        return true;
    default: break;
    }
    if (is_digit(*at))
        return put_source_name(n);
    if (!(word = operator_name(at)))
        return false;
    put_part(n, word);
    n->at += 2;
    return strcmp(word, "operator") != 0;
}

static void read_encoding(struct name *n) {
    while (*n->at == 'Z') /* a function inside another one */
        n->at++;
    if (*n->at == 'N') {
        n->at++;
        n->at += strspn(n->at, "rVKRO");
        while (*n->at && *n->at != 'E' && read_part(n))
            ;
        return;
    }
    n->at += *n->at == 'L';
    if (!strncmp(n->at, "St", 2) && !read_part(n))
        return;
    read_part(n);
}

void gm_function_name(char *out, size_t size, const char *symbol) {
    struct name n = {.at = symbol + 2, .out = out, .size = size};
    out[0] = '\0';
    if (!strncmp(symbol, "_Z", 2))
        read_encoding(&n);
    if (!n.used)
        append_text(&n, symbol, strlen(symbol));
}

bool gm_function_is_runtime(const char *symbol) {
    if (!strncmp(symbol, "_Z", 2)) {
        symbol += 2 + (symbol[2] == 'L');
        while (is_digit(*symbol))
            symbol++;
    }
    return (!strncmp(symbol, "cuda", 4) && symbol[4] >= 'A' && symbol[4] <= 'Z') || !strncmp(symbol, "__cuda", 6) ||
           !strncmp(symbol, "libcudart_static_", 17) || !strncmp(symbol, "cudart", 6);
}

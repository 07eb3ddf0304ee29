/* The name only becomes shorter, so it is rewritten in place (cxx_name.h). */
#include "tools/cli/cxx_name.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool starts(const char *text, const char *with) { return !strncmp(text, with, strlen(with)); }

/* Behind the template arguments that begin at `at` with "<"; NULL: they do not end. */
static const char *skip_arguments(const char *at) {
    unsigned depth = 0;
    for (; *at; at++) {
        depth += *at == '<';
        if (*at == '>' && --depth == 0)
            return at + 1;
    }
    return NULL;
}

/* Behind a default argument of a template that begins here; NULL: none does. */
static const char *skip_default(const char *at) {
    static const char *const defaults[] = {", std::char_traits", ", std::allocator", ", std::default_delete",
                                           ", std::less",        ", std::hash",      ", std::equal_to"};
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        const char *behind = at + strlen(defaults[i]);
        if (starts(at, defaults[i]) && *behind == '<' && (behind = skip_arguments(behind)) &&
            (*behind == ',' || *behind == '>' || starts(behind, " >")))
            return behind;
    }
    return NULL;
}

static void leave_out_defaults(char *name) {
    const char *in = name, *behind;
    char *out = name;
    while (*in) {
        if (*in == ',' && (behind = skip_default(in)))
            in = behind + (*behind == ' ');
        else if (starts(in, "> >"))
            *out++ = *in, in += 2; /* the blank is older notation */
        else
            *out++ = *in++;
    }
    *out = '\0';
}

static void replace(char *name, const char *word, const char *with) {
    size_t length = strlen(word), less = strlen(with);
    for (char *at = name; (at = strstr(at, word)); at += less) {
        memcpy(at, with, less);
        memmove(at + less, at + length, strlen(at + length) + 1);
    }
}

void gm_cxx_name_shorten(char *name) {
    replace(name, "std::__cxx11::", "std::");
    replace(name, "std::__1::", "std::");
    if (strstr(name, "std::"))
        leave_out_defaults(name);
    replace(name, "std::basic_string<char>", "std::string");
    replace(name, "std::basic_string_view<char>", "std::string_view");
}

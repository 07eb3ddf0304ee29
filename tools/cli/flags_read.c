/* Parses and prints the flags of a subcommand. */
#include "tools/cli/colour.h"
#include "tools/cli/commands.h"
#include "tools/cli/flags.h"
#include "tools/cli/meant.h"
#include "tools/cli/trace_window.h"

#include "shim/base/options.h"
#include "shim/base/wrappers.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAGS_MAX 64
#define HELP_AT   26 /* column of the help texts */
#define WIDTH     110

void gm_help_wrapped(const char *text, int column, int indent) {
    int at = column < indent ? indent : column + 1;
    printf("%*s", at - column, "");
    for (bool first = true; *text; first = false) {
        int word = (int)strcspn(text, " ");
        if (!first && at + 1 + word > WIDTH) {
            printf("\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            at += printf(" ");
        }
        at += printf("%.*s", word, text);
        text += word + (text[word] == ' ');
    }
    putchar('\n');
}

void gm_flags_help(const char *command) {
    for (const struct gm_flag *f = gm_flags; f->name; f++) {
        if (!gm_flag_is_of(f, command) || !strcmp(f->name, "help"))
            continue;
        int column = printf("  --%s", f->name);
        if (*f->argument == '[')
            column += printf("[=%s", f->argument + 1);
        else if (*f->argument)
            column += printf("=%s", f->argument);
        gm_help_wrapped(f->help, column, HELP_AT);
    }
}

static int unknown(const char *command, const char *word) {
    char known[600] = "";
    bool is_long = !strncmp(word, "--", 2);
    struct gm_meant meant = gm_meant_begin(word + 2 * is_long, is_long ? strcspn(word + 2, "=") : 0, "--");
    for (const struct gm_flag *f = gm_flags; f->name; f++) {
        size_t used = strlen(known);
        if (!gm_flag_is_of(f, command))
            continue;
        gm_meant_try(&meant, f->name, strlen(f->name));
        if (strcmp(f->name, "help"))
            snprintf(known + used, sizeof known - used, "%s--%s", used ? ", " : "", f->name);
    }
    if (meant.best)
        return gm_usage_error("%s: unknown option '%s'%s (`gpumem help %s` lists all)", command, word,
                              gm_meant_text(&meant).text, command);
    return gm_usage_error("%s: unknown option '%s'; there are %s", command, word, known);
}

/* The value is one of the choices in "a|b|c". */
static bool is_choice(const char *choices, const char *value) {
    size_t length = strlen(value);
    for (const char *p = choices; p; p = strchr(p, '|')) {
        p += *p == '|';
        if (!strncmp(p, value, length) && (p[length] == '|' || !p[length]))
            return length > 0;
    }
    return false;
}

/* Adds globs of allocation wrappers. Returns 0 or an exit status. */
static int skip(const char *command, const char *name, const char *globs) {
    char error[200];
    if (gm_wrappers_skip(globs, error, sizeof error))
        return 0;
    return gm_usage_error("%s: %s '%s' has %s", command, name, globs, error);
}

/* The same for a flag. The programs that a command starts, such as the one that draws, shall skip the same. */
static int take_skip(const char *command, const char *globs) {
    const char *before = getenv("GPUMEM_SKIP");
    char *all = NULL;
    int status = skip(command, "--skip", globs);
    if (status)
        return status;
    if (asprintf(&all, "%s%s%s", before ? before : "", before && *before ? "," : "", globs) < 0 ||
        setenv("GPUMEM_SKIP", all, 1)) {
        fputs("gpumem: out of memory\n", stderr);
        status = 1;
    }
    free(all);
    return status;
}

/* ---- the part of a trace that a command reads */

static bool is_part_of_trace(const char *name) {
    return !strcmp(name, "from") || !strcmp(name, "until") || !strcmp(name, "min-bytes");
}

static int take_part(const char *command, const char *name, const char *value) {
    unsigned long long bytes = 0;
    if (strcmp(name, "min-bytes"))
        return gm_flag_time(command, name, value, strcmp(name, "from") ? &gm_window.until_ns : &gm_window.from_ns);
    int status = gm_flag_bytes(command, name, value, &bytes);
    gm_window.min_bytes = bytes;
    return status;
}

int gm_flags_read(int argc, char **argv, int (*take)(void *options, const char *name, const char *value), void *options,
                  void (*help)(void), int *first) {
    struct option rows[FLAGS_MAX + 1];
    const struct gm_flag *flags[FLAGS_MAX];
    const char *command = argv[0];
    int count = 0, at, c, status;
    const struct gm_flag *output = NULL;
    bool has_skip = false;
    for (const struct gm_flag *f = gm_flags; f->name && count < FLAGS_MAX; f++) {
        if (!gm_flag_is_of(f, command))
            continue;
        flags[count] = f;
        output = !strcmp(f->name, "output") ? f : output;
        has_skip |= !strcmp(f->name, "skip");
        rows[count++] = (struct option){f->name,
                                        !*f->argument         ? no_argument
                                        : *f->argument == '[' ? optional_argument
                                                              : required_argument,
                                        NULL, 1};
    }
    rows[count] = (struct option){0};
    opterr = 0;
    const char *globs = has_skip ? getenv("GPUMEM_SKIP") : NULL;
    if (globs && *globs && (status = skip(command, "GPUMEM_SKIP", globs)))
        return status;
    while ((c = getopt_long(argc, argv, ":ho:", rows, &at)) != -1) {
        const char *name = c == 'h' ? "help" : c == 'o' ? "output" : c == 1 ? flags[at]->name : "";
        const char *value = optarg ? optarg : "";
        if (c == ':')
            return gm_usage_error("%s: option '%s' needs a value", command, argv[optind - 1]);
        if (c == '?' && optopt == 1)
            return gm_usage_error("%s: option '%s' takes no value", command, argv[optind - 1]);
        if (c == '?' || (c == 'o' && !output))
            return unknown(command, argv[optind - 1]);
        if (!strcmp(name, "help")) {
            help();
            return 0;
        }
        if (c == 1 && strchr(flags[at]->argument, '|') && !is_choice(flags[at]->argument, value))
            return gm_flag_bad_choice(command, name, flags[at]->argument, value);
        if (!strcmp(name, "output") && !*value)
            return gm_usage_error("%s: --output '' is not a name; accepted: %s", command, output->argument);
        if (c == 1 && !strcmp(name, "color")) {
            gm_colour_choose(value);
            continue;
        }
        status = !strcmp(name, "skip")    ? take_skip(command, value)
                 : is_part_of_trace(name) ? take_part(command, name, value)
                                          : take(options, name, value);
        if (status)
            return status;
    }
    if (gm_window.from_ns >= gm_window.until_ns)
        return gm_usage_error("%s: --from and --until leave nothing: the end is not behind the begin", command);
    *first = optind;
    return -1;
}

int gm_flag_bytes(const char *command, const char *name, const char *value, unsigned long long *bytes) {
    struct gm_option row = {.type = GM_OPTION_BYTES, .name = name, .initial = "0", .unit = "bytes", .high = UINT64_MAX};
    char error[256];
    uint64_t number;
    if (!*value || gm_option_parse(&row, value, &number, error, sizeof error))
        return gm_usage_error("%s: --%s '%s' is not a number of bytes; accepted: 4096, 512M, 1.5GiB", command, name,
                              value);
    *bytes = number;
    return 0;
}

int gm_flag_time(const char *command, const char *name, const char *value, uint64_t *ns) {
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"min", 60e9}};
    char *end;
    double number = strtod(value, &end);
    for (size_t i = 0; end != value && number >= 0 && number <= 1e9 && i < sizeof units / sizeof *units; i++)
        if (!strcmp(end, units[i].unit)) {
            *ns = (uint64_t)(number * units[i].ns);
            return 0;
        }
    return gm_usage_error("%s: --%s '%s' is not a time; accepted: seconds such as 0.5, or 500ms, 20us, 2min", command,
                          name, value);
}

int gm_flag_count(const char *command, const char *name, const char *value, unsigned long low, unsigned long high,
                  unsigned long *count) {
    char *end;
    *count = strtoul(value, &end, 10);
    if (end == value || *end || *value == '-' || *count < low || *count > high)
        return gm_usage_error("%s: --%s '%s' is not a number from %lu to %lu", command, name, value, low, high);
    return 0;
}

int gm_flag_bad_choice(const char *command, const char *name, const char *choices, const char *value) {
    struct gm_meant meant = gm_meant_begin(value, strlen(value), "");
    gm_meant_try_list(&meant, choices, '|');
    return gm_usage_error("%s: --%s '%s' is none of %s%s", command, name, value, choices, gm_meant_text(&meant).text);
}

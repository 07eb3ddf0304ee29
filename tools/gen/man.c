#include "tools/gen/gen.h"

#include <string.h>

#include "shim/accounts/account.h"
#include "shim/resource/resource.h"
#include "tools/cli/export_rows.h"
#include "tools/cli/section_rows.h"
#include "tools/cli/trace_glossary.h"

/* Writes text in roff: hyphens become minus signs that users can copy, and leading dots are escaped. */
static void text(FILE *out, const char *p) {
    if (*p == '.' || *p == '\'')
        fputs("\\&", out);
    for (; *p; p++) {
        if (*p == '\\')
            fputs("\\e", out);
        else if (*p == '-')
            fputs("\\-", out);
        else
            fputc(*p, out);
    }
}

static void paragraph(FILE *out, const char *p) {
    text(out, p);
    fputc('\n', out);
}

static void options(FILE *out) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const struct gm_option *row = &gm_option_rows[i];
        fputs(".TP\n.BR ", out);
        text(out, row->name);
        fputs(" \"=", out);
        gm_flag_value(out, row, " | ");
        fprintf(out, ", default %s\"\n", gm_gen_default(row));
        paragraph(out, row->help);
        if (row->flag) {
            fputs("Flag of gpumem run:\n.BR \\-\\-", out);
            text(out, row->flag);
            fputs(" .\n", out);
        }
    }
}

static void policies(FILE *out) {
    for (int i = 0; gm_policies[i]; i++) {
        fputs(".TP\n.B ", out);
        text(out, gm_policies[i]->name);
        fputs(gm_policies[i]->takes_argument ? ":ARGUMENT\n" : "\n", out);
        paragraph(out, gm_policies[i]->summary);
        if (!i)
            fputs("This is the default.\n", out);
    }
}

static void resources(FILE *out) {
    for (int i = 0; gm_resource_rows[i]; i++) {
        const struct gm_resource_ops *row = gm_resource_rows[i];
        fputs(".TP\n.B ", out);
        text(out, row->name);
        if (row->adaptor)
            fprintf(out, "(%s%sresource%s)", row->arguments ? row->arguments : "", row->arguments ? "," : "",
                    row->two ? ",resource" : "");
        fputc('\n', out);
        paragraph(out, row->summary);
        if (row->breaks && *row->breaks) {
            fputs(".br\nAgainst native memory it loses:\n", out);
            paragraph(out, row->breaks);
        }
    }
}

static void flag(FILE *out, const struct gm_flag *row) {
    fprintf(out, ".TP\n.BR \\-\\-");
    text(out, row->name);
    if (*row->argument == '[')
        fprintf(out, " [=%s", row->argument + 1);
    else if (*row->argument)
        fprintf(out, " \"=%s\"", row->argument);
    fputc('\n', out);
    paragraph(out, row->help);
}

static void flags_of(FILE *out, const char *command) {
    for (int i = 0; gm_flags[i].name; i++) {
        if (gm_flag_is_of(&gm_flags[i], command))
            flag(out, &gm_flags[i]);
    }
}

static void run_flags(FILE *out) {
    flags_of(out, "run");
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const struct gm_option *row = &gm_option_rows[i];
        if (!row->flag)
            continue;
        fputs(".TP\n.BR \\-\\-", out);
        text(out, row->flag);
        if (row->type == GM_OPTION_BOOL) {
            fputs(" [=0|1]\n", out);
        } else {
            fputs(" \"=", out);
            gm_flag_value(out, row, "|");
            fputs("\"\n", out);
        }
        paragraph(out, row->help);
        fprintf(out, "Default: %s.\n", gm_gen_default(row));
    }
}

static bool complete = true;

/* Writes a name with its explanation. A missing explanation makes the build fail. */
static void term(FILE *out, const char *name, const char *meaning) {
    if (!meaning) {
        fprintf(stderr, "no meaning of '%s' in tools/cli/trace_glossary.c\n", name);
        complete = false;
        meaning = "";
    }
    fputs(".TP\n.B ", out);
    text(out, name);
    fputc('\n', out);
    paragraph(out, meaning);
}

static void actions(FILE *out) {
    for (int i = GM_ACT_NONE + 1; i < GM_ACT_COUNT; i++)
        term(out, gm_action_name((enum gm_action)i), gm_action_meaning((enum gm_action)i));
}

static void reasons(FILE *out) {
    for (int i = 0; i < GM_REASON_COUNT; i++)
        term(out, gm_reason_name((enum gm_reason)i), gm_reason_meaning((enum gm_reason)i));
}

static void columns(FILE *out) {
    char names[512], *rest = names;
    snprintf(names, sizeof names, "%s", gm_trace_csv_header);
    for (char *name; (name = strsep(&rest, ",\n")) && *name;)
        term(out, name, gm_column_meaning(name));
}

static void account(FILE *out) {
    const struct gm_account none = {0};
    for (int row = 0; row < GM_ACCOUNT_ROWS; row++)
        term(out, gm_account_name((enum gm_account_row)row), gm_account_meaning(&none, (enum gm_account_row)row));
    term(out, GM_ACCOUNT_SUSPENDED, "to be subtracted: " GM_ACCOUNT_SUSPENDED_MEANING);
    term(out, GM_ACCOUNT_ELSEWHERE, "to be subtracted: " GM_ACCOUNT_ELSEWHERE_MEANING);
}

/* Writes the options that show one part of the report, as a list within a sentence. */
static void parts(FILE *out) {
    static const char *const names[] = {
#define ROW(name, ...) #name,
        GM_SECTION_ROWS(ROW)
#undef ROW
    };
    size_t count = sizeof names / sizeof *names;
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "%s.BR \\-\\-", i + 1 == count ? "and\n" : "");
        text(out, names[i]);
        fprintf(out, "%s\n", i + 1 == count ? " ." : i + 2 == count ? "" : " ,");
    }
}

static void formats(FILE *out) {
#define ROW(name, help) term(out, #name, help);
    GM_EXPORT_ROWS(ROW)
#undef ROW
}

/* The command whose flags belong at this line; NULL = none. */
static const char *command_of(const char *line) {
    char marker[64];
    for (int i = 0; gm_gen_commands[i].name; i++) {
        snprintf(marker, sizeof marker, ".\\\" @%s@\n", gm_gen_commands[i].name);
        if (!strcmp(line, marker))
            return gm_gen_commands[i].name;
    }
    return NULL;
}

bool gm_gen_man(FILE *out, FILE *template_file) {
    static const struct {
        const char *line;
        void (*write)(FILE *out);
    } sections[] = {
        {".\\\" @options@\n", options}, {".\\\" @policies@\n", policies}, {".\\\" @resources@\n", resources},
        {".\\\" @run@\n", run_flags},   {".\\\" @actions@\n", actions},   {".\\\" @reasons@\n", reasons},
        {".\\\" @columns@\n", columns}, {".\\\" @parts@\n", parts},       {".\\\" @formats@\n", formats},
        {".\\\" @account@\n", account},
    };
    char line[1024];
    while (fgets(line, sizeof line, template_file)) {
        void (*write)(FILE * out) = NULL;
        for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
            if (!strcmp(line, sections[i].line))
                write = sections[i].write;
        }
        const char *command = write ? NULL : command_of(line);
        if (write)
            write(out);
        else if (command)
            flags_of(out, command);
        else
            fputs(line, out);
    }
    return complete;
}

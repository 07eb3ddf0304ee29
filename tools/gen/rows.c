/* gpumem-rows --readme | --readme-policies | --man TEMPLATE | --bash | --zsh | --fish | --names | --plot-kinds: writes
 * one text that is generated from the rows of options, policies, commands and kinds of memory to standard output. */
#include "tools/gen/gen.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cli/export_rows.h"
#include "tools/cli/memory_kinds.h"
#include "tools/cli/section_rows.h"

const char *gm_gen_default(const struct gm_option *row) { return *row->initial ? row->initial : "none"; }

enum { README_WIDTH = 118 };

/* The options in the README; libgpumem(7) has all. */
static const enum gm_option_id readme_options[] = {
    GM_OPT_POLICY, GM_OPT_FREE, GM_OPT_TRACE, GM_OPT_LIMIT, GM_OPT_OOM, GM_OPT_GUARD,
};

/* Writes a list item in lines of README_WIDTH columns. */
static void readme_item(const char *text) {
    size_t column = 1;
    putchar('-');
    for (size_t length; *text; text += length + (text[length] == ' ')) {
        length = strcspn(text, " ");
        if (column + 1 + length > README_WIDTH) {
            fputs("\n ", stdout);
            column = 1;
        }
        printf(" %.*s", (int)length, text);
        column += 1 + length;
    }
    putchar('\n');
}

static void readme_option(const struct gm_option *row) {
    char *text = NULL;
    size_t size;
    FILE *item = open_memstream(&text, &size);
    if (!item)
        return;
    fprintf(item, "`%s` (", row->name);
    gm_flag_value(item, row, ", ");
    fprintf(item, "; default %s): %s", gm_gen_default(row), row->help);
    fclose(item);
    readme_item(text);
    free(text);
}

static void readme_policy(const struct gm_policy *policy, bool is_default) {
    char text[1024];
    snprintf(text, sizeof text, "`%s`%s: %s", policy->name, is_default ? " (default)" : "", policy->summary);
    readme_item(text);
}

static void readme_options_list(void) {
    for (size_t i = 0; i < sizeof readme_options / sizeof *readme_options; i++)
        readme_option(&gm_option_rows[readme_options[i]]);
}

static void readme_policies_list(void) {
    for (int i = 0; gm_policies[i]; i++)
        readme_policy(gm_policies[i], !i);
}

/* Writes one line for each name that manual and completion must contain: type, name and, for flags, the command,
 * separated by tabs. */
static void names(void) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        printf("option\t%s\n", gm_option_rows[i].name);
    }
    for (int i = 0; gm_policies[i]; i++)
        printf("policy\t%s\n", gm_policies[i]->name);
#define PART(name, ...) puts("part\t" #name);
    GM_SECTION_ROWS(PART)
#define FORMAT(name, help) puts("format\t" #name);
    GM_EXPORT_ROWS(FORMAT)
    for (int c = 0; gm_gen_commands[c].name; c++) {
        const struct gm_gen_command *command = &gm_gen_commands[c];
        printf("command\t%s\n", command->name);
        for (int i = 0; command->launches && i < GM_OPTION_COUNT_; i++) {
            if (gm_option_rows[i].flag)
                printf("flag\t%s\t%s\n", gm_option_rows[i].flag, command->name);
        }
        for (int i = 0; gm_flags[i].name; i++) {
            if (gm_flag_is_of(&gm_flags[i], command->name))
                printf("flag\t%s\t%s\n", gm_flags[i].name, command->name);
        }
    }
}

/* Writes a Python module for tools/plot. */
static void plot_kinds(void) {
    puts("\"\"\"Kinds of memory: their colours, and whether the program requested device memory.\"\"\"\n\nCOLOURS = {");
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        printf("    \"%s\": \"%s\",\n", gm_kind_name((enum gm_kind)kind), gm_kind_colour((enum gm_kind)kind));
    puts("}\nFOR_DEVICE = {");
    for (int kind = 0; kind < GM_KIND_COUNT; kind++)
        printf("    \"%s\": %s,\n", gm_kind_name((enum gm_kind)kind),
               gm_kind_is_for_device((enum gm_kind)kind) ? "True" : "False");
    puts("}");
}

static int man(const char *path) {
    FILE *template_file = fopen(path, "r");
    if (!template_file) {
        perror(path);
        return 1;
    }
    bool complete = gm_gen_man(stdout, template_file);
    fclose(template_file);
    return !complete;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int failed = 0;
    if (!strcmp(what, "--man") && argc == 3) {
        failed = man(argv[2]);
    } else if (!strcmp(what, "--readme")) {
        readme_options_list();
    } else if (!strcmp(what, "--readme-policies")) {
        readme_policies_list();
    } else if (!strcmp(what, "--bash")) {
        gm_gen_bash(stdout);
    } else if (!strcmp(what, "--zsh")) {
        gm_gen_zsh(stdout);
    } else if (!strcmp(what, "--fish")) {
        gm_gen_fish(stdout);
    } else if (!strcmp(what, "--names")) {
        names();
    } else if (!strcmp(what, "--plot-kinds")) {
        plot_kinds();
    } else {
        fputs("usage: gpumem-rows --readme | --readme-policies | --man TEMPLATE | --bash | --zsh | --fish | --names | "
              "--plot-kinds\n",
              stderr);
        return 2;
    }
    return failed || fflush(stdout) || ferror(stdout);
}

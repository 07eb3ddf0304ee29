/* gpumem-rows: --readme | --man TEMPLATE | --bash | --zsh | --fish | --names, each to standard output. */
#include "tools/gen/gen.h"

#include <string.h>

void gm_gen_value(FILE *out, const struct gm_option *row, const char *joint) {
    if (row->type == GM_OPTION_BOOL) {
        fputs("0", out);
        fputs(joint, out);
        fputs("1", out);
    } else if (row->type == GM_OPTION_CHOICE) {
        for (const char *p = row->choices; *p; p++) {
            if (*p == ' ')
                fputs(joint, out);
            else
                fputc(*p, out);
        }
    } else if (row->type == GM_OPTION_COUNT && row->high != UINT64_MAX) {
        fprintf(out, "%llu..%llu %s", (unsigned long long)row->low, (unsigned long long)row->high, row->unit);
    } else {
        fputs(row->unit, out);
    }
}

const char *gm_gen_default(const struct gm_option *row) { return *row->initial ? row->initial : "none"; }

static void readme_cell(const char *text) {
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', stdout);
        fputc(*text, stdout);
    }
}

static void readme(void) {
    puts("| option | `gpumem run` | value | default | meaning |\n|---|---|---|---|---|");
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        const struct gm_option *row = &gm_option_rows[i];
        printf("| `%s` | ", row->name);
        if (row->flag)
            printf("`--%s`", row->flag);
        printf(" | ");
        gm_gen_value(stdout, row, ", ");
        printf(" | %s | ", gm_gen_default(row));
        readme_cell(row->help);
        puts(" |");
    }
    puts("\n| policy | does |\n|---|---|");
    for (int i = 0; gm_policies[i]; i++) {
        printf("| `%s`%s | ", gm_policies[i]->name, i ? "" : " (default)");
        readme_cell(gm_policies[i]->summary);
        puts(" |");
    }
}

/* One line a name that users must find in manual and completion: kind, name, for flags their command; tabs between. */
static void names(void) {
    for (int i = 0; i < GM_OPTION_COUNT_; i++) {
        printf("option\t%s\n", gm_option_rows[i].name);
    }
    for (int i = 0; gm_policies[i]; i++)
        printf("policy\t%s\n", gm_policies[i]->name);
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
        readme();
    } else if (!strcmp(what, "--bash")) {
        gm_gen_bash(stdout);
    } else if (!strcmp(what, "--zsh")) {
        gm_gen_zsh(stdout);
    } else if (!strcmp(what, "--fish")) {
        gm_gen_fish(stdout);
    } else if (!strcmp(what, "--names")) {
        names();
    } else {
        fputs("usage: gpumem-rows --readme | --man TEMPLATE | --bash | --zsh | --fish | --names\n", stderr);
        return 2;
    }
    return failed || fflush(stdout) || ferror(stdout);
}

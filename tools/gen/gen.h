/* Parts of the build-time program gpumem-rows, which turns the rows of options, policies, resources and commands into
 * manual pages, shell completions and the tables of the README. */
#ifndef GM_GEN_H
#define GM_GEN_H

#include <stdio.h>

#include "policy/policy.h"
#include "shim/base/options.h"
#include "tools/cli/flags.h"

/* A command of the gpumem program. */
struct gm_gen_command {
    const char *name;
    const char *help;
    bool launches;           /* starts a program: takes the flags of all option rows */
    bool looks_at_processes; /* its arguments are process ids; else files */
    const char *words;       /* other first arguments, as a shell expands them in double quotes; NULL: none */
};
extern const struct gm_gen_command gm_gen_commands[]; /* ends with a NULL name */

/* Copies the template, with each line `.\" @options@`, `@policies@`, `@resources@`, `@run@`, `@actions@`, `@reasons@`,
 * `@columns@`, `@parts@` (of the report), `@formats@` (of an export), `@account@` replaced by its section, and the name
 * of each other command by that command's flags. False when one has a name without explanation. */
bool gm_gen_man(FILE *out, FILE *template_file);

void gm_gen_bash(FILE *out);
void gm_gen_zsh(FILE *out);
void gm_gen_fish(FILE *out);

/* `row`'s default as help shows it. */
const char *gm_gen_default(const struct gm_option *row);

#endif

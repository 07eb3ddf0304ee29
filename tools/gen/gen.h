/* Parts of the build-time program that turns the rows of options, policies, resources and commands into manual pages, shell
 * completions and the tables of the README. */
#ifndef GM_GEN_H
#define GM_GEN_H

#include <stdio.h>

#include "policy/policy.h"
#include "shim/base/options.h"

/* A flag of the gpumem program that is no option row. */
struct gm_flag {
    const char *command;  /* "run"; "" = of gpumem itself and of every command */
    const char *name;     /* without dashes */
    const char *help;
};
struct gm_command {
    const char *name;
    const char *help;
    const char *operands; /* as in the synopsis */
};
extern const struct gm_command gm_commands[]; /* ends with a NULL name */
extern const struct gm_flag gm_flags[];       /* ends with a NULL name */

/* Copies the template, with each line `.\" @options@`, `@policies@`, `@resources@`, `@run@` replaced by its section. */
void gm_gen_man(FILE *out, FILE *template_file);

void gm_gen_bash(FILE *out);
void gm_gen_zsh(FILE *out);
void gm_gen_fish(FILE *out);

/* What stands for a row's value in help: unit, or its choices joined by `joint`. Empty for switches. */
void gm_gen_value(FILE *out, const struct gm_option *row, const char *joint);
/* `row`'s default as a reader should see it. */
const char *gm_gen_default(const struct gm_option *row);

#endif

/* Flags of the gpumem program that set no option of the library. Parsing, help, manual and shell completions are
 * generated from these rows. */
#ifndef GM_FLAGS_H
#define GM_FLAGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define GM_TOP_SORT_NAMES "live|reserved|allocs|frees|program|pid" /* the rows of top_sort.c */

struct gm_flag {
    const char *name;     /* without dashes */
    const char *argument; /* "" = switch, "[X]" = optional, "a|b" = one of these */
    const char *commands; /* commands that accept it, separated by spaces */
    const char *help;
};
extern const struct gm_flag gm_flags[]; /* ends with a NULL name */

bool gm_flag_is_of(const struct gm_flag *flag, const char *command);

struct gm_option;
/* Writes the value of an option of the library as help and manual show it: the unit, or the choices joined by `joint`.
 */
void gm_flag_value(FILE *out, const struct gm_option *row, const char *joint);

/* Prints text in lines of at most 110 columns and ends the last one. The first begins at `column`, or behind a blank
 * where that is beyond `indent`; the others begin at `indent`. */
void gm_help_wrapped(const char *text, int column, int indent);
/* Prints lines "  --name=ARGUMENT  help" for a command to stdout. */
void gm_flags_help(const char *command);

/* Reads the flags of the command `argv[0]`. Flags and other arguments may be in any order. `take` gets each flag's name
 * and value ("" = none) and returns 0 or an exit status. Returns -1 and sets *first to the first other argument, or
 * returns the exit status (0 after --help, which calls `help`). */
int gm_flags_read(int argc, char **argv, int (*take)(void *options, const char *name, const char *value), void *options,
                  void (*help)(void), int *first);

/* Accepts "64", "16K", "1.5GiB" and "1GB". Returns 0, or GM_EXIT_USAGE after an error message that names the flag. */
int gm_flag_bytes(const char *command, const char *name, const char *value, unsigned long long *bytes);
/* Accepts a whole number from `low` to `high`; returns as gm_flag_bytes does. */
/* Accepts seconds, or a number with ns, us, ms, s or min; returns as gm_flag_bytes does. */
int gm_flag_time(const char *command, const char *name, const char *value, uint64_t *ns);
int gm_flag_count(const char *command, const char *name, const char *value, unsigned long low, unsigned long high,
                  unsigned long *count);
/* After a value that is none of `choices`, "a|b|c". Returns GM_EXIT_USAGE. */
int gm_flag_bad_choice(const char *command, const char *name, const char *choices, const char *value);

#endif

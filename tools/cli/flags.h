/* Flags of the gpumem program that are no option rows: one row each, from which come parsing, help, manual
 * and completion. */
#ifndef GM_FLAGS_H
#define GM_FLAGS_H

#include <stdbool.h>

struct gm_flag {
    const char *name;     /* without dashes */
    const char *argument; /* "" = switch, "[X]" = may be left out, "a|b" = one of these */
    const char *commands; /* that take it, separated by spaces */
    const char *help;
};
extern const struct gm_flag gm_flags[]; /* ends with a NULL name */

bool gm_flag_is_of(const struct gm_flag *flag, const char *command);

/* Lines "  --name=ARGUMENT  help" of a command, to stdout. */
void gm_flags_help(const char *command);

/* Reads the options of `argv[0]`; flags and other words may stand in any order. `take` gets each flag's name
 * and its value ("" = none) and returns 0 or an exit status. Returns -1 with *first at the first other word,
 * else the exit status (0 after --help, which calls `help`). */
int gm_flags_read(int argc, char **argv, int (*take)(void *options, const char *name, const char *value), void *options,
                  void (*help)(void), int *first);

/* "64", "16K", "1.5" is none: 0 or GM_EXIT_USAGE after a line that names the flag. */
int gm_flag_bytes(const char *command, const char *name, const char *value, unsigned long long *bytes);
/* A number from `low` to `high`. */
int gm_flag_count(const char *command, const char *name, const char *value, unsigned long low, unsigned long high,
                  unsigned long *count);

#endif

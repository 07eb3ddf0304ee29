/* The name of the program that an interpreter runs. */
#ifndef GM_SCRIPT_NAME_H
#define GM_SCRIPT_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* `words`: a command line as /proc/PID/cmdline has it, with a 0 behind its `length` bytes. Its program is the first
 * word that is no option, or that of -m. False: there is none. */
bool gm_script_name(const char *words, size_t length, char *out, size_t size);

#endif

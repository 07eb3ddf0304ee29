/* The file of options that GPUMEM_CONFIG names: lines of the form `name = value`. A name is that of an environment
 * variable in lower case without GPUMEM_. Blanks around name and value do not count. A # at the start of a line or
 * after a blank begins a comment. The value ends at the comment or at the end of its line; there are no quotes. */
#ifndef GM_BASE_CONFIG_H
#define GM_BASE_CONFIG_H

#include "shim/base/base.h"

struct gm_config_line {
    unsigned number;   /* from 1 */
    const char *name;  /* as written */
    const char *value; /* "" = the default */
    const char *error; /* NULL, or why the line has neither name nor value */
};

typedef void gm_config_take(void *arg, const struct gm_config_line *line);

/* Calls `take` for each line that is neither empty nor a comment. The texts are valid only during the call. */
void gm_config_parse(const char *text, size_t bytes, gm_config_take *take, void *arg);

/* Parses a plain file by signal-safe I/O. Returns 0, or an errno for gm_config_reason, and then calls nothing. */
int gm_config_read(const char *path, gm_config_take *take, void *arg);
const char *gm_config_reason(int error);

#endif

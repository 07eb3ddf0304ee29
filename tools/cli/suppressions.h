/* Suppressions: known leaks and memory errors that do not count. The file format follows valgrind's:
 *
 *     # a comment
 *     {
 *        name of the suppression
 *        gpumem:leak           or gpumem:error
 *        fun:init_tables*
 *        ...
 *        obj:*libfoo.so*
 *     }
 *
 * Frames match from the call site outwards; callers after the last frame may be any. Patterns are shell patterns, but
 * an asterisk also matches slashes. */
#ifndef GM_SUPPRESSIONS_H
#define GM_SUPPRESSIONS_H

#include "tools/cli/symbols.h"

#include <stdio.h>

struct gm_suppressions;

enum gm_suppressed { GM_SUPPRESSED_LEAK, GM_SUPPRESSED_ERROR };

struct gm_suppression_use {
    const char *name;
    enum gm_suppressed kind;
    uint64_t blocks, bytes; /* of leaks; blocks: errors */
};

struct gm_suppressions *gm_suppressions_new(void); /* NULL = no memory */
void gm_suppressions_free(struct gm_suppressions *suppressions);

/* Adds those of a file; false leaves one line in `error` that names file and line. */
bool gm_suppressions_read(struct gm_suppressions *suppressions, const char *path, char *error, size_t size);
bool gm_suppressions_parse(struct gm_suppressions *suppressions, FILE *file, const char *path, char *error,
                           size_t size);

/* Whether one covers a leak of `blocks`, or so many errors, whose stack is given innermost first; the first that does
 * is charged. */
bool gm_suppressions_cover(struct gm_suppressions *suppressions, enum gm_suppressed kind,
                           const struct gm_frame_name *names, unsigned count, uint64_t blocks, uint64_t bytes);
void gm_suppressions_reset_use(struct gm_suppressions *suppressions);
bool gm_suppressions_use(const struct gm_suppressions *suppressions, size_t index, struct gm_suppression_use *use);

#endif

/* What the driver is asked to do: its options, one row each, which help and parser read. */
#ifndef GM_SPGEMM_SETTINGS_H
#define GM_SPGEMM_SETTINGS_H

#include "spgemm/modes.h"

#define GM_EXIT_USAGE 2 /* a bad option or value; nothing was read or computed */

struct gm_settings {
    const char *matrix, *b;     /* as given; b is NULL for A A */
    const char *mode_text;      /* NULL = none */
    const struct gm_mode *mode; /* of mode_text */
    const char *argument;
    int32_t size_per_row; /* 0 = auto; -1 = not given */
    enum gm_vector vector;
    unsigned runs; /* 0 = by how long they take */
    unsigned warmup;
    enum gm_kernel kernel;
    bool check, model, persistent, columns; /* columns: layout csc */
    const char *json;                       /* NULL = none */
    size_t limit;
    enum gm_precision precision;
};

/* -1 = go on, else the exit status: 0 after --help and gen:list, GM_EXIT_USAGE after one line on stderr. */
int gm_settings_read(int argc, char **argv, struct gm_settings *settings);

#endif

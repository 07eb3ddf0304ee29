/* The driver's options: one row each in settings.c, from which help and parser are made. */
#ifndef SPG_SETTINGS_H
#define SPG_SETTINGS_H

#include "spgemm/modes.h"

#define SPG_EXIT_USAGE 2 /* exit status for a bad option or value; nothing was read or computed */

#define SPG_DEVICES 32

struct spg_settings {
    const char *matrix, *b;      /* as written by the user; b is NULL for A A */
    const char *mode_text;       /* NULL = none */
    const struct spg_mode *mode; /* of mode_text */
    const char *argument;
    int32_t size_per_row; /* 0 = auto; -1 = not given */
    enum spg_vector vector;
    unsigned runs; /* 0 = chosen by the time of a run */
    unsigned warmup;
    enum spg_kernel kernel;
    bool check, model, persistent, columns; /* columns: layout csc */
    bool any_size;
    bool on_devices, mpi;
    int devices[SPG_DEVICES], devices_count; /* 0 = all */
    const char *json;                        /* NULL = none */
    size_t limit;
    enum spg_precision precision;
};

/* Returns -1 to go on, else the exit status: 0 after --help and gen:list, SPG_EXIT_USAGE after one line on stderr. */
int spg_settings_read(int argc, char **argv, struct spg_settings *settings);

#endif

/* The rows of the refusing driver: which symbol cuGetProcAddress gives for a name. Built from NVIDIA's
 * headers and the table of calls by driver_names.py; read only by the stub itself. */
#ifndef REALRT_DRIVER_ROWS_H
#define REALRT_DRIVER_ROWS_H

struct driver_row {
    const char *name;   /* without version suffix */
    int version;        /* first CUDA version that gives this symbol, 1000 * major + 10 * minor */
    int per_thread;     /* 1: the per-thread default stream twin */
    const char *symbol; /* exported name */
    void (*function)(void);
};

/* Sorted by name, then the plain variants, then the per-thread ones, versions ascending; ends with a NULL
 * name. */
extern const struct driver_row driver_rows[];

/* Appends one printf-formatted line to STUB_LOG by one write; keeps quiet where that is not set. Any thread.
 */
__attribute__((format(printf, 1, 2))) void log_line(const char *format, ...);
/* A call, with its arguments where STUB_ARGUMENTS is set. */
enum { LOGGED_ARGUMENTS = 12 };
void log_call(const char *symbol, void *const arguments[LOGGED_ARGUMENTS], double x, double y);

#endif

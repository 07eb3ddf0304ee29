/* Starts a program under libgpumem and prints the closing lines: program file, environment, child process, counters. */
#ifndef GM_LAUNCH_H
#define GM_LAUNCH_H

#include "shim/accounts/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define GM_PATH 4096

/* ---- program_file.c */
/* Finds the program as execvp does. 0, or 127 (not found) or 126 (not executable) after a line on stderr. */
int gm_program_find(const char *name, char *path, size_t size);
/* Warns on stderr if LD_PRELOAD cannot reach the program (static, set-uid, musl, foreign machine). */
void gm_program_warn_preload(const char *path);
/* Warns on stderr if the program is linked statically with NVIDIA's runtime, which does not work on the simulated
 * driver. */
void gm_program_warn_sim(const char *path);

/* preload.c: the folder of this executable. 0, or -1. */
int gm_own_folder(char *path, size_t size);

/* ---- preload.c: all return 0, or -1 after a line on stderr */
/* Finds libgpumem.so: `wanted` if it is not NULL, else in the build tree or installation of this tool. */
int gm_preload_find(const char *wanted, char *path, size_t size);
/* Puts the library in front of LD_PRELOAD. */
int gm_preload_set(const char *library);
/* Sets LD_AUDIT to libgpumem-audit.so beside the library. */
int gm_preload_audit(const char *library);
/* The dynamic linker finds libcuda.so.1 for this process. */
bool gm_has_driver(void);
/* Puts the simulated CUDA of the build tree or installation in front of LD_LIBRARY_PATH. */
int gm_preload_sim(void);

/* ---- child.c */
/* Starts argv in this process group, forwards signals to it and waits. Returns the program's exit status, or 128 +
 * signal. */
int gm_child_run(const char *path, char **argv);

/* ---- run_counters.c */
struct gm_run_counters {
    struct gm_stats *slots;
    int fd; /* of an anonymous memory file; -1: `path` is a file */
    char path[GM_PATH];
    bool simulated; /* the program ran on the simulated CUDA */
};
/* Creates the counters file and names it in GPUMEM_STATS. On failure it prints a line to stderr, sets `slots` to NULL,
 * and the program still runs. */
void gm_run_counters_create(struct gm_run_counters *counters);
void gm_run_counters_destroy(struct gm_run_counters *counters);
/* Prints the closing lines to stderr: one block for the run, one line for each process if there are several, then the
 * traces. `run_ns` is how long the program ran. */
void gm_run_counters_print(const struct gm_run_counters *counters, uint64_t run_ns);
/* The memory errors that all processes of the run counted. */
uint64_t gm_run_counters_errors(const struct gm_run_counters *counters);

#endif

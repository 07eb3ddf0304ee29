/* Starting a program under libgpumem. */
#ifndef GM_LAUNCH_H
#define GM_LAUNCH_H

#include "shim/base/stats.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define GM_PATH 4096

/* ---- program_file.c */
/* Finds the program as execvp would. 0, else 127 (not found) or 126 (not executable), after a line on stderr.
 */
int gm_program_find(const char *name, char *path, size_t size);
/* Says in one line on stderr when a preloaded library cannot reach the program (static, set-uid, musl,
 * foreign). */
void gm_program_warn_preload(const char *path);
/* Says in one line on stderr when the program has NVIDIA's runtime linked in, which does not work with the
 * simulated driver. */
void gm_program_warn_sim(const char *path);

/* Folder of this executable, in preload.c: 0, or -1. */
int gm_own_folder(char *path, size_t size);

/* ---- preload.c: all return 0, or -1 after a line on stderr */
/* libgpumem.so: `wanted` if not NULL, else in the build tree or the installation this tool belongs to. */
int gm_preload_find(const char *wanted, char *path, size_t size);
/* Sets LD_PRELOAD, keeping what is there behind ours. */
int gm_preload_set(const char *library);
/* Sets LD_AUDIT to libgpumem-audit.so beside the library. */
int gm_preload_audit(const char *library);
/* Puts the simulated CUDA of the build tree or the installation in front of LD_LIBRARY_PATH. */
int gm_preload_sim(void);

/* ---- child.c */
/* Starts argv in this process group, forwards signals to it and waits. The exit status is the program's, or
 * 128 + signal. */
int gm_child_run(const char *path, char **argv);

/* ---- run_counters.c */
struct gm_run_counters {
    struct gm_stats *slots;
    int fd; /* of a memory file, which has no name but this; -1: `path` is a file */
    char path[GM_PATH];
};
/* Makes the file of counters, names it in GPUMEM_STATS. Without one the program still runs: `slots` is NULL
 * then, after a line on stderr. */
void gm_run_counters_create(struct gm_run_counters *counters);
void gm_run_counters_destroy(struct gm_run_counters *counters);
/* Closing lines on stderr: one block of them a run, a line a process where there are several, last the traces
 * (not with `table`). `run_ns` is how long the program ran. */
void gm_run_counters_print(const struct gm_run_counters *counters, bool table, uint64_t run_ns);

#endif

/* Reads the traces of one job together, ordered by their wall clocks: what each process did, and how much memory all of
 * them held on each device at a time. */
#ifndef GM_JOB_H
#define GM_JOB_H

#include "tools/cli/read_trace.h"
#include "tools/cli/output.h"

#define GM_JOB_OBSERVERS 16 /* observers of each trace, including the job's own and the final NULL */

struct gm_job_trace {
    char *path;
    struct gm_reader *reader;
    const struct gm_trace_header *header;
    struct gm_analysis *analysis; /* set by gm_job_read; NULL = no memory, or an observer stopped the reading */
    struct gm_observer *observers[GM_JOB_OBSERVERS];
};

/* Totals of all processes of a host that use the ordinal. Processes that number devices differently
 * (CUDA_VISIBLE_DEVICES) cannot be distinguished. */
struct gm_job_device {
    const char *host;
    int device;
    uint64_t live, peak, peak_epoch_ns;
    unsigned processes;
};

struct gm_trace_job {
    struct gm_job_trace *traces; /* array, by rank, host, start and pid */
    size_t count;
    struct gm_job_device *devices; /* array, by host and ordinal */
    size_t device_count;
};

struct gm_trace_job *gm_job_new(void); /* NULL = no memory */
void gm_job_free(struct gm_trace_job *job);

/* Adds a trace, or all traces of a folder; other files of the folder are ignored. Prints an error for each trace that
 * cannot be read and returns their number. */
int gm_job_add(struct gm_trace_job *job, const char *path);

/* Sorts the traces. After that the caller may set observers in them, from observers[0] on. */
void gm_job_sort(struct gm_trace_job *job);
/* Reads all traces to their end. False = no memory. */
bool gm_job_read(struct gm_trace_job *job);

void gm_job_print(const struct gm_trace_job *job, struct gm_out *out);

#endif

/* The traces of one job, read together in the order of their clocks: what each process did, and how much of
 * each device all of them held at a time. */
#ifndef GM_JOB_H
#define GM_JOB_H

#include "tools/cli/analysis.h"
#include "tools/cli/output.h"

#define GM_JOB_OBSERVERS 16 /* observers of each trace, with the job's own and the NULL at the end */

struct gm_job_trace {
    char *path;
    struct gm_reader *reader;
    const struct gm_trace_header *header;
    struct gm_analysis *analysis; /* after gm_job_read; NULL = no memory, or an observer stopped it */
    struct gm_observer *observers[GM_JOB_OBSERVERS];
};

/* Of all processes of a host that use the ordinal: processes that number their devices differently
 * (CUDA_VISIBLE_DEVICES) are not told apart. */
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

/* Adds a trace, or all traces of a folder; others of its files are left out. What cannot be read is said on
 * stderr; returns how many were not. */
int gm_job_add(struct gm_trace_job *job, const char *path);

/* Puts the traces in order; then observers may be set in them, from observers[0]. */
void gm_job_sort(struct gm_trace_job *job);
/* Reads all to their end. False = no memory. */
bool gm_job_read(struct gm_trace_job *job);

void gm_job_print(const struct gm_trace_job *job, struct gm_out *out);

#endif

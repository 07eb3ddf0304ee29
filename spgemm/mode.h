/* The interface of a mode: one method to compute C = A B. A mode is a struct of operations, as one row of the table in
 * modes.c names it. */
#ifndef SPG_MODE_H
#define SPG_MODE_H

#include "spgemm/matrix.h"

#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an output array grows: in place, by mapping more memory, or by a larger allocation and a copy. */
enum spg_vector { SPG_VECTOR_VMM, SPG_VECTOR_COPY };

/* The accumulator of the modes that have their own kernels: hash tables in shared memory, or the kernel of the thesis
 * (listing 2.1), where one thread computes a row. */
enum spg_kernel { SPG_KERNEL_HASH, SPG_KERNEL_THESIS };

struct spg_processes;

struct spg_job {
    const struct spg_csr *a, *b; /* values are already rounded when `precision` is single */
    enum spg_precision precision;
    const char *argument;   /* the text after "mode:"; "" = none */
    int32_t size_per_row;   /* for modes that take it; 0 = the mode samples rows and chooses, within the timed call */
    enum spg_vector vector; /* for modes that grow */
    enum spg_kernel kernel;
    bool persistent; /* mode rounds, kernel thesis: one launch runs as many rounds as the memory allows */
    size_t limit;    /* bytes of device memory for the product, without A and B; 0 = no limit */
    const int *devices;
    int devices_count;                     /* for modes on several devices; 0 = all */
    const struct spg_processes *processes; /* `a` has rows of this process; NULL = there is one process */
};

/* Measurements of one product. A field that does not apply is 0. */
struct spg_run {
    double ms; /* until C is complete, with all allocations; without copies of A, B and C between host and device and
                * without the return of unused memory */
    double estimate_ms;   /* part of ms: until the first request for memory for C's entries */
    double grow_ms;       /* part of ms: growing C's arrays, measured on the host */
    double compact_ms;    /* part of ms: moving rows together, after the last row was computed */
    double distribute_ms; /* part of ms: cutting A, and copying A and B to other devices */
    double trim_ms;       /* after ms, measured on the host: returning slots that C does not need, or helper buffers */
    size_t peak;          /* largest number of bytes allocated at one time during the call, without A and B */
    int64_t stored;       /* nnz(C) */
    int64_t entries; /* slots for entries of C before compaction. Memory for chunks that no row took is not counted. */
    /* In mode host: slabs of rows, bytes copied to the device and from it, and the time of plain copies of so many. */
    int64_t slabs, sent, received;
    double bus_ms;
    int32_t rounds;
    int32_t size_per_row; /* the one that was used; 0 if the mode takes none */
};

/* Two estimates of nnz(C) made without computing C. Each time covers everything its estimate needs. */
struct spg_estimates {
    double sampled, sampled_ms; /* from sampled rows; the sample also chooses size_per_row */
    double cohen, cohen_ms;     /* Cohen's estimator; only reported */
};

/* What one of several devices computed in a run. */
#define SPG_SHARES 64
struct spg_share {
    int device;
    int64_t rows, products, stored;
    size_t peak;
    char b[16]; /* how the device reads B: own, copied, broadcast, read */
};

struct spg_mode_ops {
    /* Prepares A and B (copies them to the device). Returns NULL on failure. `job` and its matrices must outlive the
     * state. */
    void *(*open)(const struct spg_job *job, struct spg_error *error);
    /* Computes C once and drops the C of the run before. On failure there is no C. */
    bool (*run)(void *state, struct spg_run *run, struct spg_error *error);
    /* Copies the C of the last run into a new matrix, which the caller owns. Single precision becomes double. */
    bool (*fetch)(void *state, struct spg_csr *c, struct spg_error *error);
    void (*close)(void *state); /* accepts NULL */
    /* Makes both estimates; C and the measurements of runs stay as they are. NULL in modes that choose no size_per_row.
     */
    bool (*estimate)(void *state, struct spg_estimates *estimates, struct spg_error *error);
    /* Writes at most `most` shares of the last run; returns their number. NULL in modes of one device. */
    int (*shares)(void *state, struct spg_share *shares, int most);
};

extern const struct spg_mode_ops spg_mode_graphblas;
/* Only in builds with CUDA; the last one only with cuSPARSE. */
extern const struct spg_mode_ops spg_mode_auto, spg_mode_group, spg_mode_host, spg_mode_upper_bound, spg_mode_precise,
    spg_mode_rounds, spg_mode_cusparse;

/* The host's monotonic clock in milliseconds, for the times above. */
static inline double spg_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

#ifdef __cplusplus
}
#endif

#endif

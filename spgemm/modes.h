/* Ways to form C = A B, one row each in modes.c. A way is a struct of functions; NULL where this build lacks
 * it. */
#ifndef SPG_MODES_H
#define SPG_MODES_H

#include "spgemm/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spg_vector { SPG_VECTOR_VMM, SPG_VECTOR_COPY }; /* how the output grows: in place, or into a larger allocation */

enum spg_kernel {
    SPG_KERNEL_HASH,
    SPG_KERNEL_THESIS
}; /* of the modes that are ours: the fast accumulator, or a thread for a row (listing 2.1 of the thesis) */

struct spg_job {
    const struct spg_csr *a, *b; /* in single precision: rounded to float */
    enum spg_precision precision;
    const char *argument;   /* behind "mode:"; "" = none */
    int32_t size_per_row;   /* of modes that take it; 0 = the mode chooses it, from sampled rows, in its time */
    enum spg_vector vector; /* of modes that grow */
    enum spg_kernel kernel;
    bool persistent; /* mode rounds by the thesis' kernel: one launch for as many rounds as memory is there
                        for */
    size_t limit;    /* bytes of device memory the product may take beside A and B; 0 = what there is */
};

/* Figures of one product. What does not apply is 0. */
struct spg_run {
    double ms;          /* until C is there, allocations counted in; not the copies of A and B to the device and of C
                         * back, nor giving back what else the product took */
    double estimate_ms; /* of ms: until memory for C's entries was asked for first */
    double grow_ms;     /* of ms: growing C's arrays, in modes that do */
    double compact_ms;  /* of ms: rows moved together from places with holes between them */
    double trim_ms;     /* behind ms, by the host's clock: giving back places that C does not take */
    size_t peak;        /* most bytes allocated at a time during the call, without A and B */
    int64_t stored;     /* nnz(C) */
    int64_t entries;    /* places for entries of C that were allocated when it was formed, before rows were moved
                           together; where memory was made for more pieces than rows took, those of the rows */
    int32_t rounds;
    int32_t size_per_row; /* that was used; 0 where the mode takes none */
};

/* Of nnz(C), without forming it; each by itself with all that it takes. */
struct spg_estimates {
    double sampled, sampled_ms; /* from rows, whose sizes also choose size_per_row */
    double cohen, cohen_ms;     /* from keys; nothing depends on it */
};

double spg_now_ms(void); /* the host's clock, for those times */

struct spg_mode_functions {
    /* Readies A and B (copies them to the device); NULL on failure. `job` and what it names outlive the
     * state. */
    void *(*open)(const struct spg_job *job, struct spg_error *error);
    /* Forms C once; that of the run before is dropped. On failure there is no C. */
    bool (*run)(void *state, struct spg_run *run, struct spg_error *error);
    /* The last run's C as a new matrix of the caller's; single precision is widened. */
    bool (*fetch)(void *state, struct spg_csr *c, struct spg_error *error);
    void (*close)(void *state); /* NULL is fine */
    /* Leaves C and the figures of runs alone. Of modes that choose size_per_row; NULL in others. */
    bool (*estimate)(void *state, struct spg_estimates *estimates, struct spg_error *error);
};

struct spg_mode {
    const char *name;
    const char *arguments; /* accepted behind "name:", space separated; NULL = none */
    const char *help;
    const char *part; /* of the project that it needs, for the error where that is not built */
    bool sized;       /* takes size_per_row */
    bool kernels;     /* takes either kernel */
    const struct spg_mode_functions *functions;
};

/* Rows in order; NULL behind the last. */
const struct spg_mode *spg_mode_at(unsigned index);

/* The row that `text` ("rounds", "cusparse:alg2") names, its argument in *argument. NULL with a reason when
 * there is none, when it takes no such argument, or when this build lacks it. */
const struct spg_mode *spg_mode_find(const char *text, const char **argument, struct spg_error *error);

extern const struct spg_mode_functions spg_mode_graphblas;
/* In the CUDA part: */
extern const struct spg_mode_functions spg_mode_upper_bound, spg_mode_precise, spg_mode_rounds, spg_mode_cusparse;

#ifdef __cplusplus
}
#endif

#endif

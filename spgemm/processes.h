/* Several processes of the driver, one for each rank of MPI: each multiplies some rows of A. MPI is used by a module
 * that is opened for --mpi, so that the driver also starts on machines without it. */
#ifndef SPG_PROCESSES_H
#define SPG_PROCESSES_H

#include "spgemm/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All processes make the same calls in the same order. */
struct spg_processes {
    int rank, count;
    int local_rank, local_count;             /* of the processes on this host */
    void (*share)(void *bytes, size_t size); /* process 0 gives its bytes to all */
    void (*largest)(double *numbers, int count);
    void (*sum)(int64_t *numbers, int count);
    /* `all` of process 0 gets the bytes of each process in turn. */
    void (*gather)(const void *mine, void *all, size_t size);
    void (*wait)(void); /* for all processes */
    /* `failed`: ends the other processes, which may wait for this one, and does not return. */
    void (*stop)(bool failed);
};

/* Starts MPI. */
bool spg_processes_start(struct spg_processes *p, struct spg_error *error);

/* The rows of A that process `rank` of `count` computes, so that all have equal work: the intermediate products of a
 * row and one more. */
void spg_processes_rows(const struct spg_csr *a, const struct spg_csr *b, int rank, int count, int32_t *first,
                        int32_t *rows);

#ifdef __cplusplus
}
#endif

#endif

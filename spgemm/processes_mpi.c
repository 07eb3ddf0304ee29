/* The module spgemm-mpi.so: processes.h by MPI. */
#include "spgemm/processes.h"

#include <mpi.h>
#include <stdlib.h>

bool spg_mpi_start(struct spg_processes *p, struct spg_error *error);

static void share(void *bytes, size_t size) { MPI_Bcast(bytes, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD); }

static void largest(double *numbers, int count) {
    MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void sum(int64_t *numbers, int count) {
    MPI_Allreduce(MPI_IN_PLACE, numbers, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

static void gather(const void *mine, void *all, size_t size) {
    MPI_Gather(mine, (int)size, MPI_BYTE, all, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void wait_for_all(void) { MPI_Barrier(MPI_COMM_WORLD); }

static void stop(bool failed) {
    if (failed)
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    MPI_Finalize();
}

__attribute__((visibility("default"))) bool spg_mpi_start(struct spg_processes *p, struct spg_error *error) {
    MPI_Comm host;
    *p = (struct spg_processes){
        .share = share, .largest = largest, .sum = sum, .gather = gather, .wait = wait_for_all, .stop = stop};
    if (MPI_Init(NULL, NULL) != MPI_SUCCESS)
        return spg_fail(error, "--mpi: MPI does not start");
    MPI_Comm_rank(MPI_COMM_WORLD, &p->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &p->count);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    MPI_Comm_rank(host, &p->local_rank);
    MPI_Comm_size(host, &p->local_count);
    MPI_Comm_free(&host);
    return true;
}

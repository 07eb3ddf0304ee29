#include "spgemm/processes.h"
#include "spgemm/symbolic.h"

#ifdef SPG_HAVE_MPI
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULE "spgemm-mpi.so" /* in the folder of the driver, or where SPGEMM_MPI says */

static void *open_module(void) {
    const char *chosen = getenv("SPGEMM_MPI");
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - sizeof MODULE);
    while (length > 0 && path[length - 1] != '/')
        length--;
    memcpy(path + (length > 0 ? length : 0), MODULE, sizeof MODULE);
    /* MPI opens modules of its own, which need its symbols. */
    return dlopen(chosen ? chosen : path, RTLD_NOW | RTLD_GLOBAL);
}

bool spg_processes_start(struct spg_processes *p, struct spg_error *error) {
    bool (*start)(struct spg_processes *, struct spg_error *);
    void *module = open_module(), *found = module ? dlsym(module, "spg_mpi_start") : NULL;
    if (!found)
        return spg_fail(error, "--mpi: %s", dlerror());
    memcpy(&start, &found, sizeof start);
    return start(p, error);
}
#else
bool spg_processes_start(struct spg_processes *p, struct spg_error *error) {
    return spg_fail(error, "--mpi needs MPI, which this build lacks");
}
#endif

void spg_processes_rows(const struct spg_csr *a, const struct spg_csr *b, int rank, int count, int32_t *first,
                        int32_t *rows) {
    int64_t total = 0, before = 0;
    int32_t cut[2] = {a->rows, a->rows};
    for (int32_t i = 0; i < a->rows; i++)
        total += spg_row_bound(a, b, i) + 1;
    /* A cut is the first row with its share of the work before it, as on devices. */
    for (int32_t i = 0; i < a->rows; i++) {
        for (int end = 0; end < 2; end++) {
            int64_t wanted = total / count * (rank + end) + total % count * (rank + end) / count;
            if (cut[end] == a->rows && rank + end < count && before >= wanted)
                cut[end] = i;
        }
        before += spg_row_bound(a, b, i) + 1;
    }
    *first = cut[0];
    *rows = cut[1] - cut[0];
}

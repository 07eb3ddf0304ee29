// Host twins of the kernels for the simulated CUDA, see tools/sim/simcuda.h. On a GPU nothing here is used.
#include "elements.h"
#include "tools/sim/simcuda.h"

static void each(const simcuda_launch *launch, int members, int elements, void (*element)(void *const *chunks, int i)) {
    const long groups = *static_cast<long *>(launch->args[0]);
    void *const *order = *static_cast<void *const **>(launch->args[1]);
    for (long group = 0; group < groups; group++) {
        void *chunks[POINTS];
        bool there = true;
        for (int k = 0; k < members; k++) {
            chunks[k] = launch->touch(order[group * members + k], CHUNK, 1);
            there = there && chunks[k];
        }
        for (int i = 0; there && i < elements; i++)
            element(chunks, i);
    }
}

static void run_add(const simcuda_launch *launch) { each(launch, PAIR, ADD_ELEMENTS, add_element); }
SIMCUDA_TWIN(chunk_add, "8p", run_add);

static void run_butterfly(const simcuda_launch *launch) { each(launch, POINTS, BUTTERFLY_ELEMENTS, butterfly_element); }
SIMCUDA_TWIN(chunk_butterfly, "8p", run_butterfly);

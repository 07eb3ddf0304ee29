// Host twins of the kernels, for the simulated CUDA (see ../twins.c).
#include "tools/sim/simcuda.h"

namespace {

template <typename T> T argument(const simcuda_launch *launch, int index) {
    return *static_cast<T *>(launch->args[index]);
}

void expand(const simcuda_launch *launch) {
    auto *rows = argument<const int *>(launch, 0), *columns = argument<const int *>(launch, 1);
    auto *visited = argument<int *>(launch, 2), *order = argument<int *>(launch, 3),
         *count = argument<int *>(launch, 7);
    int last = argument<int>(launch, 5), distance = argument<int>(launch, 6);
    for (int i = argument<int>(launch, 4); i < last; i++)
        for (int e = rows[order[i]]; e < rows[order[i] + 1]; e++)
            if (visited[columns[e]] == -1) {
                visited[columns[e]] = distance;
                order[(*count)++] = columns[e];
            }
}

void sum_degrees(const simcuda_launch *launch) {
    auto *rows = argument<const int *>(launch, 0), *order = argument<const int *>(launch, 1);
    auto *sum = argument<int *>(launch, 4);
    for (int i = argument<int>(launch, 2), last = argument<int>(launch, 3); i < last; i++)
        *sum += rows[order[i] + 1] - rows[order[i]];
}

} // namespace

SIMCUDA_TWIN(_Z6expandPKiS0_PiS1_iiiS1_, "pppp444p", expand);
SIMCUDA_TWIN(_Z11sum_degreesPKiS0_iiPi, "pp44p", sum_degrees);

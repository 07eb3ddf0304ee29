// Host twins of the kernels, for the simulated CUDA (see ../twins.c).
#include "tools/sim/simcuda.h"

namespace {

template <typename T> T argument(const simcuda_launch *launch, int index) {
    return *static_cast<T *>(launch->args[index]);
}

void relax(const simcuda_launch *launch) {
    auto *rows = argument<const int *>(launch, 0), *columns = argument<const int *>(launch, 1),
         *weights = argument<const int *>(launch, 2);
    auto *distance = argument<int *>(launch, 3), *next = argument<int *>(launch, 6),
         *count = argument<int *>(launch, 8);
    auto *list = argument<const int *>(launch, 4);
    int length = argument<int>(launch, 5), room = argument<int>(launch, 7);
    for (int i = 0; i < length; i++)
        for (int e = rows[list[i]], far = distance[list[i]]; e < rows[list[i] + 1]; e++)
            if (far + weights[e] < distance[columns[e]]) {
                distance[columns[e]] = far + weights[e];
                if (*count < room)
                    next[*count] = columns[e];
                ++*count;
            }
}

void list_changed(const simcuda_launch *launch) {
    auto *distance = argument<const int *>(launch, 0), *before = argument<const int *>(launch, 1);
    auto *next = argument<int *>(launch, 3), *count = argument<int *>(launch, 4);
    for (int v = 0, vertices = argument<int>(launch, 2); v < vertices; v++)
        if (distance[v] != before[v])
            next[(*count)++] = v;
}

} // namespace

SIMCUDA_TWIN(_Z5relaxPKiS0_S0_PiS0_iS1_iS1_, "ppppp4p4p", relax);
SIMCUDA_TWIN(_Z12list_changedPKiS0_iPiS1_, "pp4pp", list_changed);

/* Host twins of the examples' kernels. The simulated CUDA has no device code; it runs the function that carries the
 * kernel's mangled name instead. On a GPU nothing here is used, and the examples themselves know nothing of it. */
#include "tools/sim/simcuda.h"

/* Arguments arrive as they do in cuLaunchKernel; pointers already lead to memory that the host can reach. */
#define ARG(type, index) (*(type *)launch->args[index])

static int bounded(const struct simcuda_launch *launch, int count) {
    long threads = (long)launch->grid[0] * launch->block[0];
    return threads < count ? (int)threads : count;
}

static void scale(const struct simcuda_launch *launch) {
    float *out = ARG(float *, 0);
    const float *in = ARG(const float *, 1);
    for (int i = 0, n = bounded(launch, ARG(int, 3)); i < n; i++)
        out[i] = in[i] * ARG(float, 2);
}
SIMCUDA_TWIN(_Z5scalePfPKffi, "pp44", scale);

static void add(const struct simcuda_launch *launch) {
    float *sum = ARG(float *, 0);
    const float *in = ARG(const float *, 1);
    for (int i = 0, n = bounded(launch, ARG(int, 2)); i < n; i++)
        sum[i] += in[i];
}
SIMCUDA_TWIN(_Z3addPfPKfi, "pp4", add);

static void fill(const struct simcuda_launch *launch) {
    unsigned *out = ARG(unsigned *, 0);
    for (int i = 0, n = bounded(launch, ARG(int, 2)); i < n; i++)
        out[i] = ARG(unsigned, 1) + (unsigned)i;
}
SIMCUDA_TWIN(_Z4fillPjji, "p44", fill);

static void square(const struct simcuda_launch *launch) {
    double *values = ARG(double *, 0);
    for (int i = 0, n = bounded(launch, ARG(int, 1)); i < n; i++)
        values[i] *= values[i];
}
SIMCUDA_TWIN(_Z6squarePdi, "p4", square);

/* Host twins of the kernels for the simulated CUDA, see tools/sim/simcuda.h. On a GPU nothing here is used. */
#include "examples/hadron/elements.h"
#include "tools/sim/simcuda.h"

_Static_assert(sizeof(struct operands) == 512, "the parameters below say [512]");

#define ARGUMENT(type, place) (*(type *)launch->args[place])

static void run_pointers(const struct simcuda_launch *launch) {
    for (int e = 0; e < ARGUMENT(int, 4); e++)
        pointers_element(e, launch->args[0], ARGUMENT(struct complex_number *, 1), ARGUMENT(long, 2),
                         ARGUMENT(struct pointers *, 3));
}

static void multiply(const struct pointers *pointers, int e, int rows, int inner, int columns) {
    for (int column = 0; column < columns; column++) {
        for (int row = 0; row < rows; row++) {
            struct complex_number sum = {0, 0};
            for (int k = 0; k < inner; k++)
                add_product(&sum, pointers->left[e][k * rows + row], pointers->right[e][column * inner + k]);
            pointers->product[e][column * rows + row] = sum;
        }
    }
}

static void run_multiply(const struct simcuda_launch *launch) {
    for (int e = 0; e < (int)launch->grid[2]; e++)
        multiply(ARGUMENT(struct pointers *, 0), e, ARGUMENT(int, 1), ARGUMENT(int, 2), ARGUMENT(int, 3));
}

static void run_accumulate(const struct simcuda_launch *launch) {
    for (int spin = 0; spin < ARGUMENT(int, 3); spin++) {
        for (long i = 0; i < ARGUMENT(long, 2); i++)
            accumulate_element(i, spin, launch->args[0], ARGUMENT(const struct complex_number *, 1), ARGUMENT(long, 2),
                               ARGUMENT(int, 4));
    }
}

SIMCUDA_TWIN(hadron_pointers, "[512]p8p4", run_pointers);
SIMCUDA_TWIN(hadron_multiply, "p444", run_multiply);
SIMCUDA_TWIN(hadron_accumulate, "[512]p844", run_accumulate);

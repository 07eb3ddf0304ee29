/* Replaces one of many live blocks at a time by one of another size. Arguments: number of live blocks, smallest and
 * largest size, replacements, "uniform" or "log" (log-uniform sizes), a number that begins the random ones. Prints what
 * native memory would take for the live blocks, at most: multiples of 512 bytes, and whole pages of 2 MiB from 1 MiB
 * on. */
#include <cuda.h>
#include <math.h>
#include <stdbool.h>

#include "program.h"

enum { PAGE = 2 << 20, SMALL = 512 };

static uint64_t state;

static double random_part(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) / (double)(1ull << 53);
}

static size_t native(size_t size) {
    size_t unit = size >= PAGE / 2 ? PAGE : SMALL;
    return (size + unit - 1) / unit * unit;
}

int main(int count, char **words) {
    EXPECT(count == 7);
    size_t live = strtoul(words[1], NULL, 10);
    double low = atof(words[2]), high = atof(words[3]);
    size_t replacements = strtoul(words[4], NULL, 10), taken = 0, most = 0;
    bool by_logarithm = strcmp(words[5], "log") == 0;
    state = strtoul(words[6], NULL, 10);
    CUdeviceptr *blocks = calloc(live, sizeof *blocks);
    size_t *sizes = calloc(live, sizeof *sizes);
    EXPECT(blocks && sizes);
    start_driver();
    for (size_t i = 0; i < live + replacements; i++) {
        size_t at = i < live ? i : (size_t)(random_part() * (double)live);
        double part = random_part();
        if (blocks[at])
            MUST(cuMemFree(blocks[at]));
        taken -= native(sizes[at]);
        sizes[at] = (size_t)(by_logarithm ? low * pow(high / low, part) : low + part * (high - low));
        MUST(cuMemAlloc(&blocks[at], sizes[at]));
        taken += native(sizes[at]);
        most = taken > most ? taken : most;
    }
    printf("ok native %zu\n", most);
    return 0;
}

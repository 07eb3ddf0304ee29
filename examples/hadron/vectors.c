#include "examples/hadron/vectors.h"
#include "policy/eviction/random_numbers.h"

#include <math.h>
#include <string.h>

static double unit(uint64_t *random) { return (double)((gm_random_next(random) >> 11) + 1) * 0x1p-53; }

static uint32_t draw_gaussian(uint64_t *random, uint32_t size) {
    for (;;) {
        const double normal = sqrt(-2 * log(unit(random))) * cos(2 * M_PI * unit(random)); /* Box and Muller */
        const double place = floor(size / 2.0 + normal * size / 6.0);
        if (place >= 0 && place < size)
            return (uint32_t)place;
    }
}

/* Marks `count` different numbers below `size`. */
static void draw(enum distribution distribution, uint64_t *random, uint32_t size, uint32_t count, uint32_t *marks) {
    memset(marks, 0, size * sizeof *marks);
    while (count) {
        const uint32_t at = distribution == GAUSSIAN ? draw_gaussian(random, size) : gm_random_below(random, size);
        count -= !marks[at];
        marks[at] = 1;
    }
}

void next_vector(const struct experiment *experiment, uint64_t *random, uint32_t *vector, uint32_t *next_node,
                 uint32_t *scratch) {
    const uint32_t size = experiment->vector_size;
    uint32_t *kept = scratch + size, count = 0;
    draw(experiment->distribution, random, size, experiment->repeated, scratch);
    for (uint32_t i = size; i--;) {
        if (scratch[i])
            kept[count++] = vector[i];
    }
    draw(UNIFORM, random, size, experiment->repeated, scratch);
    for (uint32_t i = 0; i < size; i++)
        vector[i] = scratch[i] ? *kept++ : (*next_node)++;
}

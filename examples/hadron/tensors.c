#include "examples/hadron/tensors.h"
#include "policy/eviction/random_numbers.h"

struct tensors tensors_make(bool baryon, uint32_t size) {
    const size_t matrix = (size_t)size * size;
    if (!baryon)
        return (struct tensors){.name = "meson",
                                .size = size,
                                .same_roles = true,
                                .spins = {16, 16},
                                .numbers = {matrix, matrix},
                                .products = 64,
                                .per_spin = 4,
                                .rows = (int)size,
                                .inner = (int)size,
                                .columns = (int)size};
    return (struct tensors){.name = "baryon",
                            .size = size,
                            .spins = {8, 4},
                            .numbers = {matrix * size, matrix},
                            .products = 16,
                            .per_spin = 2,
                            .rows = (int)matrix,
                            .inner = (int)size,
                            .columns = (int)size};
}

double tensors_operations(const struct tensors *t) { return 8.0 * t->rows * t->inner * t->columns * t->products; }

/* Output spin (a, r) with a: the outer indices, takes left (a, s) and right (s, r) for all s. */
static void natural(const struct tensors *t, struct mapping *mapping) {
    const int s_count = t->per_spin;
    for (int e = 0; e < t->products; e++) {
        const int output = e / s_count, s = e % s_count, outer = output / s_count, r = output % s_count;
        mapping->left[e] = (unsigned char)(outer * s_count + s);
        mapping->right[e] = (unsigned char)(s * s_count + r);
    }
}

static void shuffle(unsigned char *spins, int count, uint64_t *random) {
    for (int i = count - 1; i > 0; i--) {
        const uint32_t other = gm_random_below(random, (uint32_t)i + 1);
        const unsigned char kept = spins[i];
        spins[i] = spins[other];
        spins[other] = kept;
    }
}

void mapping_make(const struct tensors *tensors, bool random, uint64_t seed, uint32_t left, uint32_t right,
                  struct mapping *mapping) {
    natural(tensors, mapping);
    if (!random)
        return;
    uint64_t state = seed ^ (uint64_t)left << 32 ^ right;
    shuffle(mapping->left, tensors->products, &state);
    shuffle(mapping->right, tensors->products, &state);
}

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCDu;
    x = (x ^ x >> 29) * 0xC4CEB9FE1A85EC53u;
    return x ^ x >> 32;
}

static uint64_t stream_of(uint64_t seed, uint32_t node, int spin) {
    return mixed(seed * 0x9E3779B97F4A7C15u + (uint64_t)node * MAX_SPINS + (uint64_t)spin);
}

static struct complex_number number_at(uint64_t stream, size_t index) {
    const uint64_t bits = mixed(stream + index);
    return (struct complex_number){(double)((bits & 0xFFFF) * 3 >> 16) - 1,
                                   (double)((bits >> 16 & 0xFFFF) * 3 >> 16) - 1};
}

struct complex_number initial_number(uint64_t seed, uint32_t node, int spin, size_t index) {
    return number_at(stream_of(seed, node, spin), index);
}

void initial_fill(uint64_t seed, uint32_t node, int spin, struct complex_number *numbers, size_t count) {
    const uint64_t stream = stream_of(seed, node, spin);
#pragma omp parallel for schedule(static) if (count > 65536)
    for (size_t i = 0; i < count; i++)
        numbers[i] = number_at(stream, i);
}

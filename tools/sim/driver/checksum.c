/* The host twin of the kernel by which gpumem tells which pages have changed (shim/suspend/checksum.h). */
#include "sim.h"

#define PAGE_WORDS ((2u << 20) / 4)
#define P          (((uint64_t)1 << 61) - 1)

__extension__ typedef unsigned __int128 wide;

static uint64_t reduce(wide value) {
    uint64_t sum = ((uint64_t)value & P) + (uint64_t)(value >> 61);
    return (sum & P) + (sum >> 61);
}

/* Eight words at a time: only the first product is longer than 93 bits. */
static uint64_t polynomial(const uint32_t *words, uint64_t key) {
    uint64_t powers[9] = {1}, sum = 0;
    for (unsigned i = 1; i < 9; i++)
        powers[i] = reduce((wide)powers[i - 1] * key);
    for (unsigned i = 0; i < PAGE_WORDS; i += 8) {
        wide next = (wide)sum * powers[8];
        for (unsigned k = 0; k < 8; k++)
            next += (wide)words[i + k] * powers[7 - k];
        sum = reduce(next);
    }
    return sum % P;
}

static void run_checksum(const struct simcuda_launch *l) {
    const uint64_t *pages = *(uint64_t **)l->args[0];
    uint64_t *sums = *(uint64_t **)l->args[1];
    for (unsigned i = 0; i < l->grid[0]; i++) {
        const uint32_t *words = l->touch((const void *)(uintptr_t)pages[i], PAGE_WORDS * 4, 0);
        for (unsigned k = 0; words && k < 2; k++)
            sums[2 * i + k] = polynomial(words, *(uint64_t *)l->args[2 + k]);
    }
}

__attribute__((constructor)) static void register_checksum(void) {
    simcuda_register_kernel("gm_checksum_pages", "pp88", run_checksum);
}

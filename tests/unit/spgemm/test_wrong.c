/* Matrices that hold other things than they should: what a check finds, and that no kernel leaves its arrays where
 * nothing is checked. Memory of the emulated device ends at a page that cannot be accessed. */
#include "emulated/driver.h"
#include "pair.h"

#define STREAM ((cudaStream_t)9)

static void worked(enum gpumem_status status) {
    if (status)
        fail_msg("%s", gpumem_spgemm_last_error());
}

static struct pair make_pair(const char *name) {
    return pair_of(name, empty_or_generated(name), empty_or_generated(name), SPG_DOUBLE);
}

/* ---- checks */

/* Another column in row 0, which stays sorted. */
static void move_an_entry(struct pair *p, int by) { p->on_device[1].indices[p->b.offsets[1] - 1] += by; }

TEST(other_positions_in_the_same_structure) {
    const uint64_t check = GPUMEM_SPGEMM_CHECK, same = GPUMEM_SPGEMM_CHECK | GPUMEM_SPGEMM_SAME_STRUCTURE;
    struct pair p = make_pair("cage:5");
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    const struct gpumem_spgemm_csr *a = &p.first, *b = &p.second;
    for (int added = 0; added < 2; added++) {
        const struct gpumem_spgemm_csr *d = added ? a : NULL;
        worked(gpumem_spgemm_multiply_add(m, a, b, d, NULL, 0, STREAM, &c));
        refused(gpumem_spgemm_multiply_add(m, a, b, d, NULL, same, STREAM, &c), GPUMEM_INVALID_VALUE,
                "the last product was not checked, so its positions are not known");
        worked(gpumem_spgemm_multiply_add(m, a, b, d, NULL, check, STREAM, &c));
        worked(gpumem_spgemm_multiply_add(m, a, b, d, NULL, same & ~check, STREAM, &c));
        worked(gpumem_spgemm_multiply_add(m, a, b, d, NULL, same, STREAM, &c));
        move_an_entry(&p, 1);
        refused(gpumem_spgemm_multiply_add(m, a, b, d, NULL, same, STREAM, &c), GPUMEM_INVALID_VALUE,
                "B has other positions than in the last product");
        refused(gpumem_spgemm_multiply_add(m, a, b, d, NULL, same, STREAM, &c), GPUMEM_INVALID_VALUE,
                "there is no last product");
        move_an_entry(&p, -1);
    }
    worked(gpumem_spgemm_triple(m, NULL, a, b, NULL, check, STREAM, &c));
    worked(gpumem_spgemm_triple(m, NULL, a, b, NULL, same, STREAM, &c));
    move_an_entry(&p, 1);
    refused(gpumem_spgemm_triple(m, NULL, a, b, NULL, same, STREAM, &c), GPUMEM_INVALID_VALUE,
            "A has other positions than in the last product");
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

/* The matrix with 64-bit offsets. */
static struct gpumem_spgemm_csr widened(const struct gpumem_spgemm_csr *m) {
    struct gpumem_spgemm_csr wide = *m;
    int64_t *offsets;
    assert_int_equal(cudaMalloc((void **)&offsets, ((size_t)m->rows + 1) * sizeof *offsets), cudaSuccess);
    for (int64_t i = 0; i <= m->rows; i++)
        offsets[i] = m->offsets[i];
    wide.offsets = NULL;
    wide.wide_offsets = offsets;
    return wide;
}

TEST(wide_offsets_are_checked) {
    const uint64_t flags = GPUMEM_SPGEMM_CHECK | GPUMEM_SPGEMM_WIDE;
    struct pair p = make_pair("cage:5");
    struct gpumem_spgemm *m = multiplier_of(SPG_DOUBLE, 0);
    struct gpumem_spgemm_result c = {.struct_size = sizeof c};
    struct gpumem_spgemm_csr a = widened(&p.first), b = widened(&p.second);
    int64_t *offsets = (int64_t *)b.wide_offsets;
    worked(gpumem_spgemm_multiply(m, &a, &b, NULL, flags, STREAM, &c));
    worked(gpumem_spgemm_multiply(m, &p.first, &b, NULL, flags, STREAM, &c));
    move_an_entry(&p, 100);
    refused(gpumem_spgemm_multiply(m, &a, &b, NULL, flags, STREAM, &c), GPUMEM_INVALID_VALUE,
            "row 0 of B has columns that are out of range, unsorted or doubled");
    move_an_entry(&p, -100);
    offsets[3] += (int64_t)1 << 40;
    refused(gpumem_spgemm_multiply(m, &a, &b, NULL, flags, STREAM, &c), GPUMEM_INVALID_VALUE,
            "the offsets of B at row 2 do not ascend from 0 to 233");
    cudaFree(offsets);
    cudaFree((void *)a.wide_offsets);
    gpumem_spgemm_destroy(m);
    drop_pair(&p);
}

int main(void) {
    emulated_driver_use();
    return run_all(NULL, NULL);
}

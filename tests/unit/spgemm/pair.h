/* A and B on the host and on an emulated device, for the tests of spgemm.h. */
#ifndef SPG_TEST_PAIR_H
#define SPG_TEST_PAIR_H

#include "spgemm_test.h"

#include "spgemm/check.h"
#include "spgemm/client.h"

#include <stdio.h>

struct pair {
    const char *name;
    enum spg_precision precision;
    struct spg_csr a, b;
    struct spg_operand on_device[2];
    struct gpumem_spgemm_csr first, second;
};

/* "empty:ROWSxCOLUMNS" has no entries; other names are those of the generators. */
static inline struct spg_csr empty_or_generated(const char *name) {
    struct spg_error error;
    struct spg_csr m;
    int rows, columns;
    if (sscanf(name, "empty:%dx%d", &rows, &columns) != 2)
        return generated(name);
    assert_true(spg_csr_make(&m, rows, columns, 0, &error));
    return m;
}

static inline void put_pair_on_device(struct pair *p) {
    struct spg_error error;
    assert_true(spg_operand_make(&p->on_device[0], &p->a, p->precision, &error));
    assert_true(spg_operand_make(&p->on_device[1], &p->b, p->precision, &error));
    p->first = spg_argument_of(&p->on_device[0]);
    p->second = spg_argument_of(&p->on_device[1]);
}

/* Takes A and B over. */
static inline struct pair pair_of(const char *name, struct spg_csr a, struct spg_csr b, enum spg_precision precision) {
    struct pair p = {.name = name, .precision = precision, .a = a, .b = b};
    if (precision == SPG_FLOAT) {
        spg_csr_round_to_float(&p.a);
        spg_csr_round_to_float(&p.b);
    }
    put_pair_on_device(&p);
    return p;
}

static inline void drop_pair(struct pair *p) {
    spg_operand_drop(&p->on_device[0]);
    spg_operand_drop(&p->on_device[1]);
    spg_csr_free(&p->a);
    spg_csr_free(&p->b);
}

/* Compares C on the device with the product. */
static inline void check_result(const struct pair *p, struct spg_result r) {
    struct spg_error error = {""};
    struct spg_check check;
    struct spg_csr c;
    if (!spg_result_fetch(&r, p->precision, &c, &error) ||
        !spg_check_product(&p->a, &p->b, &c, p->precision, &check, &error))
        fail_msg("%s: %s", p->name, error.text);
    spg_csr_free(&c);
}

static inline struct gpumem_spgemm *multiplier_of(uint64_t precision, size_t limit) {
    struct gpumem_spgemm_options options = {.struct_size = sizeof options, .limit = limit, .precision = precision};
    struct gpumem_spgemm *m;
    if (gpumem_spgemm_create(&options, &m))
        fail_msg("%s", gpumem_spgemm_last_error());
    return m;
}

static inline void refused(enum gpumem_status status, enum gpumem_status wanted, const char *says) {
    if (status != wanted || !strstr(gpumem_spgemm_last_error(), says))
        fail_msg("status %d, not %d: '%s', not '%s'", status, wanted, gpumem_spgemm_last_error(), says);
    assert_null(strchr(gpumem_spgemm_last_error(), '\n'));
}

#endif

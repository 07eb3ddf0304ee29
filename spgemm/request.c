/* The matrices of a call: read, checked, compared with those of an earlier call, and made plain. */
#include "spgemm/multiplier.h"

#include <string.h>

const char *const spg_request_names[3] = {"A", "B", "D"};

bool spg_request_read(const struct gpumem_spgemm *m, struct spg_request *r, const struct gpumem_spgemm_csr *a,
                      const struct gpumem_spgemm_csr *b, const struct gpumem_spgemm_csr *d, bool wide,
                      struct spg_error *error) {
    const struct gpumem_spgemm_csr *theirs[] = {a, b, d};
    unsigned accepts =
        SPG_READ_ARRAYS | (wide ? SPG_READ_WIDE : 0) | (m->job.precision == SPG_PATTERN ? SPG_READ_PATTERN : 0);
    r->count = d ? 3 : 2;
    for (int i = 0; i < r->count; i++)
        if (!spg_read_csr(spg_request_names[i], &r->csr[i], theirs[i], accepts, error))
            return false;
    int64_t rows[3], columns[3];
    for (int i = 0; i < r->count; i++) {
        rows[i] = spg_request_rows(&r->csr[i]);
        columns[i] = spg_request_columns(&r->csr[i]);
    }
    if (columns[0] != rows[1])
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "A has %lld columns and B has %lld rows", (long long)columns[0],
                           (long long)rows[1]);
    if (d && (rows[2] != rows[0] || columns[2] != columns[1]))
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "D is %lld x %lld, and A B is %lld x %lld", (long long)rows[2],
                           (long long)columns[2], (long long)rows[0], (long long)columns[1]);
    return true;
}

bool spg_request_flags(uint64_t flags, uint64_t known, struct spg_error *error) {
    const uint64_t both = GPUMEM_SPGEMM_SAME_STRUCTURE | GPUMEM_SPGEMM_WIDE;
    if (flags & ~known)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "unknown flags %#llx", (unsigned long long)(flags & ~known));
    return (flags & both) != both ||
           spg_fail_as(error, GPUMEM_INVALID_VALUE, "same structure is not for 64-bit offsets (flags %#llx)",
                       (unsigned long long)flags);
}

struct spg_matrix_shape spg_shape_of(const struct gpumem_spgemm_csr *m) {
    return (struct spg_matrix_shape){m->rows, m->columns, m->stored, m->operation};
}

bool spg_request_repeats(const struct spg_request *r, int shapes, const struct spg_matrix_shape *shape, const char *of,
                         struct spg_error *error) {
    if (r->count != shapes)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "%d matrices, and %s has %d", r->count, of, shapes);
    for (int i = 0; i < r->count; i++) {
        struct spg_matrix_shape now = spg_shape_of(&r->csr[i]);
        if (now.rows != shape[i].rows || now.columns != shape[i].columns || now.stored != shape[i].stored)
            return spg_fail_as(error, GPUMEM_INVALID_VALUE,
                               "%s is %lld x %lld with %lld entries, in %s %lld x %lld with %lld", spg_request_names[i],
                               (long long)now.rows, (long long)now.columns, (long long)now.stored, of,
                               (long long)shape[i].rows, (long long)shape[i].columns, (long long)shape[i].stored);
        if (now.operation != shape[i].operation)
            return spg_fail_as(error, GPUMEM_INVALID_VALUE, "%s has operation %llu, in %s %llu", spg_request_names[i],
                               (unsigned long long)now.operation, of, (unsigned long long)shape[i].operation);
    }
    return true;
}

/* What a check finds of the matrices. */
struct findings {
    struct spg_flaws flaws[3][2];
    unsigned long long hash[3];
};

static bool is_right(const struct spg_flaws flaws[2], const struct gpumem_spgemm_csr *csr, const char *name,
                     struct spg_error *error) {
    if (flaws[0].row != INT32_MAX)
        return spg_fail_as(error, GPUMEM_INVALID_VALUE, "the offsets of %s at row %d do not ascend from 0 to %lld",
                           name, flaws[0].row, (long long)csr->stored);
    return flaws[1].row == INT32_MAX ||
           spg_fail_as(error, GPUMEM_INVALID_VALUE,
                       "row %d of %s has columns that are out of range, unsorted or doubled", flaws[1].row, name);
}

#define OFFSETS 1u
#define COLUMNS 2u
#define HASHES  4u

/* Reads the patterns, as far as `wanted` says, and waits once. */
static bool examine(struct gpumem_spgemm *m, const struct spg_request *r, unsigned wanted, struct findings *f,
                    struct spg_error *error) {
    struct spg_memory *memory = &m->product.method.gpu.memory;
    struct spg_block block;
    *f = (struct findings){.hash = {0}};
    for (int i = 0; i < 6; i++)
        f->flaws[i / 2][i % 2].row = INT32_MAX;
    if (!spg_block_make(&block, memory, sizeof *f, "a check", error))
        return false;
    struct findings *found = block.at;
    bool done = spg_send(memory->stream, found, f, sizeof *f, "a check", error);
    for (int i = 0; done && i < r->count; i++) {
        struct spg_operand operand = spg_operand_of(&r->csr[i]);
        done = (!(wanted & OFFSETS) || spg_cuda(spg_launch_check(&operand, r->csr[i].wide_offsets, wanted & COLUMNS,
                                                                 found->flaws[i], memory->stream),
                                                "a check", error)) &&
               (!(wanted & HASHES) ||
                spg_cuda(spg_launch_hash(&operand, &found->hash[i], memory->stream), "a check", error));
    }
    done = done && spg_fetch(memory->stream, f, found, sizeof *f, "a check", error);
    spg_block_drop(&block, memory);
    return done;
}

static bool check(struct gpumem_spgemm *m, const struct spg_request *r, unsigned wanted, struct findings *f,
                  struct spg_error *error) {
    if (!examine(m, r, wanted, f, error))
        return false;
    for (int i = 0; i < r->count; i++)
        if (!is_right(f->flaws[i], &r->csr[i], spg_request_names[i], error))
            return false;
    return true;
}

bool spg_request_check(struct gpumem_spgemm *m, const struct spg_request *r, unsigned long long hash[3],
                       struct spg_error *error) {
    struct findings f;
    if (!check(m, r, OFFSETS | COLUMNS | (hash ? HASHES : 0), &f, error))
        return false;
    if (hash)
        memcpy(hash, f.hash, sizeof f.hash);
    return true;
}

bool spg_request_check_offsets(struct gpumem_spgemm *m, const struct spg_request *r, struct spg_error *error) {
    struct findings f;
    return check(m, r, OFFSETS, &f, error);
}

bool spg_request_hash(struct gpumem_spgemm *m, const struct spg_request *r, unsigned long long hash[3],
                      struct spg_error *error) {
    struct findings f;
    if (!examine(m, r, HASHES, &f, error))
        return false;
    memcpy(hash, f.hash, sizeof f.hash);
    return true;
}

bool spg_request_same_positions(struct gpumem_spgemm *m, const struct spg_request *r, const unsigned long long hash[3],
                                const char *of, struct spg_error *error) {
    unsigned long long now[3];
    if (!spg_request_hash(m, r, now, error))
        return false;
    for (int i = 0; i < r->count; i++)
        if (now[i] != hash[i])
            return spg_fail_as(error, GPUMEM_INVALID_VALUE, "%s has other positions than in %s", spg_request_names[i],
                               of);
    return true;
}

static struct spg_form form_of(const struct gpumem_spgemm_csr *m) {
    return (struct spg_form){m->operation != GPUMEM_SPGEMM_PLAIN, m->operation == GPUMEM_SPGEMM_CONJUGATE, m->scale};
}

bool spg_request_form(struct gpumem_spgemm *m, const struct spg_request *r, struct spg_error *error) {
    struct spg_gpu *g = &m->product.method.gpu;
    struct spg_operand plain[3];
    for (int i = 0; i < r->count; i++) {
        struct spg_operand given = spg_operand_of(&r->csr[i]);
        struct spg_form form = form_of(&r->csr[i]);
        if (i == 0)
            given.first = m->first_entry;
        if (i == 2)
            form.scale = NULL; /* the identity beside A has it */
        if (!spg_form_operand(g, &given, &form, &m->formed, &plain[i], error))
            return false;
    }
    if (r->count == 1 && !spg_form_identity(g, plain[0].columns, &m->formed, &plain[1], error))
        return false;
    if (r->count > 2 && !spg_form_sum(g, &plain[0], &plain[1], &plain[2], r->csr[2].scale, &m->formed, error))
        return false;
    spg_multiplier_take(m, &plain[0], &plain[1]);
    return true;
}

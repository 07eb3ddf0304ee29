/* The handle of spgemm.h for one device, and what its calls share: product.c, structure.c, multiplier.c. */
#ifndef SPG_MULTIPLIER_H
#define SPG_MULTIPLIER_H

#include "spgemm/arguments.h"
#include "spgemm/gpu_operands.h"
#include "spgemm/gpu_product.h"

/* What decides whether a matrix may have the positions of another one. */
struct spg_matrix_shape {
    int64_t rows, columns, stored;
    uint64_t operation;
};

/* The matrices of a call, as the caller gives them. */
struct spg_request {
    int count; /* 1: A, and B is an identity; 2: A and B; 3: A, B and D */
    struct gpumem_spgemm_csr csr[3];
};

enum spg_call { SPG_NO_CALL, SPG_CALL_PRODUCT, SPG_CALL_TRIPLE, SPG_CALL_SORT };

struct gpumem_spgemm {
    struct spg_product product;
    struct spg_job job;
    int device;
    bool used;          /* the event `finished` is that of the last call */
    enum spg_call last; /* that made the last product */
    bool in_own_memory; /* the last product's entries */
    int shapes;
    struct spg_matrix_shape shape[3]; /* of the last product's matrices */
    unsigned long long hash[3];       /* of their patterns, if it was checked */
    bool hashed;
    int32_t first_entry;         /* with which the offsets of A begin: not 0 in a group (group_spread.c) */
    struct spg_formed formed;    /* operands of the call */
    struct spg_result aside;     /* the C before the last one, if matrices of the call lie in it (aliases.h) */
    struct gpumem_spgemm *inner; /* computes R A of triple products; NULL before the first one */
};

/* Waits for the last call and frees all memory, also that of C. Its device is current. */
void spg_multiplier_empty(struct gpumem_spgemm *m);
struct gpumem_spgemm *spg_multiplier_like(const struct gpumem_spgemm *m, struct spg_error *error);

/* Begins a call in `stream`: after the multiplier's last call. `launches`: it only submits work, so that the stream may
 * be captured. */
bool spg_multiplier_enter(struct gpumem_spgemm *m, bool launches, struct CUstream_st *stream, struct spg_error *error);
/* Ends it. */
bool spg_multiplier_leave(struct gpumem_spgemm *m, struct spg_error *error);
/* Ends a call that failed. The caller may free the operands then, so it waits until no kernel uses them any more. Other
 * errors than GPUMEM_TOO_SMALL also end the last product, if `forgets`. */
enum gpumem_status spg_multiplier_abandon(struct gpumem_spgemm *m, bool forgets, const struct spg_error *error);

extern const char *const spg_request_names[3]; /* of the matrices, in errors */
/* Refuses flags that the call does not know, and those that exclude each other. */
bool spg_request_flags(uint64_t flags, uint64_t known, struct spg_error *error);
/* Reads and checks the matrices of a call. `d` NULL: there is none. */
bool spg_request_read(const struct gpumem_spgemm *m, struct spg_request *r, const struct gpumem_spgemm_csr *a,
                      const struct gpumem_spgemm_csr *b, const struct gpumem_spgemm_csr *d, bool wide,
                      struct spg_error *error);
/* Rows and columns of scale x op(matrix). */
static inline int64_t spg_request_rows(const struct gpumem_spgemm_csr *m) {
    return m->operation ? m->columns : m->rows;
}
static inline int64_t spg_request_columns(const struct gpumem_spgemm_csr *m) {
    return m->operation ? m->rows : m->columns;
}
struct spg_matrix_shape spg_shape_of(const struct gpumem_spgemm_csr *m);
/* Whether the matrices may have the positions of those with these shapes. `of` names them in the error. */
bool spg_request_repeats(const struct spg_request *r, int shapes, const struct spg_matrix_shape *shape, const char *of,
                         struct spg_error *error);
/* Reads the patterns on the device and refuses a wrong one. `hash`: NULL, or gets the numbers of 32-bit patterns. Waits
 * for the stream, as the next three do. */
bool spg_request_check(struct gpumem_spgemm *m, const struct spg_request *r, unsigned long long hash[3],
                       struct spg_error *error);
/* Only the offsets, by which rows are cut into slabs. */
bool spg_request_check_offsets(struct gpumem_spgemm *m, const struct spg_request *r, struct spg_error *error);
bool spg_request_hash(struct gpumem_spgemm *m, const struct spg_request *r, unsigned long long hash[3],
                      struct spg_error *error);
/* Refuses patterns that have other numbers. `of` names those in the error. */
bool spg_request_same_positions(struct gpumem_spgemm *m, const struct spg_request *r, const unsigned long long hash[3],
                                const char *of, struct spg_error *error);
/* Makes the matrices plain, and sets the operands of the next product. */
bool spg_request_form(struct gpumem_spgemm *m, const struct spg_request *r, struct spg_error *error);

/* Sets plain operands, with 32-bit offsets. */
static inline void spg_multiplier_take(struct gpumem_spgemm *m, const struct spg_operand *a,
                                       const struct spg_operand *b) {
    struct spg_gpu *g = &m->product.method.gpu;
    g->first = *a;
    g->second = *b;
    g->a = &g->first;
    g->b = &g->second;
}

/* Reads the caller's memory for C. `arrays`: regions are refused, and offsets may be missing. */
bool spg_output_read(struct gpumem_spgemm_output *ours, const struct gpumem_spgemm_output *theirs,
                     enum spg_precision precision, bool arrays, struct spg_error *error);

#endif

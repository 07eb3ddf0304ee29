/* Several devices: what a group holds, and what its two parts share. */
#ifndef SPG_GROUP_H
#define SPG_GROUP_H

#include "spgemm/multiplier.h"
#include "spgemm/nccl.h"

#include <pthread.h>

/* Arrays of a matrix in memory of this group, which is kept for the next matrix. */
struct spg_copy {
    struct spg_block offsets, indices, values;
};

struct spg_member {
    int device;
    struct gpumem_spgemm *multiplier;
    cudaStream_t stream;
    struct spg_copy a_copy, b_copy;
    struct spg_block refused;       /* a number for NCCL: whether B finds no memory */
    int64_t first_row, first_entry; /* of A: where its rows begin */
    struct gpumem_spgemm_csr a, b;  /* its operands */
    enum gpumem_spgemm_b b_kind;
    struct gpumem_spgemm_result c;
    /* of one call */
    pthread_t thread;
    bool has_thread;
    uint64_t flags;
    enum gpumem_status status;
    struct spg_error error;
};

struct gpumem_spgemm_group {
    int count, first, total;
    enum spg_precision precision;
    struct spg_member *member;
    struct spg_nccl_place *place; /* of each member; communicators only with NCCL */
    bool by_nccl, has_operands, has_product;
    struct gpumem_spgemm_csr a, b; /* of the last distribution */
};

/* Puts the device's number in front of the error; returns false. */
bool spg_member_failed(const struct spg_member *m, struct spg_error *error);
bool spg_member_enter(const struct spg_member *m, struct spg_error *error);
/* Waits for the member's stream; its device is current then. */
bool spg_member_wait(const struct spg_member *m, struct spg_error *error);
/* Lets the member's device, which is current, access memory of the lead's. Returns whether it can. */
bool spg_member_reach(const struct spg_member *m, const struct spg_member *lead);

/* Makes memory for a matrix, unless there is enough. After a failure there is none. */
bool spg_copy_make(struct spg_copy *c, int64_t rows, int64_t stored, enum spg_precision precision, const char *what,
                   struct spg_error *error);
void spg_copy_drop(struct spg_copy *c);

/* The current device, before a call that uses others; the end of such a call. */
int spg_group_enter(void);
enum gpumem_status spg_group_leave(int device, bool done, const struct spg_error *error);

#endif

/* The table of modes: one row for each method to compute C = A B. */
#ifndef SPG_MODES_H
#define SPG_MODES_H

#include "spgemm/check.h"
#include "spgemm/mode.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spg_mode {
    const char *name;
    const char *arguments; /* accepted after "name:", separated by spaces; NULL = none */
    const char *help;
    const char *part; /* the part of the project that the mode needs, for the error of a build without it */
    bool sized;       /* takes size_per_row */
    bool kernels;     /* offers both kernels of enum spg_kernel */
    const struct spg_mode_ops *ops; /* NULL = this build lacks the mode */
    bool on_host;                   /* computes without a device */
    /* Checks the C of the last run without copying all of it to the host. NULL = spg_mode_ops.fetch can copy it. */
    bool (*verify)(void *state, struct spg_check *check, struct spg_error *error);
    const struct spg_mode_ops *on_devices; /* NULL = the mode uses one device only */
};

/* verify of mode auto with "wide"; only in builds with CUDA. */
bool spg_auto_verify(void *state, struct spg_check *check, struct spg_error *error);

/* Row number `index`; NULL after the last. */
const struct spg_mode *spg_mode_at(unsigned index);

/* The row that `text` names ("rounds", "cusparse:alg2"), and its argument in *argument. Returns NULL and fills `error`
 * when there is no such row, when the mode does not accept the argument, or when this build lacks the mode. */
const struct spg_mode *spg_mode_find(const char *text, const char **argument, struct spg_error *error);

#ifdef __cplusplus
}
#endif

#endif

#include "spgemm/modes.h"

#include <stdio.h>
#include <string.h>

#ifdef SPG_HAVE_CUDA
#define CUDA(ops) (&ops)
#define VERIFY    spg_auto_verify
#else
#define CUDA(ops) NULL
#define VERIFY    NULL
#endif
#ifdef SPG_HAVE_CUSPARSE
#define CUSPARSE(ops) (&ops)
#else
#define CUSPARSE(ops) NULL
#endif
#ifdef SPG_HAVE_GRAPHBLAS
#define GRAPHBLAS(ops) (&ops)
#else
#define GRAPHBLAS(ops) NULL
#endif

static const struct spg_mode modes[] = {
    {"auto", "cold warm same wide",
     "the library call of spgemm.h, which chooses the method: with new memory in each run (cold, default), with the "
     "memory of the run before (warm), with its structure too (same), or as warm with 64-bit offsets of C (wide)",
     "the CUDA part", false, false, CUDA(spg_mode_auto), false, VERIFY, CUDA(spg_mode_group)},
    {"host", NULL,
     "the library call for matrices in host memory, in slabs of rows; the limit is that of A, B and C on the device",
     "the CUDA part", false, false, CUDA(spg_mode_host), false, NULL, NULL},
    {"upper-bound", NULL, "one pass into as many slots as there are intermediate products", "the CUDA part", false,
     true, CUDA(spg_mode_upper_bound), false, NULL, NULL},
    {"precise", NULL, "two passes: the first counts, the second computes", "the CUDA part", false, true,
     CUDA(spg_mode_precise), false, NULL, NULL},
    {"rounds", NULL,
     "the loop of the thesis: in each round the output grows by size_per_row slots for every unfinished row",
     "the CUDA part", true, true, CUDA(spg_mode_rounds), false, NULL, NULL},
    {"cusparse", "alg1 alg2 alg3", "cusparseSpGEMM, as a peer", "the CUDA part with cuSPARSE", false, false,
     CUSPARSE(spg_mode_cusparse), false, NULL, NULL},
    {"graphblas", NULL, "SuiteSparse:GraphBLAS on the host, as a peer", "GraphBLAS", false, false,
     GRAPHBLAS(spg_mode_graphblas), true, NULL, NULL},
};
#define MODES (sizeof modes / sizeof modes[0])

const struct spg_mode *spg_mode_at(unsigned index) { return index < MODES ? &modes[index] : NULL; }

static bool accepted(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; at && *at; at += strspn(at, " ")) {
        size_t span = strcspn(at, " ");
        if (span == length && !memcmp(at, word, length))
            return true;
        at += span;
    }
    return false;
}

static void refuse_name(const char *text, struct spg_error *error) {
    char known[256] = "";
    for (size_t i = 0; i < MODES; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", modes[i].name);
    spg_fail(error, "unknown mode '%.60s'; there are: %s", text, known);
}

const struct spg_mode *spg_mode_find(const char *text, const char **argument, struct spg_error *error) {
    size_t length = strcspn(text, ":");
    const struct spg_mode *mode = NULL;
    for (size_t i = 0; i < MODES; i++)
        if (strlen(modes[i].name) == length && !memcmp(modes[i].name, text, length))
            mode = &modes[i];
    if (!mode) {
        refuse_name(text, error);
        return NULL;
    }
    *argument = text[length] ? text + length + 1 : "";
    if (text[length] && !accepted(mode->arguments, *argument)) {
        spg_fail(error, "mode %s takes no '%.60s'; after the colon it takes: %s", mode->name, *argument,
                 mode->arguments ? mode->arguments : "nothing");
        return NULL;
    }
    if (!mode->ops) {
        spg_fail(error, "mode %s needs %s, which this build lacks", mode->name, mode->part);
        return NULL;
    }
    return mode;
}

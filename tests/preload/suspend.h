/* What programs share whose memory leaves the device meanwhile. */
#ifndef PRELOAD_SUSPEND_H
#define PRELOAD_SUSPEND_H

#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>

#include "program.h"
#include "shim/gpumem.h"

#define MIB ((size_t)1 << 20)

static __typeof__(&gpumem_suspend) suspend_;
static __typeof__(&gpumem_resume) resume_;
static __typeof__(&gpumem_suspended) suspended_;
static __typeof__(&gpumem_tag_push) tag_push_;
static __typeof__(&gpumem_tag_pop) tag_pop_;
static __typeof__(&gpumem_last_error) last_error_;

static const char *folder; /* SUSPEND_TO: of files for the contents; NULL: memory */

/* Natively there is nothing to call, and the program does the same without. */
static inline bool is_shimmed(void) { return suspend_ != NULL; }

static inline void start_suspendable(void) {
    folder = getenv("SUSPEND_TO");
    start_driver();
    suspend_ = (__typeof__(suspend_))dlsym(RTLD_DEFAULT, "gpumem_suspend");
    resume_ = (__typeof__(resume_))dlsym(RTLD_DEFAULT, "gpumem_resume");
    suspended_ = (__typeof__(suspended_))dlsym(RTLD_DEFAULT, "gpumem_suspended");
    tag_push_ = (__typeof__(tag_push_))dlsym(RTLD_DEFAULT, "gpumem_tag_push");
    tag_pop_ = (__typeof__(tag_pop_))dlsym(RTLD_DEFAULT, "gpumem_tag_pop");
    last_error_ = (__typeof__(last_error_))dlsym(RTLD_DEFAULT, "gpumem_last_error");
}

static inline int suspend_as(const char *keep, const char *drop, bool wait, size_t *bytes) {
    const struct gpumem_suspend_options options = {.struct_size = sizeof options,
                                                   .keep = keep,
                                                   .drop = drop,
                                                   .flags = wait ? GPUMEM_SUSPEND_WAIT : 0,
                                                   .patience_ns = 300000000,
                                                   .to = folder};
    return is_shimmed() ? (int)suspend_(&options, bytes) : 0;
}

static inline void suspend(void) {
    size_t bytes = 0;
    int status = suspend_as(NULL, NULL, false, &bytes);
    if (status)
        fail(last_error_(), __LINE__, status);
}

static uint64_t random_state;

static inline uint64_t next(uint64_t below) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (random_state >> 33) % below;
}

#endif

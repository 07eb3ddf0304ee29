/* GPUMEM_GUARD: which requests get a guarded block (shim/resource/guard.c), whatever the policy.
 *
 * With `all` every movable request outside of captures is taken, and no call takes the fast case. With 1/N each thread
 * takes one of N of its requests on average, at random. The fast case (fast.h) counts allocations anyway, and does not
 * know of this: when a call that takes the whole way finds that a block is due, the thread's next allocation takes the
 * whole way, too. A free that fills its batch takes the whole way, so a block comes late by a batch at most.
 *
 * Guarded memory cannot be exported, so a sample must not be what a program exports later. The first call by which the
 * process passes memory on, or asks whether it can, ends the samples of cudaMalloc. So does a library that exports
 * whatever buffers it gets (MPI, UCX). Memory of cudaMallocAsync cannot be exported natively either: its samples go on.
 *
 * A guarded block takes whole granules of 2 MiB. All of them take at most a quarter of the device, or of GPUMEM_LIMIT,
 * more than the program requested. From half of that on fewer and fewer requests are taken, and after one that found no
 * memory none for a while. */
#ifndef GM_PIPELINE_GUARD_H
#define GM_PIPELINE_GUARD_H

#include "policy/policy.h"
#include "shim/base/base.h"

struct gm_guard_choice {
    uint64_t every; /* one of so many blocks; 1 = all, 0 = off */
    bool begin;     /* blocks lie at the beginning of their mapping */
    bool blocking;  /* each kernel ends before the program goes on */
    bool noraces;   /* possible races of stream-ordered memory are not reported */
    unsigned align; /* the least alignment of blocks; 0: that of native memory */
};

/* Reads the value of GPUMEM_GUARD. GM_INVALID_VALUE: *choice is untouched, and a one-line error names the wrong word
 * and what is accepted. */
GM_INTERNAL gm_status gm_guard_parse(const char *text, struct gm_guard_choice *choice, char *error, size_t error_size);

/* One of so many; 0 = off. Set once, before the first request. */
GM_INTERNAL extern uint64_t gm_guard_every;
static inline bool gm_guard_is_on(void) { return GM_UNLIKELY(gm_guard_every != 0); }

/* True when this thread's next movable request is one to be guarded. */
GM_INTERNAL bool gm_guard_is_due(void);
/* Whether the request gets a guarded block. */
GM_INTERNAL bool gm_guard_takes(const struct gm_request *request);
/* The program makes this call, which natively serves memory of cudaMalloc, but not mapped memory; or (NULL) a library
 * may make it. From now on samples spare such memory. */
GM_INTERNAL void gm_guard_spare(const char *call);
/* After such a request: false if there was no memory for it, and another kind served or none. */
GM_INTERNAL void gm_guard_served(bool served);
/* At the end of a free that took the whole way. */
GM_RARE void gm_guard_look(void);

#endif

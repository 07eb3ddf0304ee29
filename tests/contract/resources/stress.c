/* Stress test: random use of a resource on streams of the simulated driver. A thread fills a block on one stream,
 * checks it there or on another stream that waits, and frees it while all this work is still queued. If the resource
 * reuses memory before earlier work on it has run, a check finds a wrong word, or the driver counts a violation.
 *
 * usage: test_stress [--stack TEXT] [--seed N] [--seeds N] [--steps N] [--threads N] [--large] [--order]
 *                    [--watch-streams] [--leave-out] [--expect-mistakes]
 *
 * For each seed every thread does --steps steps. The seeds are --seeds numbers from --seed on; --seed 0 runs 1, 2, 3
 * and so on until something is wrong. A run with one thread is reproducible. The exit status is 0 when nothing was
 * wrong.
 *  --expect-mistakes: the exit status is 0 when something was wrong.
 *  --watch-streams: fences are events in known streams, as on a driver older than 12.5.
 *  --leave-out: one stream is not known. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/driver/free_sync.h"
#include "shim/driver/in_flight.h"
#include "shim/driver/streams.h"
#include "shim/resource/resource.h"
#include "simcuda.h"

enum { SLOTS = 24, STREAMS = 6, MOST_THREADS = 16 };

#define MUST(call)                                                        \
    do {                                                                  \
        int must_ = (int)(call);                                          \
        if (must_) {                                                      \
            fprintf(stderr, "line %d: %s: %d\n", __LINE__, #call, must_); \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

static struct gm_resource *resource;
static CUcontext context;
static struct gm_context seen;
static CUfunction fill, verify;
static unsigned long steps = 4000;
static uint64_t device_waits;
static bool large; /* large blocks: a few reach the limit for one size */
static bool watch_streams, leave_out;
static bool by_hand; /* the streams run only when the test runs them */

struct worker {
    uint64_t random;
    CUstream streams[STREAMS];
    CUevent event;
    struct {
        struct gm_block block;
        uint32_t pattern;
        unsigned stream;
    } slots[SLOTS];
};

static unsigned pick(struct worker *worker, unsigned below) {
    worker->random = worker->random * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)((worker->random >> 33) % below);
}

static void launch(CUfunction kernel, CUstream stream, const struct gm_block *block, uint32_t pattern) {
    CUdeviceptr address = block->address;
    uint64_t bytes = (block->size < 300000 ? block->size : 300000) / 4 * 4;
    void *arguments[] = {&address, &bytes, &pattern};
    if (gm_in_flight_state() & GM_FLIGHT_OPEN) /* as the entry of this call does */
        gm_free_sync_submit(false);
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

static void take(struct worker *worker, unsigned slot) {
    static const size_t small[] = {512, 4096, 4096, 4100, 65536, 300000},
                        huge[] = {4096, 20 << 20, 20 << 20, 24 << 20, 40 << 20, 70 << 20};
    const size_t *sizes = large ? huge : small;
    struct gm_request request = {.call = GM_CALL_ALLOC,
                                 .size = sizes[pick(worker, 6)],
                                 .device = seen.device,
                                 .context_id = seen.id,
                                 .context = (uint64_t)(uintptr_t)seen.handle};
    struct gm_block *block = &worker->slots[slot].block;
    MUST(gm_resource_alloc(resource, &request, NULL, block));
    worker->slots[slot].pattern = (uint32_t)worker->random;
    worker->slots[slot].stream = pick(worker, STREAMS);
    launch(fill, worker->streams[worker->slots[slot].stream], block, worker->slots[slot].pattern);
}

/* Checks the block on the stream that filled it, or on a stream that waits for that one. Frees it while the check is
 * still queued. */
static void give(struct worker *worker, unsigned slot) {
    struct gm_free_request how = {.call = GM_CALL_FREE};
    CUstream stream = worker->streams[worker->slots[slot].stream];
    if (pick(worker, 3) == 0) {
        CUstream other = worker->streams[pick(worker, STREAMS)];
        MUST(cuEventRecord(worker->event, stream));
        MUST(cuStreamWaitEvent(other, worker->event, 0));
        stream = other;
    }
    launch(verify, stream, &worker->slots[slot].block, worker->slots[slot].pattern);
    MUST(gm_free_sync_before(context, seen.id, seen.device, &how.settled));
    MUST(gm_resource_free(resource, &worker->slots[slot].block, &how));
    worker->slots[slot].block.address = 0;
}

/* --leave-out: the first stream of a thread is not reported to the stream observer, which the test must detect. */
static void make_stream(struct worker *worker, unsigned i) {
    MUST(cuStreamCreate(&worker->streams[i], i % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    if (i || !leave_out)
        gm_streams_made(worker->streams[i]);
}

static void end_stream(struct worker *worker, unsigned i) {
    if (i || !leave_out)
        gm_streams_ending(worker->streams[i]);
    MUST(cuStreamDestroy_v2(worker->streams[i]));
}

/* Destroys a stream while its work is queued. The new stream continues after this work. */
static void replace_stream(struct worker *worker, unsigned i) {
    MUST(cuEventRecord(worker->event, worker->streams[i]));
    end_stream(worker, i);
    make_stream(worker, i);
    MUST(cuStreamWaitEvent(worker->streams[i], worker->event, 0));
}

static void *work(void *argument) {
    struct worker *worker = argument;
    MUST(cuCtxSetCurrent(context));
    for (unsigned i = 0; i < STREAMS; i++) /* the last is the legacy default stream */
        if (i < STREAMS - 1)
            make_stream(worker, i);
    MUST(cuEventCreate(&worker->event, CU_EVENT_DISABLE_TIMING));
    for (unsigned long step = 0; step < steps; step++) {
        unsigned slot = pick(worker, SLOTS);
        if (worker->slots[slot].block.address)
            give(worker, slot);
        else
            take(worker, slot);
        for (unsigned ran = by_hand ? pick(worker, 4) : 0; ran; ran--)
            simcuda_step(worker->streams[pick(worker, STREAMS)]);
        unsigned rare = pick(worker, 5000);
        if (rare % 100 == 7)
            replace_stream(worker, pick(worker, STREAMS - 1));
        if (rare == 0)
            MUST(cuCtxSynchronize());
        if (rare == 1)
            gm_stack_trim(resource, SIZE_MAX);
    }
    for (unsigned slot = 0; slot < SLOTS; slot++)
        if (worker->slots[slot].block.address)
            give(worker, slot);
    MUST(cuEventDestroy_v2(worker->event));
    for (unsigned i = 0; i < STREAMS - 1; i++)
        end_stream(worker, i);
    return NULL;
}

static uint64_t round_of(unsigned long seed, unsigned count) {
    static struct worker workers[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    char mode[40];
    by_hand = seed % 4 != 1; /* with the driver's random streams little work stays queued */
    snprintf(mode, sizeof mode, by_hand ? "manual" : "random:%lu", seed);
    memset(workers, 0, sizeof workers);
    simcuda_reset_counters();
    MUST(simcuda_set_streams(mode));
    for (unsigned i = 0; i < count; i++) {
        workers[i].random = seed * 0x9e3779b97f4a7c15ull + i;
        MUST(pthread_create(&threads[i], NULL, work, &workers[i]));
    }
    for (unsigned i = 0; i < count; i++)
        MUST(pthread_join(threads[i], NULL));
    simcuda_run_all();
    MUST(simcuda_set_streams("immediate"));
    uint64_t mistakes = simcuda_check_mismatches() + simcuda_violations();
    device_waits += simcuda_calls("cuCtxWaitEvent");
    if (simcuda_check_runs() < steps / 4) {
        fprintf(stderr, "only %llu checks in %lu steps\n", (unsigned long long)simcuda_check_runs(), steps);
        exit(1);
    }
    if (mistakes)
        fprintf(stderr, "seed %lu: %llu mistakes %s\n", seed, (unsigned long long)mistakes, simcuda_last_violation());
    return mistakes;
}

static void start(const char *stack) {
    char error[300];
    CUmodule module;
    MUST(cuInit(0));
    MUST(cuCtxCreate_v2(&context, 0, 0));
    if (!gm_driver_ready(true))
        exit(1);
    gm_context_note_primary(0, context);
    if (watch_streams) {
        gm_streams_observe();
        gm_streams_context(context);
    }
    if (!gm_context_current(&seen))
        exit(1);
    MUST(cuModuleLoadData(&module, "kernels of the simulated driver"));
    MUST(cuModuleGetFunction(&fill, module, SIMCUDA_KERNEL_FILL));
    MUST(cuModuleGetFunction(&verify, module, SIMCUDA_KERNEL_CHECK));
    resource = gm_resource_build(stack, error, sizeof error);
    if (!resource) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

int main(int count, char **words) {
    const char *stack = "cache(native)";
    unsigned long seed = 1, seeds = 1, threads = 1;
    bool expect = false, order = false;
    for (int i = 1; i < count; i++) {
        const char *value = i + 1 < count ? words[i + 1] : "";
        if (strcmp(words[i], "--expect-mistakes") == 0) {
            expect = true;
            continue;
        }
        if (strcmp(words[i], "--large") == 0) {
            large = true;
            continue;
        }
        if (strcmp(words[i], "--watch-streams") == 0) {
            watch_streams = true;
            continue;
        }
        if (strcmp(words[i], "--leave-out") == 0) {
            leave_out = true;
            continue;
        }
        if (strcmp(words[i], "--order") == 0) {
            order = true;
            continue;
        }
        if (strcmp(words[i], "--stack") == 0)
            stack = value;
        else if (strcmp(words[i], "--seed") == 0)
            seed = strtoul(value, NULL, 10);
        else if (strcmp(words[i], "--seeds") == 0)
            seeds = strtoul(value, NULL, 10);
        else if (strcmp(words[i], "--steps") == 0)
            steps = strtoul(value, NULL, 10);
        else if (strcmp(words[i], "--threads") == 0)
            threads = strtoul(value, NULL, 10);
        else
            return fprintf(stderr, "%s: unknown argument\n", words[i]), 2;
        i++;
    }
    if (!threads || threads > MOST_THREADS)
        return 2;
    start(stack);
    gm_free_sync_setup(order ? GM_FREE_ORDER : GM_FREE_ASYNC);
    uint64_t mistakes = 0;
    for (unsigned long at = seed ? seed : 1; !mistakes && (!seed || at < seed + seeds); at++)
        mistakes += round_of(at, (unsigned)threads);
    if (order && gm_drv.ctx_wait_event && !device_waits) {
        fprintf(stderr, "the device never waited\n");
        return 1;
    }
    if (watch_streams && !gm_streams_usable()) {
        fprintf(stderr, "the streams were not relied on\n");
        return 1;
    }
    if (!mistakes)
        printf("ok stress %lu steps a seed and thread\n", steps);
    return expect ? !mistakes : mistakes != 0;
}

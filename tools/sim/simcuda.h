/* clang-format off */
/* Control of the simulated CUDA driver from tests and from programs that run on it.
 *
 * Kernels.  A launch looks for a host twin of the kernel.  Twins registered by simcuda_register_kernel come first.
 * Then comes a symbol simtwin_NAME (NAME: the kernel's mangled name) in any loaded object (build the program with
 * -rdynamic).  Without one the launch answers CUDA_ERROR_NOT_SUPPORTED, and a line on
 * stderr names the kernel, once; under SIMCUDA_NOOP_KERNELS=1 the launch does nothing.
 *
 * Parameters of a twin are described by a string, one letter or group a parameter:
 *   p   pointer that the kernel uses: its block must live when the kernel runs
 *   q   pointer that is only passed on
 *   1 2 4 8  a value of that many bytes
 *   [N] a structure of N bytes with 8-byte alignment
 * They are copied when the launch is submitted, as on a GPU.
 *
 * Programmatic stream serialization.  A launch with the attribute may begin before the kernel right before it in its
 * stream ends, if that kernel has begun or could begin. It always does with SIMCUDA_STREAMS=manual, at random with
 * random:SEED, never with immediate. Behind anything but a kernel, and in graphs, it waits as any launch does.
 *
 * Early reuse.  An operation remembers the blocks it names when it is submitted.  When it runs and one of
 * them is no longer the live block at that address, its context gets the sticky error
 * CUDA_ERROR_ILLEGAL_ADDRESS and simcuda_violations() counts it.  The driver cannot
 * see that a library above it reuses memory. Two ways show this:
 *  - notes: simcuda_declare_free when the user gives the block back, simcuda_declare_alloc when the user gets
 *    it. A declared allocation counts one violation for every queued operation that uses those bytes and is
 *    not ordered before the stream the block is for;
 *  - data: fill a block by simcuda_kernel_fill, then check by simcuda_kernel_check, with SIMCUDA_STREAMS=manual
 *    or random: a block handed out too early is overwritten before the check runs.
 *
 * A name in SIMCUDA_HIDE is unknown to cuGetProcAddress and answers CUDA_ERROR_NOT_SUPPORTED when called.  dlsym
 * of it still succeeds, so a client that must run on old drivers has to get it from cuGetProcAddress.
 *
 * Environment, read when the library is loaded:
 *   SIMCUDA_DEVICES=1         up to 8
 *   SIMCUDA_PEERS=all|none    which devices can access each other's memory; a copy between two that cannot is staged for
 *                             plain memory and refused for memory of pools and mappings
 *   SIMCUDA_MEMORY=BYTES      of each device, also with K, M, G; 4 GiB; every kind of device and managed memory counts
 *   SIMCUDA_BEYOND=BYTES      by so much managed memory may exceed a device: the host would have the rest; 0
 *   SIMCUDA_CARD=FILE         processes that name the same file share the memory of the devices; memory that one of them
 *                             opens of another one counts for both
 *   SIMCUDA_VERSION=13000     driver version; newer names are unknown to cuGetProcAddress
 *   SIMCUDA_HIDE=NAME,...     names that are treated as absent
 *   SIMCUDA_FAIL=NAME:N[:CODE[:COUNT]],...  the N-th call of NAME (a shell pattern) fails, COUNT times
 *   SIMCUDA_NEEDS=NAME:BYTES,...  calls of NAME (a shell pattern over exact names) take so much device memory for as long
 *                             as they last: loads of code, graphs, streams, contexts, local memory of kernels
 *   SIMCUDA_LOG=FILE          one line a call: number, symbol, result, parameters ("*": read after the call)
 *   SIMCUDA_STREAMS=immediate|manual|random:SEED
 *   SIMCUDA_FREE=context|device|locked  whose work cuMemFree waits for; locked: the context's, and no other thread submits
 *                             anything meanwhile but cuStreamWriteValue*
 *   SIMCUDA_FENCE=true|blind  blind: cuCtxRecordEvent records nothing, its event is complete at once; a client that relies
 *                             on it must be caught by its tests
 *   SIMCUDA_ANSWER=NS         a context-wide event is complete no sooner after it was recorded: a device takes its time
 *                             even when it has nothing else to do
 *   SIMCUDA_POOL_RANGE=block|segment  what questions about ranges say of pool memory: the block, or all that the pool got
 *                             at once
 *   SIMCUDA_STRICT=1          the host cannot touch device memory; kernels get usable addresses for p parameters
 *   SIMCUDA_NOOP_KERNELS=1    kernels without a twin do nothing
 *   SIMCUDA_LATENCY=none|h200 busy-wait as long as the calls took on an H200
 *
 * Limits: variables of programs start as zero (images are not read).  A kernel runs in the thread that makes it
 * run, without threads of its own.  IPC events open only in the process that made them.  Pools export nothing.
 *
 * All functions may be called from any thread, before cuInit too, but not from inside a kernel twin. */
/* clang-format on */
#ifndef SIMCUDA_H
#define SIMCUDA_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIMCUDA_API __attribute__((visibility("default")))

struct simcuda_launch {
    unsigned grid[3], block[3];
    size_t shared;
    void **args; /* as cuLaunchKernel's kernelParams: args[i] points at the value of parameter i */
    const char *name;
    /* Host address of device bytes; NULL when they are not accessible, which also counts a violation.
     * Under SIMCUDA_STRICT=1 pointer parameters already are host addresses and need no call. */
    void *(*touch)(const void *ptr, size_t size, int write);
};

struct simcuda_twin {
    const char *params;
    void (*run)(const struct simcuda_launch *launch);
};

/* Defines the twin of a kernel by its mangled name. */
#ifdef __cplusplus
#define SIMCUDA_TWIN(mangled, params, fn) \
    extern "C" __attribute__((visibility("default"), used)) const struct simcuda_twin simtwin_##mangled = {params, fn}
#else
#define SIMCUDA_TWIN(mangled, params, fn) \
    __attribute__((visibility("default"), used)) const struct simcuda_twin simtwin_##mangled = {params, fn}
#endif

/* Registers or replaces a twin; name and params are copied. 0, or -1 when the table is full. */
SIMCUDA_API int simcuda_register_kernel(const char *name, const char *params,
                                        void (*run)(const struct simcuda_launch *launch));

/* Ready-made kernels; get the CUfunction by cuModuleGetFunction of any module.
 *   simcuda_kernel_fill (void *ptr, uint64_t bytes, uint32_t pattern)
 *   simcuda_kernel_check(void *ptr, uint64_t bytes, uint32_t pattern): counts words that differ
 *   simcuda_kernel_add  (float *c, const float *a, const float *b, uint64_t count) */
#define SIMCUDA_KERNEL_FILL  "simcuda_kernel_fill"
#define SIMCUDA_KERNEL_CHECK "simcuda_kernel_check"
#define SIMCUDA_KERNEL_ADD   "simcuda_kernel_add"
SIMCUDA_API uint64_t simcuda_check_mismatches(void); /* words, since the last simcuda_reset_counters */
SIMCUDA_API uint64_t simcuda_check_runs(void);

/* The UUID of a device. Processes of other sessions have other devices: their memory is not shared. */
static inline void simcuda_uuid(unsigned char uuid[16], int device) {
    const int32_t session = (int32_t)getsid(0);
    memcpy(uuid, "simulated \0\0\0\0\0\0", 16);
    memcpy(uuid + 10, &session, sizeof session);
    uuid[15] = (unsigned char)device;
}

SIMCUDA_API uint64_t simcuda_violations(void);
SIMCUDA_API const char *simcuda_last_violation(void); /* text, valid until the next violation; "" when none */
SIMCUDA_API void simcuda_reset_counters(void);
/* Waits for events that were not made to block, for work that another thread runs: they would keep a processor busy. */
SIMCUDA_API uint64_t simcuda_busy_waits(void);
/* Calls that named an event of a context that was destroyed or reset, or was just then. */
SIMCUDA_API uint64_t simcuda_stale_events(void);

/* Stream that stands for "unknown": every queued operation on the bytes is a hazard. */
#define SIMCUDA_ANY_STREAM ((void *)-1)
/* stream: a CUstream the new user will use it on, NULL the legacy default stream. Returns new violations. */
SIMCUDA_API int simcuda_declare_alloc(uint64_t ptr, size_t size, void *stream);
/* Returns the number of queued operations that still use the block; this is no violation by itself. */
SIMCUDA_API int simcuda_declare_free(uint64_t ptr);

/* Manual streams. step runs the head of one stream (SIMCUDA_ANY_STREAM: the oldest runnable operation of all);
 * 1 when one ran, 0 when none could. run_all runs until nothing more can; returns how many ran. */
SIMCUDA_API int simcuda_step(void *stream);
SIMCUDA_API int simcuda_run_all(void);
SIMCUDA_API int simcuda_pending(void);
/* "immediate", "manual" or "random:SEED"; queued work stays queued. -1: unknown text. */
SIMCUDA_API int simcuda_set_streams(const char *mode);

/* As SIMCUDA_PEERS; what is open already stays so. -1: unknown text. */
SIMCUDA_API int simcuda_set_peers(const char *which);

/* As SIMCUDA_FAIL; calls are counted from now on. NULL or "" removes all. -1: unreadable text. */
SIMCUDA_API int simcuda_set_failures(const char *script);
/* As SIMCUDA_NEEDS. -1: unreadable text. */
SIMCUDA_API int simcuda_set_needs(const char *script);
/* As SIMCUDA_HIDE. */
SIMCUDA_API void simcuda_set_hidden(const char *names);
SIMCUDA_API void simcuda_set_version(int version);
/* The calling thread calls `then` at the end of each call of one exported name, outside of the driver: a test stops a
 * thread there while others go on. One name at a time; NULL ends it. */
SIMCUDA_API void simcuda_set_after(const char *symbol, void (*then)(void));
/* Calls of one exported name (exact, as cuMemAlloc_v2), or of all for NULL; since reset_counters. */
SIMCUDA_API uint64_t simcuda_calls(const char *symbol);
/* The last lines of the call log, oldest first, into text (always terminated); returns its length. */
SIMCUDA_API size_t simcuda_log_tail(char *text, size_t size);

/* Bytes of the device in use (2 MiB granularity) and the most that ever were. */
SIMCUDA_API size_t simcuda_used(int device);
SIMCUDA_API size_t simcuda_peak(int device);
SIMCUDA_API void simcuda_set_memory(size_t bytes);
/* Blocks of all kinds that the driver knows as live. */
SIMCUDA_API size_t simcuda_live_blocks(void);
/* Whether another process that opened the event's handle (cuIpcGetEventHandle) sees it complete: no call of this one.
 */
SIMCUDA_API int simcuda_event_complete(void *event);
/* Address of a variable of a CUmodule, as kernels know it; NULL: it has none of that name. No call of the program. */
SIMCUDA_API void *simcuda_global(void *module, const char *name);
/* Address ranges that are reserved, and handles of memory that the program holds or that are mapped. */
SIMCUDA_API size_t simcuda_live_reservations(void);
SIMCUDA_API size_t simcuda_live_handles(void);

#ifdef __cplusplus
}
#endif
#endif

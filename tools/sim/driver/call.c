/* The frame around every driver call: lock, thread state, sticky errors, scripted behaviour, log. */
#include "sim.h"
#include <pthread.h>
#include <string.h>
#include <time.h>

_Thread_local struct sim_thread sim_self;
bool sim_initialised;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned thread_count;

static pthread_key_t thread_key;

static void thread_gone(void *id) {
    sim_lock();
    sim_streams_thread_gone((unsigned)(uintptr_t)id);
    sim_unlock();
}

void sim_lock(void) {
    if (sim_self.depth++ == 0)
        pthread_mutex_lock(&lock);
    if (!sim_self.id) {
        sim_self.id = ++thread_count;
        pthread_setspecific(thread_key, (void *)(uintptr_t)sim_self.id);
    }
}

void sim_unlock(void) {
    if (--sim_self.depth == 0)
        pthread_mutex_unlock(&lock);
}

int sim_unlock_all(void) {
    int depth = sim_self.depth;
    sim_self.depth = 0;
    pthread_mutex_unlock(&lock);
    return depth;
}

void sim_lock_again(int depth) {
    pthread_mutex_lock(&lock);
    sim_self.depth = depth;
}

void sim_wait_change(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    int depth = sim_self.depth;
    pthread_cond_timedwait(&changed, &lock, &until);
    sim_self.depth = depth;
}

void sim_notify(void) { pthread_cond_broadcast(&changed); }

uint64_t sim_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fork_prepare(void) { pthread_mutex_lock(&lock); }
static void fork_done(void) { pthread_mutex_unlock(&lock); }

__attribute__((constructor)) static void start(void) {
    pthread_key_create(&thread_key, thread_gone); /* before anything takes the lock */
    sim_options_read();
    pthread_atfork(fork_prepare, fork_done, fork_done);
}

static bool one_of(const char *name, const char *const *list) {
    for (; *list; list++) {
        if (strcmp(name, *list) == 0)
            return true;
    }
    return false;
}

static bool needs_init(const char *name) {
    static const char *const free_of_init[] = {
        "cuInit",           "cuDriverGetVersion", "cuGetProcAddress",     "cuGetErrorName",
        "cuGetErrorString", "cuGetExportTable",   "cuProfilerInitialize", NULL};
    return !one_of(name, free_of_init);
}

/* What still works in a context that a kernel has broken, and inside host functions. */
static bool is_harmless(const char *name) {
    static const char *const harmless[] = {"cuInit",
                                           "cuDriverGetVersion",
                                           "cuGetProcAddress",
                                           "cuGetErrorName",
                                           "cuGetErrorString",
                                           "cuGetExportTable",
                                           "cuCtxGetCurrent",
                                           "cuCtxSetCurrent",
                                           "cuCtxPushCurrent",
                                           "cuCtxPopCurrent",
                                           "cuCtxGetDevice",
                                           "cuCtxDestroy",
                                           "cuCtxGetId",
                                           "cuCtxGetFlags",
                                           "cuCtxGetApiVersion",
                                           "cuCtxCreate",
                                           "cuDevicePrimaryCtxReset",
                                           "cuDevicePrimaryCtxRelease",
                                           "cuDevicePrimaryCtxGetState",
                                           "cuDevicePrimaryCtxRetain",
                                           "cuThreadExchangeStreamCaptureMode",
                                           "cuModuleUnload",
                                           "cuLibraryUnload",
                                           NULL};
    return one_of(name, harmless) || strncmp(name, "cuDeviceGet", 11) == 0;
}

/* Of the device the call is for, in so far as it is the current context's or the first. */
static bool has_room(uint64_t bytes) {
    struct sim_ctx *ctx = sim_self.top ? sim_self.stack[sim_self.top - 1] : NULL;
    return !bytes || sim_has_room(ctx && sim_ctx_valid((CUcontext)ctx) ? ctx->device : &sim_devices[0], bytes);
}

static CUresult admit(const struct sim_symbol *sym, unsigned index, bool implemented) {
    if (sim_self.in_callback && !is_harmless(sym->name))
        return CUDA_ERROR_NOT_PERMITTED;
    if (sim_hidden(sym->symbol, sym->name))
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult scripted = sim_scripted_failure(index);
    if (scripted != CUDA_SUCCESS)
        return scripted;
    if (!implemented)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!sim_initialised && needs_init(sym->name))
        return CUDA_ERROR_NOT_INITIALIZED;
    sim_latency(index);
    if (!sim_self.in_callback && sim_opt.mode == SIM_RANDOM)
        sim_random_step();
    struct sim_ctx *ctx = sim_self.top ? sim_self.stack[sim_self.top - 1] : NULL;
    if (ctx && sim_ctx_valid((CUcontext)ctx) && ctx->sticky != CUDA_SUCCESS && !is_harmless(sym->name))
        return ctx->sticky;
    return has_room(sim_needs(index)) ? SIM_GO : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_enter(struct sim_call *call, unsigned index, bool implemented) {
    const struct sim_symbol *sym = &sim_symbols[index];
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &call->cancel_state);
    sim_lock();
    call->index = index;
    call->outer_per_thread = sim_self.per_thread;
    sim_self.per_thread = sym->per_thread;
    return admit(sym, index, implemented);
}

CUresult sim_leave(struct sim_call *call, CUresult result, const uint64_t *values) {
    if (!sim_self.in_callback && sim_opt.mode == SIM_IMMEDIATE && sim_initialised)
        sim_pump();
    sim_log_call(call->index, result, values);
    sim_self.per_thread = call->outer_per_thread;
    void (*then)(void) = sim_after(call->index);
    sim_unlock();
    pthread_setcancelstate(call->cancel_state, &call->cancel_state);
    if (then)
        then();
    return result;
}

/* States and arguments are those of cuda.h; the library is loaded at run time, as not every machine has it. */
#include "tools/cli/checkpoint.h"

#include "tools/cli/cuda_result.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { RUNNING, LOCKED, CHECKPOINTED };
enum { NOT_INITIALIZED = 3, ARGUMENTS = 64 };

union arguments {
    unsigned timeout_ms; /* of the lock */
    unsigned char bytes[ARGUMENTS];
};

static struct api {
    int (*init)(unsigned flags);
    int (*state)(int pid, int *state);
    int (*lock)(int pid, union arguments *arguments);
    int (*checkpoint)(int pid, union arguments *arguments);
    int (*restore)(int pid, union arguments *arguments);
    int (*unlock)(int pid, union arguments *arguments);
} api;

static bool load(void) {
    static const struct {
        const char *name;
        void *function;
    } functions[] = {{"cuInit", &api.init},
                     {"cuCheckpointProcessGetState", &api.state},
                     {"cuCheckpointProcessLock", &api.lock},
                     {"cuCheckpointProcessCheckpoint", &api.checkpoint},
                     {"cuCheckpointProcessRestore", &api.restore},
                     {"cuCheckpointProcessUnlock", &api.unlock}};
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; driver && i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(driver, functions[i].name);
        if (!found)
            return false;
        memcpy(functions[i].function, &found, sizeof found);
    }
    return driver;
}

static int state_of(long pid, int *state) {
    int result = api.state((int)pid, state);
    if (result == NOT_INITIALIZED && (result = api.init(0)) == 0)
        result = api.state((int)pid, state);
    return result;
}

static enum gm_checkpoint say(char *why, size_t size, const char *step, int result) {
    snprintf(why, size, "%s answers %s (%d)", step, gm_result_name((unsigned)result), result);
    return GM_CHECKPOINT_FAILED;
}

static int call(int (*function)(int, union arguments *), long pid, unsigned timeout_ms) {
    union arguments arguments = {.bytes = {0}};
    arguments.timeout_ms = timeout_ms;
    return function((int)pid, &arguments);
}

static enum gm_checkpoint open_api(long pid, int *state, char *why, size_t size) {
    if (!load()) {
        snprintf(why, size, "this machine's driver has no checkpoint API (570 and later have it)");
        return GM_CHECKPOINT_NOTHING;
    }
    int result = state_of(pid, state);
    if (!result)
        return GM_CHECKPOINT_DONE;
    say(why, size, "cuCheckpointProcessGetState", result);
    return GM_CHECKPOINT_NOTHING;
}

enum gm_checkpoint gm_checkpoint_leave(long pid, unsigned ms, char *why, size_t size) {
    int state = RUNNING;
    if (open_api(pid, &state, why, size))
        return GM_CHECKPOINT_NOTHING;
    if (state != RUNNING) {
        snprintf(why, size, "it is checkpointed already");
        return GM_CHECKPOINT_NOTHING;
    }
    int result = call(api.lock, pid, ms);
    if (result)
        return say(why, size, "cuCheckpointProcessLock", result);
    result = call(api.checkpoint, pid, 0);
    if (!result)
        return GM_CHECKPOINT_DONE;
    call(api.unlock, pid, 0);
    return say(why, size, "cuCheckpointProcessCheckpoint", result);
}

enum gm_checkpoint gm_checkpoint_return(long pid, char *why, size_t size) {
    int state = RUNNING;
    if (open_api(pid, &state, why, size))
        return GM_CHECKPOINT_NOTHING;
    if (state == RUNNING) {
        snprintf(why, size, "the driver has not suspended it");
        return GM_CHECKPOINT_NOTHING;
    }
    int result = state == LOCKED ? 0 : call(api.restore, pid, 0);
    if (result)
        return say(why, size, "cuCheckpointProcessRestore", result);
    result = call(api.unlock, pid, 0);
    return result ? say(why, size, "cuCheckpointProcessUnlock", result) : GM_CHECKPOINT_DONE;
}

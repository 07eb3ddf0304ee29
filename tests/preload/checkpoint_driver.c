/* A driver whose checkpoint API keeps the state of the process in the file CHECKPOINT_STATE, for gpumem suspend
 * --context. The step that CHECKPOINT_FAILS names answers "out of memory". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC visibility push(default)

enum { RUNNING, LOCKED, CHECKPOINTED, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, ILLEGAL_STATE = 401 };

static int begun;

static int state(void) {
    FILE *file = fopen(getenv("CHECKPOINT_STATE"), "r");
    int found = RUNNING;
    if (file && fscanf(file, "%d", &found) != 1)
        found = RUNNING;
    if (file)
        fclose(file);
    return found;
}

static int go(const char *step, int from, int to) {
    const char *fails = getenv("CHECKPOINT_FAILS");
    if (!begun)
        return NOT_INITIALIZED;
    if (state() != from)
        return ILLEGAL_STATE;
    if (fails && !strcmp(fails, step))
        return OUT_OF_MEMORY;
    FILE *file = fopen(getenv("CHECKPOINT_STATE"), "w");
    fprintf(file, "%d\n", to);
    fclose(file);
    return 0;
}

int cuInit(unsigned flags);
int cuInit(unsigned flags) { return begun = 1, (int)flags; }
int cuCheckpointProcessGetState(int pid, int *found);
int cuCheckpointProcessGetState(int pid, int *found) {
    *found = state();
    return begun ? 0 : NOT_INITIALIZED;
}
int cuCheckpointProcessLock(int pid, void *arguments);
int cuCheckpointProcessLock(int pid, void *arguments) { return go("lock", RUNNING, LOCKED); }
int cuCheckpointProcessCheckpoint(int pid, void *arguments);
int cuCheckpointProcessCheckpoint(int pid, void *arguments) { return go("checkpoint", LOCKED, CHECKPOINTED); }
int cuCheckpointProcessRestore(int pid, void *arguments);
int cuCheckpointProcessRestore(int pid, void *arguments) { return go("restore", CHECKPOINTED, LOCKED); }
int cuCheckpointProcessUnlock(int pid, void *arguments);
int cuCheckpointProcessUnlock(int pid, void *arguments) { return go("unlock", LOCKED, RUNNING); }

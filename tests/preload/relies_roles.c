/* For each row of shim/driver/calls.h: work, a free, a call of that function with every argument zero, and whether the
 * work is still pending then (SIMCUDA_STREAMS=manual). Argument "natively": no free, so that it is the call itself that
 * waits. Each row runs in a process of its own. Prints "symbol role why result" for each: pending, done, absent (the
 * driver has no such function), or "signal N". */
#include "relies.h"

#include <sys/wait.h>

#include "shim/driver/calls.h"

static const struct row {
    const char *symbol, *role, *why;
} rows[] = {
#define CALL_ROW(symbol, name, version, twin, how, role, stream, meaning, why, memory, reason) {#symbol, #role, #why},
    GM_DRIVER_CALLS(CALL_ROW)
#undef CALL_ROW
};

enum { DONE = 10, PENDING, ABSENT };

static int try_row(const char *symbol, bool natively) {
    typedef CUresult (*function)(size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t,
                                 size_t);
    set_up();
    function call = (function)dlsym(driver, symbol);
    if (!call)
        return ABSENT;
    CUdeviceptr scratch = allocate(SCRATCH);
    unsigned before = made;
    launch(make, NULL, table, 1);
    if (!natively)
        release(scratch);
    EXPECT(made == before);
    call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    return made == before ? PENDING : DONE;
}

int main(int count, char **words) {
    static const char *const results[] = {"done", "pending", "absent"};
    bool natively = count > 1 && strcmp(words[1], "natively") == 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status;
        fflush(stdout);
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0)
            _exit(try_row(rows[i].symbol, natively));
        EXPECT(waitpid(child, &status, 0) == child);
        printf("%s %s %s ", rows[i].symbol, rows[i].role, rows[i].why);
        if (WIFSIGNALED(status))
            printf("signal %d\n", WTERMSIG(status));
        else if (WEXITSTATUS(status) < DONE || WEXITSTATUS(status) > ABSENT)
            printf("exit %d\n", WEXITSTATUS(status));
        else
            printf("%s\n", results[WEXITSTATUS(status) - DONE]);
    }
    return 0;
}

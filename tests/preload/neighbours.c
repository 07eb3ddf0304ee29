/* Two processes of one card: what one has freed the other one can have.
 *
 * usage: neighbours free|ended|idle
 *
 * free    the first one frees three quarters of the device, and does nothing more; the second one takes as much
 * ended   the same; another process that kept memory was killed before
 * idle    the first one frees; the device soon has the memory, without anybody asking */
#include <cuda.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "program.h"

enum { BLOCKS = 12 };

static void begin(size_t *card) {
    CUcontext context;
    size_t unused;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    MUST(cuMemGetInfo(&unused, card));
    *card = unused;
}

static void take_and_free(size_t card) {
    CUdeviceptr blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemAlloc(&blocks[i], card / 16));
    for (int i = 0; i < BLOCKS; i++)
        MUST(cuMemFree(blocks[i]));
}

/* A process of its own, which uses CUDA from its begin on. Returns when it has freed its blocks. */
static pid_t start(const char *program, const char *role) {
    int ready[2];
    char byte;
    if (pipe(ready))
        fail("pipe", __LINE__, 0);
    pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ready[1], STDOUT_FILENO);
        execl(program, program, role, (char *)NULL);
        _exit(1);
    }
    close(ready[1]);
    if (child < 0 || read(ready[0], &byte, 1) != 1)
        fail("child", __LINE__, 0);
    close(ready[0]);
    return child;
}

static int free_bytes_return(size_t card) {
    const struct timespec nap = {0, 20000000};
    for (int i = 0; i < 500; i++) {
        size_t unused, total;
        MUST(cuMemGetInfo(&unused, &total));
        if (unused >= card / 8 * 7)
            return 0;
        nanosleep(&nap, NULL);
    }
    return 1;
}

int main(int argc, char **argv) {
    size_t card;
    if (argc != 2)
        return 2;
    if (!strcmp(argv[1], "keep")) {
        begin(&card);
        take_and_free(card);
        if (write(STDOUT_FILENO, "x", 1) != 1)
            return 1;
        for (;;)
            pause();
    }
    if (!strcmp(argv[1], "ended")) {
        pid_t killed = start(argv[0], "keep");
        kill(killed, SIGKILL);
        waitpid(killed, NULL, 0);
    }
    pid_t child = start(argv[0], "keep");
    begin(&card);
    MUST(cuDeviceTotalMem(&card, 0));
    if (!strcmp(argv[1], "idle")) {
        if (free_bytes_return(card))
            fail("the memory stays with a process that does nothing", __LINE__, 0);
    } else {
        take_and_free(card);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}

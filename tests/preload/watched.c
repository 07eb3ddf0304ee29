/* Runs commands from standard input, one word at a time, and prints each one, so that others can observe the process
 * between them. */
#include <cuda_runtime_api.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "program.h"

enum { MOST = 4096, ROUNDS = 200 };

static void *blocks[MOST];
static unsigned count;

static void done(const char *word) {
    printf("%s %d\n", word, (int)getpid());
    fflush(stdout);
}

static void allocate(size_t size) {
    EXPECT(count < MOST);
    MUST(cudaMalloc(&blocks[count++], size));
}

static void free_one(void) {
    EXPECT(count);
    MUST(cudaFree(blocks[--count]));
}

/* Forks as a daemon does. */
static void close_others(void) {
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
}

static void obey(const char *word, char **arguments) {
    if (!strcmp(word, "alloc"))
        allocate(1 << 20);
    else if (!strcmp(word, "odd"))
        allocate(1000);
    else if (!strcmp(word, "free"))
        free_one();
    else if (!strcmp(word, "loop"))
        for (int i = 0; i < ROUNDS; i++) {
            allocate(1 << 16);
            free_one();
        }
    else if (!strcmp(word, "wait"))
        MUST(cudaDeviceSynchronize());
    else if (!strcmp(word, "close"))
        close_others();
    else if (!strcmp(word, "hide"))
        EXPECT(!prctl(PR_SET_DUMPABLE, 0));
    else if (!strcmp(word, "exec"))
        execl("/proc/self/exe", arguments[0], (char *)NULL);
    else
        fail(word, __LINE__, 0);
}

int main(int argc, char **argv) {
    char word[32];
    int status;
    setvbuf(stdin, NULL, _IONBF, 0); /* parent and child read the same pipe in turn */
    done("ready");
    while (scanf("%31s", word) == 1) {
        if (strcmp(word, "fork")) {
            obey(word, argv);
            done(word);
            continue;
        }
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child) { /* from here on the child reads the commands */
            EXPECT(waitpid(child, &status, 0) == child);
            return !WIFEXITED(status) || WEXITSTATUS(status);
        }
        count = 0;
        done(word);
    }
    return 0;
}

/* Runs commands from standard input, one word at a time, and prints each one, so that others can observe the process
 * between them. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
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

/* 16 MiB: prints the error. */
static void try_one(const char *word) {
    EXPECT(count < MOST);
    cudaError_t error = cudaMalloc(&blocks[count], 16 << 20);
    count += error == cudaSuccess;
    printf("%s %d\n", word, (int)error);
}

/* Takes and frees blocks with others at the same time. Prints how often a block was refused. */
static void race(const char *word) {
    int refused = 0;
    for (int i = 0; i < 20 * ROUNDS; i++) {
        void *block;
        if (cudaMalloc(&block, 16 << 20))
            refused++;
        else
            MUST(cudaFree(block));
    }
    printf("%s %d\n", word, refused);
}

/* Goes on to the next device. */
static void next_device(void) {
    int device, count;
    MUST(cudaGetDevice(&device));
    MUST(cudaGetDeviceCount(&count));
    MUST(cudaSetDevice((device + 1) % count));
}

static void print_free(const char *word) {
    size_t free_bytes, total;
    MUST(cudaMemGetInfo(&free_bytes, &total));
    printf("%s %d %d\n", word, (int)(free_bytes >> 20), (int)(total >> 20));
}

/* What NVML says: free, used and total MiB of both versions. */
static void print_nvml(const char *word) {
    struct {
        unsigned long long total, free, used;
    } memory;
    struct {
        unsigned version;
        unsigned long long total, reserved, free, used;
    } more = {.version = 2};
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    EXPECT(library);
    int (*query)(void *, void *) = (int (*)(void *, void *))dlsym(library, "nvmlDeviceGetMemoryInfo"),
                              (*query_v2)(void *, void *) =
                                  (int (*)(void *, void *))dlsym(library, "nvmlDeviceGetMemoryInfo_v2");
    EXPECT(query && query_v2 && !query(NULL, &memory) && !query_v2(NULL, &more));
    printf("%s %d %d %d %d %d %d\n", word, (int)(memory.free >> 20), (int)(memory.used >> 20),
           (int)(memory.total >> 20), (int)(more.free >> 20), (int)(more.used >> 20), (int)(more.total >> 20));
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
    else if (!strcmp(word, "next"))
        next_device();
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
        if (!strcmp(word, "try") || !strcmp(word, "race") || !strcmp(word, "room") || !strcmp(word, "nvml")) {
            (*word == 't' ? try_one : *word == 'n' ? print_nvml : word[1] == 'a' ? race : print_free)(word);
            fflush(stdout);
            continue;
        }
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

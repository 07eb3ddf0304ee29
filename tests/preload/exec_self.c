/* A process that has used CUDA starts another one of the same program, by fork and exec. */
#include <cuda_runtime_api.h>
#include <sys/wait.h>

#include "program.h"

static void work(size_t size) {
    void *memory = device_alloc(size);
    round_trip(memory, size, 9);
    device_free(memory);
}

int main(int count, char **argument) {
    if (count > 1) {
        work(5000);
        return 0;
    }
    work(6000);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "exec_self", "second", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    work(7000);
    printf("ok exec_self\n");
    return 0;
}

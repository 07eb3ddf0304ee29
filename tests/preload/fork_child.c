/* The parent forks before it has touched CUDA; first the child works with CUDA, then the parent. */
#include <cuda_runtime_api.h>
#include <sys/wait.h>

#include "program.h"

static void work(size_t size) {
    void *memory = device_alloc(size);
    round_trip(memory, size, 3);
    device_free(memory);
}

int main(void) {
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        work(100000);
        exit(0);
    }
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    work(200000);
    printf("ok fork_child\n");
    return 0;
}

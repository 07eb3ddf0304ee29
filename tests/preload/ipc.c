/* One block in two processes: the exporter starts itself again and passes the handle through a pipe. */
#include <cuda_runtime_api.h>
#include <sys/wait.h>

#include "program.h"

enum { SIZE = 4 << 20 };

static int import_block(void) {
    static unsigned char host[SIZE];
    cudaIpcMemHandle_t handle;
    void *memory = NULL;
    EXPECT(read(STDIN_FILENO, &handle, sizeof handle) == (ssize_t)sizeof handle);
    MUST(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
    note_alloc("cuIpcOpenMemHandle", ANY_BYTES, memory);
    MUST(cudaMemcpy(host, memory, SIZE, cudaMemcpyDeviceToHost));
    EXPECT(all_bytes_are(host, 0x3c, SIZE));
    MUST(cudaMemset(memory, 0xc3, SIZE));
    MUST(cudaDeviceSynchronize());
    note_free("cuIpcCloseMemHandle", memory);
    MUST(cudaIpcCloseMemHandle(memory));
    return 0;
}

int main(int count, char **argument) {
    if (count > 1)
        return import_block();
    static unsigned char host[SIZE];
    int ends[2];
    cudaIpcMemHandle_t handle;
    void *memory = device_alloc(SIZE);
    MUST(cudaMemset(memory, 0x3c, SIZE));
    MUST(cudaDeviceSynchronize());
    MUST(cudaIpcGetMemHandle(&handle, memory));
    EXPECT(pipe(ends) == 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[1]);
        execl("/proc/self/exe", "ipc", "import", (char *)NULL);
        _exit(1);
    }
    EXPECT(write(ends[1], &handle, sizeof handle) == (ssize_t)sizeof handle);
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return 77;
    EXPECT(status == 0);
    MUST(cudaMemcpy(host, memory, SIZE, cudaMemcpyDeviceToHost));
    EXPECT(all_bytes_are(host, 0xc3, SIZE));
    device_free(memory);
    printf("ok ipc %d bytes\n", SIZE);
    return 0;
}

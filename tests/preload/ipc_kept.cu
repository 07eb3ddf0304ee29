/* Blocks that were freed with work in flight and reused are exported to another process. The importer reads exactly
 * what the exporter wrote last and writes back, and no handle occurs twice. Argument "plain": the importer runs
 * without a preloaded library. */
#include <cuda_runtime.h>
#include <sys/wait.h>

#include "program.h"

enum { SIZE = 3 << 20, ROUNDS = 24, LATE = 0xee, ANSWERS = 3 };

struct message {
    cudaIpcMemHandle_t handle;
    unsigned char pattern;
};

/* Writes late, like a kernel that was busy before. */
extern "C" __global__ void late_fill(unsigned char *block, size_t count, unsigned value, long long cycles) {
    long long until = clock64() + cycles;
    while (clock64() < until)
        ;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        block[i] = (unsigned char)value;
}

#ifdef SIM_TWINS
#include "simcuda.h"

static void late_fill_on_host(const struct simcuda_launch *launch) {
    size_t count = *(size_t *)launch->args[1];
    void *block = launch->touch(*(void **)launch->args[0], count, 1);
    if (block)
        memset(block, (int)*(unsigned *)launch->args[2], count);
}

SIMCUDA_TWIN(late_fill, "p848", late_fill_on_host);
#endif

static unsigned char host[SIZE];

static int import_blocks(void) {
    struct message message;
    ssize_t got;
    while ((got = read(STDIN_FILENO, &message, sizeof message)) == (ssize_t)sizeof message) {
        void *memory = NULL;
        char done = 1;
        MUST(cudaIpcOpenMemHandle(&memory, message.handle, cudaIpcMemLazyEnablePeerAccess));
        note_alloc("cuIpcOpenMemHandle", ANY_BYTES, memory);
        MUST(cudaMemcpy(host, memory, SIZE, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < SIZE; i++)
            if (host[i] != message.pattern)
                fail(host[i] == LATE ? "the importer sees the work of the block's last owner"
                                     : "the importer sees other bytes",
                     __LINE__, host[i]);
        MUST(cudaMemset(memory, (unsigned char)~message.pattern, SIZE));
        MUST(cudaDeviceSynchronize());
        note_free("cuIpcCloseMemHandle", memory);
        MUST(cudaIpcCloseMemHandle(memory));
        EXPECT(write(ANSWERS, &done, 1) == 1);
    }
    EXPECT(got == 0);
    return 0;
}

static pid_t start_importer(int *to, int *from, int with_shim) {
    int questions[2], answers[2];
    EXPECT(pipe(questions) == 0 && pipe(answers) == 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        close(questions[1]);
        close(answers[0]);
        if (dup2(questions[0], STDIN_FILENO) < 0 || (answers[1] != ANSWERS && dup2(answers[1], ANSWERS) < 0))
            _exit(1);
        if (!with_shim) {
            unsetenv("LD_PRELOAD");
            unsetenv("PROGRAM_LOG");
        }
        execl("/proc/self/exe", "ipc_kept", "import", (char *)NULL);
        _exit(1);
    }
    close(questions[0]);
    close(answers[1]);
    *to = questions[1];
    *from = answers[0];
    return child;
}

int main(int count, char **argument) {
    static cudaIpcMemHandle_t handles[ROUNDS];
    cudaStream_t stream;
    int to, from, status = -1;
    if (count > 1 && strcmp(argument[1], "import") == 0)
        return import_blocks();
    pid_t child = start_importer(&to, &from, count == 1); /* before this process touches CUDA */
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < ROUNDS; round++) {
        struct message message;
        char done;
        void *owned_before = device_alloc(SIZE);
        late_fill<<<32, 256, 0, stream>>>((unsigned char *)owned_before, SIZE, LATE, 4000000);
        MUST(cudaGetLastError());
        device_free(owned_before);
        if (round % 2 == 0) /* all work on the freed block is done, so it may be reused */
            MUST(cudaDeviceSynchronize());
        void *memory = device_alloc(SIZE);
        message.pattern = (unsigned char)(round + 1);
        MUST(cudaMemset(memory, message.pattern, SIZE));
        MUST(cudaStreamSynchronize(0));
        if (round % 4 == 1) /* all work of the last owner is done before the importer reads */
            MUST(cudaStreamSynchronize(stream));
        MUST(cudaIpcGetMemHandle(&message.handle, memory));
        handles[round] = message.handle;
        for (int earlier = 0; earlier < round; earlier++)
            if (memcmp(&handles[earlier], &handles[round], sizeof handles[round]) == 0)
                fail("a handle comes a second time", __LINE__, round);
        if (write(to, &message, sizeof message) != (ssize_t)sizeof message || read(from, &done, 1) != 1)
            break; /* the importer has printed the reason */
        MUST(cudaStreamSynchronize(stream));
        MUST(cudaMemcpy(host, memory, SIZE, cudaMemcpyDeviceToHost));
        EXPECT(all_bytes_are(host, (unsigned char)~message.pattern, SIZE));
        device_free(memory);
    }
    close(to);
    EXPECT(waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        return 77;
    EXPECT(status == 0);
    MUST(cudaStreamDestroy(stream));
    printf("ok ipc_kept %d handles\n", ROUNDS);
    return 0;
}

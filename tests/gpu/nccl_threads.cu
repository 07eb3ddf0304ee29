// All-reduces of a communicator's ranks, each rank in a thread of its own with a GPU of its own, over blocks that are
// allocated before and freed behind each collective, with more allocations and frees between. Ends with 3 when it does
// not end within a minute, and says then where each thread is. Arguments: path of libnccl, rounds, cliques
// (communicators over both GPUs, at work at the same time), "apart" or "together" (together: no rank frees before both
// have submitted their collective, which is all that NCCL asks of a program).
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <condition_variable>
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <mutex>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "check.h"

// As nccl.h declares them; the header is not part of the CUDA toolkit.
typedef struct ncclComm *ncclComm_t;
enum { NCCL_FLOAT = 7, NCCL_SUM = 0 };
static int (*init_all)(ncclComm_t *, int, const int *);
static int (*all_reduce)(const void *, void *, size_t, int, int, ncclComm_t, cudaStream_t);
static int (*destroy)(ncclComm_t);

enum { RANKS = 2, TIME_LIMIT_S = 60, SMALL = 4 };

__global__ void fill(float *block, size_t count, float value) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        block[i] = value;
}

__global__ void verify(const float *block, size_t count, float value, unsigned long long *wrong) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        if (block[i] != value)
            atomicAdd(wrong, 1ull);
}

static void must(int result, const char *text) {
    if (result != 0) {
        std::fprintf(stderr, "%s: NCCL says %d\n", text, result);
        std::exit(1);
    }
}

static void say_where(int) {
    static const char text[] = "thread:\n";
    void *frames[24];
    if (write(STDERR_FILENO, text, sizeof text - 1) > 0)
        backtrace_symbols_fd(frames, backtrace(frames, 24), STDERR_FILENO);
}

static void out_of_time(int) {
    static const char text[] = "does not end within a minute\n";
    bool said = write(STDERR_FILENO, text, sizeof text - 1) > 0;
    if (DIR *tasks = opendir("/proc/self/task"))
        while (const dirent *task = readdir(tasks))
            if (int thread = std::atoi(task->d_name)) {
                syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
                usleep(50000);
            }
    _exit(said ? 3 : 4);
}

// Both ranks of a clique have come here.
class Meeting {
  public:
    void come() {
        std::unique_lock<std::mutex> hold(lock);
        unsigned long mine = generation;
        if (++here == RANKS) {
            here = 0;
            generation++;
            changed.notify_all();
        } else {
            changed.wait(hold, [&] { return generation != mine; });
        }
    }

  private:
    std::mutex lock;
    std::condition_variable changed;
    int here = 0;
    unsigned long generation = 0;
};

static void rank_of(int clique, int rank, ncclComm_t communicator, int rounds, bool together, Meeting *meeting,
                    unsigned long long *result) {
    unsigned long long *wrong;
    cudaStream_t stream;
    CHECK(cudaSetDevice(rank));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&wrong, sizeof(*wrong)));
    CHECK(cudaMemset(wrong, 0, sizeof(*wrong)));
    CHECK(cudaDeviceSynchronize());
    meeting->come();
    for (int round = 0; round < rounds; round++) {
        size_t count = (size_t)1024 << round * 5 % 13; // 4 KiB to 16 MiB, the same for every rank
        float *block, *small[SMALL], mine = (float)(rank + 1 + round % 100 + 10 * clique);
        float sum = (float)(1 + 2 + RANKS * (round % 100 + 10 * clique));
        CHECK(cudaMalloc(&block, count * sizeof(float)));
        fill<<<32, 256, 0, stream>>>(block, count, mine);
        must(all_reduce(block, block, count, NCCL_FLOAT, NCCL_SUM, communicator, stream), "ncclAllReduce");
        verify<<<32, 256, 0, stream>>>(block, count, sum, wrong);
        CHECK(cudaGetLastError());
        if (together || round == 0) // the first brings up connections and loads kernels
            meeting->come();
        for (int i = 0; i < SMALL; i++) {
            CHECK(cudaMalloc(&small[i], (size_t)65536 << (round + i) % 4));
            fill<<<32, 256, 0, stream>>>(small[i], 16384, -1.0f);
        }
        CHECK(cudaFree(block));
        for (int i = 0; i < SMALL; i++)
            CHECK(cudaFree(small[i]));
    }
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(result, wrong, sizeof(*result), cudaMemcpyDeviceToHost));
    meeting->come();
    CHECK(cudaFree(wrong));
    CHECK(cudaStreamDestroy(stream));
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    int rounds = std::atoi(argv[2]), cliques = std::atoi(argv[3]);
    bool together = std::strcmp(argv[4], "together") == 0;
    static const int devices[RANKS] = {0, 1};
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 77;
    }
    *(void **)&init_all = dlsym(library, "ncclCommInitAll");
    *(void **)&all_reduce = dlsym(library, "ncclAllReduce");
    *(void **)&destroy = dlsym(library, "ncclCommDestroy");
    if (!init_all || !all_reduce || !destroy)
        return 77;
    std::signal(SIGUSR1, say_where);
    std::signal(SIGALRM, out_of_time);
    alarm(TIME_LIMIT_S);

    std::vector<ncclComm_t> communicators((size_t)cliques * RANKS);
    std::vector<Meeting> meetings((size_t)cliques);
    std::vector<unsigned long long> wrong((size_t)cliques * RANKS);
    std::vector<std::thread> threads;
    unsigned long long sum = 0;
    for (int clique = 0; clique < cliques; clique++)
        must(init_all(&communicators[(size_t)clique * RANKS], RANKS, devices), "ncclCommInitAll");
    for (int clique = 0; clique < cliques; clique++)
        for (int rank = 0; rank < RANKS; rank++) {
            size_t at = (size_t)(clique * RANKS + rank);
            threads.emplace_back(rank_of, clique, rank, communicators[at], rounds, together, &meetings[(size_t)clique],
                                 &wrong[at]);
        }
    for (auto &thread : threads)
        thread.join();
    for (auto number : wrong)
        sum += number;
    for (auto communicator : communicators)
        must(destroy(communicator), "ncclCommDestroy");
    std::printf("ok nccl_threads %llu wrong\n", sum);
    return sum != 0;
}

// Processes that begin while threads are busy.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "turmoil.h"

extern char **environ;
static char word_true[] = "/bin/true", word_mode[] = "churn", word_seconds[] = "0.2", word_seed[] = "7";
static char word_threads[] = "2";

static void expect_zero(pid_t child, const char *what) {
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        std::printf("%s: child %d ended with %d\n", what, (int)child, status);
        std::exit(1);
    }
}

// The child touches no CUDA.
[[noreturn]] static void be_child(unsigned way, bool by_exit) {
    char *self[] = {(char *)"/proc/self/exe", word_mode, word_seconds, word_seed, word_threads, nullptr};
    char *nothing[] = {word_true, nullptr};
    std::vector<char> some(1 << 16);
    if (way == 1)
        execv(word_true, nothing);
    if (way == 2) { // the same program anew, with CUDA of its own
        unsetenv("STRESS_HOLD");
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(3);
        execv(self[0], self);
    }
    if (way == 3) {
        pid_t grandchild = fork();
        int status = 1;
        if (grandchild == 0)
            _exit(some[0]);
        waitpid(grandchild, &status, 0);
        some[0] = (char)(status != 0);
    }
    if (by_exit)
        std::exit(some[0]);
    _exit(way == 1 || way == 2 ? 4 : some[0]);
}

static void run(const Plan &plan, bool by_exit) {
    counter_make();
    // A child that ends by exit() runs what libraries do at the end, with locks as the fork found them: one thread.
    in_threads(plan, by_exit ? 1 : plan.threads, [&](unsigned number, std::mt19937 &random) {
        cudaStream_t stream;
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        while (plan.goes_on()) {
            if (number < 2) {
                usleep(random() % 4000); // process ids are not to come again while others still know them
                static const unsigned often[] = {0, 0, 0, 1, 1, 3, 3, 0, 0, 0};
                unsigned way = random() % 40 ? often[random() % 10] : 2;
                std::fflush(nullptr);
                pid_t child = fork();
                if (child == 0)
                    be_child(by_exit ? way % 2 ? 3 : 0 : way, by_exit);
                expect_zero(child, "fork");
                char *nothing[] = {word_true, nullptr};
                if (random() % 4 == 0 && posix_spawn(&child, word_true, nullptr, nullptr, nothing, environ) == 0)
                    expect_zero(child, "posix_spawn");
            }
            Block block = allocate(random);
            write_on(block, stream);
            verify_on(block, stream);
            release(block);
            rounds++;
        }
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaStreamDestroy(stream));
    });
    counter_take();
}

void forks(const Plan &plan) { run(plan, false); }
void exits(const Plan &plan) { run(plan, true); }

// Work in flight of every kind touches a block; the block is freed behind it, and new blocks of its size are written at
// once on other streams. Tells for each kind whether the work kept its memory, and whether the free keeps what it
// promises:
//   ok            the work saw and wrote nothing but its own memory, and the free kept its promise
//   early reuse   memory was handed out while work of its former owner still touched it
//   hole          the free returned too early: its promise is not kept
//   skipped       with the reason
// A line is STATUS, tabulator, KIND, tabulator, what was seen.
//
// Arguments:
//   --promise=wait | order | async  the free returns when the work is done; work submitted behind the free runs behind
//                                   the work; nothing (default)
//   --quiet          the host sees nothing of the device but by synchronising, unless by the kind of work itself
//   --natively=FILE  output of a run without the library: what happened there is no fault ("died": the program ended)
//   --rounds=N       of each kind (default 3)
//   --skip=N, --most=N  without the first N kinds; no more than N kinds
//   --list           names alone
//   words            only kinds whose name contains one of them
// Ends with 1 after a fault.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "../kernels.h"
#include "in_flight.h"

static const unsigned OTHER = 0x40000000; // what the next owners write
enum { NEXT = 6, BLOCKS = 16, THREADS = 256, LINGER_MS = 20, PATIENCE_S = 10 };

extern "C" __global__ void mark(volatile unsigned *done) {
    *done = 1;
    __threadfence_system();
}

extern "C" __global__ void look(const volatile unsigned *done, volatile unsigned *seen) { *seen = *done; }

#ifdef SIM_TWINS
static void mark_on_host(const struct simcuda_launch *launch) {
    unsigned *done = (unsigned *)launch->touch(*(void **)launch->args[0], 4, 1);
    if (done)
        *done = 1;
}

static void look_on_host(const struct simcuda_launch *launch) {
    const unsigned *done = (const unsigned *)launch->touch(*(void **)launch->args[0], 4, 0);
    unsigned *seen = (unsigned *)launch->touch(*(void **)launch->args[1], 4, 1);
    if (done && seen)
        *seen = *done;
}

SIMCUDA_TWIN(mark, "p", mark_on_host);
SIMCUDA_TWIN(look, "pp", look_on_host);
#endif

// ---- what kinds are made of

void fill_on(unsigned *words, size_t count, unsigned pattern, cudaStream_t stream) {
    fill<<<BLOCKS, THREADS, 0, stream>>>(words, count, pattern);
    CHECK(cudaGetLastError());
}

static void expect_of(const Trial &trial, const unsigned *words, size_t count, unsigned pattern, cudaStream_t stream) {
    int device;
    CHECK(cudaGetDevice(&device));
    verify<<<BLOCKS, THREADS, 0, stream>>>(words, count, pattern, trial.wrong[device]);
    CHECK(cudaGetLastError());
}

void linger_on(const Trial &trial, cudaStream_t stream) {
    linger<<<1, 1, 0, stream>>>(trial.cycles);
    CHECK(cudaGetLastError());
}

void expect_on(const Trial &trial, const unsigned *words, unsigned pattern, cudaStream_t stream) {
    expect_of(trial, words, trial.words, pattern, stream);
}

void expect_on_host(Trial &trial, const unsigned *words, unsigned pattern) {
    for (size_t i = 0; i < trial.words; i++)
        trial.host_wrong += words[i] != pattern + (unsigned)i;
}

void use_on(const Trial &trial, cudaStream_t stream) {
    expect_on(trial, trial.block, HELD, stream);
    fill_on(trial.block, trial.words, WRITTEN, stream);
    expect_on(trial, trial.block, WRITTEN, stream);
}

void end_on(const Trial &trial, cudaStream_t stream) {
    mark<<<1, 1, 0, stream>>>(trial.done);
    CHECK(cudaGetLastError());
}

void work_on(const Trial &trial, cudaStream_t stream) {
    linger_on(trial, stream);
    use_on(trial, stream);
    end_on(trial, stream);
}

// ---- a trial

struct Outcome {
    unsigned trials = 0, in_flight = 0, early = 0, unwaited = 0, unordered = 0; // trials: of all; with such an end
    unsigned long long wrong = 0, overwritten = 0; // words that the work, and that the next owners, found changed
    double free_ms = 0;                            // the longest
};

static Trial base; // what all trials have in common
static int devices;
static unsigned *seen; // what a kernel behind the free saw of `done`; pinned memory, when quiet the device's
static bool quiet;
static cudaStream_t others[2];
static int (*trim)(size_t, size_t *);

// Quiet: synchronises.
static bool is_set(const unsigned *flag) {
    unsigned value = 0;
    if (!quiet)
        return __atomic_load_n(flag, __ATOMIC_ACQUIRE) != 0;
    CHECK(cudaSetDevice(0));
    CHECK(cudaMemcpy(&value, flag, sizeof value, cudaMemcpyDeviceToHost));
    return value != 0;
}

static void clear_flags() {
    CHECK(cudaMemset(base.done, 0, 2 * sizeof *base.done));
    CHECK(cudaDeviceSynchronize());
}

static void synchronise() {
    for (int device = devices - 1; device >= 0; device--) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaDeviceSynchronize());
    }
}

static void await_end(const char *name) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(PATIENCE_S);
    synchronise();
    while (!is_set(base.done) && std::chrono::steady_clock::now() < end) // work that no stream knows of
        std::this_thread::yield();
    if (!is_set(base.done)) {
        std::printf("hole\t%s\tits work never ended\n", name);
        std::exit(1);
    }
}

static unsigned long long take_wrong() {
    unsigned long long sum = base.host_wrong, one;
    base.host_wrong = 0;
    for (int device = 0; device < devices; device++) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaMemcpy(&one, base.wrong[device], sizeof one, cudaMemcpyDeviceToHost));
        CHECK(cudaMemset(base.wrong[device], 0, sizeof one));
        CHECK(cudaDeviceSynchronize());
        sum += one;
    }
    CHECK(cudaSetDevice(0));
    return sum;
}

static unsigned *allocate(const Kind &kind, bool managed) {
    void *block = nullptr;
    CHECK(managed ? cudaMallocManaged(&block, kind.bytes) : cudaMalloc(&block, kind.bytes));
    return (unsigned *)block;
}

// Of two kinds of writers each gets half of the new blocks.
static void overwrite(unsigned *block, size_t words, unsigned number) {
    cudaStream_t stream = others[number & 1];
    if (number & 1)
        CHECK(cudaMemsetAsync(block, 0x77, words * sizeof(unsigned), stream));
    fill_on(block, words, OTHER + number, stream);
}

// NULL, or why there is no such kind here. A rehearsal waits for the work before the free: it makes sizes known.
static const char *try_kind(const Kind &kind, bool rehearsal, Outcome &outcome) {
    using clock = std::chrono::steady_clock;
    unsigned *next[NEXT];
    Trial &trial = base;
    trial.words = kind.bytes / sizeof(unsigned);
    trial.block = allocate(kind, kind.managed);
    std::memset(trial.own, 0, sizeof trial.own);
    const char *why = kind.prepare ? kind.prepare(trial) : nullptr;
    if (why) {
        CHECK(cudaFree(trial.block));
        return why;
    }
    fill_on(trial.block, trial.words, HELD, trial.stream);
    CHECK(cudaMemsetAsync(trial.target, 0, kind.bytes, trial.stream));
    synchronise();
    CHECK(cudaSetDevice(0));
    clear_flags();
    auto begin = clock::now();
    auto spent_ms = [&] { return std::chrono::duration<double, std::milli>(clock::now() - begin).count(); };
    kind.launch(trial);
    if (rehearsal)
        await_end(kind.name);
    bool in_flight = quiet ? spent_ms() < LINGER_MS / 2 : !is_set(trial.done);

    begin = clock::now();
    if (kind.free)
        kind.free(trial.block);
    else
        CHECK(cudaFree(trial.block));
    double free_ms = spent_ms();
    auto is_over = [&] { return quiet ? free_ms > LINGER_MS / 2 : is_set(trial.done); };
    bool waited = is_over(), early = false;
    look<<<1, 1, 0, others[0]>>>(trial.done, seen);
    CHECK(cudaGetLastError());
    for (unsigned i = 0; i < NEXT; i++) {
        next[i] = allocate(kind, kind.managed && i % 2 == 0);
        early |= next[i] == trial.block && !is_over();
        overwrite(next[i], trial.words, i);
    }
    for (cudaStream_t other : others)
        CHECK(cudaStreamSynchronize(other));

    await_end(kind.name);
    CHECK(cudaSetDevice(0));
    bool ordered = is_set(seen);
    if (kind.check)
        kind.check(trial);
    synchronise();
    unsigned long long wrong = take_wrong();
    for (unsigned i = 0; i < NEXT; i++)
        expect_of(trial, next[i], trial.words, OTHER + i, others[0]);
    synchronise();
    unsigned long long overwritten = take_wrong();
    if (kind.destroy)
        kind.destroy(trial);
    for (unsigned *block : next)
        CHECK(cudaFree(block));
    if (trim)
        trim(SIZE_MAX, nullptr); // the next round's block is then the only one that is kept

    outcome.trials++;
    outcome.wrong += wrong;
    outcome.overwritten += overwritten;
    if (!rehearsal && in_flight) {
        outcome.in_flight++;
        outcome.early += early;
        outcome.unwaited += !waited;
        outcome.unordered += !ordered;
        outcome.free_ms = std::max(outcome.free_ms, free_ms);
    }
    return nullptr;
}

// ---- the judgement

static std::map<std::string, std::string> natively; // kind: status

static bool judge(const Kind &kind, const Outcome &outcome, const std::string &promise) {
    const char *status = "ok";
    bool fault = outcome.wrong || outcome.overwritten, hole = false;
    if (!outcome.in_flight && !fault) {
        std::printf("skipped\t%s\tits own calls wait for the work\n", kind.name);
        std::fflush(stdout);
        return true;
    }
    if (promise == "wait")
        hole = outcome.unwaited || outcome.unordered;
    if (promise == "order")
        hole = outcome.unordered;
    const std::string &known = natively[kind.name];
    bool known_early = known == "early reuse" || known == "died", known_hole = known_early || known == "hole";
    if (fault && !known_early)
        status = "early reuse";
    else if (hole && !known_hole)
        status = "hole";
    std::printf("%s\t%s\t%u in flight: the free took %.1f ms, did not wait %u, later work not behind it %u", status,
                kind.name, outcome.in_flight, outcome.free_ms, outcome.unwaited, outcome.unordered);
    std::printf(", handed out at once %u", outcome.early);
    if (fault)
        std::printf(", words changed under the work %llu, under the next owner %llu", outcome.wrong,
                    outcome.overwritten);
    if ((fault && known_early) || (hole && known_hole))
        std::printf(", natively so");
    std::printf("\n");
    std::fflush(stdout);
    return std::strcmp(status, "ok") == 0;
}

static void read_natively(const char *path) {
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
        size_t first = line.find('\t'), second = line.find('\t', first + 1);
        if (second != std::string::npos)
            natively[line.substr(first + 1, second - first - 1)] = line.substr(0, first);
    }
    if (natively.empty()) {
        std::fprintf(stderr, "%s says nothing about any kind\n", path);
        std::exit(2);
    }
}

static void set_up() {
    int khz = 0;
    CHECK(cudaGetDeviceCount(&devices));
    devices = std::min(devices, quiet ? 1 : 2); // the flags are memory of the first
    if (cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0) != cudaSuccess || khz <= 0)
        khz = 2000000;
    (void)cudaGetLastError();
    base.cycles = (long long)khz * LINGER_MS;
    base.pageable = (unsigned *)std::malloc(LARGE);
    for (int device = devices - 1; device >= 0; device--) {
        CHECK(cudaSetDevice(device));
        CHECK(cudaMalloc(&base.wrong[device], sizeof *base.wrong[device]));
        CHECK(cudaMemset(base.wrong[device], 0, sizeof *base.wrong[device]));
        CHECK(cudaMalloc(device ? &base.far_target : &base.target, LARGE));
        if (device)
            CHECK(cudaStreamCreateWithFlags(&base.far, cudaStreamNonBlocking));
        CHECK(cudaDeviceSynchronize());
    }
    for (cudaStream_t *stream : {&base.stream, &base.second, &others[0], &others[1]})
        CHECK(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    if (quiet)
        CHECK(cudaMalloc(&base.done, 2 * sizeof(unsigned)));
    else
        CHECK(cudaHostAlloc(&base.done, 2 * sizeof(unsigned), cudaHostAllocPortable | cudaHostAllocMapped));
    seen = base.done + 1;
    // A kernel is loaded by its first launch, which a capture would not stand.
    for (int device = devices - 1; device >= 0; device--) {
        CHECK(cudaSetDevice(device));
        linger<<<1, 1>>>(0);
        fill<<<1, 1>>>(nullptr, 0, 0);
        verify<<<1, 1>>>(nullptr, 0, 0, base.wrong[device]);
        mark<<<1, 1>>>(base.done);
        look<<<1, 1>>>(base.done, seen);
        CHECK(cudaDeviceSynchronize());
    }
    trim = (int (*)(size_t, size_t *))dlsym(RTLD_DEFAULT, "gpumem_trim");
}

int main(int count, char **words) {
    std::string promise = "async";
    std::vector<std::string> wanted;
    unsigned rounds = 3, skip = 0, most = ~0u;
    bool good = true, list = false;
    for (int i = 1; i < count; i++) {
        std::string word = words[i];
        if (word.rfind("--promise=", 0) == 0)
            promise = word.substr(10);
        else if (word.rfind("--natively=", 0) == 0)
            read_natively(word.substr(11).c_str());
        else if (word == "--quiet")
            quiet = true;
        else if (word.rfind("--most=", 0) == 0)
            most = (unsigned)std::atoi(word.c_str() + 7);
        else if (word.rfind("--rounds=", 0) == 0)
            rounds = (unsigned)std::atoi(word.c_str() + 9);
        else if (word.rfind("--skip=", 0) == 0)
            skip = (unsigned)std::atoi(word.c_str() + 7);
        else if (word == "--list")
            list = true;
        else
            wanted.push_back(word);
    }
    if (promise != "wait" && promise != "order" && promise != "async") {
        std::fprintf(stderr, "--promise=%s is not one of wait, order or async\n", promise.c_str());
        return 2;
    }
    setenv("CUDA_MODULE_LOADING", "EAGER", 0); // loading a kernel waits for the device
    if (!list)
        set_up();
    for (auto kinds : {stream_kinds(), copy_kinds(), graph_kinds(), device_kinds()})
        for (const Kind &kind : kinds) {
            auto named = [&](const std::string &word) { return std::strstr(kind.name, word.c_str()) != nullptr; };
            if (!wanted.empty() && std::none_of(wanted.begin(), wanted.end(), named))
                continue;
            if (skip && skip--)
                continue;
            if (list) {
                std::printf("%s\n", kind.name);
                continue;
            }
            if (!most--)
                return good ? 0 : 1;
            Outcome outcome;
            const char *why = kind.devices > devices ? "one GPU" : nullptr;
            for (unsigned round = 0; round <= rounds && !why; round++)
                why = try_kind(kind, round == 0, outcome);
            if (why)
                std::printf("skipped\t%s\t%s\n", kind.name, why), std::fflush(stdout);
            else
                good &= judge(kind, outcome, promise);
        }
    return good ? 0 : 1;
}

// Clock, samples and the card's memory.
#include "bench.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace {

const double SAMPLE_NS = 2e6, MEMORY_NS = 2e7;

// NVML's stable interface; its header is no part of every toolkit.
struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml {
    void *device = nullptr;
    int (*memory)(void *, nvml_memory *) = nullptr;

    nvml() {
        void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
        if (!library)
            return;
        auto init = (int (*)())dlsym(library, "nvmlInit_v2");
        auto by_bus = (int (*)(const char *, void **))dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
        auto info = (int (*)(void *, nvml_memory *))dlsym(library, "nvmlDeviceGetMemoryInfo");
        char bus[32];
        int current;
        CHECK(cudaGetDevice(&current));
        if (init && by_bus && info && init() == 0 && cudaDeviceGetPCIBusId(bus, sizeof(bus), current) == cudaSuccess &&
            by_bus(bus, &device) == 0)
            memory = info;
    }
};

int fitting_repetitions(const row &one) {
    const int most = 4000;
    double taken = 0;
    int n = one.least / 4;
    one.body(one.least);
    do { // each try is also the warm-up of the next: what keeps memory has it by then
        n *= 4;
        CHECK(cudaDeviceSynchronize());
        double begin = now();
        one.body(n);
        taken = now() - begin;
    } while (n < most && taken < SAMPLE_NS / 2);
    return (int)std::clamp(n * SAMPLE_NS / taken, (double)one.least, (double)most);
}

// A run of its own beside which memory is sampled; then what stays; then what the row itself looks at.
size_t most_used(const row &one, int repetitions) {
    sampler beside;
    double begin = now();
    do
        one.body(repetitions);
    while (now() - begin < MEMORY_NS && beside.count() < 100);
    size_t most = std::max(beside.stop(), card_used());
    CHECK(cudaDeviceSynchronize());
    return one.probe ? std::max(most, one.probe()) : most;
}

} // namespace

double now() {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static nvml &library() {
    static nvml loaded;
    return loaded;
}

bool card_known() { return library().memory; }

size_t card_used() {
    nvml_memory memory = {};
    if (card_known() && library().memory(library().device, &memory) != 0) {
        std::fprintf(stderr, "bench: NVML does not report the memory in use\n");
        std::exit(1);
    }
    return memory.used;
}

struct sampler::state {
    std::atomic<bool> ends{false};
    std::atomic<int> count{0};
    size_t most = 0;
    std::thread thread;
};

sampler::sampler() : shared(new state) {
    shared->thread = std::thread([state = shared] {
        do {
            state->most = std::max(state->most, card_used());
            state->count++;
        } while (!state->ends);
    });
}

size_t sampler::stop() {
    shared->ends = true;
    if (shared->thread.joinable())
        shared->thread.join();
    return shared->most;
}

int sampler::count() const { return shared->count; }

sampler::~sampler() {
    stop();
    delete shared;
}

bool wanted(const std::string &name) {
    return bench.rows.empty() || std::any_of(bench.rows.begin(), bench.rows.end(),
                                             [&](const std::string &prefix) { return name.rfind(prefix, 0) == 0; });
}

void print_times(const std::string &name, int repetitions, std::vector<double> times, const std::string &more) {
    std::sort(times.begin(), times.end());
    std::printf("%s %d %.1f %.1f %.1f%s\n", name.c_str(), repetitions, times.front(), times[times.size() / 2],
                times.back(), more.c_str());
    std::fflush(stdout);
}

void measure(const std::vector<row> &rows) {
    if (std::none_of(rows.begin(), rows.end(), [](const row &one) { return wanted(one.name); }))
        return;
    bool memory = bench.memory && card_known();
    std::vector<int> repetitions;
    for (const row &one : rows)
        repetitions.push_back(one.repetitions ? one.repetitions : fitting_repetitions(one));
    if (memory) // what the driver loads for a kernel is there by now, and is nobody's reserve
        for (const row &one : rows)
            one.body(1);
    bench.contender.trim();
    size_t before = !memory ? 0 : rows[0].used ? rows[0].used : card_used();
    std::vector<std::vector<double>> times(rows.size());
    for (int sample = -2; sample < bench.samples; sample++)
        for (size_t i = 0; i < rows.size(); i++) {
            if (rows[i].before)
                rows[i].before();
            CHECK(cudaDeviceSynchronize());
            double begin = now();
            rows[i].body(repetitions[i]);
            if (sample >= 0)
                times[i].push_back((now() - begin) / repetitions[i]);
        }
    for (size_t i = 0; i < rows.size(); i++) {
        std::string more;
        if (memory && rows[i].live)
            more = " live=" + std::to_string(rows[i].live) +
                   " reserved=" + std::to_string(std::max(most_used(rows[i], repetitions[i]), before) - before);
        print_times(rows[i].name, repetitions[i], times[i], more);
    }
}

// Replays the allocations and frees of a trace (CSV as GPUMEM_TRACE=x.csv writes it) in their recorded order under one
// contender, a small kernel on every new block, so that work is in flight as in a program.
//
// usage: replay [--allocator native|async|LIBRARY] [--samples N] [--memory] NAME=TRACE.csv...
//
// Two lines a trace, nanoseconds a call: `replay:NAME`, and `replay-kernels:NAME`, the same kernels on one lasting
// block.
#include "bench.h"

#include <getopt.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unordered_map>

options bench;

namespace {

struct step {
    unsigned long long sequence;
    bool allocates;
    size_t block, bytes; // blocks are numbered; an allocation's bytes
};

struct trace {
    std::vector<step> steps;
    size_t blocks = 0, most_live = 0;
};

[[noreturn]] void fail(const std::string &path, const char *what) {
    std::fprintf(stderr, "replay: %s: %s\n", path.c_str(), what);
    std::exit(1);
}

std::vector<std::string> cells(const std::string &line) {
    std::vector<std::string> found;
    std::string cell;
    for (std::istringstream text(line); std::getline(text, cell, ',');)
        found.push_back(cell);
    return found;
}

// Blocks are known by address until they are freed. Frees of other memory, and what was allocated before the trace
// began, have none.
trace number_blocks(std::vector<step> lines) {
    std::sort(lines.begin(), lines.end(), [](const step &a, const step &b) { return a.sequence < b.sequence; });
    trace made;
    std::unordered_map<size_t, step> live; // by address
    size_t now_live = 0;
    for (step line : lines) {
        auto known = live.find(line.block);
        if (line.allocates) {
            size_t address = line.block;
            line.block = made.blocks++;
            live[address] = line;
            now_live += line.bytes;
            made.most_live = std::max(made.most_live, now_live);
        } else if (known != live.end()) {
            line.block = known->second.block;
            line.bytes = known->second.bytes;
            now_live -= line.bytes;
            live.erase(known);
        } else {
            continue;
        }
        made.steps.push_back(line);
    }
    for (auto &left : live)
        made.steps.push_back({0, false, left.second.block, left.second.bytes});
    return made;
}

trace read(const std::string &path) {
    std::ifstream file(path);
    std::string line;
    if (!std::getline(file, line) || line.rfind("seq,time_ns,action,call,address,bytes,device,stream,thread", 0) != 0)
        fail(path, "not a CSV trace of gpumem");
    std::vector<step> lines;
    while (std::getline(file, line)) {
        std::vector<std::string> cell = cells(line);
        if (line[0] == '#' || cell.size() < 9)
            continue;
        bool allocates = cell[2] == "alloc" && (cell[3].rfind("cuMemAlloc", 0) == 0) && cell[3] != "cuMemAllocHost" &&
                         cell[3] != "cuMemAllocManaged";
        if (allocates || cell[2] == "free")
            lines.push_back({std::strtoull(cell[0].c_str(), nullptr, 10), allocates,
                             (size_t)std::strtoull(cell[4].c_str(), nullptr, 0),
                             (size_t)std::strtoull(cell[5].c_str(), nullptr, 10)});
    }
    trace made = number_blocks(lines);
    if (made.steps.empty())
        fail(path, "no allocation of device memory in it");
    return made;
}

// `most`: where not null, becomes the most memory of the card in use, looked at whenever the live bytes are near their
// peak.
void replay(const trace &recorded, size_t *most) {
    std::vector<void *> blocks(recorded.blocks);
    size_t live = 0;
    for (const step &next : recorded.steps)
        if (next.allocates) {
            blocks[next.block] = bench.contender.allocate(next.bytes);
            launch_work(blocks[next.block], std::min(next.bytes, (size_t)1 << 20), 1);
            live += next.bytes;
            if (most && live >= recorded.most_live - recorded.most_live / 32)
                *most = std::max(*most, card_used());
        } else {
            bench.contender.release(blocks[next.block]);
            live -= next.bytes;
        }
    CHECK(cudaDeviceSynchronize());
}

void kernels_only(const trace &recorded, void *block) {
    for (const step &next : recorded.steps)
        if (next.allocates)
            launch_work(block, std::min(next.bytes, (size_t)1 << 20), 1);
    CHECK(cudaDeviceSynchronize());
}

// Runs one trace; times are divided by the number of calls, since measure() knows repetitions only.
void measure_trace(const std::string &name, const trace &recorded) {
    void *lasting;
    CHECK(cudaMalloc(&lasting, 1 << 20));
    int calls = (int)recorded.steps.size();
    auto rounds = [=](int n) { return std::max(1, n / calls); };
    row kernels = {"replay-kernels:" + name, calls, [&](int n) {
                       for (int i = 0; i < rounds(n); i++)
                           kernels_only(recorded, lasting);
                   }};
    row whole = {"replay:" + name, calls, [&](int n) {
                     for (int i = 0; i < rounds(n); i++)
                         replay(recorded, nullptr);
                 }};
    whole.live = recorded.most_live;
    whole.probe = [&] {
        size_t most = 0;
        replay(recorded, &most);
        return most;
    };
    measure({kernels, whole});
    CHECK(cudaFree(lasting));
}

} // namespace

int main(int argc, char **argv) {
    static const option known[] = {{"allocator", required_argument, nullptr, 'a'},
                                   {"samples", required_argument, nullptr, 's'},
                                   {"memory", no_argument, nullptr, 'm'},
                                   {nullptr, 0, nullptr, 0}};
    std::string allocator = "native";
    for (int which; (which = getopt_long(argc, argv, "", known, nullptr)) != -1;)
        switch (which) {
        case 'a': allocator = optarg; break;
        case 's': bench.samples = std::max(1, std::atoi(optarg)); break;
        case 'm': bench.memory = true; break;
        default: return 2;
        }
    std::vector<std::pair<std::string, trace>> traces; // read before the card is touched
    for (int i = optind; i < argc; i++) {
        const char *path = std::strchr(argv[i], '=');
        if (!path)
            fail(argv[i], "traces are given as NAME=TRACE.csv");
        traces.emplace_back(std::string(argv[i], path - argv[i]), read(path + 1));
    }
    CHECK(cudaFree(nullptr));
    bench.contender = find_allocator(allocator);
    for (auto &one : traces)
        measure_trace(one.first, one.second);
    return 0;
}

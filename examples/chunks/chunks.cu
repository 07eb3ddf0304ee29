// Memory of two kinds in one program: a share of the blocks from cudaMallocAsync, the rest managed, and kernels over 4
// KiB chunks in random order. Allocation, copy and kernels are timed apart.
#include "../check.h"
#include "../managed_bound.h"
#include "elements.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <getopt.h>
#include <random>
#include <string>
#include <tuple>
#include <vector>

enum { SKIP = 77, THREADS = 256, MAX_CHECKED = 256 };

// A block for each group of chunks.
extern "C" __global__ void chunk_add(long groups, void *const *order) {
    if (blockIdx.x < groups)
        for (int i = threadIdx.x; i < ADD_ELEMENTS; i += blockDim.x)
            add_element(order + static_cast<long>(blockIdx.x) * PAIR, i);
}

extern "C" __global__ void chunk_butterfly(long groups, void *const *order) {
    if (blockIdx.x < groups)
        for (int i = threadIdx.x; i < BUTTERFLY_ELEMENTS; i += blockDim.x)
            butterfly_element(order + static_cast<long>(blockIdx.x) * POINTS, i);
}

struct options {
    size_t footprint = size_t{64} << 20, block = size_t{2} << 20, card = 0; // 0: the footprint
    std::vector<int> ratios = {0, 25, 50, 75, 80, 85, 90, 95};
    int iterations = 5, rounds = 1;
    unsigned seed = 1;
    bool add = true, butterfly = true, plain_rest = false, check = false;
    const char *json = nullptr;
};

struct measured { // one operation at one ratio
    bool butterfly;
    int ratio;
    size_t async_bytes, groups, checked, wrong;
    double alloc_ms, copy_ms, free_ms;
    std::vector<double> kernel_ms;
};

static const char usage[] =
    "usage: chunks [--footprint BYTES] [--card BYTES] [--ratio PERCENT[,PERCENT...]] [--operation add|butterfly|all] "
    "[--block BYTES]\n"
    "              [--rest managed|malloc] [--iterations COUNT] [--rounds COUNT] [--seed NUMBER] [--check] [--json "
    "FILE]\n"
    "  --footprint   of the data (default 64 MiB)\n"
    "  --ratio       asynchronous share in percent of the footprint or, where that is less, of --card; the others are "
    "managed\n"
    "                (default 0,25,50,75,80,85,90,95)\n"
    "  --block       bytes of one allocation, a multiple of 4096 (default 2 MiB): 4096 allocates every chunk by "
    "itself\n"
    "  --rest        malloc: the others by cudaMalloc, for a library above the driver to place\n"
    "  --iterations  of the kernel, for each operation and ratio; --rounds: of all\n"
    "  --check       compares groups of chunks with a computation on the host\n"
    "  --json        times of allocation, copy, kernels and release\n"
    "Managed memory is refused where its total would not stay below the card's free memory.\n"
    "Exit status: 0, 1 when something failed or is wrong, 2 for wrong usage, 77 without a CUDA device.\n";

[[noreturn]] static void fail_usage(const std::string &why) {
    std::fprintf(stderr, "chunks: %s\n%s", why.c_str(), usage);
    std::exit(2);
}

static long long parse_number(const char *name, const char *text, long long least, long long most) {
    char *end;
    long long value = std::strtoll(text, &end, 10);
    if (end == text || *end || value < least || value > most)
        fail_usage(std::string("--") + name + " " + text + " is not a number from " + std::to_string(least) + " to " +
                   std::to_string(most));
    return value;
}

static bool parse_choice(const char *name, const char *text, const char *no, const char *yes) {
    if (std::string(text) != no && std::string(text) != yes)
        fail_usage(std::string("--") + name + " is " + no + " or " + yes);
    return std::string(text) == yes;
}

static std::vector<int> parse_ratios(const std::string &text) {
    std::vector<int> ratios;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        ratios.push_back(static_cast<int>(parse_number("ratio", text.substr(begin, end - begin).c_str(), 0, 100)));
        begin = end + 1;
    }
    return ratios;
}

static void parse_operation(options *made, const char *text) {
    if (std::string(text) == "all")
        return;
    made->butterfly = parse_choice("operation", text, "add", "butterfly");
    made->add = !made->butterfly;
}

static options parse(int argc, char **argv) {
    options made;
    static const option rows[] = {{"footprint", required_argument, nullptr, 'f'},
                                  {"card", required_argument, nullptr, 'd'},
                                  {"ratio", required_argument, nullptr, 'r'},
                                  {"operation", required_argument, nullptr, 'o'},
                                  {"block", required_argument, nullptr, 'b'},
                                  {"rest", required_argument, nullptr, 'm'},
                                  {"iterations", required_argument, nullptr, 'i'},
                                  {"rounds", required_argument, nullptr, 'n'},
                                  {"seed", required_argument, nullptr, 's'},
                                  {"check", no_argument, nullptr, 'c'},
                                  {"json", required_argument, nullptr, 'j'},
                                  {"help", no_argument, nullptr, 'h'},
                                  {nullptr, 0, nullptr, 0}};
    const long long most = 1LL << 50;
    opterr = 0;
    for (int found; (found = getopt_long(argc, argv, "", rows, nullptr)) != -1;) {
        switch (found) {
        case 'f': made.footprint = static_cast<size_t>(parse_number("footprint", optarg, POINTS * CHUNK, most)); break;
        case 'd': made.card = static_cast<size_t>(parse_number("card", optarg, CHUNK, most)); break;
        case 'r': made.ratios = parse_ratios(optarg); break;
        case 'o': parse_operation(&made, optarg); break;
        case 'b': made.block = static_cast<size_t>(parse_number("block", optarg, CHUNK, most)); break;
        case 'm': made.plain_rest = parse_choice("rest", optarg, "managed", "malloc"); break;
        case 'i': made.iterations = static_cast<int>(parse_number("iterations", optarg, 1, 1000000)); break;
        case 'n': made.rounds = static_cast<int>(parse_number("rounds", optarg, 1, 1000000)); break;
        case 's': made.seed = static_cast<unsigned>(parse_number("seed", optarg, 0, 0xFFFFFFFFLL)); break;
        case 'c': made.check = true; break;
        case 'j': made.json = optarg; break;
        case 'h': std::fputs(usage, stdout); std::exit(0);
        default: fail_usage(std::string(argv[optind - 1]) + " is no option, or needs a value");
        }
    }
    if (optind < argc)
        fail_usage(std::string(argv[optind]) + " is no option");
    if (made.block % CHUNK)
        fail_usage("--block is a multiple of 4096");
    if (made.footprint < made.block)
        fail_usage("--footprint is at least one block");
    return made;
}

static double now_ms() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// ---- data

static unsigned mixed(unsigned seed, size_t chunk, int i) {
    unsigned long long x = seed * 0x9E3779B97F4A7C15ull + chunk * ADD_ELEMENTS + static_cast<unsigned>(i);
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return static_cast<unsigned>(x >> 32);
}

static point make_point(unsigned seed, size_t chunk, int i) {
    unsigned word = mixed(seed, chunk, i);
    return {static_cast<float>(word & 0xFFFF) / 65536.0f - 0.5f, static_cast<float>(word >> 16) / 65536.0f - 0.5f};
}

static void make_chunk(void *to, const options &chosen, size_t chunk, bool butterfly) {
    for (int i = 0; !butterfly && i < ADD_ELEMENTS; i++)
        static_cast<unsigned *>(to)[i] = mixed(chosen.seed, chunk, i);
    for (int i = 0; butterfly && i < BUTTERFLY_ELEMENTS; i++)
        static_cast<point *>(to)[i] = make_point(chosen.seed, chunk, i);
}

static std::vector<char> make_data(const options &chosen, bool butterfly) {
    std::vector<char> data(chosen.footprint / chosen.block * chosen.block);
    for (size_t at = 0; at < data.size(); at += CHUNK)
        make_chunk(&data[at], chosen, at / CHUNK, butterfly);
    return data;
}

// ---- blocks

[[noreturn]] static void refuse(size_t bytes) {
    std::fprintf(stderr, "chunks: refused: %zu bytes of managed memory would not stay below the card's free memory\n",
                 bytes);
    std::exit(1);
}

class blocks {
  public:
    blocks(const options &its_options, int ratio)
        : chosen(its_options), count(chosen.footprint / chosen.block),
          async_count((chosen.card ? std::min(chosen.card, chosen.footprint) : chosen.footprint) / chosen.block *
                      static_cast<size_t>(ratio) / 100),
          all(count) {}

    // Asynchronous blocks first: what they hold is no longer free when the managed ones ask.
    void allocate() {
        for (size_t i = 0; i < count; i++) {
            if (i < async_count) {
                CHECK(cudaMallocAsync(&all[i], chosen.block, 0));
            } else if (chosen.plain_rest) {
                CHECK(cudaMalloc(&all[i], chosen.block));
            } else if (bound.take(chosen.block)) {
                CHECK(cudaMallocManaged(&all[i], chosen.block));
            } else {
                refuse(managed_bytes());
            }
        }
        CHECK(cudaDeviceSynchronize());
    }

    void release() {
        for (size_t i = 0; i < count; i++)
            CHECK(i < async_count ? cudaFreeAsync(all[i], 0) : cudaFree(all[i]));
        CHECK(cudaDeviceSynchronize());
    }

    void copy(const std::vector<char> &data) {
        for (size_t i = 0; i < count; i++)
            CHECK(cudaMemcpy(all[i], &data[i * chosen.block], chosen.block, cudaMemcpyHostToDevice));
    }

    void *chunk(size_t number) const {
        const size_t at = number * CHUNK;
        return static_cast<char *>(all[at / chosen.block]) + at % chosen.block;
    }
    size_t chunks() const { return count * chosen.block / CHUNK; }
    size_t async_bytes() const { return async_count * chosen.block; }
    size_t managed_bytes() const { return chosen.plain_rest ? 0 : (count - async_count) * chosen.block; }

  private:
    const options &chosen;
    const size_t count, async_count;
    std::vector<void *> all;
    managed_bound bound;
};

// ---- check

static bool add_is_right(const std::vector<std::vector<char>> &got, const size_t *numbers, const options &chosen) {
    for (int i = 0; i < ADD_ELEMENTS; i++) {
        const unsigned second = mixed(chosen.seed, numbers[1], i);
        const unsigned first = mixed(chosen.seed, numbers[0], i) + second * static_cast<unsigned>(chosen.iterations);
        if (reinterpret_cast<const unsigned *>(got[0].data())[i] != first ||
            reinterpret_cast<const unsigned *>(got[1].data())[i] != second)
            return false;
    }
    return true;
}

// By the transform's definition, in double precision.
static bool butterfly_is_right(const std::vector<std::vector<char>> &got, const size_t *numbers,
                               const options &chosen) {
    const double turn = -2 * std::acos(-1.0) / POINTS, tolerance = 1e-5 * (chosen.iterations + 1);
    std::complex<double> roots[POINTS];
    for (int k = 0; k < POINTS; k++)
        roots[k] = std::polar(1 / std::sqrt(double{POINTS}), turn * k);
    for (int i = 0; i < BUTTERFLY_ELEMENTS; i++) {
        std::complex<double> values[POINTS];
        for (int k = 0; k < POINTS; k++) {
            point from = make_point(chosen.seed, numbers[k], i);
            values[k] = {from.re, from.im};
        }
        for (int pass = 0; pass < chosen.iterations; pass++) {
            std::complex<double> sums[POINTS];
            for (int k = 0; k < POINTS * POINTS; k++)
                sums[k / POINTS] += values[k % POINTS] * roots[(k / POINTS) * (k % POINTS) % POINTS];
            std::copy(sums, sums + POINTS, values);
        }
        for (int k = 0; k < POINTS; k++) {
            point one = reinterpret_cast<const point *>(got[k].data())[i];
            if (!(std::abs(std::complex<double>(one.re, one.im) - values[k]) <= tolerance))
                return false;
        }
    }
    return true;
}

// Groups spread over all, at most MAX_CHECKED: their number, and how many are wrong.
static std::pair<size_t, size_t> check(const blocks &all, const std::vector<size_t> &order, size_t groups,
                                       bool butterfly, const options &chosen) {
    const int members = butterfly ? POINTS : PAIR;
    const size_t stride = (groups + MAX_CHECKED - 1) / MAX_CHECKED;
    size_t checked = 0, wrong = 0;
    std::vector<std::vector<char>> got(members, std::vector<char>(CHUNK));
    for (size_t group = 0; group < groups; group += stride, checked++) {
        const size_t *numbers = &order[group * members];
        for (int k = 0; k < members; k++)
            CHECK(cudaMemcpy(got[k].data(), all.chunk(numbers[k]), CHUNK, cudaMemcpyDeviceToHost));
        wrong += !(butterfly ? butterfly_is_right : add_is_right)(got, numbers, chosen);
    }
    return {checked, wrong};
}

// ---- run

static std::vector<double> run_kernels(void *const *order, size_t groups, bool butterfly, int iterations) {
    std::vector<double> spent;
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int i = 0; i < iterations; i++) {
        CHECK(cudaEventRecord(begin, 0));
        (butterfly ? chunk_butterfly : chunk_add)<<<static_cast<unsigned>(groups), THREADS>>>(static_cast<long>(groups),
                                                                                              order);
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(end, 0));
        CHECK(cudaDeviceSynchronize());
        float ms;
        CHECK(cudaEventElapsedTime(&ms, begin, end));
        spent.push_back(ms);
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return spent;
}

// Every run starts from a pool that keeps nothing, so that what an allocation costs does not depend on the ratio
// before.
static void empty_pool() {
    cudaMemPool_t pool;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolTrimTo(pool, 0));
}

static measured run(const options &chosen, const std::vector<char> &data, const std::vector<size_t> &order,
                    bool butterfly, int ratio) {
    blocks all(chosen, ratio);
    measured made = {};
    made.butterfly = butterfly;
    made.ratio = ratio;
    made.async_bytes = all.async_bytes();
    made.groups = std::min<size_t>(order.size() / (butterfly ? POINTS : PAIR), 0x7FFFFFFF);
    void **device_order;
    CHECK(cudaMalloc(&device_order, order.size() * sizeof(void *)));
    double begin = now_ms();
    all.allocate();
    made.alloc_ms = now_ms() - begin;
    std::vector<void *> pointers(order.size());
    for (size_t i = 0; i < order.size(); i++)
        pointers[i] = all.chunk(order[i]);
    CHECK(cudaMemcpy(device_order, pointers.data(), pointers.size() * sizeof(void *), cudaMemcpyHostToDevice));
    begin = now_ms();
    all.copy(data);
    made.copy_ms = now_ms() - begin;
    made.kernel_ms = run_kernels(device_order, made.groups, butterfly, chosen.iterations);
    if (chosen.check)
        std::tie(made.checked, made.wrong) = check(all, order, made.groups, butterfly, chosen);
    begin = now_ms();
    all.release();
    made.free_ms = now_ms() - begin;
    CHECK(cudaFree(device_order));
    empty_pool();
    std::printf("%-9s %3d %%  %zu groups, %zu bytes asynchronous of %zu, %zu checked, %zu wrong\n",
                butterfly ? "butterfly" : "add", ratio, made.groups, made.async_bytes, data.size(), made.checked,
                made.wrong);
    return made;
}

static void write_json(const options &chosen, const std::vector<measured> &all, size_t bytes) {
    std::FILE *to = std::fopen(chosen.json, "w");
    if (!to) {
        std::perror(chosen.json);
        std::exit(1);
    }
    std::fprintf(
        to, "{\"program\": \"chunks\", \"rest\": \"%s\", \"bytes\": %zu, \"card\": %zu, \"block\": %zu,\n \"runs\": [",
        chosen.plain_rest ? "malloc" : "managed", bytes, chosen.card, chosen.block);
    for (size_t i = 0; i < all.size(); i++) {
        const measured &one = all[i];
        std::fprintf(to,
                     "%s\n  {\"operation\": \"%s\", \"ratio\": %d, \"async_bytes\": %zu, \"groups\": %zu, \"checked\": "
                     "%zu, \"wrong\": %zu,",
                     i ? "," : "", one.butterfly ? "butterfly" : "add", one.ratio, one.async_bytes, one.groups,
                     one.checked, one.wrong);
        std::fprintf(to, "\n   \"alloc_ms\": %.6f, \"copy_ms\": %.6f, \"free_ms\": %.6f, \"kernel_ms\": [",
                     one.alloc_ms, one.copy_ms, one.free_ms);
        for (size_t k = 0; k < one.kernel_ms.size(); k++)
            std::fprintf(to, "%s%.6f", k ? ", " : "", one.kernel_ms[k]);
        std::fprintf(to, "]}");
    }
    std::fprintf(to, "]}\n");
    if (std::fclose(to)) {
        std::perror(chosen.json);
        std::exit(1);
    }
}

// Before any work: managed memory is counted block by block as well, since others may take memory meanwhile.
static void check_managed_total(const options &chosen) {
    for (int ratio : chosen.ratios) {
        const size_t bytes = blocks(chosen, ratio).managed_bytes();
        if (bytes && !managed_bound().take(bytes))
            refuse(bytes);
    }
}

int main(int argc, char **argv) {
    const options chosen = parse(argc, argv);
    int devices;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::fprintf(stderr, "chunks: no CUDA device\n");
        return SKIP;
    }
    CHECK(cudaFree(nullptr));
    cudaMemPool_t pool;
    unsigned long long keep = ~0ull;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    check_managed_total(chosen);
    std::vector<size_t> order(chosen.footprint / chosen.block * (chosen.block / CHUNK));
    for (size_t i = 0; i < order.size(); i++)
        order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937_64(chosen.seed));
    std::vector<measured> all;
    size_t wrong = 0;
    for (bool butterfly : {false, true}) {
        if (!(butterfly ? chosen.butterfly : chosen.add))
            continue;
        const std::vector<char> data = make_data(chosen, butterfly);
        for (int round = 0; round < chosen.rounds; round++)
            for (int ratio : chosen.ratios) {
                all.push_back(run(chosen, data, order, butterfly, ratio));
                wrong += all.back().wrong;
            }
    }
    if (chosen.json)
        write_json(chosen, all, order.size() * CHUNK);
    return wrong != 0;
}

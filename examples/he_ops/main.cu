// Homomorphic operations of CKKS libraries with every temporary allocated and freed inside the operation. With
// --allocator malloc it is the ordinary program that a library above the driver can speed up; the other choices are
// what changing the source gives.
#include "../check.h"
#include "evaluator.h"
#include "reference.h"
#include "sequences.h"

#include <chrono>
#include <getopt.h>
#include <memory>

enum { SKIP = 77, LAYERS = 20 };
static const double NOISE_BOUND = 1 << 30; // of coefficients, where moduli have 40 bits and more

struct options {
    std::vector<const parameter_set *> sets = {&parameter_sets[0]};
    std::vector<std::string> operations = single_operations();
    int iterations = 10, layers = LAYERS;
    word seed = 1;
    std::string allocator = "malloc";
    bool advice = false, check = false;
    size_t footprint = 0;
    const char *json = nullptr;
};

struct measured { // one operation of one set
    std::string name;
    std::vector<double> host_ms, device_ms;
    long temporaries = 0, lasting = 0; // allocations of one iteration
    word checksum = 0;
    bool checked = false, right = true;
};

static const char usage[] =
    "usage: he_ops [--set NAME[,NAME...]|all|list] [--operation NAME[,NAME...]|all] [--iterations COUNT] [--seed "
    "NUMBER]\n"
    "              [--allocator malloc|async|managed|hybrid] [--advice on|off] [--footprint BYTES] [--layers COUNT] "
    "[--check]\n"
    "              [--json FILE]\n"
    "  --set        small, medium, large, huge: one after the other; all: each of these; list: prints their sizes\n"
    "  --operation  add, multiply, multiply_plain, rotate, conjugate, rescale, all: each of these; bootstrap, resnet: "
    "sequences\n"
    "  --allocator  malloc: cudaMalloc; async: cudaMallocAsync; managed: cudaMallocManaged; hybrid: temporaries async, "
    "others managed\n"
    "  --advice     on: managed memory prefers the device and is moved there, constants are marked read-mostly "
    "(default off)\n"
    "  --footprint  ciphertexts are added until what lasts has so many bytes; operations take them in turn\n"
    "  --layers     of resnet (default 20)\n"
    "  --check      compares each operation's first result with a computation on the host, word for word\n"
    "  --json       times of each iteration and numbers of objects\n"
    "Managed memory is refused where its total would not stay below the card's free memory.\n"
    "Exit status: 0, 1 when something failed or is wrong, 2 for wrong usage, 77 without a CUDA device.\n";

[[noreturn]] static void fail_usage(const std::string &why) {
    std::fprintf(stderr, "he_ops: %s\n%s", why.c_str(), usage);
    std::exit(2);
}

static long long parse_number(const char *name, const char *text, long long least) {
    char *end;
    long long value = std::strtoll(text, &end, 10);
    if (end == text || *end || value < least)
        fail_usage(std::string("--") + name + " " + text + " is not a number from " + std::to_string(least) + " on");
    return value;
}

static void list_sets() {
    std::printf("%-8s %6s %6s %8s %7s %12s %14s\n", "set", "N", "limbs", "special", "digits", "ciphertext",
                "key (bytes)");
    for (const parameter_set &set : parameter_sets) {
        long n = 1L << set.log_n;
        int digits = (set.level + set.special - 1) / set.special;
        std::printf("%-8s %6ld %6d %8d %7d %12ld %14ld\n", set.name, n, set.level, set.special, digits,
                    2 * n * set.level * 8, 2 * n * (set.level + set.special) * digits * 8);
    }
}

static std::vector<std::string> split(const std::string &text) {
    std::vector<std::string> names;
    for (size_t begin = 0; begin <= text.size();) {
        size_t end = std::min(text.find(',', begin), text.size());
        names.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return names;
}

static std::vector<std::string> parse_operations(const std::string &text) {
    const std::vector<std::string> &singles = single_operations();
    std::vector<std::string> names;
    for (const std::string &name : split(text)) {
        if (name == "all")
            names.insert(names.end(), singles.begin(), singles.end());
        else if (name == "bootstrap" || name == "resnet" ||
                 std::find(singles.begin(), singles.end(), name) != singles.end())
            names.push_back(name);
        else
            fail_usage("no operation is called " + name);
    }
    return names;
}

static std::vector<const parameter_set *> parse_sets(const std::string &text) {
    std::vector<const parameter_set *> sets;
    for (const std::string &name : split(text)) {
        const parameter_set *found = find_parameter_set(name);
        if (name == "all")
            for (const parameter_set &set : parameter_sets)
                sets.push_back(&set);
        else if (found)
            sets.push_back(found);
        else
            fail_usage("no set is called " + name);
    }
    return sets;
}

static options parse(int argc, char **argv) {
    options made;
    static const option rows[] = {{"set", required_argument, nullptr, 's'},
                                  {"operation", required_argument, nullptr, 'o'},
                                  {"iterations", required_argument, nullptr, 'i'},
                                  {"seed", required_argument, nullptr, 'r'},
                                  {"allocator", required_argument, nullptr, 'a'},
                                  {"advice", required_argument, nullptr, 'v'},
                                  {"footprint", required_argument, nullptr, 'f'},
                                  {"layers", required_argument, nullptr, 'l'},
                                  {"check", no_argument, nullptr, 'c'},
                                  {"json", required_argument, nullptr, 'j'},
                                  {"help", no_argument, nullptr, 'h'},
                                  {nullptr, 0, nullptr, 0}};
    opterr = 0;
    for (int found; (found = getopt_long(argc, argv, "", rows, nullptr)) != -1;) {
        switch (found) {
        case 's':
            if (std::string(optarg) == "list") {
                list_sets();
                std::exit(0);
            }
            made.sets = parse_sets(optarg);
            break;
        case 'o': made.operations = parse_operations(optarg); break;
        case 'i': made.iterations = static_cast<int>(parse_number("iterations", optarg, 0)); break;
        case 'r': made.seed = static_cast<word>(parse_number("seed", optarg, 0)); break;
        case 'a': made.allocator = optarg; break;
        case 'v':
            made.advice = std::string(optarg) == "on";
            if (!made.advice && std::string(optarg) != "off")
                fail_usage("--advice is on or off");
            break;
        case 'f': made.footprint = static_cast<size_t>(parse_number("footprint", optarg, 0)); break;
        case 'l': made.layers = static_cast<int>(parse_number("layers", optarg, 1)); break;
        case 'c': made.check = true; break;
        case 'j': made.json = optarg; break;
        case 'h': std::fputs(usage, stdout); std::exit(0);
        default: fail_usage(std::string(argv[optind - 1]) + " is no option, or needs a value");
        }
    }
    if (optind < argc)
        fail_usage(std::string(argv[optind]) + " is no option");
    return made;
}

static scheme parse_scheme(const std::string &name) {
    static const std::pair<const char *, scheme> rows[] = {
        {"malloc", scheme::malloc}, {"async", scheme::async}, {"managed", scheme::managed}, {"hybrid", scheme::hybrid}};
    for (const auto &[text, value] : rows)
        if (name == text)
            return value;
    fail_usage("--allocator is malloc, async, managed or hybrid");
}

static word checksum_of(const std::vector<word> &values) {
    word sum = 0xCBF29CE484222325u;
    for (word one : values)
        sum = (sum ^ one) * 0x100000001B3u;
    return sum;
}

// ---- against the host

static reference make_reference(const evaluator &on) {
    reference::keys keys = {on.secret(), on.relinearisation_key(), {}};
    std::vector<long> wanted = {conjugation(on.set.n)};
    for (int steps = 1; steps <= ROTATION_STEPS; steps++)
        wanted.push_back(galois_of(steps, on.set.n));
    for (long galois : wanted)
        keys.galois[galois] = on.galois_key(galois);
    return reference(on.set, std::move(keys));
}

static material<reference> download(const material<evaluator> &from) {
    material<reference> made;
    for (size_t i = 0; i < 2; i++) // the operands of iteration 0
        made.inputs.push_back({from.inputs[i].data.download(), from.inputs[i].level});
    for (const buffer &one : from.diagonals)
        made.diagonals.push_back(one.download());
    return made;
}

// The result decrypts to what the operation is for: a wrong key switch could agree with itself on device and host.
static bool decrypts(const reference &on, const material<reference> &with, const std::string &name,
                     const host_ciphertext &result) {
    const std::vector<word> a = on.phase(with.inputs[0]);
    std::vector<word> wanted;
    if (name == "multiply")
        wanted = on.product(a, on.phase(with.inputs[1]));
    else if (name == "multiply_plain")
        wanted = on.product(a, with.diagonals[0]);
    else if (name == "rotate")
        wanted = on.turned(a, galois_of(1, on.set.n));
    else if (name == "conjugate")
        wanted = on.turned(a, conjugation(on.set.n));
    else
        return true;
    const double noise = on.distance(on.phase(result), wanted);
    return noise >= 0 && noise < NOISE_BOUND;
}

static bool check(reference &on, const material<reference> &with, const std::string &name,
                  const host_ciphertext &result, int layers) {
    const host_ciphertext expected = run_operation(on, with, name, 0, layers);
    size_t wrong = result.level != expected.level;
    for (size_t i = 0; i < std::min(result.data.size(), expected.data.size()); i++)
        wrong += result.data[i] != expected.data[i];
    bool right = wrong == 0 && decrypts(on, with, name, result);
    if (!right)
        std::fprintf(stderr, "he_ops: %s: %s (%zu of %zu words differ)\n", name.c_str(),
                     wrong ? "not what the host computes" : "does not decrypt", wrong, expected.data.size());
    return right;
}

// ---- timing

static double now_ms() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// From an idle device to an idle device, the result's release included.
static measured measure(evaluator &on, const material<evaluator> &with, const std::string &name,
                        const options &chosen) {
    measured made;
    made.name = name;
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    for (int iteration = 0; iteration < chosen.iterations; iteration++) {
        const allocation_counts before = allocations();
        CHECK(cudaDeviceSynchronize());
        const double start = now_ms();
        CHECK(cudaEventRecord(begin, 0));
        run_operation(on, with, name, iteration, chosen.layers);
        CHECK(cudaEventRecord(end, 0));
        CHECK(cudaDeviceSynchronize());
        made.host_ms.push_back(now_ms() - start);
        float device_ms;
        CHECK(cudaEventElapsedTime(&device_ms, begin, end));
        made.device_ms.push_back(device_ms);
        made.temporaries = allocations().temporary - before.temporary;
        made.lasting = allocations().lasting - before.lasting;
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    return made;
}

// ---- output

static void print_list(std::FILE *to, const char *name, const std::vector<double> &values) {
    std::fprintf(to, "\"%s\": [", name);
    for (size_t i = 0; i < values.size(); i++)
        std::fprintf(to, "%s%.6f", i ? ", " : "", values[i]);
    std::fprintf(to, "]");
}

struct set_result {
    const parameter_set *set;
    size_t lasting_bytes;
    std::vector<measured> operations;
};

static void print_operation(std::FILE *to, const measured &one) {
    std::fprintf(
        to,
        "{\"name\": \"%s\", \"temporaries\": %ld, \"lasting\": %ld, \"checksum\": \"%016llx\", \"checked\": %s,\n   ",
        one.name.c_str(), one.temporaries, one.lasting, static_cast<unsigned long long>(one.checksum),
        one.checked ? "true" : "false");
    print_list(to, "host_ms", one.host_ms);
    std::fprintf(to, ",\n   ");
    print_list(to, "device_ms", one.device_ms);
    std::fprintf(to, "}");
}

static void write_json(const options &chosen, const std::vector<set_result> &all) {
    std::FILE *to = std::fopen(chosen.json, "w");
    if (!to) {
        std::perror(chosen.json);
        std::exit(1);
    }
    const allocation_counts &counts = allocations();
    std::fprintf(
        to, "{\"program\": \"he_ops\", \"allocator\": \"%s\", \"advice\": %s, \"seed\": %llu, \"peak_bytes\": %zu,\n",
        chosen.allocator.c_str(), chosen.advice ? "true" : "false", static_cast<unsigned long long>(chosen.seed),
        counts.peak);
    std::fprintf(
        to,
        " \"objects\": {\"temporary\": %ld, \"lasting\": %ld, \"freed\": %ld, \"under_second\": %ld},\n \"sets\": [",
        counts.temporary, counts.lasting, counts.freed, counts.short_lived);
    for (size_t i = 0; i < all.size(); i++) {
        const parameter_set &set = *all[i].set;
        std::fprintf(to,
                     "%s\n {\"set\": \"%s\", \"n\": %ld, \"limbs\": %d, \"special\": %d, \"lasting_bytes\": %zu, "
                     "\"operations\": [",
                     i ? "," : "", set.name, 1L << set.log_n, set.level, set.special, all[i].lasting_bytes);
        for (size_t k = 0; k < all[i].operations.size(); k++) {
            std::fprintf(to, "%s\n  ", k ? "," : "");
            print_operation(to, all[i].operations[k]);
        }
        std::fprintf(to, "]}");
    }
    std::fprintf(to, "]}\n");
    if (std::fclose(to)) {
        std::perror(chosen.json);
        std::exit(1);
    }
}

// Without times, so that two runs of the same arguments print the same.
static void print(const set_result &result) {
    for (const measured &one : result.operations)
        std::printf("%-7s %-15s %4ld temporaries %4ld lasting  checksum %016llx%s\n", result.set->name,
                    one.name.c_str(), one.temporaries, one.lasting, static_cast<unsigned long long>(one.checksum),
                    !one.checked ? ""
                    : one.right  ? "  right"
                                 : "  WRONG");
}

static set_result run(const options &chosen, const parameter_set &its_set, bool *right) {
    parameters set(its_set);
    evaluator on(set, chosen.seed);
    material<evaluator> with;
    for (int i = 0; i < DIAGONALS; i++)
        with.diagonals.push_back(on.random_plain(chosen.seed + 100000 + i));
    const size_t cipher = 2 * sizeof(word) * static_cast<size_t>(set.n) * its_set.level;
    for (word i = 0; i < 2 || allocations().lasting_live + cipher <= chosen.footprint; i++)
        with.inputs.push_back(on.encrypt_random(chosen.seed + 200000 + 2 * i));
    set_result made = {&its_set, allocations().lasting_live, {}};
    for (const std::string &name : chosen.operations)
        made.operations.push_back(measure(on, with, name, chosen));
    std::unique_ptr<reference> host;
    material<reference> host_with;
    if (chosen.check) {
        host = std::make_unique<reference>(make_reference(on));
        host_with = download(with);
        *right = host->transform_multiplies() && *right;
    }
    for (measured &one : made.operations) {
        ciphertext result = run_operation(on, with, one.name, 0, chosen.layers);
        host_ciphertext got = {result.data.download(), result.level};
        one.checksum = checksum_of(got.data);
        if (chosen.check) {
            one.checked = true;
            one.right = check(*host, host_with, one.name, got, chosen.layers);
            *right = *right && one.right;
        }
    }
    print(made);
    return made;
}

int main(int argc, char **argv) {
    const options chosen = parse(argc, argv);
    const scheme its_scheme = parse_scheme(chosen.allocator);
    int devices;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::fprintf(stderr, "he_ops: no CUDA device\n");
        return SKIP;
    }
    CHECK(cudaFree(nullptr));
    set_allocation(its_scheme, chosen.advice);
    std::vector<set_result> all;
    bool right = true;
    for (const parameter_set *set : chosen.sets)
        all.push_back(run(chosen, *set, &right));
    if (chosen.json)
        write_json(chosen, all);
    if (allocations().live) {
        std::fprintf(stderr, "he_ops: %zu bytes were not freed\n", allocations().live);
        return 1;
    }
    return right ? 0 : 1;
}

/* Options of contractions. */
#include "examples/hadron/contract_options.h"
#include "policy/eviction/eviction.h"

#include <getopt.h>
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VECTOR = 4096, MAX_TENSOR = 4096, MAX_COPY_THREADS = 64 };

static const char usage[] =
    "usage: hadron [--variant NAME] [--vector-size COUNT] [--vectors COUNT] [--repeated-rate N/D] [options]\n"
    "       hadron --function NAME [--scale PERCENT] [--variant NAME] [options]\n"
    "       hadron --model [options]\n"
    "Contracts hadron nodes on a device and prints one CSV row (memhc, 6). --model needs no device: hadron --model "
    "--help.\n"
    "Memory:\n"
    "  --variant           unified_naive, unified_reorg, unified_once, unified_kept, explicit_naive, explicit_reorg,\n"
    "                      explicit_reorg_sync, full (default), resident (no memory management), zgemm (resident, the\n"
    "                      products alone)\n"
    "  --reorganise, --on-demand-sync, --duplicates, --lazy-release, --prefetch on|off: switch one part of the "
    "variant\n"
    "  --eviction          random, mru, lru, car, clock_pro, preprotected_lru (default), window\n"
    "  --budget            bytes of nodes on the device, with --duplicates or --lazy-release (default nine tenths of\n"
    "                      what is free)\n"
    "  --host              pageable (default) or pinned: host memory of the nodes\n"
    "  --copy-threads      that copy a transfer of pageable memory, with --duplicates or --lazy-release (default one\n"
    "                      for each processor, at most 8)\n"
    "  --link-slowdown     FACTOR: transfers to the device take so many times as long, with --duplicates or\n"
    "                      --lazy-release (default 1)\n"
    "Synthesised vectors:\n"
    "  --vector-size       contractions of a vector, and streams (default 16)\n"
    "  --vectors           (default 100)\n"
    "  --repeated-rate     share of a vector's nodes that the vector before had (default 1/2)\n"
    "  --distribution      uniform (default) or gaussian: of the repeated nodes\n"
    "  --oversubscription  PERCENT, a multiple of 50: sets --vectors and --budget as --model has them\n"
    "Correlation functions:\n"
    "  --function          two_point, a1_rhopi, f0d2, f0d4 (table 4)\n"
    "  --scale             PERCENT of its nodes and contractions (default 100)\n"
    "Both:\n"
    "  --system            meson (default) or baryon\n"
    "  --tensor            size of each index (default 192, or that of the function)\n"
    "  --mapping           random (default) or natural: batch-spin mappings\n"
    "  --products          cublas (default) or own: the program's kernel, which also runs on the simulated CUDA\n"
    "  --threads           of the host (default one for each stream, at most one for each processor)\n"
    "  --loops             (default 1); --seed: of the first loop (default 1)\n"
    "  --results           last (default) or all: outputs that the host reads, of the last vector after the clock or "
    "of\n"
    "                      each vector within it\n"
    "  --check             compares them with a computation on the host\n"
    "  --breakdown         times the work of each stream, too\n"
    "  --no-header         of the CSV\n"
    "Managed memory is refused where its total would not stay below the card's free memory.\n"
    "Exit status: 0, 1 when something failed or is wrong, 2 for wrong usage, 77 without a CUDA device.\n";

struct variant {
    const char *name;
    enum memory_kind memory;
    bool reorganise, on_demand_sync, duplicates, lazy_release, prefetch, advise, kept, accumulate;
};

static const struct variant variants[] = {
    {.name = "unified_naive", .memory = UNIFIED, .accumulate = true},
    {.name = "unified_reorg",
     .memory = UNIFIED,
     .reorganise = true,
     .prefetch = true,
     .advise = true,
     .accumulate = true},
    {.name = "unified_once",
     .memory = UNIFIED,
     .reorganise = true,
     .prefetch = true,
     .advise = true,
     .kept = true,
     .accumulate = true},
    {.name = "unified_kept", .memory = UNIFIED, .reorganise = true, .prefetch = true, .kept = true, .accumulate = true},
    {.name = "explicit_naive", .memory = EXPLICIT, .accumulate = true},
    {.name = "explicit_reorg", .memory = EXPLICIT, .reorganise = true, .accumulate = true},
    {.name = "explicit_reorg_sync", .memory = EXPLICIT, .reorganise = true, .on_demand_sync = true, .accumulate = true},
    {.name = "full",
     .memory = EXPLICIT,
     .reorganise = true,
     .on_demand_sync = true,
     .duplicates = true,
     .lazy_release = true,
     .accumulate = true},
    {.name = "resident", .memory = RESIDENT, .reorganise = true, .on_demand_sync = true, .accumulate = true},
    {.name = "zgemm", .memory = RESIDENT, .reorganise = true, .on_demand_sync = true},
};

/* ---- options */

static const char *const on_off[] = {"off", "on", NULL};
const char *const distribution_names[] = {"uniform", "gaussian", NULL};
const char *const system_names[] = {"meson", "baryon", NULL};
const char *const mapping_names[] = {"natural", "random", NULL};
const char *const product_names[] = {"cublas", "own", NULL};
const char *const host_names[] = {"pageable", "pinned", NULL};
static const char *const results[] = {"last", "all", NULL};

enum option_key {
    VARIANT = 256,
    REORGANISE,
    ON_DEMAND,
    DUPLICATES,
    LAZY,
    PREFETCH,
    EVICTION,
    BUDGET,
    HOST,
    COPY_THREADS,
    LINK_SLOWDOWN,
    VECTOR_SIZE,
    VECTORS,
    RATE,
    DISTRIBUTION,
    OVERSUBSCRIPTION,
    FUNCTION,
    SCALE,
    SYSTEM,
    TENSOR,
    MAPPING,
    PRODUCTS,
    OWN_THREADS,
    LOOPS,
    SEED,
    RESULTS,
    CHECK_RESULTS,
    BREAKDOWN,
    NO_HEADER,
    HELP
};

static const struct option rows[] = {{"variant", required_argument, NULL, VARIANT},
                                     {"reorganise", required_argument, NULL, REORGANISE},
                                     {"on-demand-sync", required_argument, NULL, ON_DEMAND},
                                     {"duplicates", required_argument, NULL, DUPLICATES},
                                     {"lazy-release", required_argument, NULL, LAZY},
                                     {"prefetch", required_argument, NULL, PREFETCH},
                                     {"eviction", required_argument, NULL, EVICTION},
                                     {"budget", required_argument, NULL, BUDGET},
                                     {"host", required_argument, NULL, HOST},
                                     {"copy-threads", required_argument, NULL, COPY_THREADS},
                                     {"link-slowdown", required_argument, NULL, LINK_SLOWDOWN},
                                     {"vector-size", required_argument, NULL, VECTOR_SIZE},
                                     {"vectors", required_argument, NULL, VECTORS},
                                     {"repeated-rate", required_argument, NULL, RATE},
                                     {"distribution", required_argument, NULL, DISTRIBUTION},
                                     {"oversubscription", required_argument, NULL, OVERSUBSCRIPTION},
                                     {"function", required_argument, NULL, FUNCTION},
                                     {"scale", required_argument, NULL, SCALE},
                                     {"system", required_argument, NULL, SYSTEM},
                                     {"tensor", required_argument, NULL, TENSOR},
                                     {"mapping", required_argument, NULL, MAPPING},
                                     {"products", required_argument, NULL, PRODUCTS},
                                     {"threads", required_argument, NULL, OWN_THREADS},
                                     {"loops", required_argument, NULL, LOOPS},
                                     {"seed", required_argument, NULL, SEED},
                                     {"results", required_argument, NULL, RESULTS},
                                     {"check", no_argument, NULL, CHECK_RESULTS},
                                     {"breakdown", no_argument, NULL, BREAKDOWN},
                                     {"no-header", no_argument, NULL, NO_HEADER},
                                     {"help", no_argument, NULL, HELP},
                                     {NULL, 0, NULL, 0}};

static const struct variant *find_variant(const char *text) {
    const char *names[sizeof variants / sizeof *variants + 1] = {NULL};
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        names[i] = variants[i].name;
    return &variants[parse_choice("variant", text, names)];
}

static const struct function *find_function(const char *text) {
    const char *names[16] = {NULL};
    for (int i = 0; functions[i].name; i++)
        names[i] = functions[i].name;
    return &functions[parse_choice("function", text, names)];
}

static const char *find_eviction(const char *text) {
    const char *names[16] = {NULL};
    for (int i = 0; gm_eviction_policies[i]; i++)
        names[i] = gm_eviction_policies[i]->name;
    return names[parse_choice("eviction", text, names)];
}

static void use_variant(struct contract_options *made, const struct variant *variant) {
    made->variant = variant->name;
    made->memory = variant->memory;
    made->reorganise = variant->reorganise;
    made->on_demand_sync = variant->on_demand_sync;
    made->duplicates = variant->duplicates;
    made->lazy_release = variant->lazy_release;
    made->prefetch = variant->prefetch;
    made->advise = variant->advise;
    made->kept = variant->kept;
    made->accumulate = variant->accumulate;
}

/* Which options were given. */
struct given {
    bool header;
    uint64_t keys; /* bit KEY - VARIANT */
};

static bool has(const struct given *given, enum option_key key) { return given->keys >> (key - VARIANT) & 1; }

static void parse_one(struct contract_options *made, struct given *given, int key, const char *name) {
    const uint64_t most = UINT64_C(1) << 50;
    given->keys |= UINT64_C(1) << (key - VARIANT);
    switch ((enum option_key)key) {
    case VARIANT: break; /* read before all others */
    case REORGANISE: made->reorganise = parse_choice(name, optarg, on_off); break;
    case ON_DEMAND: made->on_demand_sync = parse_choice(name, optarg, on_off); break;
    case DUPLICATES: made->duplicates = parse_choice(name, optarg, on_off); break;
    case LAZY: made->lazy_release = parse_choice(name, optarg, on_off); break;
    case PREFETCH: made->prefetch = parse_choice(name, optarg, on_off); break;
    case EVICTION: made->eviction = find_eviction(optarg); break;
    case BUDGET: made->budget = parse_number(name, optarg, 1, most); break;
    case HOST: made->pinned = parse_choice(name, optarg, host_names); break;
    case COPY_THREADS: made->copy_threads = (uint32_t)parse_number(name, optarg, 1, MAX_COPY_THREADS); break;
    case LINK_SLOWDOWN: made->link_slowdown = (uint32_t)parse_number(name, optarg, 1, 1000); break;
    case VECTOR_SIZE: made->vector_size = (uint32_t)parse_number(name, optarg, 1, MAX_VECTOR); break;
    case VECTORS: made->vectors = (uint32_t)parse_number(name, optarg, 1, 1000000); break;
    case RATE: made->rate = parse_rate(name, optarg); break;
    case DISTRIBUTION: made->distribution = (enum distribution)parse_choice(name, optarg, distribution_names); break;
    case OVERSUBSCRIPTION: made->oversubscription = (uint32_t)parse_number(name, optarg, 50, 1000); break;
    case FUNCTION: made->function = find_function(optarg); break;
    case SCALE: made->percent = (uint32_t)parse_number(name, optarg, 1, 1000); break;
    case SYSTEM: made->baryon = parse_choice(name, optarg, system_names); break;
    case TENSOR: made->tensor = (uint32_t)parse_number(name, optarg, 1, MAX_TENSOR); break;
    case MAPPING: made->random_mappings = parse_choice(name, optarg, mapping_names); break;
    case PRODUCTS: made->own_products = parse_choice(name, optarg, product_names); break;
    case OWN_THREADS: made->threads = (uint32_t)parse_number(name, optarg, 1, 4096); break;
    case LOOPS: made->loops = (uint32_t)parse_number(name, optarg, 1, 1000000); break;
    case SEED: made->seed = parse_number(name, optarg, 0, UINT32_MAX); break;
    case RESULTS: made->all_results = parse_choice(name, optarg, results); break;
    case CHECK_RESULTS: made->check = true; break;
    case BREAKDOWN: made->breakdown = true; break;
    case NO_HEADER: given->header = false; break;
    case HELP: fputs(usage, stdout); exit(0);
    }
}

static void refuse_beside(const struct given *given, enum option_key key, const char *reason) {
    if (has(given, key))
        fail_usage("--%s is given %s", rows[key - VARIANT].name, reason);
}

static void check_memory(const struct contract_options *made, const struct given *given) {
    const bool reuse = made->memory == EXPLICIT && (made->duplicates || made->lazy_release);
    if (made->memory != EXPLICIT) {
        refuse_beside(given, ON_DEMAND, "without explicit memory");
        refuse_beside(given, DUPLICATES, "without explicit memory");
        refuse_beside(given, LAZY, "without explicit memory");
    }
    if (made->memory != UNIFIED)
        refuse_beside(given, PREFETCH, "without unified memory");
    if (made->memory == RESIDENT)
        refuse_beside(given, REORGANISE, "with memory that is resident");
    if (!reuse) {
        refuse_beside(given, EVICTION, "without --duplicates on or --lazy-release on");
        refuse_beside(given, BUDGET, "without --duplicates on or --lazy-release on");
        refuse_beside(given, COPY_THREADS, "without --duplicates on or --lazy-release on");
        refuse_beside(given, LINK_SLOWDOWN, "without --duplicates on or --lazy-release on");
        refuse_beside(given, OVERSUBSCRIPTION, "without --duplicates on or --lazy-release on");
    }
    if (!made->accumulate)
        refuse_beside(given, CHECK_RESULTS, "with products alone, which give no output");
}

static void check_workload(const struct contract_options *made, const struct given *given) {
    if (made->function) {
        refuse_beside(given, VECTORS, "with --function");
        refuse_beside(given, RATE, "with --function");
        refuse_beside(given, DISTRIBUTION, "with --function");
        refuse_beside(given, OVERSUBSCRIPTION, "with --function");
        return;
    }
    refuse_beside(given, SCALE, "without --function");
    nodes_of(made->rate, made->vector_size);
    if (!made->oversubscription)
        return;
    refuse_beside(given, VECTORS, "with --oversubscription");
    refuse_beside(given, BUDGET, "with --oversubscription");
    if (made->oversubscription % 50)
        fail_usage("--oversubscription %" PRIu32 " is not a multiple of 50", made->oversubscription);
    if (made->baryon)
        fail_usage("--oversubscription is given with --system baryon, whose nodes have two sizes");
}

static void complete(struct contract_options *made) {
    if (!made->tensor)
        made->tensor = made->function ? made->function->tensor : 192;
    if (made->oversubscription) { /* as in model.h */
        const struct tensors tensors = tensors_make(false, made->tensor);
        made->vectors = 1 + made->oversubscription / 50;
        made->budget = (2 * (uint64_t)made->vector_size + 1) * node_bytes(&tensors, HADRON);
    }
    if (!made->threads) {
        const uint32_t processors = (uint32_t)omp_get_num_procs();
        made->threads = made->vector_size < processors ? made->vector_size : processors;
    }
}

struct contract_options contract_parse(int argc, char **argv, bool *header) {
    struct given known = {.header = true}, *given = &known;
    struct contract_options made = {.eviction = "preprotected_lru",
                                    .percent = 100,
                                    .vector_size = 16,
                                    .vectors = 100,
                                    .rate = {1, 2},
                                    .loops = 1,
                                    .link_slowdown = 1,
                                    .seed = 1,
                                    .random_mappings = true};
    use_variant(&made, find_variant("full"));
    opterr = 0;
    for (int pass = 0; pass < 2; pass++) { /* the variant first: switches change it wherever they stand */
        int place;
        optind = 1;
        for (int key; (key = getopt_long(argc, argv, "", rows, &place)) != -1;) {
            if (key < VARIANT)
                fail_usage("%s is no option, or needs a value; --help lists them", argv[optind - 1]);
            if (pass)
                parse_one(&made, given, key, rows[place].name);
            else if (key == VARIANT)
                use_variant(&made, find_variant(optarg));
        }
    }
    if (optind < argc)
        fail_usage("%s is no option; --help lists them", argv[optind]);
    check_memory(&made, given);
    check_workload(&made, given);
    complete(&made);
    *header = given->header;
    return made;
}

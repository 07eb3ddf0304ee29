/* hadron --model: what eviction policies cost when hadron contractions need more memory than the device has. No CUDA.
 */
#include "examples/hadron/arguments.h"
#include "examples/hadron/main.h"
#include "examples/hadron/model.h"

#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OVERSUBSCRIPTION 1000
#define MAX_VECTOR_SIZE      100000
#define MAX_LOOPS            1000000

static const char usage[] =
    "usage: hadron --model [--policy NAME|all] [--distribution uniform|gaussian|both] [--vector-size COUNT]\n"
    "              [--oversubscription PERCENT] [--repeated-rate N/D] [--loops COUNT] [--seed NUMBER] [--sum | "
    "--spread]\n"
    "  --model             runs the eviction experiment of memhc, 6.4, without a GPU\n"
    "  --policy            random, mru, lru, car, clock_pro, preprotected_lru: the paper's; window: ours (default "
    "all)\n"
    "  --distribution      of the repeated nodes within the vector before (default both)\n"
    "  --vector-size       hadron nodes of a vector (default 64)\n"
    "  --oversubscription  of the device's memory, a multiple of 50 (default 50, 100, 150, 200 and 250)\n"
    "  --repeated-rate     share of a vector's nodes that the vector before had; times --vector-size a whole number\n"
    "                      (default 1/2)\n"
    "  --loops             runs of which a row is the mean (default 10)\n"
    "  --seed              of the first run; the next run has the next seed (default 1)\n"
    "  --sum               rows are sums of all loops, as in figure 11\n"
    "  --spread            after each row, one of the standard deviation of a loop\n"
    "Exit status: 0, 1 when there is no memory, 2 for wrong usage.\n";

struct options {
    bool sum, spread;
    const struct gm_eviction_policy *policy; /* NULL: all */
    int distribution;                        /* DISTRIBUTIONS: both */
    uint32_t vector_size, oversubscription;  /* 0: 50 to 250 */
    struct rate rate;
    uint32_t loops;
    uint64_t seed;
};

static void parse_policy(struct options *made, const char *text) {
    made->policy = gm_eviction_find(text);
    if (!made->policy && strcmp(text, "all"))
        fail_usage("--policy %s is none of random, mru, lru, car, clock_pro, preprotected_lru, window, all", text);
}

static const char *const model_distribution_names[] = {"uniform", "gaussian", "both", NULL};

static void check(const struct options *made) {
    if (made->oversubscription % 50)
        fail_usage("--oversubscription %" PRIu32 " is not a multiple of 50", made->oversubscription);
    nodes_of(made->rate, made->vector_size);
    if (made->sum && made->spread)
        fail_usage("--sum and --spread exclude each other");
}

static struct options parse(int argc, char **argv) {
    struct options made = {.distribution = DISTRIBUTIONS, .vector_size = 64, .rate = {1, 2}, .loops = 10, .seed = 1};
    static const struct option rows[] = {{"model", no_argument, NULL, 'm'},
                                         {"policy", required_argument, NULL, 'p'},
                                         {"distribution", required_argument, NULL, 'd'},
                                         {"vector-size", required_argument, NULL, 'v'},
                                         {"oversubscription", required_argument, NULL, 'o'},
                                         {"repeated-rate", required_argument, NULL, 'r'},
                                         {"loops", required_argument, NULL, 'l'},
                                         {"seed", required_argument, NULL, 's'},
                                         {"sum", no_argument, NULL, 'a'},
                                         {"spread", no_argument, NULL, 'e'},
                                         {"help", no_argument, NULL, 'h'},
                                         {NULL, 0, NULL, 0}};
    opterr = 0;
    for (int found; (found = getopt_long(argc, argv, "", rows, NULL)) != -1;) {
        switch (found) {
        case 'm': break; /* main() has read it */
        case 'p': parse_policy(&made, optarg); break;
        case 'd': made.distribution = parse_choice("distribution", optarg, model_distribution_names); break;
        case 'v': made.vector_size = (uint32_t)parse_number("vector-size", optarg, 1, MAX_VECTOR_SIZE); break;
        case 'o':
            made.oversubscription = (uint32_t)parse_number("oversubscription", optarg, 50, MAX_OVERSUBSCRIPTION);
            break;
        case 'r': made.rate = parse_rate("repeated-rate", optarg); break;
        case 'l': made.loops = (uint32_t)parse_number("loops", optarg, 1, MAX_LOOPS); break;
        case 's': made.seed = parse_number("seed", optarg, 0, UINT32_MAX); break;
        case 'a': made.sum = true; break;
        case 'e': made.spread = true; break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fail_usage("%s is no option, or needs a value; --help lists them", argv[optind - 1]);
        }
    }
    if (optind < argc)
        fail_usage("%s is no option; --help lists them", argv[optind]);
    check(&made);
    return made;
}

/* allocate, evictions, hit, miss, hit_rate_pct */
enum { COLUMNS = 5 };

static void columns_of(const struct counts *counts, double *columns) {
    columns[0] = (double)counts->allocate;
    columns[1] = (double)counts->evictions;
    columns[2] = (double)counts->hit;
    columns[3] = (double)counts->miss;
    columns[4] = 100 * columns[2] / (columns[2] + columns[3]);
}

static void print_row(const struct options *options, const struct experiment *experiment, const char *what,
                      const double *columns) {
    const struct rate rate = reduced(options->rate);
    printf("%s_%s%s,%" PRIu32 ",%" PRIu32 ",%" PRIu32 "/%" PRIu32, experiment->policy->name,
           model_distribution_names[experiment->distribution], what, experiment->vector_size,
           50 * experiment->more_vectors, rate.part, rate.whole);
    for (int i = 0; i < COLUMNS; i++)
        printf(",%.12g", round(columns[i] * 100) / 100);
    printf("\n");
}

static void run(const struct options *options, const struct experiment *experiment) {
    double sum[COLUMNS] = {0}, squares[COLUMNS] = {0};
    for (uint32_t loop = 0; loop < options->loops; loop++) {
        struct counts counts = {0};
        double columns[COLUMNS];
        if (!model_loop(experiment, options->seed + loop, &counts)) {
            fputs("hadron: no memory\n", stderr);
            exit(1);
        }
        columns_of(&counts, columns);
        for (int i = 0; i < COLUMNS; i++) {
            sum[i] += columns[i];
            squares[i] += columns[i] * columns[i];
        }
    }
    double mean[COLUMNS], spread[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        mean[i] = sum[i] / options->loops;
        spread[i] = sqrt(fmax(0, squares[i] / options->loops - mean[i] * mean[i]));
    }
    sum[COLUMNS - 1] = mean[COLUMNS - 1]; /* all loops look up as often */
    print_row(options, experiment, "", options->sum ? sum : mean);
    if (options->spread)
        print_row(options, experiment, "_spread", spread);
}

static void run_policy(const struct options *options, const struct gm_eviction_policy *policy,
                       uint32_t oversubscription) {
    for (int distribution = 0; distribution < DISTRIBUTIONS; distribution++) {
        const struct experiment experiment = {.policy = policy,
                                              .distribution = (enum distribution)distribution,
                                              .vector_size = options->vector_size,
                                              .more_vectors = oversubscription / 50,
                                              .repeated = nodes_of(options->rate, options->vector_size)};
        if (options->distribution == DISTRIBUTIONS || options->distribution == distribution)
            run(options, &experiment);
    }
}

int model_main(int argc, char **argv) {
    const struct options options = parse(argc, argv);
    const uint32_t first = options.oversubscription ? options.oversubscription : 50;
    const uint32_t last = options.oversubscription ? options.oversubscription : 250;
    printf("policy,vector_size,oversubscription_pct,repeated_rate,allocate,evictions,hit,miss,hit_rate_pct\n");
    for (uint32_t oversubscription = first; oversubscription <= last; oversubscription += 50) {
        for (const struct gm_eviction_policy *const *row = gm_eviction_policies; *row; row++) {
            if (!options.policy || options.policy == *row)
                run_policy(&options, *row, oversubscription);
        }
    }
    return fflush(stdout) || ferror(stdout);
}

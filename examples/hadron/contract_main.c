/* hadron: contractions on a device under one way to manage memory; prints one CSV row. */
#include "examples/check.h"
#include "examples/hadron/contract_options.h"
#include "examples/hadron/main.h"

#include <inttypes.h>

enum { NO_DEVICE = 77 };

static void print_seconds(double seconds) {
    if (seconds < 0)
        printf(",");
    else
        printf(",%.6f", seconds);
}

static void print_count(uint64_t sum, uint32_t loops) { printf(",%.12g", (double)sum / loops); }

static void print_settings(const struct contract_options *o) {
    const bool vectors = !o->function;
    const struct rate rate = reduced(o->rate);
    printf("%s,%s,%d,%d,%d,%d,%d", o->variant,
           o->memory == UNIFIED    ? "unified"
           : o->memory == EXPLICIT ? "explicit"
                                   : "resident",
           o->reorganise, o->on_demand_sync, o->duplicates, o->lazy_release, o->prefetch);
    printf(",%s,%" PRIu64 ",%s,%s", o->duplicates || o->lazy_release ? o->eviction : "", o->budget,
           host_names[o->pinned], vectors ? "vectors" : o->function->name);
    printf(",%" PRIu32 ",%s,%" PRIu32 ",%" PRIu32, vectors ? 100 : o->percent, system_names[o->baryon], o->tensor,
           o->vector_size);
    if (vectors)
        printf(",%" PRIu32 ",%" PRIu32 "/%" PRIu32 ",%s,%" PRIu32, o->vectors, rate.part, rate.whole,
               distribution_names[o->distribution], o->oversubscription);
    else
        printf(",,,,");
    printf(",%s,%s,%" PRIu32 ",%" PRIu32 ",%" PRIu64, mapping_names[o->random_mappings], product_names[o->own_products],
           o->threads, o->loops, o->seed);
}

static void print_row(const struct contract_options *o, const struct outcome *out) {
    const struct costs *c = &out->costs;
    print_settings(o);
    printf(",%" PRIu32 ",%.6f,%.6f,%.6f,%.6f,%.3f", out->contractions, out->seconds, out->least, out->most,
           out->operations / 1e9, out->operations / out->seconds / 1e9);
    print_seconds(c->allocate);
    print_seconds(c->to_device);
    print_seconds(c->to_host);
    print_seconds(c->transfer);
    print_seconds(c->kernel);
    print_seconds(c->evict);
    const uint64_t counts[] = {c->allocations, c->reused,          c->evictions,    c->hits,
                               c->misses,      c->bytes_to_device, c->bytes_to_host};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        print_count(counts[i], o->loops);
    printf(",%" PRIu64 ",%zu,%s\n", c->peak, out->compared, !o->check ? "" : out->different ? "wrong" : "right");
}

static const char header[] =
    "variant,memory,reorganise,on_demand_sync,duplicates,lazy_release,prefetch,eviction,budget_bytes,host,workload,"
    "scale_pct,system,tensor,vector_size,vectors,repeated_rate,distribution,oversubscription_pct,mapping,products,"
    "threads,"
    "loops,seed,contractions,seconds,seconds_min,seconds_max,gflop,gflops,allocate_s,h2d_s,d2h_s,transfer_s,kernel_s,"
    "evict_s,allocations,reused,evictions,hits,misses,h2d_bytes,d2h_bytes,peak_bytes,compared,check\n";

int contract_main(int argc, char **argv) {
    bool with_header;
    const struct contract_options options = contract_parse(argc, argv, &with_header);
    int devices;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || !devices) {
        fputs("hadron: no CUDA device\n", stderr);
        return NO_DEVICE;
    }
    CHECK(cudaFree(NULL)); /* the context */
    const char *why;
    if (!options.own_products && !products_open(&why)) {
        fprintf(stderr, "hadron: no cuBLAS (--products own does without): %s\n", why);
        return 1;
    }
    const struct outcome outcome = contract_run(&options);
    if (with_header)
        fputs(header, stdout);
    print_row(&options, &outcome);
    if (outcome.different)
        fprintf(stderr, "hadron: %zu of %zu compared numbers are wrong\n", outcome.different, outcome.compared);
    return outcome.different || fflush(stdout) || ferror(stdout);
}

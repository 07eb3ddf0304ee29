/* Runs a workload: streams, vectors, the clock, and the comparison with the reference. */
#include "examples/hadron/contract.h"
#include "examples/check.h"
#include "examples/hadron/reference.h"

#include <string.h>
#include <unistd.h>

/* Compared rows of a spin: all up to the first number, else as many as the second. */
enum { WHOLE_ROWS = 64, SAMPLED_ROWS = 2 };

/* ---- before the clock */

static void require_unified_memory(void) {
    int device, concurrent;
    CHECK(cudaGetDevice(&device));
    CHECK(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, device));
    if (!concurrent) {
        fputs("hadron: refused: the host cannot use managed memory while this device works\n", stderr);
        exit(1);
    }
}

static void make_workload(const struct contract_options *o, uint64_t seed, struct workload *made) {
    const struct experiment experiment = {.distribution = o->distribution,
                                          .vector_size = o->vector_size,
                                          .repeated = o->function ? 0 : nodes_of(o->rate, o->vector_size)};
    if (o->function)
        workload_graphs(o->function, o->percent, o->vector_size, seed, o->baryon, made);
    else
        workload_vectors(&experiment, o->vectors, seed, o->baryon, made);
}

static void require_host_memory(const struct job *job) {
    const double there = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double bytes = (double)bytes_of_all_nodes(job);
    if (bytes > 0.75 * there) {
        fprintf(stderr, "hadron: refused: %.1f MB of nodes are more than three quarters of the host's %.1f MB\n",
                bytes / 1e6, there / 1e6);
        exit(1);
    }
}

/* Most outputs that are alive at one time. */
static uint32_t most_homes(const struct workload *w) {
    uint32_t *readers = take(w->node_count, sizeof *readers), alive = 0, most = 0;
    for (uint32_t i = 0; i < w->node_count; i++)
        readers[i] = w->nodes[i].readers;
    for (uint32_t v = 0; v < w->vector_count; v++) {
        alive += w->vectors[v + 1] - w->vectors[v];
        most = alive > most ? alive : most;
        for (uint32_t i = w->vectors[v]; i < w->vectors[v + 1]; i++) {
            const struct contraction *c = &w->contractions[i];
            alive -= !--readers[c->left] && !w->nodes[c->left].initial;
            alive -= !--readers[c->right] && !w->nodes[c->right].initial;
            alive -= !readers[c->output];
        }
    }
    free(readers);
    return most;
}

static bool hosts_are_managed(const struct job *job) { return job->options->memory == UNIFIED && job->options->kept; }

/* Homes of outputs. Those that every contraction writes are touched before the clock starts. */
static void make_homes(struct job *job) {
    const bool touch = !job->options->on_demand_sync && !hosts_are_managed(job);
    const uint32_t count = most_homes(&job->workload);
    job->free_homes = take(count, sizeof *job->free_homes);
    for (; job->free_home_count < count; job->free_home_count++) {
        struct node_memory *home = &job->free_homes[job->free_home_count];
        host_take(job, HADRON, hosts_are_managed(job), home);
        for (int i = 0; touch && i < pieces_of(job, HADRON); i++)
            memset(home->spin[i], 0, piece_bytes(job, HADRON));
    }
}

static void make_hosts(struct job *job) {
    const struct workload *w = &job->workload;
    require_host_memory(job);
    if (hosts_are_managed(job))
        require_free("managed memory", bytes_of_all_nodes(job));
    job->hosts = take(w->node_count, sizeof *job->hosts);
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (!w->nodes[i].initial)
            continue;
        host_take(job, w->nodes[i].role, hosts_are_managed(job), &job->hosts[i]);
        for (int s = 0; s < job->tensors.spins[w->nodes[i].role]; s++)
            initial_fill(job->options->seed, i, s, job->hosts[i].spin[s], job->tensors.numbers[w->nodes[i].role]);
    }
    make_homes(job);
}

static void give_host(const struct job *job, enum role role, struct node_memory *memory) {
    for (int i = 0; i < pieces_of(job, role); i++) {
        if (hosts_are_managed(job))
            CHECK(cudaFree(memory->spin[i]));
        else if (job->options->pinned)
            CHECK(cudaFreeHost(memory->spin[i]));
        else
            free(memory->spin[i]);
    }
}

static void free_hosts(struct job *job) {
    for (uint32_t i = 0; i < job->workload.node_count; i++) {
        if (job->workload.nodes[i].initial)
            give_host(job, job->workload.nodes[i].role, &job->hosts[i]);
    }
    while (job->free_home_count)
        give_host(job, HADRON, &job->free_homes[--job->free_home_count]);
    free(job->hosts);
    free(job->free_homes);
}

/* A first batch, of meaningless numbers: the libraries load their code at first use. */
static void warm_up(struct job *job, struct stream *stream) {
    const struct tensors *t = &job->tensors;
    const long numbers = (long)t->numbers[HADRON];
    for (int s = 0; s < MAX_SPINS; s++)
        stream->operands.left[s] = stream->operands.right[s] = stream->operands.output[s] =
            stream->products + s % t->products * numbers;
    mapping_make(t, false, 0, 0, 0, &stream->operands.mapping);
    CHECK(launch_pointers(stream->cuda, &stream->operands, stream->products, numbers, stream->pointers, t->products));
    products_launch(stream->handle, stream->cuda, t, stream->pointers);
    CHECK(launch_accumulate(stream->cuda, &stream->operands, stream->products, numbers, t->spins[HADRON], t->per_spin));
    CHECK(cudaStreamSynchronize(stream->cuda));
}

static void make_streams(struct job *job) {
    const size_t bytes = (size_t)job->tensors.products * job->tensors.numbers[HADRON] * sizeof(struct complex_number);
    job->streams = take(job->workload.longest, sizeof *job->streams);
    require_free("products", job->workload.longest * (uint64_t)bytes);
    for (uint32_t i = 0; i < job->workload.longest; i++) {
        struct stream *stream = &job->streams[i];
        CHECK(cudaStreamCreateWithFlags(&stream->cuda, cudaStreamNonBlocking));
        CHECK(cudaMalloc((void **)&stream->products, bytes));
        CHECK(cudaMalloc((void **)&stream->pointers, sizeof *stream->pointers));
        if (!job->options->own_products)
            stream->handle = products_handle(stream->cuda);
    }
}

static void free_streams(struct job *job) {
    for (uint32_t i = 0; i < job->workload.longest; i++) {
        products_close(job->streams[i].handle);
        CHECK(cudaFree(job->streams[i].pointers));
        CHECK(cudaFree(job->streams[i].products));
        CHECK(cudaStreamDestroy(job->streams[i].cuda));
    }
    free(job->streams);
}

static const struct memory *memory_of(const struct contract_options *o) {
    if (o->memory == EXPLICIT)
        return o->duplicates || o->lazy_release ? &memory_residency : &memory_plain;
    return o->memory == UNIFIED ? &memory_unified : &memory_resident;
}

/* ---- contractions */

static void submit(struct job *job, struct stream *stream, uint32_t at) {
    const struct contraction *c = &job->workload.contractions[at];
    const struct tensors *t = &job->tensors;
    const long numbers = (long)t->numbers[HADRON];
    mapping_make(t, job->options->random_mappings, job->options->seed, c->left, c->right, &stream->operands.mapping);
    if (job->events)
        CHECK(cudaEventRecord(job->events[2 * at], stream->cuda));
    CHECK(launch_pointers(stream->cuda, &stream->operands, stream->products, numbers, stream->pointers, t->products));
    products_launch(stream->handle, stream->cuda, t, stream->pointers);
    if (job->options->accumulate)
        CHECK(launch_accumulate(stream->cuda, &stream->operands, stream->products, numbers, t->spins[HADRON],
                                t->per_spin));
    if (job->events)
        CHECK(cudaEventRecord(job->events[2 * at + 1], stream->cuda));
}

static void contract_one(struct job *job, uint32_t at, struct stream *stream) {
    const struct contraction *c = &job->workload.contractions[at];
    job->memory->acquire(job, stream, c);
    submit(job, stream, at);
    job->memory->release(job, stream, c);
}

static void contract_vector(struct job *job, uint32_t begin, uint32_t end) {
    const struct contraction *contractions = job->workload.contractions;
    const struct memory *memory = job->memory;
    for (uint32_t i = begin; memory->place && i < end; i++)
        memory->place(job, &job->streams[i - begin], &contractions[i]);
    if (!memory->ordered) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(job->options->threads)
        for (uint32_t i = begin; i < end; i++)
            contract_one(job, i, &job->streams[i - begin]);
        return;
    }
#pragma omp parallel for ordered schedule(static, 1) num_threads(job->options->threads)
    for (uint32_t i = begin; i < end; i++) {
#pragma omp ordered
        memory->acquire(job, &job->streams[i - begin], &contractions[i]);
        submit(job, &job->streams[i - begin], i);
    }
    for (uint32_t i = begin; i < end; i++)
        memory->release(job, &job->streams[i - begin], &contractions[i]);
}

/* ---- outputs */

static void take_homes(struct job *job, uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; i++)
        job->hosts[job->workload.contractions[i].output] = job->free_homes[--job->free_home_count];
}

static void end_output(struct job *job, uint32_t node) {
    if (job->memory->end)
        job->memory->end(job, node);
    job->free_homes[job->free_home_count++] = job->hosts[node];
}

static void read_output(struct job *job, uint32_t node, struct outcome *outcome) {
    if (job->memory->read)
        job->memory->read(job, node);
    if (!job->options->check)
        return;
    const struct reference reference = {.tensors = &job->tensors,
                                        .workload = &job->workload,
                                        .random_mappings = job->options->random_mappings,
                                        .seed = job->options->seed};
    const uint32_t rows = (uint32_t)job->tensors.rows <= WHOLE_ROWS ? WHOLE_ROWS : SAMPLED_ROWS;
    outcome->different +=
        reference_differences(&reference, node, job->hosts[node].spin, rows, job->seed + node, &outcome->compared);
}

/* Outputs whose last reader is done end; results are read at once, or stay where the last vector made them. */
static void settle(struct job *job, uint32_t vector, uint32_t *readers, struct outcome *outcome) {
    const struct workload *w = &job->workload;
    for (uint32_t i = w->vectors[vector]; i < w->vectors[vector + 1]; i++) {
        const struct contraction *c = &w->contractions[i];
        const uint32_t operands[] = {c->left, c->right};
        for (int o = 0; o < 2; o++) {
            if (!--readers[operands[o]] && !w->nodes[operands[o]].initial)
                end_output(job, operands[o]);
        }
        if (readers[c->output])
            continue;
        if (job->options->all_results)
            read_output(job, c->output, outcome);
        if (job->options->all_results || vector + 1 < w->vector_count)
            end_output(job, c->output);
    }
}

static void read_last_vector(struct job *job, struct outcome *outcome) {
    const struct workload *w = &job->workload;
    if (job->options->all_results)
        return;
    for (uint32_t i = w->vectors[w->vector_count - 1]; i < w->contraction_count; i++) {
        read_output(job, w->contractions[i].output, outcome);
        end_output(job, w->contractions[i].output);
    }
}

/* ---- loops */

static void add_streams(struct job *job) {
    for (uint32_t i = 0; i < job->workload.longest; i++) {
        struct costs *from = &job->streams[i].costs, *to = &job->costs;
        to->allocate += from->allocate;
        to->to_device += from->to_device;
        to->to_host += from->to_host;
        to->allocations += from->allocations;
        to->hits += from->hits;
        to->misses += from->misses;
        to->bytes_to_device += from->bytes_to_device;
        to->bytes_to_host += from->bytes_to_host;
        *from = (struct costs){0};
    }
    job->costs.transfer = job->costs.to_device + job->costs.to_host;
    job->costs.evict = -1;
    job->costs.peak = job->peak;
}

static void make_events(struct job *job) {
    if (!job->options->breakdown)
        return;
    job->events = take(2 * (size_t)job->workload.contraction_count, sizeof *job->events);
    for (uint32_t i = 0; i < 2 * job->workload.contraction_count; i++)
        CHECK(cudaEventCreate(&job->events[i]));
}

static double end_events(struct job *job) {
    double seconds = 0;
    if (!job->events)
        return -1;
    for (uint32_t i = 0; i < job->workload.contraction_count; i++) {
        float ms;
        CHECK(cudaEventElapsedTime(&ms, job->events[2 * i], job->events[2 * i + 1]));
        seconds += 1e-3 * ms;
        CHECK(cudaEventDestroy(job->events[2 * i]));
        CHECK(cudaEventDestroy(job->events[2 * i + 1]));
    }
    free(job->events);
    job->events = NULL;
    return seconds;
}

static double run_loop(struct job *job, struct outcome *outcome) {
    const struct workload *w = &job->workload;
    uint32_t *readers = take(w->node_count, sizeof *readers);
    for (uint32_t i = 0; i < w->node_count; i++)
        readers[i] = w->nodes[i].readers;
    job->costs = (struct costs){0};
    job->bytes = job->peak = 0;
    make_events(job);
    if (job->memory->open)
        job->memory->open(job);
    for (uint32_t i = 0; job->seed == job->options->seed && i < w->longest; i++)
        warm_up(job, &job->streams[i]);
    CHECK(cudaDeviceSynchronize());
    const double begin = now();
    for (uint32_t vector = 0; vector < w->vector_count; vector++) {
        if (job->memory->announce)
            job->memory->announce(job, vector);
        take_homes(job, w->vectors[vector], w->vectors[vector + 1]);
        contract_vector(job, w->vectors[vector], w->vectors[vector + 1]);
        settle(job, vector, readers, outcome);
    }
    for (uint32_t i = 0; i < w->longest; i++)
        CHECK(cudaStreamSynchronize(job->streams[i].cuda));
    const double seconds = now() - begin;
    const double kernel = end_events(job);
    add_streams(job);
    if (job->memory->count)
        job->memory->count(job);
    read_last_vector(job, outcome);
    if (job->memory->close)
        job->memory->close(job);
    for (uint32_t i = 0; i < w->longest; i++) /* reading is not of the loop */
        job->streams[i].costs = (struct costs){0};
    job->costs.kernel = kernel;
    free(readers);
    return seconds;
}

static void add_costs(struct costs *sum, const struct costs *one, double share) {
    sum->allocate += one->allocate * share;
    sum->to_device += one->to_device * share;
    sum->to_host += one->to_host * share;
    sum->transfer += one->transfer * share;
    sum->evict += one->evict * share;
    sum->kernel += one->kernel * share;
    sum->allocations += one->allocations;
    sum->reused += one->reused;
    sum->evictions += one->evictions;
    sum->hits += one->hits;
    sum->misses += one->misses;
    sum->bytes_to_device += one->bytes_to_device;
    sum->bytes_to_host += one->bytes_to_host;
    sum->peak = one->peak > sum->peak ? one->peak : sum->peak;
}

struct outcome contract_run(const struct contract_options *options) {
    struct outcome outcome = {0};
    struct job job = {
        .options = options, .tensors = tensors_make(options->baryon, options->tensor), .memory = memory_of(options)};
    if (options->memory == UNIFIED)
        require_unified_memory();
    make_workload(options, options->seed, &job.workload);
    make_streams(&job);
    make_hosts(&job);
    for (uint32_t loop = 0; loop < options->loops; loop++) {
        job.seed = options->seed + loop;
        if (loop && !options->function) { /* other vectors of the same initial nodes */
            workload_free(&job.workload);
            make_workload(options, job.seed, &job.workload);
        }
        const double seconds = run_loop(&job, &outcome);
        outcome.seconds += seconds / options->loops;
        outcome.least = !loop || seconds < outcome.least ? seconds : outcome.least;
        outcome.most = seconds > outcome.most ? seconds : outcome.most;
        add_costs(&outcome.costs, &job.costs, 1.0 / options->loops);
    }
    outcome.contractions = job.workload.contraction_count;
    outcome.operations = job.workload.contraction_count * tensors_operations(&job.tensors);
    free_hosts(&job);
    free_streams(&job);
    workload_free(&job.workload);
    return outcome;
}

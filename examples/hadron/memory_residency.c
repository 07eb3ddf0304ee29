/* Explicit memory with reuse, by gpumem_residency: duplicates are found, released memory is overwritten by the next
 * node of its size, outputs are GPU-only objects, and what exceeds the budget is evicted. */
#include "examples/check.h"
#include "examples/hadron/contract.h"
#include "shim/gpumem_residency.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        const enum gpumem_status status_ = (call);                                                 \
        if (status_) {                                                                             \
            fprintf(stderr, "hadron: %s: %s\n", gpumem_status_name(status_), gpumem_last_error()); \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

struct objects {
    uint64_t piece[MAX_SPINS];
};

/* The uses of a stream's contraction: of its output, and of its operands behind it. */
struct held {
    struct gpumem_use uses[3 * MAX_SPINS];
    size_t count;
};

struct state {
    struct gpumem_residency *residency;
    struct objects *nodes;
    uint64_t *vector;  /* announced */
    struct held *held; /* by stream */
    /* A slower link: memory for repeated copies, and the bytes that were transferred before. */
    void *from, *to;
    uint64_t transferred;
};

static void register_node(struct job *job, struct state *state, uint32_t node) {
    const struct node *about = &job->workload.nodes[node];
    for (int i = 0; i < pieces_of(job, about->role); i++) {
        const struct gpumem_object_options options = {.struct_size = sizeof options,
                                                      .address = job->hosts[node].spin[i],
                                                      .bytes = piece_bytes(job, about->role),
                                                      .flags = about->initial ? 0 : GPUMEM_OBJECT_GPU_ONLY};
        OK(gpumem_residency_register(state->residency, &options, &state->nodes[node].piece[i]));
    }
}

static void open_residency(struct job *job) {
    const struct contract_options *chosen = job->options;
    const struct workload *w = &job->workload;
    struct state *state = take(1, sizeof *state);
    const struct gpumem_residency_options options = {
        .struct_size = sizeof options,
        .budget = chosen->budget,
        .eviction = chosen->eviction,
        .objects = (size_t)w->node_count * (size_t)pieces_of(job, HADRON) + 1,
        .window = 2 * (size_t)w->longest * (size_t)pieces_of(job, HADRON),
        .seed = job->seed,
        .copy_threads = chosen->copy_threads,
        .flags = (chosen->duplicates ? 0u : GPUMEM_RESIDENCY_NO_REUSE) |
                 (chosen->lazy_release ? 0u : GPUMEM_RESIDENCY_NO_LAZY_RELEASE) |
                 (chosen->on_demand_sync ? 0u : GPUMEM_RESIDENCY_NO_ON_DEMAND)};
    OK(gpumem_residency_create(&options, &state->residency));
    state->nodes = take(w->node_count, sizeof *state->nodes);
    state->vector = take(options.window, sizeof *state->vector);
    state->held = take(w->longest, sizeof *state->held);
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->nodes[i].initial)
            register_node(job, state, i);
    }
    if (chosen->link_slowdown > 1) {
        const size_t bytes = node_bytes(&job->tensors, HADRON);
        CHECK(cudaMallocHost(&state->from, bytes));
        CHECK(cudaMalloc(&state->to, bytes));
        CHECK(cudaMemset(state->to, 0, bytes));
        state->transferred = 0;
    }
    job->state = state;
}

/* A link as slow as that of the paper's machines: what the acquire transferred is copied again and again, before the
 * work in the stream. Acquires go one after the other, so the difference of the counts is that of this one. */
static void slow_down(struct job *job, struct stream *stream) {
    struct state *state = job->state;
    struct gpumem_residency_stats stats = {.struct_size = sizeof stats};
    const size_t room = node_bytes(&job->tensors, HADRON);
    if (job->options->link_slowdown == 1)
        return;
    OK(gpumem_residency_get_stats(state->residency, &stats));
    uint64_t left = (stats.bytes_to_device - state->transferred) * (job->options->link_slowdown - 1);
    state->transferred = stats.bytes_to_device;
    for (size_t part; left; left -= part) {
        part = left < room ? (size_t)left : room;
        CHECK(cudaMemcpyAsync(state->to, state->from, part, cudaMemcpyHostToDevice, stream->cuda));
    }
}

/* The node that all synthesised contractions share is in use for the whole vector, so it needs no announcement. */
static void announce_residency(struct job *job, uint32_t vector) {
    struct state *state = job->state;
    const struct workload *w = &job->workload;
    size_t count = 0;
    for (uint32_t i = w->vectors[vector]; i < w->vectors[vector + 1]; i++) {
        const uint32_t operands[] = {w->contractions[i].left, w->contractions[i].right};
        for (int o = 0; o < (job->options->function ? 2 : 1); o++) {
            for (int piece = 0; piece < pieces_of(job, w->nodes[operands[o]].role); piece++)
                state->vector[count++] = state->nodes[operands[o]].piece[piece];
        }
    }
    OK(gpumem_residency_announce(state->residency, state->vector, count));
}

static size_t add_uses(const struct job *job, uint32_t node, uint64_t access, struct gpumem_use *uses) {
    const struct state *state = job->state;
    const int pieces = pieces_of(job, job->workload.nodes[node].role);
    for (int i = 0; i < pieces; i++)
        uses[i] = (struct gpumem_use){.object = state->nodes[node].piece[i], .access = access};
    return (size_t)pieces;
}

static void addresses_of(const struct job *job, uint32_t node, const struct gpumem_use *uses,
                         struct complex_number **spin) {
    const enum role role = job->workload.nodes[node].role;
    for (int i = 0; i < pieces_of(job, role); i++)
        spin[i] = uses[i].address;
    spread_pieces(job, role, spin);
}

static struct held *held_of(const struct job *job, const struct stream *stream) {
    return &((struct state *)job->state)->held[stream - job->streams];
}

static void place_residency(struct job *job, struct stream *stream, const struct contraction *c) {
    struct state *state = job->state;
    struct held *held = held_of(job, stream);
    register_node(job, state, c->output);
    held->count = add_uses(job, c->output, GPUMEM_WRITE, held->uses);
    OK(gpumem_residency_acquire(state->residency, held->uses, held->count, stream->cuda));
    addresses_of(job, c->output, held->uses, stream->operands.output);
}

static void acquire_residency(struct job *job, struct stream *stream, const struct contraction *c) {
    struct state *state = job->state;
    struct held *held = held_of(job, stream);
    struct gpumem_use *uses = held->uses + held->count;
    const size_t right = add_uses(job, c->right, GPUMEM_READ, uses);
    const size_t both = right + add_uses(job, c->left, GPUMEM_READ, uses + right);
    OK(gpumem_residency_acquire(state->residency, uses, both, stream->cuda));
    held->count += both;
    slow_down(job, stream);
    addresses_of(job, c->right, uses, stream->operands.right);
    addresses_of(job, c->left, uses + right, stream->operands.left);
}

static void release_residency(struct job *job, struct stream *stream, const struct contraction *c) {
    struct state *state = job->state;
    const struct held *held = held_of(job, stream);
    OK(gpumem_residency_release(state->residency, held->uses, held->count, stream->cuda, 0));
}

static void read_residency(struct job *job, uint32_t node) {
    struct state *state = job->state;
    for (int i = 0; i < pieces_of(job, HADRON); i++)
        OK(gpumem_residency_sync(state->residency, state->nodes[node].piece[i], NULL));
}

static void end_residency(struct job *job, uint32_t node) {
    struct state *state = job->state;
    for (int i = 0; i < pieces_of(job, HADRON); i++)
        OK(gpumem_residency_unregister(state->residency, state->nodes[node].piece[i]));
}

static void count_residency(struct job *job) {
    const struct state *state = job->state;
    struct gpumem_residency_stats stats = {.struct_size = sizeof stats};
    OK(gpumem_residency_get_stats(state->residency, &stats));
    struct costs *costs = &job->costs;
    costs->allocate = 1e-9 * (double)stats.allocate_ns;
    costs->evict = 1e-9 * (double)stats.evict_ns;
    costs->transfer = 1e-9 * (double)stats.transfer_ns;
    costs->to_device = costs->to_host = -1;
    costs->allocations = stats.allocations + stats.reused_evicted; /* as the paper counts them */
    costs->reused = stats.reused;
    costs->evictions = stats.evictions;
    costs->hits = stats.hits;
    costs->misses = stats.misses;
    costs->bytes_to_device = stats.bytes_to_device;
    costs->bytes_to_host = stats.bytes_to_host;
    costs->peak = stats.peak_bytes;
}

static void close_residency(struct job *job) {
    struct state *state = job->state;
    OK(gpumem_residency_destroy(state->residency));
    CHECK(cudaFreeHost(state->from));
    CHECK(cudaFree(state->to));
    free(state->nodes);
    free(state->vector);
    free(state->held);
    free(state);
}

const struct memory memory_residency = {.ordered = true,
                                        .open = open_residency,
                                        .announce = announce_residency,
                                        .place = place_residency,
                                        .acquire = acquire_residency,
                                        .release = release_residency,
                                        .read = read_residency,
                                        .end = end_residency,
                                        .count = count_residency,
                                        .close = close_residency};

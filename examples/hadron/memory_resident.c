/* All nodes are on the device before the clock starts: contractions without memory management, the upper bound. */
#include "examples/check.h"
#include "examples/hadron/contract.h"

#include <string.h>

struct state {
    struct node_memory *nodes;
    struct complex_number *all;
    size_t used;                 /* numbers of `all` */
    struct node_memory *results; /* by stream: outputs that no contraction reads follow one another there */
};

static void take_all(struct job *job, struct state *state, enum role role, struct node_memory *made) {
    for (int s = 0; s < job->tensors.spins[role]; s++, state->used += job->tensors.numbers[role])
        made->spin[s] = state->all + state->used;
}

static void open_resident(struct job *job) {
    const struct workload *w = &job->workload;
    const uint64_t bytes = bytes_of_all_nodes(job);
    struct state *state = take(1, sizeof *state);
    state->nodes = take(w->node_count, sizeof *state->nodes);
    state->results = take(w->longest, sizeof *state->results);
    require_free("resident nodes", bytes);
    CHECK(cudaMalloc((void **)&state->all, bytes));
    for (uint32_t i = 0; i < w->longest; i++)
        take_all(job, state, HADRON, &state->results[i]);
    for (uint32_t i = 0; i < w->node_count; i++) {
        const enum role role = w->nodes[i].role;
        if (w->nodes[i].initial || w->nodes[i].readers)
            take_all(job, state, role, &state->nodes[i]);
        for (int s = 0; w->nodes[i].initial && s < job->tensors.spins[role]; s++)
            CHECK(cudaMemcpy(state->nodes[i].spin[s], job->hosts[i].spin[s],
                             job->tensors.numbers[role] * sizeof(struct complex_number), cudaMemcpyHostToDevice));
    }
    count_bytes(job, (long long)bytes);
    job->state = state;
}

static void place_resident(struct job *job, struct stream *stream, const struct contraction *c) {
    struct state *state = job->state;
    if (!job->workload.nodes[c->output].readers)
        state->nodes[c->output] = state->results[stream - job->streams];
    memcpy(stream->operands.output, state->nodes[c->output].spin, sizeof stream->operands.output);
}

static void acquire_resident(struct job *job, struct stream *stream, const struct contraction *c) {
    const struct state *state = job->state;
    memcpy(stream->operands.left, state->nodes[c->left].spin, sizeof stream->operands.left);
    memcpy(stream->operands.right, state->nodes[c->right].spin, sizeof stream->operands.right);
}

/* Outputs that a later vector reads, in another stream, are complete when the vector ends. */
static void release_resident(struct job *job, struct stream *stream, const struct contraction *c) {
    if (job->workload.nodes[c->output].readers)
        CHECK(cudaStreamSynchronize(stream->cuda));
}

static void read_resident(struct job *job, uint32_t node) {
    const struct state *state = job->state;
    CHECK(cudaDeviceSynchronize());
    for (int s = 0; s < job->tensors.spins[HADRON]; s++)
        CHECK(cudaMemcpy(job->hosts[node].spin[s], state->nodes[node].spin[s],
                         job->tensors.numbers[HADRON] * sizeof(struct complex_number), cudaMemcpyDeviceToHost));
}

static void close_resident(struct job *job) {
    struct state *state = job->state;
    CHECK(cudaFree(state->all));
    count_bytes(job, -(long long)bytes_of_all_nodes(job));
    free(state->nodes);
    free(state->results);
    free(state);
}

const struct memory memory_resident = {.ordered = true,
                                       .open = open_resident,
                                       .place = place_resident,
                                       .acquire = acquire_resident,
                                       .release = release_resident,
                                       .read = read_resident,
                                       .close = close_resident};

/* Explicit memory without reuse: every contraction allocates, transfers and frees.
 *
 * With on-demand synchronisation an output stays on the device until its last reader is done, and reaches the host only
 * when it is read. Otherwise each output is copied to the host at once, and back for each reader. */
#include "examples/check.h"
#include "examples/hadron/contract.h"

#include <string.h>

struct state {
    struct node_memory *outputs; /* by node, on the device, on-demand synchronisation only */
};

static void open_plain(struct job *job) {
    struct state *state = take(1, sizeof *state);
    state->outputs = take(job->workload.node_count, sizeof *state->outputs);
    job->state = state;
}

static struct node_memory *kept(struct job *job, uint32_t node) {
    const bool stays = job->options->on_demand_sync && !job->workload.nodes[node].initial;
    return stays ? &((struct state *)job->state)->outputs[node] : NULL;
}

static void copy(struct job *job, struct stream *stream, enum role role, struct complex_number *const *to,
                 struct complex_number *const *from, enum cudaMemcpyKind kind) {
    const double begin = now();
    for (int i = 0; i < pieces_of(job, role); i++)
        CHECK(cudaMemcpyAsync(to[i], from[i], piece_bytes(job, role), kind, stream->cuda));
    if (kind == cudaMemcpyDeviceToHost) {
        CHECK(cudaStreamSynchronize(stream->cuda));
        stream->costs.to_host += now() - begin;
        stream->costs.bytes_to_host += node_bytes(&job->tensors, role);
    } else {
        stream->costs.to_device += now() - begin;
        stream->costs.bytes_to_device += node_bytes(&job->tensors, role);
    }
}

static void acquire_operand(struct job *job, struct stream *stream, uint32_t node, struct complex_number **spin) {
    const enum role role = job->workload.nodes[node].role;
    const struct node_memory *there = kept(job, node);
    if (there) {
        memcpy(spin, there->spin, sizeof there->spin);
        stream->costs.hits++;
        return;
    }
    stream->costs.misses++;
    take_pieces(job, stream, role, false, spin);
    copy(job, stream, role, spin, job->hosts[node].spin, cudaMemcpyHostToDevice);
}

static void acquire_plain(struct job *job, struct stream *stream, const struct contraction *c) {
    acquire_operand(job, stream, c->left, stream->operands.left);
    acquire_operand(job, stream, c->right, stream->operands.right);
    take_pieces(job, stream, HADRON, false, stream->operands.output);
    stream->costs.misses++;
}

static void release_operand(struct job *job, struct stream *stream, uint32_t node, struct complex_number **spin) {
    if (!kept(job, node))
        give_pieces(job, stream, job->workload.nodes[node].role, spin);
}

static void release_plain(struct job *job, struct stream *stream, const struct contraction *c) {
    struct node_memory *output = kept(job, c->output);
    CHECK(cudaStreamSynchronize(stream->cuda));
    if (output) {
        memcpy(output->spin, stream->operands.output, sizeof output->spin);
    } else {
        copy(job, stream, HADRON, job->hosts[c->output].spin, stream->operands.output, cudaMemcpyDeviceToHost);
        give_pieces(job, stream, HADRON, stream->operands.output);
    }
    release_operand(job, stream, c->left, stream->operands.left);
    release_operand(job, stream, c->right, stream->operands.right);
}

static void read_plain(struct job *job, uint32_t node) {
    const struct node_memory *output = kept(job, node);
    if (output)
        copy(job, &job->streams[0], HADRON, job->hosts[node].spin, output->spin, cudaMemcpyDeviceToHost);
}

static void end_plain(struct job *job, uint32_t node) {
    struct node_memory *output = kept(job, node);
    if (output)
        give_pieces(job, &job->streams[0], HADRON, output->spin);
}

static void close_plain(struct job *job) {
    struct state *state = job->state;
    free(state->outputs);
    free(state);
}

const struct memory memory_plain = {.open = open_plain,
                                    .acquire = acquire_plain,
                                    .release = release_plain,
                                    .read = read_plain,
                                    .end = end_plain,
                                    .close = close_plain};

/* Unified memory.
 *
 * As the paper's baseline: each contraction makes managed memory for its operands and its output ("to create new memory
 * for each input pair", 3.1), which the host fills before and reads after. Kept, which is ours and a stronger baseline:
 * nodes live in managed memory, and nothing is copied but by page migration.
 *
 * The total of managed memory stays below what is free on the card: going over can hang a card that others use, too. */
#include "examples/check.h"
#include "examples/hadron/contract.h"

#include <string.h>

static void prefetch(struct job *job, struct stream *stream, enum role role, struct complex_number *const *spin,
                     bool to_device) {
    struct cudaMemLocation place = {.type = to_device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost};
    if (to_device)
        CHECK(cudaGetDevice(&place.id));
    for (int i = 0; job->options->prefetch && i < pieces_of(job, role); i++)
        CHECK(cudaMemPrefetchAsync(spin[i], piece_bytes(job, role), place, 0, stream->cuda));
}

/* Every loop begins with the nodes on the host. */
static void open_unified(struct job *job) {
    const struct workload *w = &job->workload;
    const enum role right = job->tensors.same_roles ? HADRON : RIGHT_MESON;
    if (!job->options->kept) {
        const uint64_t bytes = 2 * node_bytes(&job->tensors, HADRON) + node_bytes(&job->tensors, right);
        require_free("managed memory", w->longest * bytes);
        return;
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->nodes[i].initial)
            prefetch(job, &job->streams[0], w->nodes[i].role, job->hosts[i].spin, false);
    }
}

static void advise_read_mostly(struct job *job, enum role role, struct complex_number *const *spin) {
    struct cudaMemLocation place = {.type = cudaMemLocationTypeDevice};
    CHECK(cudaGetDevice(&place.id));
    for (int i = 0; job->options->prefetch && i < pieces_of(job, role); i++)
        CHECK(cudaMemAdvise(spin[i], piece_bytes(job, role), cudaMemAdviseSetReadMostly, place));
}

/* Page migration is seen as time of these copies, and of the kernels. */
static void copy_on_host(struct job *job, enum role role, struct complex_number *const *to,
                         struct complex_number *const *from, double *seconds, uint64_t *bytes) {
    const double begin = now();
    for (int i = 0; i < pieces_of(job, role); i++)
        memcpy(to[i], from[i], piece_bytes(job, role));
    *seconds += now() - begin;
    *bytes += node_bytes(&job->tensors, role);
}

static void acquire_operand(struct job *job, struct stream *stream, uint32_t node, struct complex_number **spin) {
    const enum role role = job->workload.nodes[node].role;
    if (job->options->kept) {
        memcpy(spin, job->hosts[node].spin, sizeof job->hosts[node].spin);
        stream->costs.hits++;
    } else {
        stream->costs.misses++;
        take_pieces(job, stream, role, true, spin);
        copy_on_host(job, role, spin, job->hosts[node].spin, &stream->costs.to_device, &stream->costs.bytes_to_device);
        advise_read_mostly(job, role, spin);
    }
    prefetch(job, stream, role, spin, true);
}

static void acquire_unified(struct job *job, struct stream *stream, const struct contraction *c) {
    acquire_operand(job, stream, c->left, stream->operands.left);
    acquire_operand(job, stream, c->right, stream->operands.right);
    if (job->options->kept)
        memcpy(stream->operands.output, job->hosts[c->output].spin, sizeof stream->operands.output);
    else
        take_pieces(job, stream, HADRON, true, stream->operands.output);
    stream->costs.misses++;
}

static void release_unified(struct job *job, struct stream *stream, const struct contraction *c) {
    if (!job->options->kept)
        prefetch(job, stream, HADRON, stream->operands.output, false);
    CHECK(cudaStreamSynchronize(stream->cuda));
    if (job->options->kept)
        return;
    copy_on_host(job, HADRON, job->hosts[c->output].spin, stream->operands.output, &stream->costs.to_host,
                 &stream->costs.bytes_to_host);
    give_pieces(job, stream, HADRON, stream->operands.output);
    give_pieces(job, stream, job->workload.nodes[c->left].role, stream->operands.left);
    give_pieces(job, stream, job->workload.nodes[c->right].role, stream->operands.right);
}

const struct memory memory_unified = {.open = open_unified, .acquire = acquire_unified, .release = release_unified};

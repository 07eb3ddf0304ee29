/* Unified memory.
 *
 * Made anew: each contraction makes managed memory for its operands and its output ("to create new memory for each
 * input pair", 3.1), which the host fills before and reads after. Kept: nodes live in managed memory that is made once,
 * and nothing is copied but by page migration. Made once, with advice and prefetches both ways, it is the baseline that
 * figure 10 of the paper can have used: 61 to 70 % of explicit memory.
 *
 * The total of managed memory stays below what is free on the card: going over can hang a card that others use, too. */
#include "examples/check.h"
#include "examples/hadron/contract.h"

#include <string.h>
#include <unistd.h>

/* The driver's answer for a range, if the whole range has one. */
static int attribute_of(uintptr_t first, uintptr_t last, enum cudaMemRangeAttribute attribute) {
    int found = cudaInvalidDeviceId;
    if (first < last)
        CHECK(cudaMemRangeGetAttribute(&found, sizeof found, attribute, (const void *)first, last - first));
    return found;
}

/* Under --check, whether the driver holds what was asked of it: without its advice and prefetches the baseline would be
 * slower than the paper's. Pieces lie side by side, and other threads ask other things of their neighbours: then only
 * the whole pages of a piece have one answer. While a neighbour is made or freed, the answer may be another one. */
static void require_attribute(struct job *job, enum role role, const void *piece, enum cudaMemRangeAttribute attribute,
                              int expected) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)piece,
                    last = first + piece_bytes(job, role);
    int found = cudaInvalidDeviceId, device = 0;
    if (!job->options->check)
        return;
    /* The query needs a current context, which a thread of OpenMP may not have yet. */
    CHECK(cudaGetDevice(&device));
    CHECK(cudaSetDevice(device));
    for (int tries = 0; tries < 1000; tries++) {
        found = attribute_of(first, last, attribute);
        if (found == expected ||
            attribute_of((first + page - 1) / page * page, last / page * page, attribute) == expected)
            return;
        usleep(1000);
    }
    fprintf(stderr, "hadron: attribute %d of managed memory is %d, not %d\n", (int)attribute, found, expected);
    exit(1);
}

static void prefetch(struct job *job, struct stream *stream, enum role role, struct complex_number *const *spin,
                     bool to_device) {
    struct cudaMemLocation place = {.type = to_device ? cudaMemLocationTypeDevice : cudaMemLocationTypeHost};
    if (to_device)
        CHECK(cudaGetDevice(&place.id));
    for (int i = 0; job->options->prefetch && i < pieces_of(job, role); i++) {
        CHECK(cudaMemPrefetchAsync(spin[i], piece_bytes(job, role), place, 0, stream->cuda));
        require_attribute(job, role, spin[i], cudaMemRangeAttributeLastPrefetchLocation,
                          to_device ? place.id : cudaCpuDeviceId);
    }
}

static void advise_read_mostly(struct job *job, enum role role, struct complex_number *const *spin) {
    struct cudaMemLocation place = {.type = cudaMemLocationTypeDevice};
    CHECK(cudaGetDevice(&place.id));
    for (int i = 0; job->options->advise && i < pieces_of(job, role); i++)
        CHECK(cudaMemAdvise(spin[i], piece_bytes(job, role), cudaMemAdviseSetReadMostly, place));
}

static void require_read_mostly(struct job *job, enum role role, struct complex_number *const *spin) {
    for (int i = 0; job->options->advise && i < pieces_of(job, role); i++)
        require_attribute(job, role, spin[i], cudaMemRangeAttributeReadMostly, 1);
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
        if (!w->nodes[i].initial)
            continue;
        advise_read_mostly(job, w->nodes[i].role, job->hosts[i].spin);
        prefetch(job, &job->streams[0], w->nodes[i].role, job->hosts[i].spin, false);
    }
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
    if (job->workload.nodes[node].initial)
        require_read_mostly(job, role, spin);
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
    if (!job->options->kept || job->options->all_results)
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

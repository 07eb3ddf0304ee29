/* Memory of nodes in pieces: one for each spin, or one for all. */
#include "examples/check.h"
#include "examples/hadron/contract.h"

#include <time.h>

double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

void spread_pieces(const struct job *job, enum role role, struct complex_number **spin) {
    if (!job->options->reorganise)
        return;
    for (int s = 1; s < job->tensors.spins[role]; s++)
        spin[s] = spin[0] + (size_t)s * job->tensors.numbers[role];
}

void count_bytes(struct job *job, long long more) {
    const size_t bytes = __atomic_add_fetch(&job->bytes, (size_t)more, __ATOMIC_RELAXED);
    size_t peak = __atomic_load_n(&job->peak, __ATOMIC_RELAXED);
    while (bytes > peak &&
           !__atomic_compare_exchange_n(&job->peak, &peak, bytes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void take_pieces(struct job *job, struct stream *stream, enum role role, bool managed, struct complex_number **spin) {
    const double begin = now();
    for (int i = 0; i < pieces_of(job, role); i++) {
        if (managed)
            CHECK(cudaMallocManaged((void **)&spin[i], piece_bytes(job, role), cudaMemAttachGlobal));
        else
            CHECK(cudaMalloc((void **)&spin[i], piece_bytes(job, role)));
        stream->costs.allocations++;
    }
    stream->costs.allocate += now() - begin;
    count_bytes(job, (long long)node_bytes(&job->tensors, role));
    spread_pieces(job, role, spin);
}

void give_pieces(struct job *job, struct stream *stream, enum role role, struct complex_number **spin) {
    const double begin = now();
    for (int i = 0; i < pieces_of(job, role); i++)
        CHECK(cudaFree(spin[i]));
    stream->costs.allocate += now() - begin;
    count_bytes(job, -(long long)node_bytes(&job->tensors, role));
    spin[0] = NULL;
}

void require_free(const char *what, uint64_t bytes) {
    size_t free_now, total;
    CHECK(cudaMemGetInfo(&free_now, &total));
    const size_t headroom = total / 20 > 512u << 20 ? total / 20 : 512u << 20;
    if (bytes + headroom > free_now) {
        fprintf(stderr, "hadron: refused: %.1f MB of %s, but %.1f MB are free on the device and %.1f MB stay free\n",
                (double)bytes / 1e6, what, (double)free_now / 1e6, (double)headroom / 1e6);
        exit(1);
    }
}

uint64_t bytes_of_all_nodes(const struct job *job) {
    const struct workload *w = &job->workload;
    uint64_t bytes = w->longest * (uint64_t)node_bytes(&job->tensors, HADRON); /* outputs without readers */
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->nodes[i].initial || w->nodes[i].readers)
            bytes += node_bytes(&job->tensors, w->nodes[i].role);
    }
    return bytes;
}

void host_take(const struct job *job, enum role role, bool managed, struct node_memory *made) {
    for (int i = 0; i < pieces_of(job, role); i++) {
        const size_t bytes = piece_bytes(job, role);
        if (managed)
            CHECK(cudaMallocManaged((void **)&made->spin[i], bytes, cudaMemAttachGlobal));
        else if (job->options->pinned)
            CHECK(cudaMallocHost((void **)&made->spin[i], bytes));
        else if (!(made->spin[i] = malloc(bytes))) {
            fprintf(stderr, "hadron: no host memory for %.1f MB\n", (double)bytes / 1e6);
            exit(1);
        }
    }
    spread_pieces(job, role, made->spin);
}

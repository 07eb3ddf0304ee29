/* Contractions on the device: what all ways to manage memory share.
 *
 * Contraction i of a vector runs in stream i. OpenMP threads drive the streams (memhc 6.1). A way to manage memory is a
 * struct memory. It places the operands of a contraction and the output, and takes them away. */
#ifndef HADRON_CONTRACT_H
#define HADRON_CONTRACT_H

#include "examples/hadron/arguments.h"
#include "examples/hadron/products.h"
#include "examples/hadron/workload.h"

enum memory_kind { UNIFIED, EXPLICIT, RESIDENT };

struct contract_options {
    const char *variant;
    enum memory_kind memory;
    /* The paper's optimisations, each by itself. `reorganise`: the spins of a node in one allocation and one transfer.
     */
    bool reorganise, on_demand_sync, duplicates, lazy_release;
    bool prefetch; /* unified: prefetches operands to the device, outputs to the host */
    bool advise;   /* unified: read-mostly advice for operands */
    bool kept;     /* unified: nodes live in managed memory; otherwise a contraction makes managed memory of its own */
    bool accumulate; /* false: the products alone */
    const char *eviction;
    uint64_t budget;                 /* bytes of copies on the device; 0: no bound of ours */
    const struct function *function; /* NULL: synthesised vectors */
    uint32_t percent, tensor, vector_size, vectors, oversubscription;
    struct rate rate;
    enum distribution distribution;
    uint32_t threads, copy_threads, loops; /* copy_threads 0: as many as gpumem takes */
    uint32_t link_slowdown;                /* transfers to the device take so many times as long; 1: as they are */
    uint64_t seed;
    bool baryon, pinned, random_mappings, own_products, all_results, check, breakdown;
};

/* A node in host or device memory; the first spin is the address of all where they are packed. NULL: none. */
struct node_memory {
    struct complex_number *spin[MAX_SPINS];
};

/* What a loop or a stream used. Seconds are of the host, but `kernel`: of the streams, which overlap. Negative:
 * unknown.
 */
struct costs {
    double allocate, to_device, to_host, transfer, evict, kernel;
    uint64_t allocations, reused, evictions, hits, misses, bytes_to_device, bytes_to_host, peak;
};

/* A stream with what its contractions need: a handle of cuBLAS, memory of the products, pointers to matrices. */
struct stream {
    cudaStream_t cuda;
    struct cublasContext *handle;
    struct complex_number *products; /* of one contraction */
    struct pointers *pointers;
    struct operands operands; /* written by acquire; `output` may be written by place */
    struct costs costs;
};

struct job {
    const struct contract_options *options;
    struct tensors tensors;
    struct workload workload;
    struct node_memory *hosts; /* by node: initial nodes, and homes of outputs that are alive */
    struct stream *streams;    /* workload.longest */
    const struct memory *memory;
    void *state; /* of the memory */
    uint64_t seed;
    struct costs costs;             /* of the loop */
    size_t bytes, peak;             /* of explicit or managed memory, by counting_take */
    cudaEvent_t *events;            /* breakdown: begin and end of each contraction */
    struct node_memory *free_homes; /* stack of homes of outputs */
    uint32_t free_home_count;
};

struct memory {
    /* Whether place and acquire go by the order of the vector, and release comes when all its contractions are
     * submitted. Otherwise one thread takes a contraction from acquire to release. */
    bool ordered;
    void (*open)(struct job *job);                      /* of one loop, not timed; may be NULL */
    void (*announce)(struct job *job, uint32_t vector); /* may be NULL */
    void (*place)(struct job *job, struct stream *stream, const struct contraction *c); /* the output; may be NULL */
    void (*acquire)(struct job *job, struct stream *stream, const struct contraction *c);
    void (*release)(struct job *job, struct stream *stream, const struct contraction *c);
    /* Brings an output to job->hosts. May be NULL: it is there. */
    void (*read)(struct job *job, uint32_t node);
    void (*end)(struct job *job, uint32_t node); /* the output is not needed any more; may be NULL */
    void (*count)(struct job *job);              /* writes job->costs, after the clock; NULL: those of the streams */
    void (*close)(struct job *job);              /* may be NULL */
};

extern const struct memory memory_plain, memory_unified, memory_residency, memory_resident;

struct outcome {
    double seconds, least, most; /* mean of the loops */
    struct costs costs;          /* seconds: mean of the loops; counts: sums; peak: most */
    uint32_t contractions;       /* of a loop */
    double operations;           /* of a loop */
    size_t compared, different;
};

/* Runs all loops. Ends the program with one line where something fails or would not fit. */
struct outcome contract_run(const struct contract_options *options);

/* ---- for the memories */

double now(void);

static inline int pieces_of(const struct job *job, enum role role) {
    return job->options->reorganise ? 1 : job->tensors.spins[role];
}

static inline size_t piece_bytes(const struct job *job, enum role role) {
    return node_bytes(&job->tensors, role) / (size_t)pieces_of(job, role);
}

/* Addresses of all spins from those of the pieces. */
void spread_pieces(const struct job *job, enum role role, struct complex_number **spin);

void count_bytes(struct job *job, long long more); /* any thread */

/* Pieces of a node by cudaMallocManaged or cudaMalloc, timed and counted in the stream. */
void take_pieces(struct job *job, struct stream *stream, enum role role, bool managed, struct complex_number **spin);
void give_pieces(struct job *job, struct stream *stream, enum role role, struct complex_number **spin);

/* Ends the program unless `bytes` of managed or device memory leave headroom in what is free: going over can hang a
 * card that others use as well. */
void require_free(const char *what, uint64_t bytes);

/* Initial nodes and the outputs that are alive at one time, at most. */
uint64_t bytes_of_all_nodes(const struct job *job);

/* Host memory of a node, in pieces; `managed`: cudaMallocManaged. */
void host_take(const struct job *job, enum role role, bool managed, struct node_memory *made);

#endif

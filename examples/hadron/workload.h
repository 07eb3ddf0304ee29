/* What is contracted in which order: vectors of independent contractions.
 *
 * Nodes are numbered. An initial node comes from the host; every other one is the output of one contraction. */
#ifndef HADRON_WORKLOAD_H
#define HADRON_WORKLOAD_H

#include "examples/hadron/tensors.h"
#include "examples/hadron/vectors.h"

struct contraction {
    uint32_t left, right, output;
};

struct node {
    bool initial;
    enum role role;
    uint32_t readers; /* contractions that take it as an operand; an output without readers is a result */
};

struct workload {
    struct node *nodes;
    uint32_t node_count;
    struct contraction *contractions;
    uint32_t contraction_count;
    uint32_t *vectors; /* vector v holds the contractions vectors[v] to vectors[v + 1] - 1 */
    uint32_t vector_count, longest;
};

/* The synthesised vectors of 6.1: `vectors` vectors after `experiment`, whose nodes are contracted with one node that
 * all share (node 0). The outputs are read by no contraction. See model.h. */
void workload_vectors(const struct experiment *experiment, uint32_t vectors, uint64_t seed, bool baryon,
                      struct workload *made);

/* A correlation function of table 4. The paper gives the number of nodes and of contractions. Their difference is taken
 * as the number of initial nodes, since nodes x bytes then is the memory that the table prints. */
struct function {
    const char *name;
    uint32_t tensor, nodes, contractions;
    uint32_t longest_loop; /* hadrons of a contraction graph, at most; at least three */
};

/* Ended by a row without a name. The first is a two-point correlator of single hadrons, ours. */
extern const struct function functions[];

/* Generates contraction graphs: closed quark loops through random initial nodes (baryon: a baryon and the mesons along
 * one of its quark lines). Edges of a graph are contracted one after the other until two hadrons are left; a product
 * that another graph has contracted already is used again, which makes repeated intermediate data. Contractions that do
 * not depend on each other form vectors of at most `vector_size`. percent: of the nodes and contractions. */
void workload_graphs(const struct function *function, uint32_t percent, uint32_t vector_size, uint64_t seed,
                     bool baryon, struct workload *made);

void workload_free(struct workload *workload);

/* malloc and calloc that end the program without memory. */
void *take(size_t count, size_t bytes);

#endif

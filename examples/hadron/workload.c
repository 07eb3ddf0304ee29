#include "examples/hadron/workload.h"
#include "policy/eviction/random_numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *take(size_t count, size_t bytes) {
    void *memory = calloc(count ? count : 1, bytes);
    if (!memory) {
        fputs("hadron: no memory\n", stderr);
        exit(1);
    }
    return memory;
}

void workload_free(struct workload *workload) {
    free(workload->nodes);
    free(workload->contractions);
    free(workload->vectors);
}

void workload_vectors(const struct experiment *experiment, uint32_t vectors, uint64_t seed, bool baryon,
                      struct workload *made) {
    const uint32_t size = experiment->vector_size, count = vectors * size;
    uint32_t *vector = take(3 * (size_t)size, sizeof *vector), next_node = 1;
    uint64_t random = seed;
    *made = (struct workload){.contractions = take(count, sizeof *made->contractions),
                              .contraction_count = count,
                              .vectors = take(vectors + 1, sizeof *made->vectors),
                              .vector_count = vectors,
                              .longest = size};
    for (uint32_t i = 0; i < size; i++)
        vector[i] = next_node++;
    for (uint32_t v = 0; v < vectors; v++) {
        if (v)
            next_vector(experiment, &random, vector, &next_node, vector + size);
        for (uint32_t i = 0; i < size; i++)
            made->contractions[v * size + i] = (struct contraction){.left = vector[i], .right = 0};
        made->vectors[v + 1] = (v + 1) * size;
    }
    made->node_count = next_node + count;
    made->nodes = take(made->node_count, sizeof *made->nodes);
    for (uint32_t i = 0; i < next_node; i++)
        made->nodes[i].initial = true;
    made->nodes[0].role = baryon ? RIGHT_MESON : HADRON;
    for (uint32_t i = 0; i < count; i++) {
        made->contractions[i].output = next_node + i;
        made->nodes[made->contractions[i].left].readers++;
        made->nodes[0].readers++;
    }
    free(vector);
}

/* ---- contraction graphs */

enum { SHORTEST_LOOP = 3, LONGEST_LOOP = 6 };

const struct function functions[] = {{"two_point", 128, 36, 12, 3},
                                     {"a1_rhopi", 128, 106, 68, 5},
                                     {"f0d2", 256, 2173, 1968, LONGEST_LOOP},
                                     {"f0d4", 256, 2173, 1970, LONGEST_LOOP},
                                     {NULL, 0, 0, 0, 0}};

struct generator {
    struct workload *made;
    uint32_t initial, contractions; /* wanted */
    uint32_t mesons;                /* baryon: initial nodes from here on are mesons; else 0 */
    uint32_t longest_loop;
    uint64_t random;
    uint32_t *level;             /* by node: contractions before it that depend on each other */
    uint32_t *table, table_size; /* open addressing: contraction + 1 by operands */
};

/* Place in the table of the product, whether it is there or not. */
static uint32_t *find_product(struct generator *g, uint32_t left, uint32_t right) {
    uint64_t at = ((uint64_t)left * 0x9E3779B1u + right) * 0x85EBCA77u % g->table_size;
    for (;; at = (at + 1) % g->table_size) {
        const uint32_t found = g->table[at];
        if (!found)
            return &g->table[at];
        const struct contraction *c = &g->made->contractions[found - 1];
        if (c->left == left && c->right == right)
            return &g->table[at];
    }
}

static uint32_t contract(struct generator *g, uint32_t left, uint32_t right) {
    struct workload *made = g->made;
    uint32_t *place = find_product(g, left, right);
    if (*place)
        return made->contractions[*place - 1].output;
    const uint32_t at = made->contraction_count++, output = g->initial + at;
    made->contractions[at] = (struct contraction){left, right, output};
    made->nodes[left].readers++;
    made->nodes[right].readers++;
    g->level[output] = 1 + (g->level[left] > g->level[right] ? g->level[left] : g->level[right]);
    *place = at + 1;
    return output;
}

static bool is_among(const uint32_t *loop, uint32_t length, uint32_t node) {
    for (uint32_t i = 0; i < length; i++) {
        if (loop[i] == node)
            return true;
    }
    return false;
}

/* The first initial node of a kind that no contraction has and the loop has not either; else any. */
static uint32_t draw_node(struct generator *g, uint32_t first, uint32_t end, const uint32_t *loop, uint32_t length) {
    for (uint32_t node = first; node < end; node++) {
        if (!g->made->nodes[node].readers && !is_among(loop, length, node))
            return node;
    }
    return first + gm_random_below(&g->random, end - first);
}

/* The edge to contract: one whose product exists already, else any. */
static uint32_t choose_edge(struct generator *g, const uint32_t *loop, uint32_t length) {
    for (uint32_t i = 0; i + 1 < length; i++) {
        if (*find_product(g, loop[i], loop[i + 1]))
            return i;
    }
    return g->mesons ? 0 : gm_random_below(&g->random, length - 1);
}

static void add_graph(struct generator *g) {
    uint32_t loop[LONGEST_LOOP],
        length = SHORTEST_LOOP + gm_random_below(&g->random, g->longest_loop - SHORTEST_LOOP + 1);
    for (uint32_t i = 0; i < length; i++) {
        const bool meson = g->mesons && i;
        loop[i] = draw_node(g, meson ? g->mesons : 0, meson || !g->mesons ? g->initial : g->mesons, loop, i);
    }
    for (; length > 2 && g->made->contraction_count < g->contractions; length--) {
        const uint32_t edge = choose_edge(g, loop, length);
        loop[edge] = contract(g, loop[edge], loop[edge + 1]);
        memmove(loop + edge + 1, loop + edge + 2, (length - edge - 2) * sizeof *loop);
    }
}

/* Orders the contractions by level, and cuts each level into vectors. */
static void cut_into_vectors(struct generator *g, uint32_t vector_size) {
    struct workload *made = g->made;
    const uint32_t count = made->contraction_count;
    struct contraction *ordered = take(count, sizeof *ordered);
    uint32_t placed = 0;
    made->vectors = take(count + 1, sizeof *made->vectors);
    for (uint32_t level = 1; placed < count; level++) {
        uint32_t in_vector = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (g->level[made->contractions[i].output] != level)
                continue;
            ordered[placed++] = made->contractions[i];
            if (++in_vector == 1)
                made->vector_count++;
            made->vectors[made->vector_count] = placed;
            made->longest = in_vector > made->longest ? in_vector : made->longest;
            in_vector %= vector_size;
        }
    }
    free(made->contractions);
    made->contractions = ordered;
}

void workload_graphs(const struct function *function, uint32_t percent, uint32_t vector_size, uint64_t seed,
                     bool baryon, struct workload *made) {
    const uint32_t contractions =
        function->contractions * percent / 100 > 1 ? function->contractions * percent / 100 : 1;
    const uint32_t wanted = (function->nodes - function->contractions) * percent / 100;
    const uint32_t initial = wanted > 4 ? wanted : 4, nodes = initial + contractions;
    struct generator g = {.made = made,
                          .initial = initial,
                          .contractions = contractions,
                          .mesons = baryon ? initial / 2 : 0,
                          .longest_loop = function->longest_loop,
                          .random = seed,
                          .level = take(nodes, sizeof *g.level),
                          .table_size = 4 * contractions + 1};
    g.table = take(g.table_size, sizeof *g.table);
    *made = (struct workload){.nodes = take(nodes, sizeof *made->nodes),
                              .node_count = nodes,
                              .contractions = take(contractions, sizeof *made->contractions)};
    for (uint32_t i = 0; i < initial; i++)
        made->nodes[i] = (struct node){.initial = true, .role = g.mesons && i >= g.mesons ? RIGHT_MESON : HADRON};
    while (made->contraction_count < contractions)
        add_graph(&g);
    cut_into_vectors(&g, vector_size);
    free(g.level);
    free(g.table);
}

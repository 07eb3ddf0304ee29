// Shortest paths by rounds of relaxation over a list of vertices whose distance changed. A vertex may stand in the list
// many times, so its length has no useful bound beforehand: it grows, in place by default, with "copy" by a larger
// block and a copy. Checks its distances, and prints what the search and its growth took.

#include "../growing.h"

enum { FAR = 1 << 29 };

// Appends each vertex that came nearer, as often as it did, while there is room; counts them all.
__global__ void relax(const int *rows, const int *columns, const int *weights, int *distance, const int *list,
                      int length, int *next, int room, int *count) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < length; i += gridDim.x * blockDim.x) {
        int v = list[i], far = distance[v];
        for (int e = rows[v]; e < rows[v + 1]; e++)
            if (far + weights[e] < atomicMin(&distance[columns[e]], far + weights[e])) {
                int at = atomicAdd(count, 1);
                if (at < room)
                    next[at] = columns[e];
            }
    }
}

// What did not fit: all vertices that changed are listed again, now that there is room for them.
__global__ void list_changed(const int *distance, const int *before, int vertices, int *next, int *count) {
    for (int v = blockIdx.x * blockDim.x + threadIdx.x; v < vertices; v += gridDim.x * blockDim.x)
        if (distance[v] != before[v])
            next[atomicAdd(count, 1)] = v;
}

static void reference(const struct graph *graph, int source, int *distance) {
    for (int v = 0; v < graph->vertices; v++)
        distance[v] = FAR;
    distance[source] = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (int v = 0; v < graph->vertices; v++)
            for (int e = graph->rows[v]; e < graph->rows[v + 1]; e++)
                if (distance[v] < FAR && distance[v] + graph->weights[e] < distance[graph->columns[e]]) {
                    distance[graph->columns[e]] = distance[v] + graph->weights[e];
                    changed = true;
                }
    }
}

struct search {
    const int *rows, *columns, *weights;
    int *distance, *before, *count;
    int vertices, rounds, listed;
};

static const int source = 0;

static int read_count(const struct search *s) {
    int count;
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&count, s->count, sizeof count, cudaMemcpyDeviceToHost));
    return count;
}

static void run(struct search *s, struct growing *lists) {
    for (int i = 0; i < 2; i++)
        growing_reserve(&lists[i], 1024, 0);
    CHECK(cudaMemcpy(lists[0].items, &source, sizeof source, cudaMemcpyHostToDevice));
    s->listed = s->rounds = 0;
    for (int length = 1; length; s->rounds++) {
        struct growing *list = &lists[s->rounds % 2], *next = &lists[1 - s->rounds % 2];
        CHECK(cudaMemcpy(s->before, s->distance, s->vertices * sizeof(int), cudaMemcpyDeviceToDevice));
        CHECK(cudaMemset(s->count, 0, sizeof(int)));
        relax<<<(length + 255) / 256, 256>>>(s->rows, s->columns, s->weights, s->distance, list->items, length,
                                             next->items, (int)next->capacity, s->count);
        length = read_count(s);
        if ((size_t)length > next->capacity) {
            growing_reserve(next, length, 0);
            CHECK(cudaMemset(s->count, 0, sizeof(int)));
            list_changed<<<(s->vertices + 255) / 256, 256>>>(s->distance, s->before, s->vertices, next->items,
                                                             s->count);
            length = read_count(s);
        }
        s->listed += length;
    }
}

int main(int argc, char **argv) {
    struct growing_options options = growing_arguments(argc, argv, 1 << 17);
    int vertices = options.vertices, wrong = 0;
    struct graph graph = graph_make(vertices, 6);
    int *rows = graph_upload(graph.rows, vertices + 1), *columns = graph_upload(graph.columns, graph.edges);
    int *weights = graph_upload(graph.weights, graph.edges);
    int *expected = (int *)malloc(vertices * sizeof(int)), *got = (int *)malloc(vertices * sizeof(int));
    struct search search = {rows, columns, weights, NULL, NULL, NULL, vertices, 0, 0};
    CHECK(cudaMalloc(&search.distance, vertices * sizeof(int)));
    CHECK(cudaMalloc(&search.before, vertices * sizeof(int)));
    CHECK(cudaMalloc(&search.count, sizeof(int)));
    reference(&graph, source, expected);
    // Loads the kernels, so that the memory of their code is not counted.
    relax<<<1, 32>>>(rows, columns, weights, search.distance, search.before, 0, search.before, 0, search.count);
    list_changed<<<1, 32>>>(search.distance, search.before, 0, search.before, search.count);
    CHECK(cudaGetLastError());
    for (int i = 0; i < options.searches; i++) {
        struct growing lists[2];
        for (int v = 0; v < vertices; v++)
            got[v] = v == source ? 0 : FAR;
        CHECK(cudaMemcpy(search.distance, got, vertices * sizeof(int), cudaMemcpyHostToDevice));
        growing_begin();
        for (int k = 0; k < 2; k++)
            growing_open(&lists[k], options.in_place);
        run(&search, lists);
        growing_end();
        CHECK(cudaMemcpy(got, search.distance, vertices * sizeof(int), cudaMemcpyDeviceToHost));
        for (int v = 0; v < vertices; v++)
            wrong += got[v] != expected[v];
        for (int k = 0; k < 2; k++)
            growing_close(&lists[k]);
    }
    printf("sssp: %s, %d vertices, %d edges, %d listed in %d rounds, %d wrong\n",
           options.in_place ? "in place" : "copy", vertices, graph.edges, search.listed, search.rounds, wrong);
    CHECK(cudaFree(rows));
    CHECK(cudaFree(columns));
    CHECK(cudaFree(weights));
    CHECK(cudaFree(search.distance));
    CHECK(cudaFree(search.before));
    CHECK(cudaFree(search.count));
    return wrong != 0;
}

// Breadth-first search that keeps every frontier, one behind the other, in one array: how large it gets is known only
// when the search has ended, so it grows as it goes. In place by default, with "copy" by a larger block and a copy each
// time. Checks its distances, and prints what the search and its growth took.
#include <string.h>

#include "../growing.h"

// Appends the vertices that are reached for the first time; `visited[v]` is the distance or -1.
__global__ void expand(const int *rows, const int *columns, int *visited, int *order, int first, int last, int distance,
                       int *count) {
    for (int i = first + blockIdx.x * blockDim.x + threadIdx.x; i < last; i += gridDim.x * blockDim.x) {
        int v = order[i];
        for (int e = rows[v]; e < rows[v + 1]; e++)
            if (atomicCAS(&visited[columns[e]], -1, distance) == -1)
                order[atomicAdd(count, 1)] = columns[e];
    }
}

// Room that the next frontier needs at most: the edges that leave this one.
__global__ void sum_degrees(const int *rows, const int *order, int first, int last, int *sum) {
    for (int i = first + blockIdx.x * blockDim.x + threadIdx.x; i < last; i += gridDim.x * blockDim.x)
        atomicAdd(sum, rows[order[i] + 1] - rows[order[i]]);
}

static void reference(const struct graph *graph, int source, int *distance) {
    int *queue = (int *)malloc(graph->vertices * sizeof(int)), head = 0, tail = 0;
    memset(distance, -1, graph->vertices * sizeof(int));
    distance[source] = 0;
    queue[tail++] = source;
    while (head < tail) {
        int v = queue[head++];
        for (int e = graph->rows[v]; e < graph->rows[v + 1]; e++)
            if (distance[graph->columns[e]] < 0) {
                distance[graph->columns[e]] = distance[v] + 1;
                queue[tail++] = graph->columns[e];
            }
    }
    free(queue);
}

struct search {
    const int *rows, *columns;
    int *visited, *numbers;
    int vertices, reached, rounds;
};

static const int source = 0, zero = 0;

static void run(struct search *s, struct growing *order) {
    CHECK(cudaMemset(s->visited, -1, s->vertices * sizeof(int)));
    CHECK(cudaMemcpy(s->visited + source, &zero, sizeof zero, cudaMemcpyHostToDevice));
    growing_reserve(order, 1, 0);
    CHECK(cudaMemcpy(order->items, &source, sizeof source, cudaMemcpyHostToDevice));
    int first = 0, last = 1;
    for (s->rounds = 0; first < last;) {
        int room = 0, blocks = (last - first + 255) / 256;
        CHECK(cudaMemset(s->numbers, 0, sizeof(int)));
        sum_degrees<<<blocks, 256>>>(s->rows, order->items, first, last, s->numbers);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&room, s->numbers, sizeof room, cudaMemcpyDeviceToHost));
        growing_reserve(order, (size_t)last + room, last);
        CHECK(cudaMemcpy(s->numbers, &last, sizeof last, cudaMemcpyHostToDevice));
        expand<<<blocks, 256>>>(s->rows, s->columns, s->visited, order->items, first, last, ++s->rounds, s->numbers);
        CHECK(cudaGetLastError());
        first = last;
        CHECK(cudaMemcpy(&last, s->numbers, sizeof last, cudaMemcpyDeviceToHost));
    }
    s->reached = last;
}

int main(int argc, char **argv) {
    struct growing_options options = growing_arguments(argc, argv, 1 << 20);
    int vertices = options.vertices, wrong = 0;
    struct graph graph = graph_make(vertices, 6);
    int *rows = graph_upload(graph.rows, vertices + 1), *columns = graph_upload(graph.columns, graph.edges);
    int *expected = (int *)malloc(vertices * sizeof(int)), *got = (int *)malloc(vertices * sizeof(int));
    struct search search = {rows, columns, NULL, NULL, vertices, 0, 0};
    CHECK(cudaMalloc(&search.visited, vertices * sizeof(int)));
    CHECK(cudaMalloc(&search.numbers, 2 * sizeof(int)));
    reference(&graph, source, expected);
    // Loads the kernels, so that the memory of their code is not counted.
    CHECK(cudaMemset(search.numbers, 0, 2 * sizeof(int)));
    sum_degrees<<<1, 32>>>(rows, search.visited, 0, 0, search.numbers);
    expand<<<1, 32>>>(rows, columns, search.visited, search.visited, 0, 0, 0, search.numbers);
    CHECK(cudaGetLastError());
    for (int i = 0; i < options.searches; i++) {
        struct growing order;
        growing_begin();
        growing_open(&order, options.in_place);
        run(&search, &order);
        growing_end();
        CHECK(cudaMemcpy(got, search.visited, vertices * sizeof(int), cudaMemcpyDeviceToHost));
        for (int v = 0; v < vertices; v++)
            wrong += got[v] != expected[v];
        growing_close(&order);
    }
    printf("bfs_frontier: %s, %d vertices, %d edges, %d reached in %d rounds, %d wrong\n",
           options.in_place ? "in place" : "copy", vertices, graph.edges, search.reached, search.rounds, wrong);
    CHECK(cudaFree(search.visited));
    CHECK(cudaFree(search.numbers));
    CHECK(cudaFree(rows));
    CHECK(cudaFree(columns));
    return wrong != 0;
}

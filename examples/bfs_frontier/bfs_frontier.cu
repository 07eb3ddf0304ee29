// Breadth-first search that keeps every frontier, one behind the other, in one array: how large it gets is known only
// when the search has ended, so it grows as it goes. In place by default, with "copy" by a larger block and a copy each
// time. Checks its distances.
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

int main(int argc, char **argv) {
    int vertices = 1 << 20;
    bool in_place = growing_arguments(argc, argv, &vertices);
    const int source = 0, zero = 0;
    struct graph graph = graph_make(vertices, 6);
    struct growing order;
    int *rows = graph_upload(graph.rows, vertices + 1), *columns = graph_upload(graph.columns, graph.edges), *visited,
        *numbers;
    CHECK(cudaMalloc(&visited, vertices * sizeof(int)));
    CHECK(cudaMalloc(&numbers, 2 * sizeof(int)));
    CHECK(cudaMemset(visited, -1, vertices * sizeof(int)));
    CHECK(cudaMemcpy(visited + source, &zero, sizeof zero, cudaMemcpyHostToDevice));
    growing_open(&order, in_place);
    growing_reserve(&order, 1, 0);
    CHECK(cudaMemcpy(order.items, &source, sizeof source, cudaMemcpyHostToDevice));

    int first = 0, last = 1, rounds = 0;
    while (first < last) {
        int room = 0, blocks = (last - first + 255) / 256;
        CHECK(cudaMemset(numbers, 0, sizeof(int)));
        sum_degrees<<<blocks, 256>>>(rows, order.items, first, last, numbers);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&room, numbers, sizeof room, cudaMemcpyDeviceToHost));
        growing_reserve(&order, (size_t)last + room, last);
        CHECK(cudaMemcpy(numbers, &last, sizeof last, cudaMemcpyHostToDevice));
        expand<<<blocks, 256>>>(rows, columns, visited, order.items, first, last, ++rounds, numbers);
        CHECK(cudaGetLastError());
        first = last;
        CHECK(cudaMemcpy(&last, numbers, sizeof last, cudaMemcpyDeviceToHost));
    }

    int *expected = (int *)malloc(vertices * sizeof(int)), *got = (int *)malloc(vertices * sizeof(int)), wrong = 0;
    reference(&graph, source, expected);
    CHECK(cudaMemcpy(got, visited, vertices * sizeof(int), cudaMemcpyDeviceToHost));
    for (int v = 0; v < vertices; v++)
        wrong += got[v] != expected[v];
    printf("bfs_frontier: %s, %d vertices reached in %d rounds, %zu growths, %zu bytes copied, %d wrong\n",
           in_place ? "in place" : "copy", last, rounds, order.steps, order.copied, wrong);
    growing_close(&order);
    CHECK(cudaFree(visited));
    CHECK(cudaFree(numbers));
    CHECK(cudaFree(rows));
    CHECK(cudaFree(columns));
    return wrong != 0;
}

// Shortest paths by rounds of relaxation over a list of vertices whose distance changed. A vertex may stand in the list
// many times, so its length has no useful bound beforehand: it grows, in place by default, with "copy" by a larger
// block and a copy. Checks its distances.

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

int main(int argc, char **argv) {
    int vertices = 1 << 17;
    bool in_place = growing_arguments(argc, argv, &vertices);
    const int source = 0;
    struct graph graph = graph_make(vertices, 6);
    struct growing lists[2];
    int *rows = graph_upload(graph.rows, vertices + 1), *columns = graph_upload(graph.columns, graph.edges);
    int *weights = graph_upload(graph.weights, graph.edges), *distance, *before, *count;
    int *expected = (int *)malloc(vertices * sizeof(int)), *got = (int *)malloc(vertices * sizeof(int));
    for (int v = 0; v < vertices; v++)
        got[v] = v == source ? 0 : FAR;
    distance = graph_upload(got, vertices);
    CHECK(cudaMalloc(&before, vertices * sizeof(int)));
    CHECK(cudaMalloc(&count, sizeof(int)));
    for (int i = 0; i < 2; i++) {
        growing_open(&lists[i], in_place);
        growing_reserve(&lists[i], 1024, 0);
    }
    CHECK(cudaMemcpy(lists[0].items, &source, sizeof source, cudaMemcpyHostToDevice));

    int length = 1, rounds = 0, listed = 0;
    for (; length; rounds++) {
        struct growing *list = &lists[rounds % 2], *next = &lists[1 - rounds % 2];
        CHECK(cudaMemcpy(before, distance, vertices * sizeof(int), cudaMemcpyDeviceToDevice));
        CHECK(cudaMemset(count, 0, sizeof(int)));
        relax<<<(length + 255) / 256, 256>>>(rows, columns, weights, distance, list->items, length, next->items,
                                             (int)next->capacity, count);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(&length, count, sizeof length, cudaMemcpyDeviceToHost));
        if ((size_t)length > next->capacity) {
            growing_reserve(next, length, 0);
            CHECK(cudaMemset(count, 0, sizeof(int)));
            list_changed<<<(vertices + 255) / 256, 256>>>(distance, before, vertices, next->items, count);
            CHECK(cudaGetLastError());
            CHECK(cudaMemcpy(&length, count, sizeof length, cudaMemcpyDeviceToHost));
        }
        listed += length;
    }

    int wrong = 0;
    reference(&graph, source, expected);
    CHECK(cudaMemcpy(got, distance, vertices * sizeof(int), cudaMemcpyDeviceToHost));
    for (int v = 0; v < vertices; v++)
        wrong += got[v] != expected[v];
    printf("sssp: %s, %d vertices, %d listed in %d rounds, %zu growths, %zu bytes copied, %d wrong\n",
           in_place ? "in place" : "copy", vertices, listed, rounds, lists[0].steps + lists[1].steps,
           lists[0].copied + lists[1].copied, wrong);
    for (int i = 0; i < 2; i++)
        growing_close(&lists[i]);
    CHECK(cudaFree(rows));
    CHECK(cudaFree(columns));
    CHECK(cudaFree(weights));
    CHECK(cudaFree(distance));
    CHECK(cudaFree(before));
    CHECK(cudaFree(count));
    return wrong != 0;
}

// An array of vertices that grows while a search runs, in either of two ways: in place, or by a larger block and a
// copy.
#ifndef EXAMPLES_GROWING_H
#define EXAMPLES_GROWING_H

#include <string.h>

#include "check.h"
#include "shim/gpumem.h"

#define GROW_OK(call)                                                                                      \
    do {                                                                                                   \
        enum gpumem_status status_ = (call);                                                               \
        if (status_) {                                                                                     \
            fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, gpumem_status_name(status_), \
                    gpumem_last_error());                                                                  \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

struct growing {
    int *items;
    size_t capacity;              // elements
    struct gpumem_region *region; // NULL: by copying
    size_t copied, steps;         // bytes, times that it grew
};

// PROGRAM [in-place|copy [VERTICES]]: whether it grows in place; *vertices stays as it is where none are given.
static bool growing_arguments(int argc, char **argv, int *vertices) {
    const char *way = argc > 1 ? argv[1] : "in-place";
    char *end = NULL;
    long count = argc > 2 ? strtol(argv[2], &end, 10) : *vertices;
    if (argc > 3 || (strcmp(way, "in-place") && strcmp(way, "copy")) || (end && *end) || count < 64 ||
        count > 1 << 26) {
        fprintf(stderr, "%s: '%s' is none of: in-place|copy [VERTICES from 64 to %d]\n", argv[0],
                argc > 3 ? argv[3]
                : end    ? argv[2]
                         : way,
                1 << 26);
        exit(2);
    }
    *vertices = (int)count;
    return strcmp(way, "copy") != 0;
}

static void growing_open(struct growing *array, bool in_place) {
    *array = growing();
    if (in_place)
        GROW_OK(gpumem_region_create(NULL, &array->region));
}

// Room for `count` elements; `used` of them are kept.
static void growing_reserve(struct growing *array, size_t count, size_t used) {
    if (count <= array->capacity)
        return;
    array->steps++;
    if (array->region) {
        struct gpumem_view view = {};
        view.struct_size = sizeof view;
        GROW_OK(gpumem_region_grow(array->region, count * sizeof(int)));
        gpumem_region_view(array->region, &view);
        array->items = (int *)view.base;
        array->capacity = view.mapped / sizeof(int);
        return;
    }
    int *larger;
    CHECK(cudaMalloc(&larger, count * sizeof(int)));
    if (used)
        CHECK(cudaMemcpy(larger, array->items, used * sizeof(int), cudaMemcpyDeviceToDevice));
    CHECK(cudaFree(array->items));
    array->copied += used * sizeof(int);
    array->items = larger;
    array->capacity = count;
}

static void growing_close(struct growing *array) {
    if (array->region)
        GROW_OK(gpumem_region_destroy(array->region));
    else
        CHECK(cudaFree(array->items));
}

// A graph with a wide range of degrees, the same every time: `edges` per vertex on average, most of them to low
// numbers.
struct graph {
    int vertices, edges;
    int *rows, *columns, *weights; // rows[vertices + 1]
};

static unsigned graph_random(unsigned *state) { return *state = *state * 1664525u + 1013904223u, *state >> 8; }

static struct graph graph_make(int vertices, int degree) {
    struct graph made = {vertices, 0, NULL, NULL, NULL};
    unsigned state = 12345;
    made.rows = (int *)malloc((vertices + 1) * sizeof(int));
    made.columns = (int *)malloc((size_t)vertices * degree * 4 * sizeof(int));
    made.weights = (int *)malloc((size_t)vertices * degree * 4 * sizeof(int));
    for (int v = 0; v < vertices; v++) {
        int count = 1 + graph_random(&state) % (v % 16 == 0 ? 4 * degree - 1 : degree);
        made.rows[v] = made.edges;
        for (int e = 0; e < count; e++) {
            // Near by number, so that the search has many rounds; one in eight goes far.
            int reach = graph_random(&state) % 8 ? vertices / 64 : vertices;
            made.columns[made.edges] = (v + 1 + graph_random(&state) % reach) % vertices;
            made.weights[made.edges++] = 1 + graph_random(&state) % 15;
        }
    }
    made.rows[vertices] = made.edges;
    return made;
}

static int *graph_upload(const int *host, size_t count) {
    int *device;
    CHECK(cudaMalloc(&device, count * sizeof(int)));
    CHECK(cudaMemcpy(device, host, count * sizeof(int), cudaMemcpyHostToDevice));
    return device;
}

#endif

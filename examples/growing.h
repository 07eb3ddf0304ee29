// An array of vertices that grows while a search runs, in either of two ways: in place, or by a larger block and a
// copy; and what its growth takes.
#ifndef EXAMPLES_GROWING_H
#define EXAMPLES_GROWING_H

#include <chrono>
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
};

// Of one search. `peak`: the most bytes of the device in use beyond those before the first search, looked at whenever
// an array grows; these looks are not part of the times.
struct growing_costs {
    double begin, looking, growing_ms;
    size_t peak, copied, steps;
};
static struct growing_costs growing_costs;
static size_t growing_before;

static double growing_now_ms(void) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static size_t growing_used(void) {
    size_t unused, total;
    CHECK(cudaMemGetInfo(&unused, &total));
    return total - unused;
}

static void growing_look(void) {
    double begin = growing_now_ms();
    size_t used = growing_used();
    if (used > growing_before && used - growing_before > growing_costs.peak)
        growing_costs.peak = used - growing_before;
    growing_costs.looking += growing_now_ms() - begin;
}

static void growing_begin(void) {
    CHECK(cudaDeviceSynchronize());
    growing_costs = {};
    if (!growing_before)
        growing_before = growing_used();
    growing_costs.begin = growing_now_ms();
}

// Prints what the search took since growing_begin().
static void growing_end(void) {
    CHECK(cudaDeviceSynchronize());
    printf("search: ms=%.4f growing_ms=%.4f growths=%zu copied=%zu peak_bytes=%zu\n",
           growing_now_ms() - growing_costs.begin - growing_costs.looking, growing_costs.growing_ms,
           growing_costs.steps, growing_costs.copied, growing_costs.peak);
}

struct growing_options {
    bool in_place;
    int vertices, searches;
};

static bool growing_number(const char *text, long most, long least, int *value) {
    char *end;
    long number = strtol(text, &end, 10);
    *value = (int)number;
    return end != text && !*end && number >= least && number <= most;
}

// PROGRAM [in-place|copy [VERTICES [SEARCHES]]]
static struct growing_options growing_arguments(int argc, char **argv, int vertices) {
    struct growing_options options = {true, vertices, 1};
    const int most = 1 << 26;
    const char *way = argc > 1 ? argv[1] : "in-place", *wrong = NULL;
    options.in_place = strcmp(way, "copy") != 0;
    if (options.in_place && strcmp(way, "in-place"))
        wrong = way;
    else if (argc > 2 && !growing_number(argv[2], most, 64, &options.vertices))
        wrong = argv[2];
    else if (argc > 3 && !growing_number(argv[3], 1000, 1, &options.searches))
        wrong = argv[3];
    else if (argc > 4)
        wrong = argv[4];
    if (wrong) {
        fprintf(stderr, "%s: '%s' is none of: in-place|copy [VERTICES from 64 to %d [SEARCHES from 1 to 1000]]\n",
                argv[0], wrong, most);
        exit(2);
    }
    return options;
}

static void growing_open(struct growing *array, bool in_place) {
    *array = growing();
    if (in_place)
        GROW_OK(gpumem_region_create(NULL, &array->region));
}

static void growing_map(struct growing *array, size_t count) {
    struct gpumem_view view = {};
    view.struct_size = sizeof view;
    GROW_OK(gpumem_region_grow(array->region, count * sizeof(int)));
    gpumem_region_view(array->region, &view);
    array->items = (int *)view.base;
    array->capacity = view.mapped / sizeof(int);
    growing_look();
}

static void growing_copy(struct growing *array, size_t count, size_t used) {
    int *larger;
    CHECK(cudaMalloc(&larger, count * sizeof(int)));
    growing_look();
    if (used)
        CHECK(cudaMemcpy(larger, array->items, used * sizeof(int), cudaMemcpyDeviceToDevice));
    CHECK(cudaFree(array->items));
    growing_costs.copied += used * sizeof(int);
    array->items = larger;
    array->capacity = count;
}

// Room for `count` elements; `used` of them are kept.
static void growing_reserve(struct growing *array, size_t count, size_t used) {
    if (count <= array->capacity)
        return;
    double begin = growing_now_ms(), looking = growing_costs.looking;
    if (array->region)
        growing_map(array, count);
    else
        growing_copy(array, count, used);
    growing_costs.steps++;
    growing_costs.growing_ms += growing_now_ms() - begin - (growing_costs.looking - looking);
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

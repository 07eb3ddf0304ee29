#include "examples/hadron/model.h"
#include "examples/hadron/vectors.h"

#include <stdlib.h>

enum { OTHER_ALLOCATIONS = 3, SHARED = 0 };

/* A device of `capacity` places of one size. */
struct device {
    struct gm_eviction *eviction;
    uint32_t capacity, used; /* places allocated: tensors and the free pool */
    uint32_t pool;           /* released lazily */
    struct counts *counts;
};

static void evict_one(struct device *device) {
    uint32_t victim;
    if (gm_eviction_choose(device->eviction, &victim) || gm_eviction_remove(device->eviction, victim, true))
        abort(); /* a node of the vector before can always go */
    device->used--;
    device->counts->evictions++;
}

/* Memory for a tensor: from the free pool, else allocated, after an eviction where the device is full. */
static void place(struct device *device) {
    if (device->pool) {
        device->pool--;
        return;
    }
    if (device->used == device->capacity)
        evict_one(device);
    device->used++;
    device->counts->allocate++;
}

/* A tensor is used next: it is pinned afterwards. */
static void acquire(struct device *device, uint32_t tensor) {
    if (!gm_eviction_hit(device->eviction, tensor)) {
        device->counts->hit++;
    } else {
        device->counts->miss++;
        place(device);
        gm_eviction_insert(device->eviction, tensor, 1);
    }
    gm_eviction_pin(device->eviction, tensor);
}

static void release_output(struct device *device, uint32_t tensor) {
    gm_eviction_unpin(device->eviction, tensor);
    gm_eviction_remove(device->eviction, tensor, false);
    device->pool++;
}

static void contract_vector(struct device *device, const uint32_t *nodes, uint32_t size, uint32_t first_output) {
    gm_eviction_announce(device->eviction, nodes, size);
    for (uint32_t i = 0; i < size; i++)
        acquire(device, first_output + i);
    for (uint32_t i = 0; i < size; i++) {
        acquire(device, SHARED);
        acquire(device, nodes[i]);
    }
    for (uint32_t i = 0; i < size; i++) {
        gm_eviction_unpin(device->eviction, SHARED);
        gm_eviction_unpin(device->eviction, nodes[i]);
        release_output(device, first_output + i);
    }
}

static void *allocate(size_t bytes, void *user) { return malloc(bytes); }

static void release(void *memory, size_t bytes, void *user) { free(memory); }

bool model_loop(const struct experiment *experiment, uint64_t seed, struct counts *counts) {
    const uint32_t size = experiment->vector_size, vectors = 1 + experiment->more_vectors, tensors = vectors * size;
    const uint32_t capacity = 2 * size + 1;
    uint32_t *nodes = malloc(3 * (size_t)size * sizeof *nodes), next_node = SHARED + 1;
    struct device device = {.capacity = capacity, .counts = counts};
    const struct gm_eviction_setup setup = {.policy = experiment->policy,
                                            .objects = 1 + 2 * tensors,
                                            .window = size,
                                            .capacity = capacity,
                                            .seed = seed,
                                            .allocate = allocate,
                                            .release = release};
    if (!nodes || gm_eviction_open(&setup, &device.eviction)) {
        free(nodes);
        return false;
    }
    uint64_t random = seed;
    for (uint32_t i = 0; i < size; i++)
        nodes[i] = next_node++;
    for (uint32_t i = 0; i < vectors; i++) {
        if (i)
            next_vector(experiment, &random, nodes, &next_node, nodes + size);
        contract_vector(&device, nodes, size, 1 + tensors + i * size);
    }
    counts->allocate += OTHER_ALLOCATIONS;
    gm_eviction_close(device.eviction);
    free(nodes);
    return true;
}

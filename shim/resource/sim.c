/* Resource "sim": made-up device addresses, so that everything above the resources can be tested without a GPU. There
 * is no memory at these addresses. A new block gets the next address. A request of the same rounded size reuses the
 * block that was freed last. */
#include "shim/resource/sim.h"

#include "shim/base/nodes.h"
#include "shim/resource/block.h"
#include "shim/resource/rows.h"

#define ALIGNMENT ((uint64_t)512)
#define BASE      ((uint64_t)0x7d0000000000) /* about where device memory lies */

enum { BUCKETS = 4096 };

struct node {
    struct node *next;
    uint64_t address, bytes; /* rounded */
    uint64_t context_id;
};

/* A failure to come: counts down the calls and fires once. */
struct trap {
    uint64_t remaining;
    gm_status status;
};

struct state {
    gm_spin lock;
    uint64_t bumped, memory, live_bytes, live_count;
    struct trap alloc_trap, free_trap;
    gm_nodes spare;
    struct node *live[BUCKETS]; /* by address */
    struct node *idle[BUCKETS]; /* by size */
};

static unsigned bucket(uint64_t value) { return (unsigned)(value / ALIGNMENT * 0x9e3779b97f4a7c15ull >> 52) % BUCKETS; }

static bool fires(struct trap *trap) { return trap->remaining && !--trap->remaining; }

static struct node *unlink_idle(struct state *state, uint64_t bytes) {
    for (struct node **link = &state->idle[bucket(bytes)]; *link; link = &(*link)->next)
        if ((*link)->bytes == bytes) {
            struct node *node = *link;
            *link = node->next;
            return node;
        }
    return NULL;
}

static gm_status allocate(struct state *state, uint64_t bytes, uint64_t context_id, uint64_t *address) {
    if (fires(&state->alloc_trap))
        return state->alloc_trap.status;
    if (state->memory && (bytes > state->memory || state->live_bytes > state->memory - bytes))
        return GM_OUT_OF_MEMORY;
    struct node *node = unlink_idle(state, bytes);
    if (!node) {
        node = bytes > (uint64_t)1 << 44 || state->bumped > (uint64_t)1 << 45
                   ? NULL
                   : gm_node_take(&state->spare, sizeof *node, &state->lock);
        if (!node)
            return GM_OUT_OF_MEMORY;
        node->address = BASE + state->bumped;
        node->bytes = bytes;
        state->bumped += bytes;
    }
    node->context_id = context_id;
    node->next = state->live[bucket(node->address)];
    state->live[bucket(node->address)] = node;
    state->live_bytes += bytes;
    state->live_count++;
    *address = node->address;
    return GM_OK;
}

/* Moves a live block to the idle blocks; `link` is the pointer to it in its list. */
static void make_idle(struct state *state, struct node **link) {
    struct node *node = *link;
    *link = node->next;
    node->next = state->idle[bucket(node->bytes)];
    state->idle[bucket(node->bytes)] = node;
    state->live_bytes -= node->bytes;
    state->live_count--;
}

static gm_status sim_alloc(struct gm_resource *self, const struct gm_request *request,
                           const struct gm_decision *decision, struct gm_block *block) {
    struct state *state = self->state;
    struct gm_piece piece = {.reserved = request->size};
    if (!gm_request_is_device(request))
        return GM_NOT_SUPPORTED;
    if (request->call == GM_CALL_ALLOC_PITCH) {
        if (request->width > SIZE_MAX - ALIGNMENT)
            return GM_OUT_OF_MEMORY;
        piece.pitch = (request->width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (__builtin_mul_overflow(piece.pitch, request->height, &piece.reserved))
            return GM_OUT_OF_MEMORY;
    }
    if (!piece.reserved)
        return GM_INVALID_VALUE;
    if (piece.reserved > SIZE_MAX - ALIGNMENT)
        return GM_OUT_OF_MEMORY;
    uint64_t bytes = (piece.reserved + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    gm_spin_lock(&state->lock);
    gm_status status = allocate(state, bytes, request->context_id, &piece.address);
    gm_spin_unlock(&state->lock);
    if (!status)
        gm_block_fill(block, self, request, &piece);
    return status;
}

static gm_status sim_free(struct gm_resource *self, const struct gm_block *block, const struct gm_free_request *how) {
    struct state *state = self->state;
    gm_status status = GM_INVALID_VALUE;
    gm_spin_lock(&state->lock);
    if (fires(&state->free_trap)) {
        status = state->free_trap.status;
    } else {
        struct node **link = &state->live[bucket(block->address)];
        while (*link && (*link)->address != block->address)
            link = &(*link)->next;
        if (*link) {
            make_idle(state, link);
            status = GM_OK;
        }
    }
    gm_spin_unlock(&state->lock);
    return status;
}

static void sim_context_destroyed(struct gm_resource *self, uint64_t context_id) {
    struct state *state = self->state;
    gm_spin_lock(&state->lock);
    for (unsigned i = 0; i < BUCKETS; i++)
        for (struct node **link = &state->live[i]; *link;)
            if ((*link)->context_id == context_id)
                make_idle(state, link);
            else
                link = &(*link)->next;
    gm_spin_unlock(&state->lock);
}

static void set_trap(struct gm_resource *sim, struct trap *trap, uint64_t n, gm_status status) {
    struct state *state = sim->state;
    gm_spin_lock(&state->lock);
    *trap = (struct trap){n, status};
    gm_spin_unlock(&state->lock);
}

void gm_sim_fail(struct gm_resource *sim, uint64_t n, gm_status status) {
    set_trap(sim, &((struct state *)sim->state)->alloc_trap, n, status);
}

void gm_sim_fail_free(struct gm_resource *sim, uint64_t n, gm_status status) {
    set_trap(sim, &((struct state *)sim->state)->free_trap, n, status);
}

static uint64_t locked(struct gm_resource *sim, const uint64_t *field) {
    struct state *state = sim->state;
    gm_spin_lock(&state->lock);
    uint64_t value = *field;
    gm_spin_unlock(&state->lock);
    return value;
}

void gm_sim_set_memory(struct gm_resource *sim, uint64_t bytes) {
    struct state *state = sim->state;
    gm_spin_lock(&state->lock);
    state->memory = bytes;
    gm_spin_unlock(&state->lock);
}

uint64_t gm_sim_live_count(struct gm_resource *sim) { return locked(sim, &((struct state *)sim->state)->live_count); }

uint64_t gm_sim_live_bytes(struct gm_resource *sim) { return locked(sim, &((struct state *)sim->state)->live_bytes); }

static void sim_after_fork(struct gm_resource *self) { ((struct state *)self->state)->lock.held = 0; }

const struct gm_resource_ops gm_resource_sim = {
    .name = "sim",
    .summary = "made-up addresses for tests without a GPU; there is no memory at them",
    .properties = GM_PROP_DEVICE_ACCESSIBLE | GM_PROP_RESIDENT | GM_PROP_DEVICE_STORAGE | GM_PROP_READY_ANYWHERE |
                  GM_PROP_STREAM_ORDERED | GM_PROP_CAPTURABLE,
    .breaks = "the memory cannot be used",
    .kind = GM_KIND_SIM,
    .page = (size_t)2 << 20, /* as native memory */
    .state_size = sizeof(struct state),
    .alloc = sim_alloc,
    .free = sim_free,
    .after_fork = sim_after_fork,
    .context_destroyed = sim_context_destroyed,
};

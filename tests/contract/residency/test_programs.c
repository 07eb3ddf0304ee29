/* Random programs under every eviction policy: objects of each kind, operations in three streams, changes by the host,
 * synchronisation, ends. The bytes are those of a plain model, and the counts those of a replay of the policy. Also the
 * hadron experiment of examples/hadron/model.h, counted by a residency. */
#include "desk.h"
#include "replay.h"

#include "examples/hadron/vectors.h"
#include "policy/eviction/random_numbers.h"

enum { THINGS = 20, STEPS = 400, HELD = 3, WINDOW = 32, PARTS = 3 };

enum kind { PAGEABLE, PINNED, SCATTERED, GPU_ONLY, GPU_WITH_HOME, KINDS };

struct thing {
    enum kind kind;
    uint64_t number, version;
    size_t bytes;
    uint32_t *host; /* of the program; the parts lie a gap apart */
    size_t gap;     /* words */
    uint32_t *expected;
    bool holds; /* something was written */
    unsigned readers;
    bool registered;
};

struct held {
    struct gpumem_use use;
    struct thing *thing;
    CUstream stream;
};

struct program {
    struct gpumem_residency *residency;
    struct replay replay;
    struct thing things[THINGS];
    struct held held[HELD];
    unsigned held_count;
    uint64_t flags;
    uint64_t random;
};

static uint32_t below(struct program *p, uint32_t end) { return gm_random_below(&p->random, end); }

static uint32_t index_of(const struct thing *thing) { return (uint32_t)thing->number - 1; }

static bool is_gpu_only(const struct thing *thing) { return thing->kind >= GPU_ONLY; }

/* ---- objects */

static void register_thing(struct program *p, struct thing *t) {
    struct gpumem_part parts[PARTS];
    struct gpumem_object_options options = {.struct_size = sizeof options,
                                            .bytes = t->bytes,
                                            .address = t->host,
                                            .version = t->version,
                                            .flags = is_gpu_only(t) ? GPUMEM_OBJECT_GPU_ONLY : 0};
    if (t->kind == SCATTERED) {
        for (size_t i = 0; i < PARTS; i++)
            parts[i] = (struct gpumem_part){t->host + i * (t->bytes / PARTS / 4 + t->gap), t->bytes / PARTS};
        options.parts = parts;
        options.part_count = PARTS;
    }
    OK(gpumem_residency_register(p->residency, &options, &t->number));
    assert_in_range(index_of(t), 0, REPLAY_OBJECTS - 1);
    p->replay.units[index_of(t)] = (unsigned)(t->bytes / p->replay.unit);
    t->registered = true;
}

static uint32_t *host_word(const struct thing *t, size_t word) {
    return t->host + word + (t->kind == SCATTERED ? word / (t->bytes / PARTS / 4) * t->gap : 0);
}

static void write_host(struct program *p, struct thing *t) {
    for (size_t i = 0; i < t->bytes / 4; i++)
        *host_word(t, i) = t->expected[i] = (uint32_t)gm_random_next(&p->random);
    t->holds = true;
}

static void make_thing(struct program *p, struct thing *t, unsigned number) {
    const size_t extra = 64 * 4;
    *t = (struct thing){.kind = number % KINDS, .gap = 60};
    t->bytes = (1 + below(p, 3)) * p->replay.unit;
    t->expected = malloc(t->bytes);
    if (t->kind == PINNED || t->kind == GPU_WITH_HOME)
        t->host = pinned(t->bytes + extra, 0);
    else if (t->kind != GPU_ONLY)
        t->host = pageable(t->bytes + 3 * extra, 0);
    if (!is_gpu_only(t))
        write_host(p, t);
    register_thing(p, t);
}

static void check_thing(struct program *p, struct thing *t) {
    void *host = NULL;
    if (!t->holds) {
        assert_int_equal(gpumem_residency_sync(p->residency, t->number, NULL), GPUMEM_INVALID_VALUE);
        return;
    }
    OK(gpumem_residency_sync(p->residency, t->number, &host));
    if (t->host)
        assert_ptr_equal(host, t->host);
    for (size_t i = 0; i < t->bytes / 4; i++)
        assert_int_equal(t->host ? *host_word(t, i) : ((uint32_t *)host)[i], t->expected[i]);
}

/* ---- steps */

/* The replay has every optimisation. */
static void check_counts(struct program *p) {
    const struct gpumem_residency_stats s = stats_of(p->residency);
    const struct replay *r = &p->replay;
    assert_in_range(s.peak_bytes, 0, r->budget);
    if (p->flags)
        return;
    assert_int_equal(s.hits, r->hits);
    assert_int_equal(s.misses, r->misses);
    assert_int_equal(s.allocations, r->allocations);
    assert_int_equal(s.reused, r->reused);
    assert_int_equal(s.reused_evicted, r->reused_evicted);
    assert_int_equal(s.evictions, r->evictions);
    assert_int_equal(s.given_back, r->given_back);
    assert_int_equal(s.resident_bytes + s.pool_bytes, r->allocated);
}

static void end_held(struct program *p) {
    while (p->held_count) {
        struct held *held = &p->held[--p->held_count];
        OK(gpumem_residency_release(p->residency, &held->use, 1, held->stream, 0));
        replay_release(&p->replay, index_of(held->thing));
        held->thing->readers--;
    }
}

static bool try_acquire(struct program *p, struct gpumem_use *uses, unsigned count, CUstream stream) {
    uint32_t objects[4];
    for (unsigned i = 0; i < count; i++)
        objects[i] = (uint32_t)uses[i].object - 1;
    const bool expected = replay_acquire(&p->replay, objects, count);
    assert_int_equal(gpumem_residency_acquire(p->residency, uses, count, stream),
                     expected ? GPUMEM_OK : GPUMEM_OUT_OF_MEMORY);
    check_counts(p);
    return expected;
}

static void acquire(struct program *p, struct gpumem_use *uses, unsigned count, CUstream stream) {
    if (try_acquire(p, uses, count, stream))
        return;
    end_held(p);
    assert_true(try_acquire(p, uses, count, stream));
}

static struct thing *any(struct program *p) { return &p->things[below(p, THINGS)]; }

static struct thing *any_that_holds(struct program *p) {
    struct thing *t = any(p);
    for (unsigned tries = 0; !t->holds && tries < 1000; tries++)
        t = any(p);
    return t;
}

/* The releasing call ends the copy. */
static void dropped(struct program *p, struct thing *t) {
    replay_end(&p->replay, index_of(t));
    if (is_gpu_only(t))
        t->holds = false;
}

/* out = 31 a + b + salt, where b may be out itself. */
static void operate(struct program *p) {
    struct thing *out = any(p), *a = any_that_holds(p), *b = any_that_holds(p);
    CUstream stream = streams[below(p, STREAMS)];
    const bool changes = out->holds && below(p, 2);
    const uint32_t salt = (uint32_t)gm_random_next(&p->random);
    if (changes)
        b = out;
    if (out->readers || a == out || (b == out && !changes))
        return;
    struct gpumem_use uses[] = {{a->number, GPUMEM_READ, NULL},
                                {out->number, changes ? GPUMEM_READ_WRITE : GPUMEM_WRITE, NULL},
                                {b->number, GPUMEM_READ, NULL}};
    const unsigned count = changes ? 2 : 3;
    acquire(p, uses, count, stream);
    const struct words to = {uses[1].address, out->bytes / 4}, from = {uses[0].address, a->bytes / 4},
                       other = {uses[count - 1].address, b->bytes / 4};
    CU(combine(stream, to, from, other, salt));
    combine_here(out->expected, out->bytes / 4, a->expected, a->bytes / 4, b->expected, b->bytes / 4, salt);
    out->holds = true;
    const bool drops = !below(p, 4);
    OK(gpumem_residency_release(p->residency, &uses[1], 1, stream, drops ? GPUMEM_RELEASE_DROP : 0));
    OK(gpumem_residency_release(p->residency, &uses[0], 1, stream, 0));
    if (count == 3)
        OK(gpumem_residency_release(p->residency, &uses[2], 1, stream, 0));
    for (unsigned i = 0; i < count; i++)
        replay_release(&p->replay, (uint32_t)uses[i].object - 1);
    if (drops)
        dropped(p, out);
}

/* A use that lasts over other operations. */
static void hold(struct program *p) {
    struct thing *t = any_that_holds(p);
    if (p->held_count == HELD || !t->holds)
        return;
    struct held held = {{t->number, GPUMEM_READ, NULL}, t, streams[below(p, STREAMS)]};
    acquire(p, &held.use, 1, held.stream);
    t->readers++;
    p->held[p->held_count++] = held;
}

static void change_on_host(struct program *p) {
    struct thing *t = any(p);
    if (is_gpu_only(t) || t->readers)
        return;
    OK(gpumem_residency_sync(p->residency, t->number, NULL));
    write_host(p, t);
    OK(gpumem_residency_update(p->residency, t->number, ++t->version));
}

static void end_and_begin_again(struct program *p) {
    struct thing *t = any(p);
    if (t->readers)
        return;
    if (t->host && t->holds)
        check_thing(p, t);
    OK(gpumem_residency_unregister(p->residency, t->number));
    replay_end(&p->replay, index_of(t));
    t->holds = !is_gpu_only(t);
    register_thing(p, t);
}

static void announce(struct program *p) {
    uint64_t vector[WINDOW];
    uint32_t numbers[WINDOW], count = below(p, WINDOW + 1);
    for (uint32_t i = 0; i < count; i++) {
        vector[i] = any(p)->number;
        numbers[i] = (uint32_t)vector[i] - 1;
    }
    OK(gpumem_residency_announce(p->residency, vector, count));
    assert_int_equal(gm_eviction_announce(p->replay.eviction, numbers, count), GM_OK);
}

static void step(struct program *p) {
    switch (below(p, 16)) {
    case 0: change_on_host(p); break;
    case 1: check_thing(p, any(p)); break;
    case 2: end_and_begin_again(p); break;
    case 3: announce(p); break;
    case 4: hold(p); break;
    case 5: end_held(p); break;
    default: operate(p);
    }
    check_counts(p);
}

static void run_program(const char *policy, uint64_t seed, uint64_t flags) {
    const size_t unit = 12 * KIB, budget = 14 * unit + 100;
    struct program *p = calloc(1, sizeof *p);
    p->random = seed;
    p->flags = flags;
    p->residency = residency_of(policy, budget, flags);
    replay_open(&p->replay, policy, unit, budget, WINDOW);
    for (unsigned i = 0; i < THINGS; i++)
        make_thing(p, &p->things[i], i);
    for (unsigned i = 0; i < STEPS; i++)
        step(p);
    end_held(p);
    for (unsigned i = 0; i < THINGS; i++)
        check_thing(p, &p->things[i]);
    assert_in_range(p->replay.evictions, 10, UINT32_MAX);
    assert_in_range(p->replay.given_back, 5, UINT32_MAX);
    assert_int_equal(simcuda_violations(), 0);
    OK(gpumem_residency_destroy(p->residency));
    replay_close(&p->replay);
    for (unsigned i = 0; i < THINGS; i++) {
        struct thing *t = &p->things[i];
        free(t->expected);
        if (t->kind == PINNED || t->kind == GPU_WITH_HOME)
            CU(cuMemFreeHost(t->host));
        else
            free(t->host);
    }
    free(p);
}

TEST_WITH(programs_are_right_under_every_policy, desk_open, desk_close) {
    for (const struct gm_eviction_policy *const *row = gm_eviction_policies; *row; row++)
        for (uint64_t seed = 1; seed <= 6; seed++)
            run_program((*row)->name, seed, 0);
}

TEST_WITH(programs_are_right_without_each_optimisation, desk_open, desk_close) {
    for (uint64_t flags = 1; flags < 8; flags++)
        for (uint64_t seed = 1; seed <= 3; seed++)
            run_program("lru", seed, flags);
}

/* ---- the hadron experiment, by the calls */

enum { TENSOR = 4096, SHARED = 0 };

/* contract_vector() of examples/hadron/model.c. */
static void contract_vector(struct gpumem_residency *r, const uint64_t *numbers, const uint32_t *nodes, uint32_t size,
                            uint32_t first_output) {
    uint64_t vector[16];
    for (uint32_t i = 0; i < size; i++)
        vector[i] = numbers[nodes[i]];
    OK(gpumem_residency_announce(r, vector, size));
    for (uint32_t i = 0; i < size; i++)
        begin(r, numbers[first_output + i], GPUMEM_WRITE, streams[0]);
    for (uint32_t i = 0; i < size; i++) {
        begin(r, numbers[SHARED], GPUMEM_READ, streams[0]);
        begin(r, vector[i], GPUMEM_READ, streams[0]);
    }
    for (uint32_t i = 0; i < size; i++) {
        end(r, numbers[SHARED], streams[0], 0);
        end(r, vector[i], streams[0], 0);
        end(r, numbers[first_output + i], streams[0], GPUMEM_RELEASE_DROP);
    }
}

static struct counts count_by_residency(const struct experiment *e, uint64_t seed) {
    const uint32_t size = e->vector_size, vectors = 1 + e->more_vectors, tensors = vectors * size;
    struct gpumem_residency_options options = {.struct_size = sizeof options,
                                               .eviction = e->policy->name,
                                               .budget = (2 * size + 1) * (size_t)TENSOR,
                                               .objects = 1 + 2 * tensors,
                                               .window = size,
                                               .seed = seed};
    struct gpumem_residency *r;
    uint32_t *memory = pinned((1 + 2 * tensors) * (size_t)TENSOR, 0), nodes[48], next_node = SHARED + 1;
    uint64_t *numbers = calloc(1 + 2 * tensors, sizeof *numbers), random = seed;
    OK(gpumem_residency_create(&options, &r));
    for (uint32_t i = 0; i < 1 + 2 * tensors; i++) /* numbered as in the model */
        numbers[i] = i <= tensors ? host_object(r, memory + i * (TENSOR / 4), TENSOR) : gpu_object(r, TENSOR);
    for (uint32_t i = 0; i < size; i++)
        nodes[i] = next_node++;
    for (uint32_t i = 0; i < vectors; i++) {
        if (i)
            next_vector(e, &random, nodes, &next_node, nodes + size);
        contract_vector(r, numbers, nodes, size, 1 + tensors + i * size);
    }
    const struct gpumem_residency_stats s = stats_of(r);
    OK(gpumem_residency_destroy(r));
    CU(cuMemFreeHost(memory));
    free(numbers);
    return (struct counts){s.allocations + s.reused_evicted, s.evictions, s.hits, s.misses};
}

TEST_WITH(the_hadron_experiment_counts_as_its_model, desk_open, desk_close) {
    for (const struct gm_eviction_policy *const *row = gm_eviction_policies; *row; row++) {
        for (uint32_t repeated = 0; repeated <= 8; repeated += 4) {
            const struct experiment e = {
                .policy = *row, .vector_size = 8, .more_vectors = 4, .repeated = repeated, .distribution = UNIFORM};
            struct counts model = {0}, ours = count_by_residency(&e, 3);
            assert_true(model_loop(&e, 3, &model));
            assert_int_equal(ours.evictions, model.evictions);
            assert_int_equal(ours.hit, model.hit);
            assert_int_equal(ours.miss, model.miss);
            assert_int_equal(ours.allocate + 3, model.allocate); /* three are no tensors */
        }
    }
}

int main(void) {
#undef TEST
    return run_all(NULL, NULL);
}

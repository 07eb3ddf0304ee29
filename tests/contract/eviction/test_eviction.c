/* Every eviction policy against one contract, each against its own rule, and memhc's figure 6. */
#include "policy/eviction/eviction.h"
#include "policy/eviction/random_numbers.h"

#include "tests/test.h"

enum { OBJECTS = 48, WINDOW = 24, STEPS = 6000, NONE = -1 };

static const struct gm_eviction_policy *row(const char *name) {
    const struct gm_eviction_policy *found = gm_eviction_find(name);
    assert_non_null(found);
    return found;
}

/* ---- memory of an instance */
static size_t blocks_left;
static bool no_memory;

static void *allocate(size_t bytes, void *user) {
    assert_ptr_equal(user, &blocks_left);
    if (no_memory)
        return NULL;
    blocks_left++;
    void *memory = malloc(bytes);
    memset(memory, 0xa5, bytes);
    return memory;
}

static void release(void *memory, size_t bytes, void *user) {
    memset(memory, 0x5a, bytes);
    free(memory);
    blocks_left--;
}

static struct gm_eviction *open_with(const struct gm_eviction_policy *policy, uint64_t capacity, uint64_t seed) {
    const struct gm_eviction_setup setup = {.policy = policy,
                                            .objects = OBJECTS,
                                            .window = WINDOW,
                                            .capacity = capacity,
                                            .seed = seed,
                                            .allocate = allocate,
                                            .release = release,
                                            .user = &blocks_left};
    struct gm_eviction *made = NULL;
    blocks_left = 0;
    assert_int_equal(gm_eviction_open(&setup, &made), GM_OK);
    assert_int_equal(blocks_left, 1);
    return made;
}

static void close_all(struct gm_eviction *e) {
    gm_eviction_close(e);
    assert_int_equal(blocks_left, 0);
}

/* ---- a plain model of what is on the device */
struct plain {
    uint64_t bytes[OBJECTS], total; /* 0: not there */
    unsigned pins[OBJECTS], objects;
};

static unsigned evictable_of(const struct plain *plain) {
    unsigned count = 0;
    for (int i = 0; i < OBJECTS; i++)
        count += plain->bytes[i] && !plain->pins[i];
    return count;
}

static void leave(struct plain *plain, uint32_t object) {
    plain->total -= plain->bytes[object];
    plain->bytes[object] = 0;
    plain->objects--;
}

/* One eviction, checked against the model. Returns the victim; NONE where nothing can go. */
static int evict(struct gm_eviction *e, struct plain *plain) {
    uint32_t victim = OBJECTS;
    const gm_status status = gm_eviction_choose(e, &victim);
    if (!evictable_of(plain)) {
        assert_int_equal(status, GM_NOT_SUPPORTED);
        assert_int_equal(victim, OBJECTS);
        return NONE;
    }
    assert_int_equal(status, GM_OK);
    assert_in_range(victim, 0, OBJECTS - 1);
    assert_true(plain->bytes[victim] && !plain->pins[victim]);
    assert_int_equal(gm_eviction_remove(e, victim, true), GM_OK);
    leave(plain, victim);
    return (int)victim;
}

static void announce_any(struct gm_eviction *e, uint64_t *random) {
    uint32_t vector[WINDOW], count = gm_random_below(random, WINDOW + 1);
    for (uint32_t i = 0; i < count; i++)
        vector[i] = gm_random_below(random, OBJECTS);
    assert_int_equal(gm_eviction_announce(e, vector, count), GM_OK);
}

static void use_any(struct gm_eviction *e, struct plain *plain, uint64_t *random, uint64_t capacity, int *victims) {
    const uint32_t object = gm_random_below(random, OBJECTS);
    if (plain->bytes[object]) {
        assert_int_equal(gm_eviction_hit(e, object), GM_OK);
        return;
    }
    const uint64_t bytes = 1 + gm_random_below(random, 5);
    while (plain->total + bytes > capacity) {
        const int victim = evict(e, plain);
        if (victim == NONE)
            return;
        victims[victim]++;
        victims[OBJECTS] = (int)((unsigned)victims[OBJECTS] * 31u + (unsigned)victim);
    }
    assert_int_equal(gm_eviction_insert(e, object, bytes), GM_OK);
    plain->bytes[object] = bytes;
    plain->total += bytes;
    plain->objects++;
}

static void pin_any(struct gm_eviction *e, struct plain *plain, uint64_t *random) {
    const uint32_t object = gm_random_below(random, OBJECTS);
    const bool pins = gm_random_below(random, 2);
    const bool valid = plain->bytes[object] && (pins || plain->pins[object]);
    const gm_status status = pins ? gm_eviction_pin(e, object) : gm_eviction_unpin(e, object);
    assert_int_equal(status, valid ? GM_OK : GM_INVALID_VALUE);
    if (valid)
        plain->pins[object] += pins ? 1 : -1u;
}

static void end_any(struct gm_eviction *e, struct plain *plain, uint64_t *random) {
    const uint32_t object = gm_random_below(random, OBJECTS);
    const bool valid = plain->bytes[object] && !plain->pins[object];
    assert_int_equal(gm_eviction_remove(e, object, false), valid ? GM_OK : GM_INVALID_VALUE);
    if (valid)
        leave(plain, object);
}

/* Counts victims by object; behind them stands a hash of their order. */
static void random_steps(const struct gm_eviction_policy *policy, uint64_t seed, uint64_t capacity, int *victims) {
    struct gm_eviction *e = open_with(policy, capacity, 7);
    struct plain plain = {0};
    uint64_t random = seed;
    memset(victims, 0, (OBJECTS + 1) * sizeof *victims);
    for (int step = 0; step < STEPS; step++) {
        const uint32_t what = gm_random_below(&random, 40);
        if (what == 0)
            announce_any(e, &random);
        else if (what < 8)
            pin_any(e, &plain, &random);
        else if (what < 10)
            end_any(e, &plain, &random);
        else
            use_any(e, &plain, &random, capacity, victims);
        assert_int_equal(gm_eviction_resident_objects(e), plain.objects);
        assert_int_equal(gm_eviction_resident_bytes(e), plain.total);
    }
    close_all(e);
}

TEST(every_row_keeps_the_contract) {
    int victims[OBJECTS + 1], again[OBJECTS + 1];
    for (const struct gm_eviction_policy *const *policy = gm_eviction_policies; *policy; policy++) {
        assert_true((*policy)->source[0]);
        for (uint64_t seed = 1; seed <= 8; seed++) {
            const uint64_t capacity = seed == 1 ? 5 : 12 * seed;
            random_steps(*policy, seed, capacity, victims);
            random_steps(*policy, seed, capacity, again);
            assert_memory_equal(victims, again, sizeof victims);
            assert_int_not_equal(victims[OBJECTS], 0);
        }
    }
}

/* Each object but one is pinned in turn, after uses of all kinds: that one goes. */
TEST(every_row_finds_the_only_victim) {
    for (const struct gm_eviction_policy *const *policy = gm_eviction_policies; *policy; policy++) {
        for (uint32_t free_one = 0; free_one < 8; free_one++) {
            struct gm_eviction *e = open_with(*policy, 8, 1);
            uint32_t victim, all[8];
            for (uint32_t i = 0; i < 8; i++) {
                all[i] = i;
                assert_int_equal(gm_eviction_insert(e, i, 1), GM_OK);
                assert_int_equal(gm_eviction_hit(e, i), GM_OK);
                assert_int_equal(gm_eviction_pin(e, i), GM_OK);
            }
            assert_int_equal(gm_eviction_announce(e, all, 8), GM_OK);
            assert_int_equal(gm_eviction_choose(e, &victim), GM_NOT_SUPPORTED);
            assert_int_equal(gm_eviction_unpin(e, free_one), GM_OK);
            assert_int_equal(gm_eviction_choose(e, &victim), GM_OK);
            assert_int_equal(victim, free_one);
            close_all(e);
        }
    }
}

TEST(every_row_reports_errors) {
    for (const struct gm_eviction_policy *const *policy = gm_eviction_policies; *policy; policy++) {
        struct gm_eviction_setup setup = {
            .policy = *policy, .objects = OBJECTS, .allocate = allocate, .release = release, .user = &blocks_left};
        struct gm_eviction *e = NULL;
        const uint32_t vector[] = {0, OBJECTS};
        uint32_t victim;
        no_memory = true;
        assert_int_equal(gm_eviction_open(&setup, &e), GM_OUT_OF_MEMORY);
        no_memory = false;
        setup.objects = 0;
        assert_int_equal(gm_eviction_open(&setup, &e), GM_INVALID_VALUE);
        setup.objects = UINT32_MAX - 4;
        assert_int_equal(gm_eviction_open(&setup, &e), GM_INVALID_VALUE);
        assert_null(e);

        e = open_with(*policy, 4, 1);
        assert_int_equal(gm_eviction_choose(e, &victim), GM_NOT_SUPPORTED);
        assert_int_equal(gm_eviction_insert(e, OBJECTS, 1), GM_INVALID_VALUE);
        assert_int_equal(gm_eviction_insert(e, 0, 0), GM_INVALID_VALUE);
        assert_int_equal(gm_eviction_hit(e, 0), GM_INVALID_VALUE);
        assert_int_equal(gm_eviction_pin(e, 0), GM_INVALID_VALUE);
        assert_int_equal(gm_eviction_remove(e, 0, true), GM_INVALID_VALUE);
        assert_int_equal(gm_eviction_insert(e, 0, 1), GM_OK);
        assert_int_equal(gm_eviction_insert(e, 0, 1), GM_INVALID_VALUE);
        assert_int_equal(gm_eviction_unpin(e, 0), GM_INVALID_VALUE);
        assert_int_equal(gm_eviction_pin(e, 0), GM_OK);
        assert_int_equal(gm_eviction_remove(e, 0, true), GM_INVALID_VALUE);
        assert_int_equal(gm_eviction_announce(e, vector, 2), GM_INVALID_VALUE);
        assert_int_equal(gm_eviction_announce(e, vector, WINDOW + 1), GM_INVALID_VALUE);
        close_all(e);
    }
    gm_eviction_close(NULL);
    assert_null(gm_eviction_find("fifo"));
}

/* ---- objects of one byte on a device of `capacity`, vector after vector */
struct counted {
    unsigned evictions, hits;
    int order[4 * STEPS]; /* of the victims */
};

static void use(struct gm_eviction *e, uint32_t object, uint32_t capacity, struct counted *counted) {
    if (gm_eviction_hit(e, object) == GM_OK) {
        counted->hits++;
        return;
    }
    if (gm_eviction_resident_objects(e) == capacity) {
        uint32_t victim;
        assert_int_equal(gm_eviction_choose(e, &victim), GM_OK);
        assert_int_equal(gm_eviction_remove(e, victim, true), GM_OK);
        counted->order[counted->evictions++] = (int)victim;
    }
    assert_int_equal(gm_eviction_insert(e, object, 1), GM_OK);
}

static void use_vector(struct gm_eviction *e, const char *letters, uint32_t capacity, struct counted *counted) {
    uint32_t vector[WINDOW] = {0}, count = (uint32_t)strlen(letters);
    for (uint32_t i = 0; i < count; i++)
        vector[i] = (uint32_t)(letters[i] - 'A');
    assert_int_equal(gm_eviction_announce(e, vector, count), GM_OK);
    for (uint32_t i = 0; i < count; i++)
        use(e, vector[i], capacity, counted);
}

/* Vectors of letters, separated by spaces; then evictions, hits, and the victims in their order. */
static void by_hand(const char *policy, const char *text, uint32_t capacity, unsigned hits, const char *victims) {
    struct gm_eviction *e = open_with(row(policy), capacity, 1);
    struct counted counted = {0};
    char vectors[100], order[100] = "", *rest = vectors;
    strcpy(vectors, text);
    for (char *vector; (vector = strtok_r(rest, " ", &rest));)
        use_vector(e, vector, capacity, &counted);
    for (unsigned i = 0; i < counted.evictions; i++)
        order[i] = (char)('A' + counted.order[i]);
    assert_string_equal(order, victims);
    assert_int_equal(counted.hits, hits);
    close_all(e);
}

/* Four evictions against two, and two hits more. */
TEST(figure_6) {
    by_hand("lru", "ABCD EFAB", 4, 0, "ABCD");            /* example (a) */
    by_hand("preprotected_lru", "ABCD EFAB", 4, 2, "CD"); /* example (b) */
    by_hand("preprotected_lru", "ABCD EFCD", 4, 2, "AB"); /* example (c) */
}

TEST(protected_objects_go_in_lru_order_when_all_are) {
    by_hand("preprotected_lru", "ABCD EABCD", 4, 0, "ABCDE");
    by_hand("preprotected_lru", "ABCD EDCBA", 4, 3, "AE");
    by_hand("preprotected_lru", "ABCD AB EF", 4, 2, "CD"); /* a new vector ends the protection */
}

/* Vector N, M, N on a device of three objects, whose operations place outputs O and P in between. N is protected where
 * P lacks memory, although it was not there when the vector was announced. */
TEST(what_the_vector_placed_is_protected) {
    enum { N, M, O, P };
    static const struct {
        const char *policy;
        unsigned evictions, hits;
    } rows[] = {{"preprotected_lru", 1, 1}, {"window", 1, 1}, {"lru", 2, 0}};
    const uint32_t vector[] = {N, M, N}, uses[] = {N, O, M, P, N};
    for (int i = 0; i < 3; i++) {
        struct gm_eviction *e = open_with(row(rows[i].policy), 3, 1);
        struct counted counted = {0};
        assert_int_equal(gm_eviction_announce(e, vector, 3), GM_OK);
        for (int step = 0; step < 5; step++)
            use(e, uses[step], 3, &counted);
        assert_int_equal(counted.evictions, rows[i].evictions);
        assert_int_equal(counted.hits, rows[i].hits);
        close_all(e);
    }
}

TEST(mru_and_window_by_hand) {
    by_hand("mru", "ABCD EFAB", 4, 2, "DE");
    by_hand("window", "ABCD EFAB", 4, 2, "CD");
    /* A vector that does not fit: what is used last goes, where preprotected_lru starts again with the first. */
    by_hand("window", "ABCD EABCD", 4, 3, "DE");
    by_hand("window", "ABCD ABABCDEA", 4, 7, "B");
}

/* The newest object that is not in use goes, in the order of use and not of numbers. */
TEST(mru_passes_pinned_objects) {
    struct gm_eviction *e = open_with(row("mru"), 4, 1);
    const uint32_t order[] = {2, 0, 3, 1};
    uint32_t victim;
    for (int i = 0; i < 4; i++)
        assert_int_equal(gm_eviction_insert(e, order[i], 1), GM_OK);
    for (int newest = 3; newest > 0; newest--) {
        assert_int_equal(gm_eviction_pin(e, order[newest]), GM_OK);
        assert_int_equal(gm_eviction_choose(e, &victim), GM_OK);
        assert_int_equal(victim, order[newest - 1]);
    }
    close_all(e);
}

/* A prefetch is no use: what was brought ahead is still used next, and so it stays. */
TEST(objects_brought_ahead_await_their_use) {
    struct gm_eviction *e = open_with(row("window"), 3, 1);
    const uint32_t vector[] = {0, 1, 2, 0, 1};
    uint32_t victim;
    assert_int_equal(gm_eviction_announce(e, vector, 5), GM_OK);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(gm_eviction_insert(e, i, 1), GM_OK);
    assert_int_equal(gm_eviction_insert_ahead(e, 2, 1), GM_OK);
    assert_int_equal(gm_eviction_choose(e, &victim), GM_OK);
    assert_int_equal(victim, 1);
    for (const struct gm_eviction_policy *const *policy = gm_eviction_policies; *policy; policy++) {
        struct gm_eviction *other = open_with(*policy, 3, 1);
        assert_int_equal(gm_eviction_insert_ahead(other, 1, 1), GM_OK);
        assert_int_equal(gm_eviction_insert_ahead(other, 1, 1), GM_INVALID_VALUE);
        assert_int_equal(gm_eviction_hit(other, 1), GM_OK);
        gm_eviction_close(other);
    }
    gm_eviction_close(e);
}

/* ---- the same rule, found again by searching all objects */
struct history {
    uint32_t at, vector[WINDOW], count, passed; /* passed: uses of the announced vector so far */
    uint32_t last[OBJECTS];
    bool there[OBJECTS], is_protected[OBJECTS];
};

static int expect_lru(struct history *h) {
    int victim = NONE;
    for (int i = 0; i < OBJECTS; i++) {
        if (h->there[i] && (victim == NONE || h->last[i] < h->last[victim]))
            victim = i;
    }
    return victim;
}

static int expect_mru(struct history *h) {
    int victim = NONE;
    for (int i = 0; i < OBJECTS; i++) {
        if (h->there[i] && (victim == NONE || h->last[i] > h->last[victim]))
            victim = i;
    }
    return victim;
}

static int expect_preprotected(struct history *h) {
    for (uint32_t i = 0; i < h->count; i++) /* a shortage */
        h->is_protected[h->vector[i]] = h->there[h->vector[i]];
    for (;;) {
        const int victim = expect_lru(h);
        if (!h->is_protected[victim])
            return victim;
        h->is_protected[victim] = false;
        h->last[victim] = h->at++;
    }
}

static uint32_t distance(const struct history *h, int object) {
    uint32_t at = h->passed;
    while (at < h->count && (int)h->vector[at] != object)
        at++;
    return at;
}

static int expect_window(struct history *h) {
    int victim = expect_lru(h);
    for (int i = 0; i < OBJECTS; i++) {
        if (h->there[i] && (distance(h, i) > distance(h, victim) ||
                            (distance(h, i) == distance(h, victim) && h->last[i] < h->last[victim])))
            victim = i;
    }
    return victim;
}

/* CAR as its figure 2 has it, on arrays: t1, t2, b1, b2, oldest first. */
struct car {
    int items[4][OBJECTS], counts[4], p, capacity;
    bool referenced[OBJECTS];
};

static int car_find(struct car *car, int list, int object) {
    for (int i = 0; i < car->counts[list]; i++) {
        if (car->items[list][i] == object)
            return i;
    }
    return NONE;
}

static int car_take(struct car *car, int list, int at) {
    const int object = car->items[list][at];
    memmove(&car->items[list][at], &car->items[list][at + 1], (size_t)(--car->counts[list] - at) * sizeof(int));
    return object;
}

static void car_push(struct car *car, int list, int object) { car->items[list][car->counts[list]++] = object; }

static int car_replace(struct car *car) {
    for (;;) {
        const int from = car->counts[0] >= (car->p > 1 ? car->p : 1) ? 0 : 1;
        const int object = car_take(car, from, 0);
        if (!car->referenced[object]) {
            car_push(car, from + 2, object);
            return object;
        }
        car->referenced[object] = false;
        car_push(car, 1, object);
    }
}

/* The victim of a use, or NONE. */
static int car_use(struct car *car, int object) {
    int victim = NONE, *n = car->counts;
    if (car_find(car, 0, object) != NONE || car_find(car, 1, object) != NONE) {
        car->referenced[object] = true;
        return NONE;
    }
    const int b1 = car_find(car, 2, object) != NONE, b2 = car_find(car, 3, object) != NONE;
    if (n[0] + n[1] == car->capacity) {
        victim = car_replace(car);
        if (!b1 && !b2 && n[0] + n[2] == car->capacity)
            car_take(car, 2, 0);
        else if (!b1 && !b2 && n[0] + n[1] + n[2] + n[3] == 2 * car->capacity)
            car_take(car, 3, 0);
    }
    const int up = b1 && n[3] > n[2] ? n[3] / n[2] : 1, down = b2 && n[2] > n[3] ? n[2] / n[3] : 1;
    if (b1) {
        car->p = car->p + up < car->capacity ? car->p + up : car->capacity;
        car_take(car, 2, car_find(car, 2, object));
    } else if (b2) {
        car->p = car->p > down ? car->p - down : 0;
        car_take(car, 3, car_find(car, 3, object));
    }
    car->referenced[object] = false;
    car_push(car, b1 || b2 ? 1 : 0, object);
    return victim;
}

TEST(car_follows_its_figure) {
    for (int capacity = 2; capacity <= 20; capacity++) {
        struct gm_eviction *e = open_with(row("car"), (uint64_t)capacity, 1);
        struct car car = {.capacity = capacity};
        struct counted counted = {0};
        uint64_t random = (uint64_t)capacity;
        for (int step = 0; step < STEPS; step++) {
            /* Objects of a small set again and again, and scans over all. */
            const uint32_t object = step % 300 < 60 ? (uint32_t)(step % OBJECTS)
                                                    : gm_random_below(&random, gm_random_below(&random, OBJECTS) + 1);
            const unsigned before = counted.evictions;
            const int expected = car_use(&car, (int)object);
            use(e, object, (uint32_t)capacity, &counted);
            assert_int_equal(counted.evictions > before ? counted.order[before] : NONE, expected);
        }
        close_all(e);
    }
}

static void announce_next(struct gm_eviction *e, struct history *h, uint64_t *random) {
    h->count = 1 + gm_random_below(random, WINDOW);
    h->passed = 0;
    for (uint32_t i = 0; i < h->count; i++)
        h->vector[i] = gm_random_below(random, OBJECTS);
    memset(h->is_protected, 0, sizeof h->is_protected);
    assert_int_equal(gm_eviction_announce(e, h->vector, h->count), GM_OK);
}

static void follow(const char *policy, int (*expect)(struct history *), uint32_t capacity) {
    struct gm_eviction *e = open_with(row(policy), capacity, 1);
    struct counted counted = {0};
    static struct history h;
    memset(&h, 0, sizeof h);
    uint64_t random = capacity;
    for (int step = 0; step < STEPS; step++) {
        if (h.passed == h.count)
            announce_next(e, &h, &random);
        const uint32_t object = h.vector[h.passed];
        const unsigned before = counted.evictions;
        const bool full = gm_eviction_resident_objects(e) == capacity;
        const int expected = full && !h.there[object] ? expect(&h) : NONE;
        use(e, object, capacity, &counted);
        assert_int_equal(counted.evictions > before ? counted.order[before] : NONE, expected);
        if (expected != NONE)
            h.there[expected] = false;
        if (!h.there[object])
            h.is_protected[object] = false;
        h.there[object] = true;
        h.last[object] = h.at++;
        h.passed++;
    }
    close_all(e);
}

TEST(rules_found_by_search) {
    for (uint32_t capacity = 1; capacity < OBJECTS; capacity += 5) {
        follow("lru", expect_lru, capacity);
        follow("mru", expect_mru, capacity);
        follow("preprotected_lru", expect_preprotected, capacity);
        follow("window", expect_window, capacity);
    }
}

/* A, B: used again in their test period, so hot. A scan of objects used once leaves them; LRU loses them. */
TEST(clock_pro_by_hand) {
    by_hand("clock_pro", "ABCD", 4, 0, "");
    by_hand("clock_pro", "ABABCDEFGHIJAB", 4, 4, "CDEFGH");
    by_hand("lru", "ABABCDEFGHIJAB", 4, 2, "ABCDEFGH");
    /* C comes back within its test period after its eviction: it is hot in place of A and outlives the scan. */
    by_hand("clock_pro", "ABABCDECFGHIC", 4, 3, "CDAEFG");
}

/* What the announced vector is worth: a vector larger than memory, again and again. */
TEST(window_evicts_less_than_protection_alone) {
    unsigned evictions[2];
    const char *const policies[] = {"preprotected_lru", "window"};
    for (int i = 0; i < 2; i++) {
        struct gm_eviction *e = open_with(row(policies[i]), 4, 1);
        struct counted counted = {0};
        for (int round = 0; round < 20; round++)
            use_vector(e, "ABCDEF", 4, &counted);
        evictions[i] = counted.evictions;
        close_all(e);
    }
    assert_int_equal(evictions[0], 116); /* all 120 uses but the first four */
    assert_int_equal(evictions[1], 59);
}

TEST(random_takes_each_object_and_follows_its_seed) {
    uint64_t hashes[2];
    for (uint64_t seed = 0; seed < 2; seed++) {
        struct gm_eviction *e = open_with(row("random"), 8, seed);
        struct counted counted = {0};
        unsigned ages[8] = {0};
        for (uint32_t step = 0; step < 4000; step++)
            use(e, step % OBJECTS, 8, &counted);
        hashes[seed] = 0;
        for (unsigned i = 0; i < counted.evictions; i++) {
            hashes[seed] = hashes[seed] * 31 + (uint64_t)counted.order[i];
            const unsigned age = (i + 8 - (unsigned)counted.order[i]) % OBJECTS;
            ages[age < 8 ? age : 7]++;
        }
        for (int i = 0; i < 8; i++)
            assert_true(ages[i] > counted.evictions / 40);
        close_all(e);
    }
    assert_true(hashes[0] != hashes[1]);
}

int main(void) { return run_all(NULL, NULL); }

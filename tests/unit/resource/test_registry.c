/* Tests of the registry by address and by range: sizes from a byte to a tebibyte, threads, growth, a fork in the
 * middle. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#include "shim/resource/registry.h"

#define BASE 0x7d0000000000ull

static struct gm_block at(uint64_t address, size_t size) {
    return (struct gm_block){.address = address, .size = size, .reserved = size, .context_id = 1};
}

static struct gm_registry *fresh(void) {
    struct gm_registry *registry = gm_registry_new();
    assert_non_null(registry);
    return registry;
}

static void add(struct gm_registry *registry, uint64_t address, size_t size) {
    struct gm_block block = at(address, size), previous;
    assert_int_equal(gm_registry_add(registry, &block, &previous), GM_OK);
    assert_true(previous.address == 0);
}

TEST(test_add_find_take) {
    struct gm_registry *registry = fresh();
    struct gm_block out;
    assert_false(gm_registry_find(registry, BASE, &out));
    assert_false(gm_registry_take(registry, BASE, &out));
    assert_false(gm_registry_find_range(registry, BASE, &out));
    add(registry, BASE, 512);
    add(registry, 0x10, 1);
    assert_int_equal(gm_registry_count(registry), 2);
    assert_true(gm_registry_find(registry, BASE, &out));
    assert_int_equal(out.size, 512);
    assert_false(gm_registry_find(registry, BASE + 1, &out)); /* only starts match */
    assert_true(gm_registry_take(registry, BASE, &out));
    assert_true(out.address == BASE && out.size == 512 && out.context_id == 1);
    assert_false(gm_registry_take(registry, BASE, &out));
    assert_true(gm_registry_take(registry, 0x10, &out));
    assert_int_equal(gm_registry_count(registry), 0);
}

/* Every size class, adjacent and far apart, with odd sizes. Searches for the first byte, the last byte and one byte
 * beyond. */
TEST(test_ranges_of_all_sizes) {
    struct gm_registry *registry = fresh();
    struct gm_block out;
    struct {
        uint64_t address;
        size_t size;
    } blocks[128];
    unsigned count = 0;
    uint64_t address = BASE;
    for (unsigned bits = 0; bits <= 40; bits++) /* 1 B .. 1 TiB */
        for (int odd = -1; odd <= 1; odd++) {
            size_t size = ((size_t)1 << bits) + (size_t)(bits > 1 ? odd : 0);
            blocks[count].address = address;
            blocks[count].size = size;
            add(registry, address, size);
            address += size + (odd ? 512 : 0); /* some blocks are adjacent */
            count++;
        }
    for (unsigned i = 0; i < count; i++) {
        uint64_t probes[] = {0, blocks[i].size / 3, blocks[i].size / 2, blocks[i].size - 1};
        for (unsigned p = 0; p < 4; p++) {
            assert_true(gm_registry_find_range(registry, blocks[i].address + probes[p], &out));
            assert_true(out.address == blocks[i].address && out.size == blocks[i].size);
        }
        uint64_t end = blocks[i].address + blocks[i].size;
        bool neighbour = i + 1 < count && blocks[i + 1].address == end;
        assert_true(gm_registry_find_range(registry, end, &out) == neighbour);
    }
    assert_false(gm_registry_find_range(registry, BASE - 1, &out));
    for (unsigned i = 0; i < count; i += 2)
        assert_true(gm_registry_take(registry, blocks[i].address, &out));
    for (unsigned i = 0; i < count; i++)
        assert_true(gm_registry_find_range(registry, blocks[i].address, &out) == (i % 2 == 1));
}

TEST(test_range_at_the_ends_of_the_space) {
    struct gm_registry *registry = fresh();
    struct gm_block out;
    add(registry, 1, 4096);
    add(registry, UINT64_MAX - 4095, 4096);
    assert_true(gm_registry_find_range(registry, 4096, &out) && out.address == 1);
    assert_false(gm_registry_find_range(registry, 4097, &out));
    assert_true(gm_registry_find_range(registry, UINT64_MAX, &out) && out.size == 4096);
    assert_false(gm_registry_find_range(registry, 0, &out));
}

TEST(test_replaced_record) {
    struct gm_registry *registry = fresh();
    struct gm_block block = at(BASE, 100), previous, out;
    add(registry, BASE, 4000);
    assert_true(gm_registry_find_range(registry, BASE + 3999, &out));
    assert_int_equal(gm_registry_add(registry, &block, &previous), GM_OK);
    assert_true(previous.address == BASE && previous.size == 4000);
    assert_int_equal(gm_registry_count(registry), 1);
    assert_false(gm_registry_find_range(registry, BASE + 100, &out)); /* the old range left with its record */
    assert_true(gm_registry_find_range(registry, BASE + 99, &out));
    assert_int_equal(gm_registry_add(registry, &block, NULL), GM_OK); /* no test searches the old range */
    assert_int_equal(gm_registry_count(registry), 1);
}

static void count_visit(const struct gm_block *block, void *arg) {
    uint64_t *sum = arg;
    sum[0]++;
    sum[1] += block->address;
}

static struct gm_block_record *claim(struct gm_registry *registry, uint64_t address) {
    struct gm_block_record *record = gm_registry_look(registry, address);
    return record && gm_record_claim(record, address) ? record : NULL;
}

/* A claimed record stays, but to every search its block is gone, until it lives again. */
TEST(test_claimed_record) {
    struct gm_registry *registry = fresh();
    struct gm_block block = at(BASE, 4000), out;
    uint64_t sum[2] = {0};
    block.reserved = 4096;
    assert_null(claim(registry, BASE));
    assert_int_equal(gm_registry_add(registry, &block, NULL), GM_OK);
    struct gm_block_record *record = claim(registry, BASE);
    assert_non_null(record);
    assert_null(claim(registry, BASE));
    assert_true(gm_registry_holds(registry, BASE, NULL) && !gm_registry_holds(registry, BASE + 1, NULL));
    assert_false(gm_registry_find(registry, BASE, &out) || gm_registry_take(registry, BASE, &out));
    assert_false(gm_registry_find_range(registry, BASE + 1, &out));
    gm_registry_each(registry, count_visit, sum);
    assert_int_equal(sum[0], 0);
    record->block.size = 100; /* of its next life */
    gm_record_revive(record, BASE);
    assert_true(gm_registry_find_range(registry, BASE + 99, &out) && out.size == 100);
    assert_false(gm_registry_find_range(registry, BASE + 100, &out) || gm_registry_holds(registry, BASE, NULL));
    assert_ptr_equal(claim(registry, BASE), record);
    gm_registry_remove(registry, record);
    assert_false(gm_registry_holds(registry, BASE, NULL));
    assert_int_equal(gm_registry_count(registry), 0);
}

/* The context of held memory ended, and another one got the address: the old record makes way, and is removed later. */
TEST(test_record_makes_way) {
    struct gm_registry *registry = fresh();
    struct gm_block block = at(BASE, 4096), out;
    struct gm_block_record *old = gm_registry_add_held(registry, &block, NULL);
    assert_non_null(old);
    assert_false(gm_registry_find_range(registry, BASE, &out));
    assert_int_equal(gm_registry_add(registry, &block, &out), GM_OK);
    assert_int_equal(out.address, 0);
    assert_true(gm_registry_find(registry, BASE, &out) && gm_registry_look(registry, BASE) != old);
    gm_registry_remove(registry, old);
    assert_true(gm_registry_find_range(registry, BASE + 4095, &out));
    assert_int_equal(gm_registry_count(registry), 1);
}

struct take_while_visiting {
    struct gm_registry *registry;
    uint64_t context, count;
};

static void visit_dropped(const struct gm_block *block, void *arg) {
    struct take_while_visiting *visit = arg;
    struct gm_block out;
    assert_true(block->context_id == visit->context);
    assert_false(gm_registry_find(visit->registry, block->address, &out)); /* removed before it is reported */
    visit->count++;
}

TEST(test_each_and_drop_context) {
    enum { BLOCKS = 5000, CONTEXTS = 5 };
    struct gm_registry *registry = fresh();
    uint64_t sum[2] = {0}, expected = 0;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct gm_block block = at(BASE + i * 512, 512);
        block.context_id = 1 + i % CONTEXTS;
        expected += block.address;
        assert_int_equal(gm_registry_add(registry, &block, NULL), GM_OK);
    }
    gm_registry_each(registry, count_visit, sum);
    assert_true(sum[0] == BLOCKS && sum[1] == expected);
    struct take_while_visiting visit = {registry, 3, 0};
    gm_registry_drop_context(registry, 3, NULL, visit_dropped, &visit);
    assert_int_equal(visit.count, BLOCKS / CONTEXTS);
    assert_int_equal(gm_registry_count(registry), BLOCKS - BLOCKS / CONTEXTS);
    visit.context = 77;
    gm_registry_drop_context(registry, 77, NULL, visit_dropped, &visit);
    assert_int_equal(gm_registry_count(registry), BLOCKS - BLOCKS / CONTEXTS);
    for (visit.context = 1; visit.context <= CONTEXTS; visit.context++)
        gm_registry_drop_context(registry, visit.context, NULL, visit_dropped, &visit);
    assert_int_equal(gm_registry_count(registry), 0);
    assert_int_equal(visit.count, BLOCKS);
}

/* While a context's blocks are removed, their addresses are added again in another context. */
struct come_again {
    struct gm_registry *registry;
    uint64_t last, dropped, numbered;
};

static uint64_t next_number(void) {
    static uint64_t last;
    return ++last;
}

static void all_come_again(const struct gm_block *block, void *arg) {
    struct come_again *again = arg;
    again->numbered += block->sequence == ++again->dropped;
    for (uint64_t i = 0; again->dropped == 1 && i < again->last; i++) {
        struct gm_block newer = at(BASE + i * 512, 512);
        newer.context_id = 9;
        assert_int_equal(gm_registry_add(again->registry, &newer, NULL), GM_OK);
    }
}

TEST(test_drop_leaves_newer_blocks) {
    struct come_again again = {fresh(), 5000, 0, 0};
    for (uint64_t i = 0; i < again.last; i++) {
        struct gm_block block = at(BASE + i * 512, 512);
        block.context_id = 3;
        assert_int_equal(gm_registry_add(again.registry, &block, NULL), GM_OK);
    }
    gm_registry_drop_context(again.registry, 3, next_number, all_come_again, &again);
    assert_int_equal(again.dropped, 1);
    assert_int_equal(again.numbered, 1);
    assert_int_equal(gm_registry_count(again.registry), again.last);
}

#ifndef MILLION
#define MILLION 1000000
#endif

TEST(test_a_million) {
    struct gm_registry *registry = fresh();
    struct gm_block out;
    for (uint64_t i = 0; i < MILLION; i++)
        add(registry, BASE + i * 4096, 1 + i % 4096);
    assert_int_equal(gm_registry_count(registry), MILLION);
    for (uint64_t i = 0; i < MILLION; i += 101) { /* searching by range builds the index of all blocks at once */
        assert_true(gm_registry_find_range(registry, BASE + i * 4096 + i % 4096, &out));
        assert_true(out.address == BASE + i * 4096);
        assert_false(gm_registry_find_range(registry, BASE + i * 4096 + 1 + i % 4096, &out) &&
                     out.address == BASE + i * 4096);
    }
    for (uint64_t i = 0; i < MILLION; i++)
        assert_true(gm_registry_take(registry, BASE + (MILLION - 1 - i) * 4096, &out));
    assert_int_equal(gm_registry_count(registry), 0);
    assert_false(gm_registry_find_range(registry, BASE + 4096, &out));
}

/* ---- threads: each has its own addresses, so it knows every answer */

#ifdef __SANITIZE_THREAD__ /* each access takes many times longer */
enum { THREADS = 8, OWN = 64, STEPS = 3000, MORE = MILLION / 128 };
#else
enum { THREADS = 8, OWN = 64, STEPS = 20000, MORE = MILLION / 16 };
#endif

static struct {
    struct gm_registry *registry;
    int ask_ranges_from; /* step at which a thread begins to search by range */
    int wrong;
} work;

static void *hammer(void *arg) {
    uint64_t number = (uint64_t)(uintptr_t)arg;
    uint32_t random = (uint32_t)number * 7919 + 1;
    size_t sizes[OWN] = {0};
    struct gm_block out;
    int wrong = 0;
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        unsigned i = random >> 16 & (OWN - 1);
        uint64_t address = BASE + (i * THREADS + number) * (1 << 20); /* neighbours belong to other threads */
        if (sizes[i]) {
            wrong += !gm_registry_find(work.registry, address, &out) || out.size != sizes[i];
            if (step >= work.ask_ranges_from)
                wrong += !gm_registry_find_range(work.registry, address + sizes[i] - 1, &out) || out.address != address;
            wrong += !gm_registry_take(work.registry, address, &out) || out.size != sizes[i];
            sizes[i] = 0;
        } else {
            struct gm_block block = at(address, 1 + (random >> 8) % (1 << 20)), previous;
            wrong += gm_registry_add(work.registry, &block, &previous) != GM_OK || previous.address;
            sizes[i] = block.size;
            if (step >= work.ask_ranges_from)
                wrong +=
                    !gm_registry_find_range(work.registry, address + block.size / 2, &out) || out.address != address;
        }
    }
    for (unsigned i = 0; i < OWN; i++)
        if (sizes[i])
            wrong += !gm_registry_take(work.registry, BASE + (i * THREADS + number) * (1 << 20), &out);
    __atomic_add_fetch(&work.wrong, wrong, __ATOMIC_RELAXED);
    return NULL;
}

static void run_threads(int ask_ranges_from) {
    pthread_t threads[THREADS];
    struct gm_block out;
    work.registry = fresh();
    work.ask_ranges_from = ask_ranges_from;
    work.wrong = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(work.wrong, 0);
    assert_int_equal(gm_registry_count(work.registry), 0);
    assert_false(gm_registry_find_range(work.registry, BASE, &out));
}

TEST(test_threads_by_address) { run_threads(STEPS); }
TEST(test_threads_by_range) { run_threads(0); }
/* The index is built while eight threads add and remove blocks: the walk may miss no block. */
TEST(test_range_index_begun_amid_adds) {
    for (int round = 0; round < 4; round++)
        run_threads(500 + round * 1000);
}

/* One thread adds blocks, so that the range index is enlarged again and again, while another one removes blocks. */
enum { FEW = 512 };

static void *come_and_go(void *stop) {
    struct gm_block block, out;
    int wrong = 0;
    for (uint64_t i = 0; !__atomic_load_n((int *)stop, __ATOMIC_ACQUIRE); i++) {
        block = at(BASE - (i % FEW + 1) * 4096, 4096);
        wrong += i >= FEW && !gm_registry_take(work.registry, block.address, &out);
        wrong += gm_registry_add(work.registry, &block, NULL) != GM_OK;
    }
    return (void *)(intptr_t)wrong;
}

static void grow_amid_removals(void) {
    pthread_t other;
    int stop = 0;
    void *wrong;
    struct gm_block out;
    work.registry = fresh();
    assert_false(gm_registry_find_range(work.registry, BASE, &out)); /* from now on there is an index */
    assert_int_equal(pthread_create(&other, NULL, come_and_go, &stop), 0);
    for (uint64_t i = 0; i < MORE; i++)
        add(work.registry, BASE + i * 4096, 4096);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(other, &wrong);
    assert_null(wrong);
    for (uint64_t i = 0; i < MORE; i++)
        assert_true(gm_registry_find_range(work.registry, BASE + i * 4096 + 1, &out) && out.address == BASE + i * 4096);
    for (uint64_t i = 0; i < MORE; i++)
        assert_true(gm_registry_take(work.registry, BASE + i * 4096, &out));
    assert_false(gm_registry_find_range(work.registry, BASE + 1, &out));
    gm_registry_discard(work.registry);
}

TEST(test_range_index_grows_amid_removals) {
    alarm(100); /* a removed block that stays in the index makes a chain endless */
    for (int round = 0; round < 16; round++)
        grow_amid_removals();
    alarm(0);
}

static void *visit_again_and_again(void *arg) {
    uint64_t sum[2] = {0};
    while (!__atomic_load_n((int *)arg, __ATOMIC_ACQUIRE)) {
        gm_registry_each(work.registry, count_visit, sum);
        gm_registry_drop_context(work.registry, 99, NULL, count_visit, sum); /* belongs to no thread */
    }
    return NULL;
}

TEST(test_walks_beside_threads) {
    pthread_t walker, threads[2];
    int stop = 0;
    work.registry = fresh();
    work.ask_ranges_from = STEPS / 2;
    work.wrong = 0;
    assert_int_equal(pthread_create(&walker, NULL, visit_again_and_again, &stop), 0);
    for (uintptr_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)i), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    pthread_join(walker, NULL);
    assert_int_equal(work.wrong, 0);
}

/* ---- fork: locks that other threads hold at that moment do not block the child */

static int child_works(void) {
    struct gm_block block = at(BASE + (1ull << 40), 4096), out;
    uint64_t sum[2] = {0};
    alarm(20);
    gm_registry_after_fork(work.registry);
    for (uint64_t i = 0; i < 4096; i++) { /* every shard */
        block.address += 4096;
        if (gm_registry_add(work.registry, &block, NULL) != GM_OK ||
            !gm_registry_find_range(work.registry, block.address + 1, &out))
            return 1;
    }
    gm_registry_each(work.registry, count_visit, sum);
    for (uint64_t i = 0; i < 4096; i++, block.address -= 4096)
        if (!gm_registry_take(work.registry, block.address, &out))
            return 2;
    return sum[0] >= 4096 ? 0 : 3;
}

TEST(test_fork_amid_threads) {
    pthread_t threads[4];
#if defined(__SANITIZE_THREAD__) /* ThreadSanitizer takes the parent's threads for threads of the child */
    skip();
#endif
    work.registry = fresh();
    work.ask_ranges_from = 0;
    work.wrong = 0;
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, (void *)i), 0);
    for (int round = 0; round < 12; round++) {
        pid_t child = fork();
        int status = -1;
        assert_true(child >= 0);
        if (child == 0)
            _exit(child_works());
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(work.wrong, 0);
}

TEST(test_one_for_the_process) {
    struct gm_registry *registry = gm_registry_shared();
    assert_non_null(registry);
    assert_ptr_equal(registry, gm_registry_shared());
}

int main(void) { return run_all(NULL, NULL); }

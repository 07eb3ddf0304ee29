/* Compaction in place (tiles.h), with host threads instead of a GPU's blocks. */
#include "spgemm_test.h"

#include "spgemm/random.h"
#include "spgemm/tiles.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define THREADS 5

struct packing {
    struct spg_tiling tiling;
    int32_t *at; /* content of each slot: the entry's number in C; -1 = empty */
    atomic_uint ticket;
    atomic_uint *read;
    unsigned tiles;
    atomic_bool wrong;
};

/* Does what the kernel does, with a pause between reading and writing so that tiles overtake each other. */
static void *mover(void *pointer) {
    struct packing *m = pointer;
    const struct spg_tiling *p = &m->tiling;
    int32_t held[SPG_TILE];
    unsigned number;
    while ((number = atomic_fetch_add(&m->ticket, 1)) < m->tiles) {
        struct spg_tile t = spg_tile_at(p, (int32_t)number);
        for (int32_t row = t.row; row < t.row + t.rows; row++)
            for (int32_t entry = p->offset[row]; entry < p->offset[row + 1]; entry++)
                if (entry < t.begin || entry >= t.end || entry - t.begin >= SPG_TILE)
                    m->wrong = true;
                else
                    held[entry - t.begin] = m->at[(int64_t)row * p->chunk + entry - p->offset[row]];
        atomic_store_explicit(&m->read[number], 1, memory_order_release);
        if (t.after - t.first > 2 || t.after > (int32_t)number || t.begin > (int64_t)t.row * p->chunk)
            m->wrong = true;
        for (int32_t other = t.first; other < t.after; other++)
            while (!atomic_load_explicit(&m->read[other], memory_order_acquire))
                sched_yield();
        if (number % 3 == 0)
            sched_yield();
        for (int32_t i = 0; i < t.end - t.begin; i++)
            m->at[t.begin + i] = held[i];
    }
    return NULL;
}

enum filling { FULL, EMPTY, MOSTLY_FULL, ANY, EMPTY_FIRST, FILLINGS };

static int32_t filled(enum filling how, int32_t chunk, int32_t row, int32_t rows) {
    uint64_t drawn = spg_random_at((uint64_t)how + 7, (uint64_t)row);
    switch (how) {
    case FULL: return chunk;
    case EMPTY: return 0;
    case MOSTLY_FULL: return drawn % 50 ? chunk : (int32_t)(drawn / 50 % ((uint64_t)chunk + 1));
    case ANY: return (int32_t)(drawn % ((uint64_t)chunk + 1));
    default: return row < rows / 2 ? 0 : chunk;
    }
}

static void try(int32_t rows, int32_t chunk, enum filling how) {
    int64_t slots = (int64_t)rows * chunk;
    int32_t *offset = malloc(((size_t)rows + 1) * sizeof *offset), *at = malloc(((size_t)slots + 1) * sizeof *at),
            entries = 0;
    for (int32_t i = 0; i < rows; i++) {
        int32_t size = filled(how, chunk, i, rows);
        offset[i] = entries;
        for (int32_t k = 0; k < chunk; k++)
            at[(int64_t)i * chunk + k] = k < size ? entries + k : -1;
        entries += size;
    }
    offset[rows] = entries;
    struct packing m = {.tiling = {rows, chunk, spg_tile_rows(chunk), offset}, .at = at};
    m.tiles = (unsigned)spg_tiles(&m.tiling);
    assert_true(m.tiles <= (unsigned)rows);
    m.read = calloc(m.tiles + 1, sizeof *m.read);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, mover, &m), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_false(m.wrong);
    for (int32_t i = 0; i < entries; i++)
        if (at[i] != i)
            fail_msg("%d rows of %d slots, filling %d: entry %d is %d", rows, chunk, how, i, at[i]);
    free(offset);
    free(at);
    free(m.read);
}

TEST(moves_every_entry_to_its_place) {
    static const int32_t chunks[] = {1, 2, 25, 32, 33, 150, 1000, SPG_TILE - 1, SPG_TILE};
    static const int32_t slots[] = {0, 1, SPG_TILE - 1, SPG_TILE, SPG_TILE + 1, 10 * SPG_TILE, 60 * SPG_TILE + 5};
    for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++)
        for (size_t k = 0; k < sizeof slots / sizeof slots[0]; k++)
            for (enum filling how = FULL; how < FILLINGS; how++)
                try((slots[k] + chunks[i] - 1) / chunks[i], chunks[i], how);
}

int main(void) { return run_all(NULL, NULL); }

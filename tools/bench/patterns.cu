// Patterns of real programs that reuse no block at once: many small blocks that are new, and sequences of nested
// temporaries. The row `mixed` (pairs.cu) has random sizes.
#include "bench.h"

#include <algorithm>
#include <random>
#include <vector>

namespace {

const size_t KIB = 1 << 10;

// Small blocks of new sizes; what a run before it kept is given back first. Memory is a figure of the second row, while
// all blocks are there.
void fresh_rows() {
    const int count = 1000;
    const size_t least = KIB / 2, most = 4 * KIB;
    static std::vector<void *> blocks;
    static std::mt19937 random(42);
    static auto allocate = [=](int n) {
        for (int i = 0; i < n; i++)
            blocks.push_back(bench.contender.allocate(least + random() % (most - least)));
    };
    static auto release = [](int) {
        for (void *block : blocks)
            bench.contender.release(block);
        blocks.clear();
    };
    row allocations = {"fresh-alloc", count, allocate};
    row frees = {"fresh-free", count, release, count * (least + most) / 2};
    frees.probe = [=] {
        allocate(count);
        size_t used = card_used();
        release(count);
        return used;
    };
    allocations.before = [] { bench.contender.trim(); };
    measure({allocations, frees});
}

// Like a bootstrapping of CKKS ciphertexts: operations on ever fewer limbs, each with temporaries that are freed inside
// of it, and a result that replaces the one before. A repetition is one operation.
const int MOST_LIMBS = 24, TEMPORARIES = 4;
const size_t LIMB = 256 * KIB;

struct sequence {
    void *result = nullptr;
    int limbs = MOST_LIMBS;

    void operation() {
        allocator contender = bench.contender;
        size_t bytes = limbs * LIMB;
        void *next = contender.allocate(2 * bytes), *temporaries[TEMPORARIES];
        for (int i = 0; i < TEMPORARIES; i++) {
            temporaries[i] = contender.allocate(bytes + i % 2 * LIMB);
            launch_work(temporaries[i], bytes, 1);
        }
        launch_work(next, bytes, 1);
        for (int i = TEMPORARIES - 1; i >= 0; i--)
            contender.release(temporaries[i]);
        if (result)
            contender.release(result);
        result = next;
        limbs = limbs > 2 ? limbs - 1 : MOST_LIMBS;
    }
};

void bootstrap_row() {
    sequence running;
    // In the second operation, beside the largest result.
    size_t most = ((TEMPORARIES + 2) * (MOST_LIMBS - 1) + TEMPORARIES / 2 + 2 * MOST_LIMBS) * LIMB;
    measure({{"bootstrap", MOST_LIMBS - 1,
              [&](int n) {
                  for (int i = 0; i < n; i++)
                      running.operation();
                  CHECK(cudaDeviceSynchronize());
              },
              most}});
    if (running.result)
        bench.contender.release(running.result);
}

} // namespace

void pattern_rows() {
    fresh_rows();
    bootstrap_row();
}

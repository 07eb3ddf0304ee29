/* A bound on the managed memory of a program: its total stays below the card's free memory less a headroom, since going over can hang
 * a card that others use as well. C++, one thread. */
#ifndef EXAMPLES_MANAGED_BOUND_H
#define EXAMPLES_MANAGED_BOUND_H

#include "check.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

class managed_bound {
public:
    /* Before the first managed block. */
    void start() {
        std::size_t total;
        CHECK(cudaMemGetInfo(&free_at_start, &total));
        headroom = std::max(std::size_t{512} << 20, total / 20);
    }

    /* Whether `size` more bytes may be managed; they then count as taken. The card is asked when the total grows beyond what it was
     * asked for, and once a second since others may take memory too: a loop of equal blocks pays next to nothing for it. */
    bool take(std::size_t size) {
        auto now = std::chrono::steady_clock::now();
        if (taken + size > allowed || now - asked > std::chrono::seconds(1)) {
            std::size_t free_now, total, wanted = taken + size + step;
            CHECK(cudaMemGetInfo(&free_now, &total));
            /* Blocks that were never touched may still be missing from what is in use: count all of them again. */
            std::size_t own_in_use = free_at_start > free_now ? free_at_start - free_now : 0;
            std::size_t untouched = taken > own_in_use ? taken - own_in_use : 0;
            if (wanted + headroom > free_at_start || size + step + untouched + headroom > free_now)
                return false;
            allowed = wanted;
            asked = now;
        }
        taken += size;
        return true;
    }

    void give_back(std::size_t size) { taken -= size; }

private:
    static constexpr std::size_t step = std::size_t{64} << 20;
    std::size_t free_at_start = 0, headroom = 0, taken = 0, allowed = 0;
    std::chrono::steady_clock::time_point asked = {};
};

#endif

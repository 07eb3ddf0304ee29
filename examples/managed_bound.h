/* A bound on the managed memory of a program: its total stays below the card's free memory less a headroom, since going
 * over can hang a card that others use as well. Blocks already on the card are not free any more and count twice: the
 * bound errs to the safe side. C++, one thread. */
#ifndef EXAMPLES_MANAGED_BOUND_H
#define EXAMPLES_MANAGED_BOUND_H

#include "check.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

class managed_bound {
  public:
    /* Whether `size` more bytes may be managed; they then count as taken. The card's free memory is queried when the
     * total grows beyond `allowed`, and once a second since others may take memory too: a loop of equal blocks pays
     * next to nothing for it. */
    bool take(std::size_t size) {
        auto now = std::chrono::steady_clock::now();
        if (taken + size > allowed || now - queried > std::chrono::seconds(1)) {
            std::size_t free_now, total;
            CHECK(cudaMemGetInfo(&free_now, &total));
            const std::size_t wanted = std::max(taken + size, allowed) + (taken + size > allowed ? step : 0);
            const std::size_t headroom = std::max(std::size_t{512} << 20, total / 20);
            if (wanted + headroom > free_now)
                return false;
            allowed = wanted;
            queried = now;
        }
        taken += size;
        return true;
    }

    void give_back(std::size_t size) { taken -= size; }

  private:
    static constexpr std::size_t step = std::size_t{64} << 20;
    std::size_t taken = 0, allowed = 0;
    std::chrono::steady_clock::time_point queried = {};
};

#endif

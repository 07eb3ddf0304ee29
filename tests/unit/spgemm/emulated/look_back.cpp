#include "look_back.h"
#include "emulated.h"
#include "spgemm/look_back.cuh"

#include <vector>

int64_t emulated_look_back(int64_t count, const int64_t *sum, const emulated_tile *state) {
    std::vector<unsigned long long> tiles(static_cast<size_t>(count) + 1);
    int64_t found = 0, before = 0;
    for (int64_t i = 0; i < count; i++) {
        before += sum[i];
        if (state[i] != EMULATED_LATE)
            spg_publish(tiles.data(), i, state[i] == EMULATED_SUM ? SPG_TILE_SUM : SPG_TILE_OFFSET,
                        state[i] == EMULATED_SUM ? sum[i] : before);
    }
    emulated_run(1, 64, 0, false, [&] {
        if (threadIdx.x < 32) {
            int64_t mine = spg_look_back(tiles.data(), count);
            found = threadIdx.x == 0 ? mine : found;
        }
        for (int64_t i = count; threadIdx.x == 32 && i-- > 0;) {
            if (state[i] != EMULATED_LATE)
                continue;
            __nanosleep(1);
            spg_publish(tiles.data(), i, SPG_TILE_SUM, sum[i]);
        }
    });
    return found;
}

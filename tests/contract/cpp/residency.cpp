// The C++ residency and its uses at work. Runs on the simulated CUDA; on a card, too.
#include <cstdio>
#include <cstring>
#include <vector>

#include "device.hpp"
#include "gpumem_residency.hpp"

enum : std::size_t { BYTES = 64 << 10 };

static void uses_end_with_their_scope(CUstream_st *stream) {
    gpumem::residency residency(gpumem::residency::with_budget(2 * BYTES));
    std::vector<char> one(BYTES, 1), two(BYTES, 2);
    auto a = residency.add(one.data(), BYTES), b = residency.add(two.data(), BYTES), c = residency.add_result(BYTES);
    residency.announce({a, b});
    EXPECT(residency.prefetch({a, b}) == 2);
    {
        auto uses = residency.use(stream, gpumem::read(a), gpumem::read(b));
        EXPECT(uses.at(0) && uses.at<char>(1) != uses.at<char>(0));
        auto moved = std::move(uses);
        try {
            (void)residency.use(stream, gpumem::write(c));
            EXPECT(!"no room");
        } catch (const std::bad_alloc &) {
        }
    }
    EXPECT(residency.stats().hits == 2 && residency.stats().transfers_to_device == 2);
    auto result = residency.use(stream, gpumem::write(c)); // evicts one
    result.release(GPUMEM_RELEASE_DROP);
    EXPECT(residency.stats().evictions == 1);
    { auto changed = residency.use(stream, gpumem::read_write(a)); }
    EXPECT(residency.sync(a) == one.data() && one[0] == 1);
    residency.update(a, 1);
    residency.remove(a);
    try {
        residency.remove(a);
        EXPECT(!"removed twice");
    } catch (const gpumem::error &error) {
        EXPECT(error.status() == GPUMEM_NOT_FOUND && std::strstr(error.text(), "was unregistered"));
    }
    gpumem::residency other = std::move(residency);
    EXPECT(other.handle() && !residency.handle());
}

int main() {
    return run("residency", [](CUstream_st *stream) { uses_end_with_their_scope(stream); });
}

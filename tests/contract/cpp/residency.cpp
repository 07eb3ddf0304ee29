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

// The end of uses is refused while their stream is being captured, and nothing is lost: release() can be called again,
// and a destructor ends them all the same.
static void uses_outlast_a_capture(CUstream_st *stream) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    auto begin = reinterpret_cast<int (*)(CUstream_st *, int)>(dlsym(driver, "cuStreamBeginCapture_v2"));
    auto end = reinterpret_cast<int (*)(CUstream_st *, void **)>(dlsym(driver, "cuStreamEndCapture"));
    gpumem::residency residency(gpumem::residency::with_budget(BYTES));
    auto a = residency.add_result(BYTES);
    void *graph = nullptr;
    {
        auto uses = residency.use(stream, gpumem::write(a));
        EXPECT(begin(stream, 2) == 0);
        try {
            uses.release();
            EXPECT(!"released during a capture");
        } catch (const gpumem::error &error) {
            EXPECT(error.status() == GPUMEM_STREAM_CAPTURE);
        }
        EXPECT(end(stream, &graph) == 0);
        uses.release();
    }
    {
        auto uses = residency.use(stream, gpumem::write(a));
        EXPECT(begin(stream, 2) == 0);
    }
    EXPECT(end(stream, &graph) == 0);
    { auto uses = residency.use(stream, gpumem::read_write(a)); }
    residency.remove(a);
}

int main() {
    return run("residency", [](CUstream_st *stream) {
        uses_end_with_their_scope(stream);
        uses_outlast_a_capture(stream);
    });
}

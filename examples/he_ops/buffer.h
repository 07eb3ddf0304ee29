// Device memory as the libraries hold it: one class that allocates on construction and frees on destruction, wherever
// that is.
#ifndef HE_OPS_BUFFER_H
#define HE_OPS_BUFFER_H

#include "modular.h"

#include <cstddef>
#include <string>
#include <vector>

// malloc: cudaMalloc for all. async: cudaMallocAsync for all, from the default pool, which keeps what is freed.
// managed: cudaMallocManaged for all. hybrid: temporaries asynchronous, the rest managed (the static scheme).
enum class scheme { malloc, async, managed, hybrid };

// temporary: lives within an operation. lasting: ciphertexts. constant: written once, then only read by the device.
enum class lifetime { temporary, lasting, constant };

struct allocation_counts {
    long temporary, lasting; // allocations so far; constants count as lasting
    long freed, short_lived; // short-lived: freed within a second
    std::size_t live, peak;  // requested bytes
    std::size_t lasting_live;
};

// Before the first buffer. `advice`: managed buffers prefer the device and are moved there; constants are marked
// read-mostly.
void set_allocation(scheme chosen, bool advice);
const allocation_counts &allocations();

// A CUDA error ends the program with a message; so does a managed total that would not fit the card's free memory with
// headroom to spare, since going over can hang a shared card. Used from one thread; all work is on the default stream.
class buffer {
  public:
    buffer() = default;
    buffer(std::size_t words, lifetime kind);
    buffer(const std::vector<word> &values, lifetime kind); // with a copy of them
    buffer(buffer &&other) noexcept;
    buffer &operator=(buffer &&other) noexcept;
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;
    ~buffer() { release(); }

    word *data() const { return at; }
    std::size_t words() const { return count; }
    std::vector<word> download() const; // waits for the device
    void settle() const;                // the contents are complete: gives the advice for a constant

  private:
    void release();
    word *at = nullptr;
    std::size_t count = 0;
    lifetime kind = lifetime::temporary;
    double born = 0;
};

#endif

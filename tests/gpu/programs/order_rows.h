// What the programs order_*.cu share. Each of their cases is right natively because cudaFree waits for all earlier work
// of the context, and has no other order where it needs one; or it compares what gpumem must not change.
//
// A case ends with one line on stdout: "ok NAME", or "wrong NAME: what" and exit status 9. 77: the device or driver
// cannot show it. ORDER_MS: how long a kernel runs that is overtaken by whatever does not wait, 30 ms.
#ifndef GPU_ORDER_ROWS_H
#define GPU_ORDER_ROWS_H

#include <chrono>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

#include <cuda.h>
#include <cuda_runtime.h>

enum { ROUNDS = 4, UNSUPPORTED = 77, WRONG = 9 };
static const size_t SCRATCH = (size_t)1 << 20;
static const double SOON_S = 1; // a call that waits for nothing, on a card that others use, too

struct OrderCase {
    const char *name;
    void (*run)();
};

// One word that a kernel writes late, and counters; all of device memory.
struct Order {
    unsigned *word, *other;     // 0 at the begin of a round
    unsigned *bad;              // readers that saw another value than the one of their round
    unsigned value;             // of this round
    unsigned long long ns;      // a late write takes so long
    cudaStream_t first, second; // non-blocking, made by two_streams
};
extern Order order;

[[noreturn]] void broken(const char *what, int line, int result); // 801: not supported here
[[noreturn]] void unsupported(const char *why);
void wrong(const char *format, ...) __attribute__((format(printf, 1, 2))); // the case goes on; the first one is printed
int run_case(const OrderCase *cases, size_t count, const char *name);
void set_up(); // warm: kernels are loaded, and gpumem knows the size of scratch memory

static inline void must(int result, const char *what, int line) {
    if (result != 0)
        broken(what, line, result);
}
#define MUST(call) must((int)(call), #call, __LINE__)
#define EXPECT(condition)                    \
    do {                                     \
        if (!(condition))                    \
            broken(#condition, __LINE__, 0); \
    } while (0)

// A function of the driver: the programs are not linked with it, as most are not.
void *driver_function(const char *name);
#define DRIVER(name)          ((decltype(&name))driver_function(#name))
#define DRIVER_AS(name, type) ((type)driver_function(#name))

struct Clock {
    std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }
};

void two_streams();
void *scratch(); // memory to be freed behind work: the order is that of its free
void free_scratch(void *memory);
void begin_round();                          // word and other are 0, all work is done
void end_round(const char *what = "device"); // waits; wrong where a reader saw another value
// Kernels. late_write: after `ns` writes order.value; with `triggers` it lets programmatic launches behind it begin
// early.
void late_write(cudaStream_t stream, unsigned *word, unsigned long long ns, bool triggers = false);
void write_now(cudaStream_t stream, unsigned *word, unsigned value);
void read_now(cudaStream_t stream, const unsigned *word); // counts in order.bad
void spin(cudaStream_t stream, unsigned long long ns);
unsigned look(const unsigned *word); // waits for everything, then reads

static const unsigned long long MS = 1000000;

extern const OrderCase device_cases[], host_cases[], context_cases[];
extern const size_t device_case_count, host_case_count, context_case_count;

__global__ void order_late_write(volatile unsigned *word, unsigned value, unsigned long long ns, int triggers);
__global__ void order_read(const volatile unsigned *word, unsigned value, unsigned *bad);
__global__ void order_spin(unsigned long long ns);
__global__ void order_fault(unsigned *address, unsigned long long ns);

#endif

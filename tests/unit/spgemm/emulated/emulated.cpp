/* The fibers, and a CUDA runtime with device memory on the host. Each allocation ends at an inaccessible page, so that
 * an access beyond its end fails. */
#include "emulated.h"
#include "cooperative_groups.h"
#include "driver.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

namespace {

enum State : unsigned char { READY, AT_WARP, AT_BLOCK, AT_GRID, ASLEEP, GONE };

/* What the scheduler reads of a thread lies together; the rest of it in Fiber. */
struct Thread {
    State state;
    unsigned index, block, mask;
    uint64_t mine;
    const uint64_t *all; /* values of the lanes of its mask, until its next exchange */
};

struct Fiber {
    ucontext_t context; /* of the first start */
    void *place[5];     /* where it resumes; of __builtin_setjmp, which saves no more than the compiler needs */
    bool begun;
    uint64_t all[32]; /* of the exchange in which it is the lowest lane */
};

constexpr size_t STACK = 32 << 10;
std::vector<Thread> threads;
std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<std::unique_ptr<char[]>> stacks;
unsigned char *shared_memory;

constexpr size_t PAGE = 4096, SHARED_MOST = 64 * PAGE;

/* The dynamic shared memory of a block. A page that cannot be accessed follows it, as on a card more would not exist.
 */
unsigned char *shared_of(size_t size) {
    static unsigned char *all;
    if (!all) {
        void *at = mmap(nullptr, SHARED_MOST + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            abort();
        all = static_cast<unsigned char *>(at);
        mprotect(all + SHARED_MOST, PAGE, PROT_NONE);
    }
    size_t aligned = (size + 15) / 16 * 16;
    if (aligned > SHARED_MOST)
        abort();
    memset(all + SHARED_MOST - aligned, 0xcd, aligned);
    return all + SHARED_MOST - aligned;
}

size_t current;
void *scheduler[5];
const std::function<void()> *running;
unsigned threads_of_block;

__attribute__((noinline, noreturn)) void jump(void **place) { __builtin_longjmp(place, 1); }

__attribute__((noinline)) void wait(State state) {
    threads[current].state = state;
    if (!__builtin_setjmp(fibers[current]->place))
        jump(scheduler);
}

/* A fiber runs one thread after the other. */
void enter() {
    for (;;) {
        (*running)();
        wait(GONE);
    }
}

__attribute__((noinline)) void go_on(size_t i) {
    current = i;
    emulated_thread = {threads[i].index};
    emulated_block = {threads[i].block};
    if (__builtin_setjmp(scheduler))
        return;
    Fiber &f = *fibers[current];
    if (f.begun)
        jump(f.place);
    f.begun = true;
    setcontext(&f.context);
}

/* Releases the threads first to last - 1 once all of them that still run wait in `state`. */
bool release(size_t first, size_t last, State state) {
    bool any = false;
    for (size_t i = first; i < last; i++) {
        if (threads[i].state != state && threads[i].state != GONE)
            return false;
        any = any || threads[i].state == state;
    }
    for (size_t i = first; any && i < last; i++)
        if (threads[i].state == state)
            threads[i].state = READY;
    return any;
}

/* A lane reads the values before its warp is released again: all lanes that are ready run between two releases. */
bool release_warp(size_t first, size_t last) {
    bool any = false;
    for (size_t i = first; i < last; i++) {
        unsigned mask = threads[i].mask;
        size_t lowest = first + static_cast<size_t>(__builtin_ctz(mask | 1u << 31));
        if (threads[i].state != AT_WARP || i != lowest)
            continue;
        bool all = true;
        uint64_t *given = fibers[i]->all;
        for (size_t j = first; all && j < first + 32; j++) {
            bool takes_part = mask >> (j - first) & 1;
            all = !takes_part || (j < last && threads[j].state == AT_WARP && threads[j].mask == mask);
            given[j - first] = all && takes_part ? threads[j].mine : 0;
        }
        for (size_t j = first; all && j < last; j++) {
            if (!(mask >> (j - first) & 1))
                continue;
            threads[j].all = given;
            threads[j].state = READY;
        }
        any = any || all;
    }
    return any;
}

/* Threads between barriers, and warps, run in changing order, so that a missing barrier becomes a wrong result. */
class Turn {
  public:
    explicit Turn(size_t all) : count_(all) {
        static uint64_t seed = 1;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        begin_ = static_cast<uint32_t>(seed >> 40) % static_cast<uint32_t>(all);
        forward_ = seed >> 39 & 1;
    }
    size_t operator()(size_t at) const {
        size_t forward = at + begin_;
        forward -= forward < count_ ? 0 : count_;
        return forward_ ? forward : count_ - 1 - forward;
    }

  private:
    size_t count_, begin_;
    bool forward_;
};

/* Runs a warp's threads until each one waits for other warps or has ended. */
bool run_warp(size_t first, size_t last) {
    bool ran = false;
    if (std::none_of(threads.data() + first, threads.data() + last,
                     [](const Thread &thread) { return thread.state == READY; }))
        return false;
    do {
        Turn turn(last - first);
        for (size_t at = 0; at < last - first; at++) {
            size_t i = first + turn(at);
            if (threads[i].state != READY)
                continue;
            ran = true;
            go_on(i);
        }
    } while (release_warp(first, last));
    return ran;
}

/* Lets threads go on that sleep until another thread has done something. */
bool awake(size_t count) {
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        any = any || threads[i].state == ASLEEP;
        threads[i].state = threads[i].state == ASLEEP ? READY : threads[i].state;
    }
    return any;
}

/* Runs fibers 0 to count - 1 until they end. */
void schedule(size_t count) {
    for (bool left = true; left;) {
        bool ran = false;
        for (size_t b = 0; b < count; b += threads_of_block) {
            size_t warps = (threads_of_block + 31) / 32, order[32];
            Turn turn(warps);
            for (size_t at = 0; at < warps; at++)
                order[at] = b + 32 * turn(at);
            for (size_t at = 0; at < warps; at++)
                ran |= run_warp(order[at], std::min<size_t>(order[at] + 32, b + threads_of_block));
            ran |= release(b, b + threads_of_block, AT_BLOCK);
        }
        ran |= release(0, count, AT_GRID);
        ran |= awake(count);
        left = std::any_of(threads.data(), threads.data() + count,
                           [](const Thread &thread) { return thread.state != GONE; });
        if (left && !ran) {
            fprintf(stderr, "emulated: a barrier that not all threads come to\n");
            abort();
        }
    }
}

void start(size_t place, unsigned thread, unsigned block) {
    if (place == fibers.size()) {
        threads.push_back({});
        fibers.push_back(std::make_unique<Fiber>());
        stacks.push_back(std::make_unique<char[]>(STACK));
        Fiber &made = *fibers[place];
        getcontext(&made.context);
        made.context.uc_stack.ss_sp = stacks[place].get();
        made.context.uc_stack.ss_size = STACK;
        made.context.uc_link = nullptr;
        makecontext(&made.context, enter, 0);
    }
    threads[place].state = READY;
    threads[place].index = thread;
    threads[place].block = block;
}

} // namespace

EmulatedIndex emulated_grid, emulated_thread, emulated_block;

unsigned char *emulated_shared() { return shared_memory; }

void emulated_run(unsigned grid, unsigned block, size_t shared, bool together, const std::function<void()> &kernel) {
    running = &kernel;
    emulated_grid = {grid};
    threads_of_block = block;
    shared_memory = shared_of(shared);
    for (unsigned b = 0; b < grid; b++) {
        size_t first = together ? static_cast<size_t>(b) * block : 0;
        for (unsigned t = 0; t < block; t++)
            start(first + t, t, b);
        if (!together)
            schedule(block);
    }
    if (together)
        schedule(static_cast<size_t>(grid) * block);
}

const uint64_t *emulated_exchange(unsigned mask, uint64_t mine) {
    if (!(mask >> emulated_lane() & 1)) {
        fprintf(stderr, "emulated: a thread that is not in its own mask\n");
        abort();
    }
    threads[current].mine = mine;
    threads[current].mask = mask;
    wait(AT_WARP);
    return threads[current].all;
}

void __syncthreads() { wait(AT_BLOCK); }

void __nanosleep(unsigned) { wait(ASLEEP); }

void emulated_grid_sync() { wait(AT_GRID); }

unsigned long long cooperative_groups::grid_group::thread_rank() const {
    return static_cast<unsigned long long>(threads[current].block) * threads_of_block + threads[current].index;
}

unsigned long long cooperative_groups::grid_group::size() const {
    return static_cast<unsigned long long>(emulated_grid.x) * threads_of_block;
}

/* ---- streams
 *
 * Work runs when it is submitted. Work of a stream that the code under test made runs then, too, or as late as
 * possible: when an event behind it is waited for. So a missing wait becomes a wrong result. With emulated_behind it is
 * the other way around: the last pieces of the call's stream run after those of the streams that it forked.
 *
 * Work of EMULATED_CAPTURING, and of streams that have waited for one of its events, becomes a graph, which
 * emulated_replay() runs. */

bool emulated_behind;

namespace {

const cudaStream_t SYNCHRONISES = reinterpret_cast<cudaStream_t>(1), ALONE = reinterpret_cast<cudaStream_t>(18);
std::deque<std::function<void()>> late;
size_t started;                        /* pieces of work that have left the queue */
std::map<cudaEvent_t, size_t> awaited; /* pieces of work before the event */
std::vector<std::function<void()>> graph;
std::set<cudaEvent_t> captured; /* events of the capture */
bool capturing, alone_captured;
size_t legacy_uses, waits;

bool is_captured(cudaStream_t stream) {
    capturing = capturing || stream == EMULATED_CAPTURING;
    legacy_uses += stream == nullptr;
    return stream == EMULATED_CAPTURING || (stream == ALONE && alone_captured);
}

/* The last pieces of the call's stream between a fork and the join, with emulated_behind. */
constexpr size_t BEHIND = 2;
std::deque<std::function<void()>> behind;
bool forked;

void catch_up(size_t pieces) {
    for (; behind.size() > pieces; behind.pop_front())
        behind.front()();
}

void start_late(size_t end) {
    catch_up(0);
    while (!late.empty() && started < end) {
        std::function<void()> work = late.front();
        late.pop_front();
        started++;
        work();
    }
}

} // namespace

void emulated_submit(cudaStream_t stream, const std::function<void()> &work) {
    static uint64_t seed = 1;
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    if (is_captured(stream))
        graph.push_back(work);
    else if (stream != ALONE && forked) {
        behind.push_back(work);
        catch_up(BEHIND);
    } else if (stream != ALONE || emulated_behind || (late.empty() && seed >> 40 & 1))
        work();
    else
        late.push_back(work);
}

/* ---- runtime */

namespace {

struct Block {
    char *base; /* of the mapping, with the inaccessible page */
    size_t size;
    int device;
};
/* By address. Ready before the constructor of start.c runs. */
std::map<char *, Block> blocks __attribute__((init_priority(200)));
size_t objects; /* events and streams */
int devices = 1;
bool peers[8][8]; /* [device][other]: whether the device may access the other one's memory */

/* Memory of other devices cannot be accessed, unless `all`. */
void open_memory(bool all) {
    for (auto &[at, block] : blocks) {
        bool open = all || block.device == emulated_device || peers[emulated_device][block.device];
        mprotect(block.base, block.size - PAGE, open ? PROT_READ | PROT_WRITE : PROT_NONE);
    }
}

/* A copy may touch memory of every device. */
struct AllMemory {
    AllMemory() {
        if (devices > 1)
            open_memory(true);
    }
    ~AllMemory() {
        if (devices > 1)
            open_memory(false);
    }
};

/* The device whose block holds the address; -1: none's. */
int owner_of(const void *at) {
    auto found = blocks.upper_bound(static_cast<char *>(const_cast<void *>(at)));
    if (found == blocks.begin())
        return -1;
    const Block &block = (--found)->second;
    return at < block.base + block.size ? block.device : -1;
}

} // namespace

extern "C" {

int emulated_device;
bool emulated_prompt;

size_t emulated_legacy_uses(void) { return std::exchange(legacy_uses, 0); }
size_t emulated_waits(void) { return std::exchange(waits, 0); }

void emulated_replay(void) {
    capturing = alone_captured = false;
    captured.clear();
    for (const auto &work : graph)
        work();
}

void emulated_forget_graph(void) { graph.clear(); }

void emulated_devices(int count) {
    devices = count;
    memset(peers, 0, sizeof peers);
    emulated_device = 0;
    open_memory(false);
}

cudaError_t cudaMalloc(void **at, size_t size) {
    if (capturing)
        return cudaErrorStreamCaptureUnsupported;
    if (emulated_fails())
        return cudaErrorMemoryAllocation;
    size_t whole = (size + PAGE - 1) / PAGE * PAGE + PAGE;
    char *base = static_cast<char *>(mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base == MAP_FAILED)
        return cudaErrorMemoryAllocation;
    memset(base, 0xcd, whole);
    mprotect(base + whole - PAGE, PAGE, PROT_NONE);
    size_t unit = size % 16 ? 8 : 16; /* complex numbers of double are aligned to 16 bytes */
    char *block = base + whole - PAGE - (size + unit - 1) / unit * unit;
    blocks[block] = {base, whole, emulated_device};
    *at = block;
    return cudaSuccess;
}

/* Waits for the device, as the real one does. */
cudaError_t cudaFree(void *at) {
    start_late(SIZE_MAX);
    auto found = blocks.find(static_cast<char *>(at));
    if (found == blocks.end())
        return cudaErrorInvalidValue;
    munmap(found->second.base, found->second.size);
    blocks.erase(found);
    return cudaSuccess;
}

/* Pinned memory of the host, which kernels can read. */
cudaError_t cudaMallocHost(void **at, size_t size) { return cudaMalloc(at, size); }
cudaError_t cudaFreeHost(void *at) { return at ? cudaFree(at) : cudaSuccess; }

cudaError_t cudaMallocManaged(void **at, size_t size, unsigned) { return cudaMalloc(at, size); }

/* Memory of a graph stays until the graph is forgotten, as far as the emulation goes. */
cudaError_t cudaMallocAsync(void **at, size_t size, cudaStream_t stream) {
    bool was = std::exchange(capturing, false);
    cudaError_t status = cudaMalloc(at, size);
    capturing = was;
    is_captured(stream);
    return status;
}
cudaError_t cudaFreeAsync(void *at, cudaStream_t stream) { return is_captured(stream) ? cudaSuccess : cudaFree(at); }

size_t emulated_live(void) { return blocks.size() + objects + emulated_driver_live(); }

/* A real driver copies memory of another device only if one piece is mapped there. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, cudaMemcpyKind) {
    legacy_uses++;
    memcpy(to, from, size);
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
    /* Pageable memory is read before the call returns, but by a graph when it runs. */
    if (kind == cudaMemcpyHostToDevice && stream == ALONE && !alone_captured) {
        std::vector<char> read(static_cast<const char *>(from), static_cast<const char *>(from) + size);
        emulated_submit(stream, [=] { memcpy(to, read.data(), size); });
        return cudaSuccess;
    }
    emulated_submit(stream, [=] { memcpy(to, from, size); });
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *at, int value, size_t size, cudaStream_t stream) {
    emulated_submit(stream, [=] { memset(at, value, size); });
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
    *available = *total = size_t{1} << 30;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int *device) {
    *device = emulated_device;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) {
    *count = devices;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= devices)
        return cudaErrorInvalidDevice;
    if (device == emulated_device)
        return cudaSuccess;
    emulated_device = device;
    open_memory(false);
    emulated_driver_device(device);
    return cudaSuccess;
}
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size, cudaStream_t) {
    int to_owner = owner_of(to), from_owner = owner_of(from);
    if ((to_owner >= 0 && to_owner != to_device) || (from_owner >= 0 && from_owner != from_device))
        return cudaErrorInvalidValue;
    AllMemory open;
    memcpy(to, from, size);
    return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
    *can = !getenv("EMULATED_NO_PEERS");
    return cudaSuccess;
}
cudaError_t cudaDeviceEnablePeerAccess(int other, unsigned) {
    if (peers[emulated_device][other])
        return cudaErrorPeerAccessAlreadyEnabled;
    peers[emulated_device][other] = true;
    open_memory(false);
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *about, const void *at) {
    *about = {};
    about->device = owner_of(at);
    about->type = about->device >= 0 ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    about->devicePointer = about->device >= 0 ? const_cast<void *>(at) : nullptr;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    waits++;
    catch_up(0);
    if (is_captured(stream))
        return cudaErrorStreamCaptureUnsupported;
    if (stream == ALONE)
        start_late(SIZE_MAX);
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr, int) {
    *value = 2;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void) {
    legacy_uses++;
    if (capturing)
        return cudaErrorStreamCaptureUnsupported;
    start_late(SIZE_MAX);
    return cudaSuccess;
}
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t) { return "emulated"; }
cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    if (emulated_fails())
        return cudaErrorMemoryAllocation;
    objects++;
    *stream = SYNCHRONISES;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    cudaError_t status = cudaStreamCreate(stream);
    if (status == cudaSuccess && flags == cudaStreamNonBlocking && !emulated_prompt)
        *stream = ALONE;
    return status;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int) {
    return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    auto found = awaited.find(event);
    if (captured.count(event) && stream == ALONE)
        alone_captured = true;
    if (is_captured(stream))
        return captured.count(event) ? cudaSuccess : cudaErrorStreamCaptureIsolation;
    if (stream != ALONE && found != awaited.end())
        start_late(found->second);
    forked = stream == ALONE && emulated_behind;
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status) {
    *status = stream == EMULATED_CAPTURING ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t) {
    start_late(SIZE_MAX);
    objects--;
    return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) {
    if (emulated_fails())
        return cudaErrorMemoryAllocation;
    static uintptr_t number;
    objects++;
    *event = reinterpret_cast<cudaEvent_t>(++number);
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    awaited.erase(event);
    objects--;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (is_captured(stream)) {
        captured.insert(event);
        return cudaSuccess;
    }
    captured.erase(event);
    if (stream != ALONE)
        catch_up(0);
    awaited[event] = stream == ALONE ? started + late.size() : 0;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    auto found = awaited.find(event);
    if (capturing || captured.count(event))
        return cudaErrorStreamCaptureUnsupported;
    if (found != awaited.end())
        start_late(found->second);
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t, cudaEvent_t) {
    *ms = 1;
    return cudaSuccess;
}

} // extern "C"

// Needs 1.5 GiB at once, whatever the card is said to have: plain, pitched and stream-ordered blocks, written and
// compared by kernels and copies, freed behind running kernels. Argument: MiB that GPUMEM_LIMIT allows, 0 = none; then
// totals are compared too. Ends with 3 on the error of a full card.
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                 \
    do {                                                                                            \
        cudaError_t result = (call);                                                                \
        if (result != cudaSuccess) {                                                                \
            std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorString(result)); \
            std::exit(1);                                                                           \
        }                                                                                           \
    } while (0)
#define EXPECT(condition)                                                \
    do {                                                                 \
        if (!(condition)) {                                              \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            std::exit(1);                                                \
        }                                                                \
    } while (0)

static const size_t MIB = (size_t)1 << 20, BLOCK = 64 * MIB;
enum { BLOCKS = 24 };

__global__ void fill(unsigned *block, size_t count, unsigned pattern) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        block[i] = pattern + (unsigned)i;
}

__global__ void verify(const unsigned *block, size_t count, unsigned pattern, unsigned long long *wrong) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        if (block[i] != pattern + (unsigned)i)
            atomicAdd(wrong, 1ull);
}

__global__ void add_one(unsigned *block, size_t count) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        atomicAdd(&block[i], 1u);
}

struct piece {
    unsigned *address;
    bool ordered;
};

static size_t free_now(size_t limit) {
    size_t free_bytes, total;
    cudaDeviceProp properties;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    CHECK(cudaGetDeviceProperties(&properties, 0));
    EXPECT(free_bytes <= total);
    EXPECT(!limit || (total == limit && properties.totalGlobalMem == limit));
    return free_bytes;
}

// Copies between blocks of either tier, and between them and the host.
static void copy_around(const std::vector<piece> &pieces, cudaStream_t stream) {
    std::vector<unsigned> host(MIB / 4);
    unsigned *first = pieces.front().address, *last = pieces.back().address;
    for (int way = 0; way < 2; way++) {
        unsigned *from = way ? last : first, *to = way ? first : last;
        for (size_t i = 0; i < host.size(); i++)
            host[i] = (unsigned)(i * 2654435761u + way);
        CHECK(cudaMemcpy(from, host.data(), MIB, cudaMemcpyHostToDevice));
        CHECK(cudaDeviceSynchronize()); // a copy from pageable memory may return before it arrives
        CHECK(cudaMemcpyAsync(to, from, MIB, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaStreamSynchronize(stream));
        std::vector<unsigned> back(host.size());
        CHECK(cudaMemcpy(back.data(), to, MIB, cudaMemcpyDeviceToHost));
        EXPECT(back == host);
        CHECK(cudaMemset(from, 0x5a, MIB));
        CHECK(cudaMemcpy(back.data(), from, MIB, cudaMemcpyDefault));
        for (unsigned word : back)
            EXPECT(word == 0x5a5a5a5au);
    }
}

int main(int count, char **arguments) {
    size_t limit = count > 1 ? std::strtoull(arguments[1], nullptr, 10) * MIB : 0, pitch;
    const size_t words = BLOCK / 4;
    unsigned long long *wrong, seen;
    cudaStream_t streams[2];
    std::vector<piece> pieces;
    CHECK(cudaFree(nullptr));
    size_t before = free_now(limit);
    CHECK(cudaMallocHost(&wrong, sizeof *wrong));
    *wrong = 0;
    for (auto &stream : streams)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

    for (int i = 0; i < BLOCKS; i++) {
        piece made = {nullptr, i % 8 == 3};
        cudaError_t error = made.ordered ? cudaMallocAsync(&made.address, BLOCK, streams[0])
                            : i % 8 == 5 ? cudaMallocPitch(&made.address, &pitch, 65536, BLOCK / 65536)
                                         : cudaMalloc(&made.address, BLOCK);
        if (error == cudaErrorMemoryAllocation) {
            std::printf("out of memory after %d\n", i);
            return 3;
        }
        CHECK(error);
        pieces.push_back(made);
    }
    CHECK(cudaStreamSynchronize(streams[0]));
    EXPECT(!limit || free_now(limit) < BLOCK);
    for (int i = 0; i < BLOCKS; i++)
        fill<<<264, 256, 0, streams[i % 2]>>>(pieces[i].address, words, 0x9e3779b9u * (unsigned)i);
    for (int i = 0; i < BLOCKS; i++)
        add_one<<<264, 256, 0, streams[i % 2]>>>(pieces[i].address, words);
    for (int i = 0; i < BLOCKS; i++)
        verify<<<264, 256, 0, streams[i % 2]>>>(pieces[i].address, words, 0x9e3779b9u * (unsigned)i + 1, wrong);
    CHECK(cudaDeviceSynchronize());
    copy_around(pieces, streams[1]);
    // Frees behind work that still runs on the block.
    for (int i = BLOCKS; i-- > 0;) {
        CHECK(cudaDeviceSynchronize());
        fill<<<264, 256, 0, streams[0]>>>(pieces[i].address, words, (unsigned)i);
        verify<<<264, 256, 0, streams[0]>>>(pieces[i].address, words, (unsigned)i, wrong);
        if (pieces[i].ordered)
            CHECK(cudaFreeAsync(pieces[i].address, streams[0]));
        else
            CHECK(cudaFree(pieces[i].address));
    }
    CHECK(cudaDeviceSynchronize());
    seen = *wrong;
    if (limit)
        EXPECT(free_now(limit) == before);
    CHECK(cudaFreeHost(wrong));
    std::printf("ok oversubscribe %d blocks %llu wrong\n", BLOCKS, seen);
    return seen ? 1 : 0;
}

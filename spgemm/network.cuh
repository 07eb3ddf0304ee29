/* Sorting networks: numbers in registers, by shuffles inside a warp and through shared memory between warps. */
#ifndef SPG_NETWORK_CUH
#define SPG_NETWORK_CUH

#include <stdint.h>
#include <utility>

#include "spgemm/both.h"

/* A barrier of the threads of a row: a warp, or a part of it, or a block. */
template <int THREADS> __device__ void spg_row_sync() {
    if (THREADS > 32)
        __syncthreads();
    else
        __syncwarp();
}

template <typename K> __device__ void spg_order_pair(K &low, K &high) {
    K least = min(low, high);
    high = max(low, high);
    low = least;
}

/* The exchanges that sort `numbers` numbers (Batcher's merge exchange; Knuth 5.2.2 M). */
struct spg_exchanges {
    int count, low[192], high[192]; /* of at most 32 numbers */
};
SPG_BOTH constexpr spg_exchanges spg_exchanges_of(int numbers) {
    spg_exchanges e{};
    int most = 1;
    while (2 * most < numbers)
        most *= 2;
    for (int part = most; part > 0; part /= 2) {
        for (int next = most, rest = 0, apart = part;; apart = next - part, next /= 2, rest = part) {
            for (int i = 0; i + apart < numbers; i++) {
                if ((i & part) == rest) {
                    e.low[e.count] = i;
                    e.high[e.count++] = i + apart;
                }
            }
            if (next == part)
                break;
        }
    }
    return e;
}

/* Sorts numbers in registers: a bitonic network that only sorts upwards, so the directions of exchanges inside a thread
 * are constants. Each thread of the row holds K numbers; thread t ends with those of the ranks t x K to t x K + K - 1.
 * K need not be a power of two. `memory` is for exchanges between warps, and for the result. */
template <int THREADS, int K> struct spg_network {
    template <int FIRST, int COUNT, int... I>
    static __device__ void exchange_all(uint32_t (&key)[K], std::integer_sequence<int, I...>) {
        constexpr spg_exchanges e = spg_exchanges_of(COUNT);
        (spg_order_pair(key[FIRST + std::integral_constant<int, e.low[I]>::value],
                        key[FIRST + std::integral_constant<int, e.high[I]>::value]),
         ...);
    }
    template <int FIRST, int COUNT> static __device__ void sort_thread(uint32_t (&key)[K]) {
        exchange_all<FIRST, COUNT>(key, std::make_integer_sequence<int, spg_exchanges_of(COUNT).count>());
    }

    /* Sorts a thread's numbers, which rise and fall once. */
    template <int FIRST, int COUNT> static __device__ void merge_thread(uint32_t (&key)[K]) {
        if constexpr (COUNT % 2) {
            sort_thread<FIRST, COUNT>(key);
        } else {
#pragma unroll
            for (int i = FIRST; i < FIRST + COUNT / 2; i++)
                spg_order_pair(key[i], key[i + COUNT / 2]);
            merge_thread<FIRST, COUNT / 2>(key);
            merge_thread<FIRST + COUNT / 2, COUNT / 2>(key);
        }
    }

    /* Exchanges each number with one of the thread whose number differs in the bits of `apart`. MIRRORED: the first
     * number with the last one, and so on. The lower thread keeps the lower numbers. WARPS: `apart` is 32 or more. */
    template <bool MIRRORED, bool WARPS>
    static __device__ void exchange(uint32_t (&key)[K], uint32_t *memory, int apart) {
        const int thread = threadIdx.x % THREADS;
        const bool lower = (thread ^ apart) > thread;
        uint32_t other[K];
        if (WARPS) {
            __syncthreads();
#pragma unroll
            for (int i = 0; i < K; i++)
                memory[i * THREADS + thread] = key[i];
            __syncthreads();
        }
#pragma unroll
        for (int i = 0; i < K; i++) {
            int from = MIRRORED ? K - 1 - i : i;
            other[i] = WARPS ? memory[from * THREADS + (thread ^ apart)] : __shfl_xor_sync(~0u, key[from], apart);
        }
#pragma unroll
        for (int i = 0; i < K; i++)
            key[i] = lower ? min(key[i], other[i]) : max(key[i], other[i]);
    }

    /* Joins sorted runs of `run` threads to runs of 2 x run. */
    template <bool WARPS> static __device__ void join_runs(uint32_t (&key)[K], uint32_t *memory, int run) {
        exchange<true, WARPS>(key, memory, 2 * run - 1);
        int apart = run / 2;
        if (WARPS)
#pragma unroll 1
            for (; apart >= 32; apart /= 2)
                exchange<false, true>(key, memory, apart);
#pragma unroll 1
        for (; apart > 0; apart /= 2)
            exchange<false, false>(key, memory, apart);
        merge_thread<0, K>(key);
    }

    /* Each thread's numbers are sorted. The loops are not unrolled, because a warp passes here once for a row: a long
     * code does not stay in the cache of instructions. Its warps waited a sixth of their time in bin 3 of cage14. */
    static __device__ void sort_runs(uint32_t (&key)[K], uint32_t *memory) {
#pragma unroll 1
        for (int run = 1; run < THREADS && run < 32; run *= 2)
            join_runs<false>(key, memory, run);
#pragma unroll 1
        for (int run = 32; run < THREADS; run *= 2)
            join_runs<true>(key, memory, run);
    }

    static __device__ void sort(uint32_t (&key)[K], uint32_t *memory) {
        sort_thread<0, K>(key);
        sort_runs(key, memory);
        spg_row_sync<THREADS>();
        constexpr int wide = K % 4 == 0 ? 4 : K % 2 == 0 ? 2 : 1;
        struct alignas(4 * wide) Part {
            uint32_t key[wide];
        };
#pragma unroll
        for (int i = 0; i < K; i += wide) {
            Part part;
#pragma unroll
            for (int j = 0; j < wide; j++)
                part.key[j] = key[i + j];
            *reinterpret_cast<Part *>(&memory[(threadIdx.x % THREADS) * K + i]) = part;
        }
        spg_row_sync<THREADS>();
    }
};

#endif

// Copies, fills, prefetches and what streams wait for besides kernels.
#include <cstring>
#include <unistd.h>

#include "in_flight.h"

static size_t bytes_of(const Trial &trial) { return trial.words * sizeof(unsigned); }

static void target_holds(Trial &trial) { expect_on(trial, trial.target, HELD, trial.stream); }
static void target_holds_far(Trial &trial) { expect_on(trial, trial.target, WRITTEN, trial.stream); }

// ---- between host and device

static void set_host(unsigned *words, size_t count, unsigned pattern) {
    for (size_t i = 0; i < count; i++)
        words[i] = pattern + (unsigned)i;
}

static const char *prepare_pageable(Trial &trial) {
    set_host(trial.pageable, trial.words, WRITTEN);
    return nullptr;
}

static const char *prepare_pinned(Trial &trial) {
    if (!trial.pinned)
        NEED(cudaHostAlloc(&trial.pinned, LARGE, cudaHostAllocPortable));
    set_host(trial.pinned, trial.words, WRITTEN);
    return nullptr;
}

static void copy_in(Trial &trial, const unsigned *from) {
    linger_on(trial, trial.stream);
    CHECK(cudaMemcpyAsync(trial.block, from, bytes_of(trial), cudaMemcpyHostToDevice, trial.stream));
    expect_on(trial, trial.block, WRITTEN, trial.stream);
    end_on(trial, trial.stream);
}

static void copy_out(Trial &trial, unsigned *to) {
    linger_on(trial, trial.stream);
    CHECK(cudaMemcpyAsync(to, trial.block, bytes_of(trial), cudaMemcpyDeviceToHost, trial.stream));
    end_on(trial, trial.stream);
}

static void pageable_in(Trial &trial) { copy_in(trial, trial.pageable); }
static void pinned_in(Trial &trial) { copy_in(trial, trial.pinned); }
static void pageable_out(Trial &trial) { copy_out(trial, trial.pageable); }
static void pinned_out(Trial &trial) { copy_out(trial, trial.pinned); }
static void pageable_holds(Trial &trial) { expect_on_host(trial, trial.pageable, HELD); }
static void pinned_holds(Trial &trial) { expect_on_host(trial, trial.pinned, HELD); }

// ---- on the device

static void copy_plain(Trial &trial, cudaStream_t stream) {
    CHECK(cudaMemcpyAsync(trial.target, trial.block, bytes_of(trial), cudaMemcpyDeviceToDevice, stream));
    end_on(trial, stream);
}

static void copy_2d(Trial &trial) {
    size_t width = 4096;
    linger_on(trial, trial.stream);
    CHECK(cudaMemcpy2DAsync(trial.target, width, trial.block, width, width, bytes_of(trial) / width,
                            cudaMemcpyDeviceToDevice, trial.stream));
    end_on(trial, trial.stream);
}

static void copy_3d(Trial &trial) {
    size_t width = 4096, height = 16;
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(trial.block, width, width, height);
    copy.dstPtr = make_cudaPitchedPtr(trial.target, width, width, height);
    copy.extent = make_cudaExtent(width, height, bytes_of(trial) / width / height);
    copy.kind = cudaMemcpyDeviceToDevice;
    linger_on(trial, trial.stream);
    CHECK(cudaMemcpy3DAsync(&copy, trial.stream));
    end_on(trial, trial.stream);
}

static void set_bytes(Trial &trial) {
    linger_on(trial, trial.stream);
    CHECK(cudaMemsetAsync(trial.block, 0x5a, bytes_of(trial), trial.stream));
    copy_plain(trial, trial.stream);
}

static void bytes_are_set(Trial &trial) {
    CHECK(cudaMemcpy(trial.pageable, trial.target, bytes_of(trial), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < trial.words; i++)
        trial.host_wrong += trial.pageable[i] != 0x5a5a5a5a;
}

#if CUDART_VERSION >= 12080 && !defined(SIM_TWINS)
static const char *prepare_batch(Trial &) { return nullptr; }

static void copy_batch(Trial &trial) {
    enum { PARTS = 4 };
    size_t part = trial.words / PARTS, sizes[PARTS], all = 0;
    const void *from[PARTS];
    void *to[PARTS];
    cudaMemcpyAttributes how = {};
    how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    for (size_t i = 0; i < PARTS; i++) {
        from[i] = trial.block + i * part;
        to[i] = trial.target + i * part;
        sizes[i] = part * sizeof(unsigned);
    }
    linger_on(trial, trial.stream);
#if CUDART_VERSION >= 13000
    CHECK(cudaMemcpyBatchAsync(to, from, sizes, PARTS, &how, &all, 1, trial.stream));
#else
    CHECK(cudaMemcpyBatchAsync(to, (void **)from, sizes, PARTS, &how, &all, 1, NULL, trial.stream));
#endif
    end_on(trial, trial.stream);
}
#else
static const char *prepare_batch(Trial &) { return "not in this CUDA"; }
static void copy_batch(Trial &) {}
#endif

// ---- prefetch of the program's own managed memory

static cudaError_t move_to(const Trial &trial, cudaMemLocationType type, cudaStream_t stream) {
    cudaMemLocation place = {};
    place.type = type;
    return cudaMemPrefetchAsync(trial.block, bytes_of(trial), place, 0, stream);
}

static const char *prepare_prefetch(Trial &trial) {
    NEED(move_to(trial, cudaMemLocationTypeDevice, trial.stream));
    CHECK(cudaStreamSynchronize(trial.stream));
    return nullptr;
}

static void prefetch(Trial &trial) {
    linger_on(trial, trial.stream);
    CHECK(move_to(trial, cudaMemLocationTypeHost, trial.stream));
    use_on(trial, trial.stream);
    end_on(trial, trial.stream);
}

// ---- what a stream waits for

static void CUDART_CB sleep_a_while(void *) { usleep(20000); }

static void behind_host_function(Trial &trial) {
    CHECK(cudaLaunchHostFunc(trial.stream, sleep_a_while, nullptr));
    copy_plain(trial, trial.stream);
}

static const char *prepare_wait_value(Trial &trial) {
    int possible = 1;
#ifndef SIM_TWINS
    NEED(cuDeviceGetAttribute(&possible, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 0));
#endif
    NEED(cudaMalloc(&trial.own[0], sizeof(unsigned)));
    NEED(cudaMemset(trial.own[0], 0, sizeof(unsigned)));
    NEED(cuStreamWriteValue32((CUstream)trial.second, (CUdeviceptr)trial.own[0], 0, 0));
    NEED(cudaStreamSynchronize(trial.second));
    return possible ? nullptr : "no such wait on this device";
}

static void behind_value(Trial &trial) {
    MUST(cuStreamWaitValue32((CUstream)trial.stream, (CUdeviceptr)trial.own[0], 1, CU_STREAM_WAIT_VALUE_GEQ));
    copy_plain(trial, trial.stream);
    linger_on(trial, trial.second);
    MUST(cuStreamWriteValue32((CUstream)trial.second, (CUdeviceptr)trial.own[0], 1, 0));
}

static void destroy_wait_value(Trial &trial) { CHECK(cudaFree(trial.own[0])); }

// ---- to and from another device

static void far_holds(Trial &trial) {
    CHECK(cudaSetDevice(1));
    expect_on(trial, trial.far_target, HELD, trial.far);
    CHECK(cudaStreamSynchronize(trial.far));
    CHECK(cudaSetDevice(0));
}

// Copies before the first in flight: what they need is there then.
static const char *prepare_far(Trial &trial) {
    NEED(cudaMemcpyPeer(trial.far_target, 1, trial.block, 0, bytes_of(trial)));
    NEED(cudaMemcpyPeer(trial.block, 0, trial.far_target, 1, bytes_of(trial)));
    NEED(cudaDeviceSynchronize());
    CHECK(cudaSetDevice(1));
    fill_on(trial.far_target, trial.words, WRITTEN, trial.far);
    CHECK(cudaStreamSynchronize(trial.far));
    CHECK(cudaSetDevice(0));
    return nullptr;
}

static void to_peer(Trial &trial, int device, cudaStream_t stream) {
    CHECK(cudaSetDevice(device));
    linger_on(trial, stream);
    CHECK(cudaMemcpyPeerAsync(trial.far_target, 1, trial.block, 0, bytes_of(trial), stream));
    end_on(trial, stream);
    CHECK(cudaSetDevice(0));
}

static void from_peer(Trial &trial, int device, cudaStream_t stream) {
    CHECK(cudaSetDevice(device));
    linger_on(trial, stream);
    CHECK(cudaMemcpyPeerAsync(trial.block, 0, trial.far_target, 1, bytes_of(trial), stream));
    CHECK(cudaMemcpyPeerAsync(trial.target, 0, trial.block, 0, bytes_of(trial), stream));
    end_on(trial, stream);
    CHECK(cudaSetDevice(0));
}

static void to_peer_here(Trial &trial) { to_peer(trial, 0, trial.stream); }
static void to_peer_there(Trial &trial) { to_peer(trial, 1, trial.far); }
static void from_peer_here(Trial &trial) { from_peer(trial, 0, trial.stream); }
static void from_peer_there(Trial &trial) { from_peer(trial, 1, trial.far); }

static const char *prepare_access(Trial &trial) {
    int possible = 0;
    NEED(cudaDeviceCanAccessPeer(&possible, 1, 0));
    if (!possible)
        return "these GPUs cannot reach each other";
    NEED(cudaSetDevice(1));
    cudaError_t enabled = cudaDeviceEnablePeerAccess(0, 0);
    (void)cudaGetLastError();
    NEED(cudaSetDevice(0));
    return error_text(enabled == cudaErrorPeerAccessAlreadyEnabled ? cudaSuccess : enabled);
}

static void kernel_of_peer(Trial &trial) {
    CHECK(cudaSetDevice(1));
    work_on(trial, trial.far);
    CHECK(cudaSetDevice(0));
}

std::vector<Kind> copy_kinds() {
    return {
        {"pageable copy to the device", prepare_pageable, pageable_in, nullptr, nullptr, SMALL, 1},
        {"pageable copy to the host", prepare_pageable, pageable_out, pageable_holds, nullptr, SMALL, 1},
        {"pinned copy to the device", prepare_pinned, pinned_in, nullptr, nullptr, LARGE, 1},
        {"pinned copy to the host", prepare_pinned, pinned_out, pinned_holds, nullptr, LARGE, 1},
        {"copy of two dimensions", nullptr, copy_2d, target_holds, nullptr, LARGE, 1},
        {"copy of three dimensions", nullptr, copy_3d, target_holds, nullptr, LARGE, 1},
        {"memset", nullptr, set_bytes, bytes_are_set, nullptr, LARGE, 1},
        {"batch of copies", prepare_batch, copy_batch, target_holds, nullptr, LARGE, 1},
        {"managed prefetch", prepare_prefetch, prefetch, nullptr, nullptr, LARGE, 1, true},
        {"copy behind a host function", nullptr, behind_host_function, target_holds, nullptr, LARGE, 1},
        {"copy behind a stream's wait for a value", prepare_wait_value, behind_value, target_holds, destroy_wait_value,
         LARGE, 1},
        {"copy to a peer", prepare_far, to_peer_here, far_holds, nullptr, LARGE, 2},
        {"copy to a peer by its stream", prepare_far, to_peer_there, far_holds, nullptr, LARGE, 2},
        {"copy from a peer", prepare_far, from_peer_here, target_holds_far, nullptr, LARGE, 2},
        {"copy from a peer by its stream", prepare_far, from_peer_there, target_holds_far, nullptr, LARGE, 2},
        {"kernel of a peer", prepare_access, kernel_of_peer, nullptr, nullptr, LARGE, 2}, // last: access stays enabled
    };
}

/* What the small programs share: checks, and a log of their memory calls for the runner.
 *
 * PROGRAM_LOG=FILE: each call appends one line, under its driver name:
 *
 *   PID ACTION CALL BYTES ADDRESS
 *
 * ACTION is alloc, fail, free, free_fail, gone, reserve, unreserve, map or unmap. BYTES is "-" where the device
 * chooses the size. ADDRESS is 0 where the program does not see it. */
#ifndef PRELOAD_PROGRAM_H
#define PRELOAD_PROGRAM_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANY_BYTES = -1 };

static inline void note(const char *action, const char *call, long long bytes, const void *address) {
    const char *path = getenv("PROGRAM_LOG");
    if (!path)
        return;
    char line[160];
    char size[32] = "-";
    if (bytes != ANY_BYTES)
        snprintf(size, sizeof size, "%lld", bytes);
    int length = snprintf(line, sizeof line, "%d %s %s %s %#llx\n", (int)getpid(), action, call, size,
                          (unsigned long long)(uintptr_t)address);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 || write(file, line, (size_t)length) != length) {
        perror(path);
        _exit(1);
    }
    close(file);
}

static inline void note_alloc(const char *call, long long bytes, const void *address) {
    note("alloc", call, bytes, address);
}

static inline void note_free(const char *call, const void *address) { note("free", call, ANY_BYTES, address); }

static inline void fail(const char *text, int line, int result) {
    fprintf(stderr, "line %d: %s: %d\n", line, text, result);
    _exit(1);
}

/* Success is 0 in both interfaces of CUDA. 801 is "not supported" in both: the device cannot run this test. */
static inline void must(int result, const char *text, int line) {
    if (result == 801) {
        fprintf(stderr, "line %d: %s: not supported here\n", line, text);
        _exit(77);
    }
    if (result != 0)
        fail(text, line, result);
}

#define MUST(call) must((int)(call), #call, __LINE__)
#define EXPECT(condition)                  \
    do {                                   \
        if (!(condition))                  \
            fail(#condition, __LINE__, 0); \
    } while (0)

static inline int all_bytes_are(const unsigned char *data, unsigned char value, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (data[i] != value)
            return 0;
    return 1;
}

#ifdef __cuda_cuda_h__
/* Makes the primary context of the first device current, as a runtime does. */
static inline CUcontext start_driver(void) {
    CUcontext context;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, 0));
    MUST(cuCtxSetCurrent(context));
    return context;
}
#endif

#ifdef __CUDA_RUNTIME_API_H__
/* Fills device memory, reads it back by the legacy default stream, and compares. */
static inline void round_trip(void *device, size_t size, unsigned char value) {
    unsigned char *host = (unsigned char *)malloc(size);
    EXPECT(host != NULL);
    memset(host, ~value, size);
    MUST(cudaMemset(device, value, size));
    MUST(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost));
    EXPECT(all_bytes_are(host, value, size));
    for (size_t i = 0; i < size; i++)
        host[i] = (unsigned char)(i * 7 + value);
    MUST(cudaMemcpy(device, host, size, cudaMemcpyHostToDevice));
    memset(host, 0, size);
    MUST(cudaMemcpy(host, device, size, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < size; i++)
        EXPECT(host[i] == (unsigned char)(i * 7 + value));
    free(host);
}

static inline void *device_alloc(size_t size) {
    void *memory = NULL;
    MUST(cudaMalloc(&memory, size));
    note_alloc("cuMemAlloc", (long long)size, memory);
    return memory;
}

static inline void device_free(void *memory) {
    note_free("cuMemFree", memory);
    MUST(cudaFree(memory));
}
#endif

#endif

/* A libcuda.so.1 that answers look-ups as NVIDIA's driver does and refuses everything else.
 *
 * NVIDIA's real runtime starts on it as on a driver, looks up all its functions, and then fails with an
 * ordinary error because there is no device. That is enough to see by which way a runtime reaches a driver
 * function, on a machine without a GPU. No private table is given out and no check of the runtime is answered
 * for it.
 *
 * STUB_LOG=FILE appends a line for every look-up, table and call:
 *   lookup ARGUMENTS NAME VERSION FLAGS SYMBOL RESULT CALLER     ARGUMENTS: 4 or 5; NAME, SYMBOL: "-" for
 * none; CALLER: file name of the module that asked
 *   table
 *   call SYMBOL
 * STUB_ARGUMENTS=1 adds to calls that are refused what their first argument registers and stack slots hold. */
#include "driver_rows.h"

#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef cuGetProcAddress
#define EXPORTED __attribute__((visibility("default")))

/* One line, one write: the lines of several threads and processes must not mix. */
void log_line(const char *format, ...) {
    const char *path = getenv("STUB_LOG");
    if (!path || !*path)
        return;
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0)
        return;
    if (length > 0 && (size_t)length < sizeof line && write(file, line, (size_t)length) < 0)
        perror("libcuda.so.1 stub: STUB_LOG");
    close(file);
}

void log_call(const char *symbol, void *const arguments[LOGGED_ARGUMENTS], double x, double y) {
    char text[LOGGED_ARGUMENTS * 24] = "";
    int length = 0;
    if (!getenv("STUB_ARGUMENTS")) {
        log_line("call %s\n", symbol);
        return;
    }
    for (int i = 0; i < LOGGED_ARGUMENTS; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, " %p", arguments[i]);
    log_line("call %s%s %g %g\n", symbol, text, x, y);
}

/* It is as new as its newest function. */
static int newest_version(void) {
    int newest = 0;
    for (const struct driver_row *row = driver_rows; row->name; row++)
        newest = row->version > newest ? row->version : newest;
    return newest;
}

/* The highest variant not above the version; of two of one version the per-thread twin, where twins are asked
 * for. Sets *known where the name exists in any version. */
static const struct driver_row *find_variant(const char *name, int version, int per_thread, int *known) {
    const struct driver_row *best = NULL;
    for (const struct driver_row *row = driver_rows; row->name; row++) {
        if (strcmp(row->name, name) != 0)
            continue;
        *known = 1;
        if (row->version > version || row->per_thread > per_thread)
            continue;
        if (!best || row->version > best->version ||
            (row->version == best->version && row->per_thread > best->per_thread))
            best = row;
    }
    return best;
}

static const char *module_of(void *code) {
    Dl_info info;
    if (!dladdr(code, &info) || !info.dli_fname)
        return "unknown";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? slash + 1 : info.dli_fname;
}

struct caller {
    int arguments;
    int per_thread; /* compiled for per-thread default streams: what flags 0 means to it */
    void *code;
};

static CUresult look_up(struct caller caller, const char *name, void **function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status) {
    const cuuint64_t known_flags = CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    const struct driver_row *row = NULL;
    int known = 0;
    CUresult result = CUDA_SUCCESS;
    if (!name || !function || version > newest_version() || (flags & ~known_flags) || flags == known_flags) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        int per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ||
                         (flags == CU_GET_PROC_ADDRESS_DEFAULT && caller.per_thread);
        row = find_variant(name, version, per_thread, &known);
        *function = row ? (void *)row->function : NULL;
        if (status)
            *status = row     ? CU_GET_PROC_ADDRESS_SUCCESS
                      : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
        result = row ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    }
    log_line("lookup %d %s %d %llu %s %d %s\n", caller.arguments, name && *name ? name : "-", version,
             (unsigned long long)flags, row ? row->symbol : "-", (int)result, module_of(caller.code));
    return result;
}

EXPORTED CUresult CUDAAPI cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
    struct caller caller = {4, 0, __builtin_return_address(0)};
    return look_up(caller, name, function, version, flags, NULL);
}

EXPORTED CUresult CUDAAPI cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                              CUdriverProcAddressQueryResult *status) {
    struct caller caller = {5, 0, __builtin_return_address(0)};
    return look_up(caller, name, function, version, flags, status);
}

EXPORTED CUresult CUDAAPI cuGetProcAddress_v2_ptsz(const char *name, void **function, int version, cuuint64_t flags,
                                                   CUdriverProcAddressQueryResult *status) {
    struct caller caller = {5, 1, __builtin_return_address(0)};
    return look_up(caller, name, function, version, flags, status);
}

EXPORTED CUresult CUDAAPI cuGetExportTable(const void **table, const CUuuid *id) {
    log_line("table\n");
    if (table)
        *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

EXPORTED CUresult CUDAAPI cuInit(unsigned int flags) {
    log_line("call cuInit\n");
    return CUDA_ERROR_NO_DEVICE;
}

EXPORTED CUresult CUDAAPI cuDeviceGetCount(int *count) {
    log_line("call cuDeviceGetCount\n");
    return CUDA_ERROR_NO_DEVICE;
}

EXPORTED CUresult CUDAAPI cuDriverGetVersion(int *version) {
    log_line("call cuDriverGetVersion\n");
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = newest_version();
    return CUDA_SUCCESS;
}

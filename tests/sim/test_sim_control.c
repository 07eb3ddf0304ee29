/* What tests can ask of the simulated driver: failures, hidden names, a log, the rules of a real one enforced; and its
 * look-ups. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_test.h"

SIM_TEST(scripted_failures) {
    CUdeviceptr p[4];
    assert_int_equal(simcuda_set_failures("cuMemAlloc_v2:2"), 0);
    OK(cuMemAlloc(&p[0], 16));
    assert_int_equal(cuMemAlloc(&p[1], 16), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&p[1], 16));
    assert_int_equal(simcuda_set_failures("*Alloc*:1:700:2"), 0);
    assert_int_equal(cuMemAlloc(&p[2], 16), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemAllocManaged(&p[2], 16, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuMemAlloc(&p[2], 16));
    assert_int_equal(simcuda_set_failures("nonsense"), -1);
    for (int i = 0; i < 3; i++)
        OK(cuMemFree(p[i]));
}

SIM_TEST(hidden_names) {
    CUdriverProcAddressQueryResult found;
    CUevent e;
    void *fn = &fn;
    OK(cuEventCreate(&e, 0));
    simcuda_set_hidden("cuCtxRecordEvent,cuCtxWaitEvent");
    OK(cuGetProcAddress("cuCtxRecordEvent", &fn, 13000, 0, &found));
    assert_null(fn);
    assert_int_equal(found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_int_equal(cuCtxRecordEvent(ctx, e), CUDA_ERROR_NOT_SUPPORTED);
    simcuda_set_hidden(NULL);
    OK(cuCtxRecordEvent(ctx, e));
    simcuda_set_version(12040);
    assert_int_equal(cuGetProcAddress("cuMemAlloc", &fn, 13000, 0, &found), CUDA_ERROR_INVALID_VALUE);
    OK(cuGetProcAddress("cuCtxRecordEvent", &fn, 12040, 0, &found));
    assert_null(fn);
}

static size_t live_after;
static void count_live(void) { live_after = simcuda_live_blocks(); }

/* The function may call the driver's control itself, and runs when the call has had its effect. */
SIM_TEST(a_function_after_a_call) {
    CUdeviceptr block;
    size_t live = simcuda_live_blocks();
    simcuda_set_after("cuMemAlloc_v2", count_live);
    OK(cuMemAlloc(&block, 16));
    assert_int_equal(live_after, live + 1);
    OK(cuMemFree(block));
    assert_int_equal(live_after, live + 1);
    simcuda_set_after(NULL, NULL);
    OK(cuMemAlloc(&block, 16));
    OK(cuMemFree(block));
    assert_int_equal(live_after, live + 1);
}

/* What the call writes on stderr. */
static void said_by(void (*call)(void), char *text, size_t size) {
    int file = memfd_create("stderr", 0), own = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    call();
    dup2(own, STDERR_FILENO);
    ssize_t length = pread(file, text, size - 1, 0);
    text[length < 0 ? 0 : length] = 0;
    close(file);
    close(own);
}

static void launch_own_kernels(void) {
    static const char *const names[] = {"first", "second", "first"};
    for (int i = 0; i < 6; i++) {
        CUfunction f;
        CUmodule other;
        OK(cuModuleLoadData(&other, "another image"));
        OK(cuModuleGetFunction(&f, i < 3 ? module : other, names[i % 3]));
        assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_NOT_SUPPORTED);
        OK(cuModuleUnload(other));
    }
}

/* A kernel without a host function is named once. */
SIM_TEST(own_kernels) {
    char text[1024];
    said_by(launch_own_kernels, text, sizeof text);
    char *first = strstr(text, "kernel 'first' does not run"), *second = strstr(text, "kernel 'second' does not run");
    assert_true(first && second && first < second);
    assert_ptr_equal(strchr(strchr(text, '\n') + 1, '\n'), text + strlen(text) - 1); /* two lines */
    said_by(launch_own_kernels, text, sizeof text);
    assert_string_equal(text, "");
}

SIM_TEST(look_ups) {
    static const struct {
        const char *name;
        int version, flags;
        const char *symbol;
    } rows[] = {
        {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
        {"cuMemAlloc", 2000, 0, "cuMemAlloc"},
        {"cuMemAlloc", 13000, 2, "cuMemAlloc_v2"},
        {"cuMemAllocAsync", 11020, 0, "cuMemAllocAsync"},
        {"cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz"},
        {"cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds"},
        {"cuMemcpyHtoD", 7000, 1, "cuMemcpyHtoD_v2"},
        {"cuIpcOpenMemHandle", 4010, 0, "cuIpcOpenMemHandle"},
        {"cuIpcOpenMemHandle", 11000, 0, "cuIpcOpenMemHandle_v2"},
        {"cuMemPrefetchAsync", 8000, 0, "cuMemPrefetchAsync"},
        {"cuMemPrefetchAsync", 12020, 0, "cuMemPrefetchAsync_v2"},
        {"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
        {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
        {"cuStreamBeginCapture", 10010, 2, "cuStreamBeginCapture_v2_ptsz"},
        {"cuCtxCreate", 12050, 0, "cuCtxCreate_v4"},
    };
    CUdriverProcAddressQueryResult found;
    void *fn;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        OK(cuGetProcAddress(rows[i].name, &fn, rows[i].version, (cuuint64_t)rows[i].flags, &found));
        assert_ptr_equal(fn, dlsym(RTLD_DEFAULT, rows[i].symbol));
    }
    OK(cuGetProcAddress("cuMemAllocAsync", &fn, 3020, 0, &found));
    assert_int_equal(found, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    assert_int_equal(cuGetProcAddress("cuMemAlloc", NULL, 3020, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGetProcAddress("cuMemAlloc", &fn, 3020, 8, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuGetProcAddress("", &fn, 0, 0, NULL), CUDA_ERROR_NOT_FOUND);
    const void *table = &table;
    CUuuid id = {{1}};
    assert_int_equal(cuGetExportTable(&table, &id), CUDA_ERROR_NOT_FOUND);
}

/* Runs in a child that must die: under strict mode the host cannot read device memory. */
static int strict_child(void) {
    CUdeviceptr p;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) || cuMemAlloc(&p, 4096))
        return 1;
    return *(volatile char *)(uintptr_t)p;
}

SIM_TEST(strict_mode_crashes_the_host) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SIMCUDA_STRICT", "1", 1);
        execl("/proc/self/exe", "strict-child", "strict", (char *)NULL);
        _exit(9);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

static void host_function(void *p) { *(CUresult *)p = cuMemAlloc((CUdeviceptr *)p + 1, 16); }

SIM_TEST(host_functions_may_not_call) {
    struct {
        CUresult r;
        CUdeviceptr p;
    } out = {CUDA_SUCCESS, 0};
    CUstream s = new_stream();
    OK(cuLaunchHostFunc(s, host_function, &out));
    OK(cuStreamSynchronize(s));
    assert_int_equal(out.r, CUDA_ERROR_NOT_PERMITTED);
}

SIM_TEST(call_log) {
    char text[4096];
    CUdeviceptr p;
    OK(cuMemAlloc(&p, 12345));
    OK(cuMemFree(p));
    assert_true(simcuda_log_tail(text, sizeof text) > 0);
    assert_non_null(strstr(text, " bytesize=12345\n"));
    assert_non_null(strstr(text, " cuMemFree_v2 0 dptr=0x"));
}

int main(int argc, char **argv) {
    if (argc == 2)
        return strict_child();
    return run_all(NULL, NULL);
}

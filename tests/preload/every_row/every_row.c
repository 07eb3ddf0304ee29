/* Calls each function of shim/driver/calls.h on a driver that is out of memory at the first call and has another error
 * at later ones (driver_rows.c): so a result tells whether the call was made again. First while nothing is kept, then
 * while memory is, then behind a free that left work in flight. Each row runs in a process of its own.
 *
 * every_row             prints for each row: symbol, column memory, results
 * every_row again|once  functions without a row get all their arguments, and are called twice or once; stacks are
 *                       unwound through the entries */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "driver_rows.h"
#include "shim/driver/calls.h"
#include "simcuda.h"
#include "tests/preload/by_name.h"

enum { MIB = 1 << 20, PAGE = 4096, SOME = 2 * MIB };

typedef int any_call(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                     uint64_t);

static const struct row {
    const char *symbol, *memory, *how;
} rows[] = {
#define CALL_ROW(symbol, name, version, twin, how, role, stream, meaning, why, memory, reason) {#symbol, #memory, #how},
    GM_DRIVER_CALLS(CALL_ROW)
#undef CALL_ROW
};

static _Alignas(PAGE) char pages[ROWS_WORDS][PAGE]; /* zero: valid as an output, and as a struct */
static uint64_t words[ROWS_WORDS];
static rows_arm_function *arm;

static void set_up(void) {
    CUcontext context;
    EXPECT((driver = dlopen("libcuda.so.1", RTLD_NOW)) != NULL);
    EXPECT((arm = (rows_arm_function *)dlsym(driver, "rows_arm")) != NULL);
    MUST(CALL(cuInit, 0));
    MUST(CALL(cuDevicePrimaryCtxRetain, &context, 0));
    MUST(CALL(cuCtxSetCurrent, context));
    for (int i = 0; i < ROWS_WORDS; i++)
        words[i] = (uintptr_t)pages[i];
}

static void keep(void) {
    CUdeviceptr address;
    MUST(CALL(cuMemAlloc_v2, &address, SOME));
    MUST(CALL(cuMemsetD8Async, address, 1, SOME, NULL));
    MUST(CALL(cuMemFree_v2, address));
}

/* Ends with a call that waits for the work that the free left in flight. */
static void keep_quietly(void) {
    keep();
    (void)CALL(cuCtxResetPersistingL2Cache);
}

/* An address in place of the device, of a count of elements or of a size would be a wrong one. */
static void choose_arguments(const char *symbol) {
    static const struct {
        const char *symbol;
        unsigned argument, value;
    } chosen[] = {
        {"cuDevicePrimaryCtxRetain", 1, 0}, {"cuCtxCreate", 2, 0},
        {"cuCtxCreate_v2", 2, 0},           {"cuCtxCreate_v3", 4, 0},
        {"cuCtxCreate_v4", 3, 0},           {"cuGreenCtxCreate", 2, 0},
        {"cuMemSetAccess", 3, 0},           {"cuLibraryLoadData", 4, 0},
        {"cuLibraryLoadData", 7, 0},        {"cuMemAllocAsync", 1, SOME},
        {"cuMemAllocAsync_ptsz", 1, SOME},
    };
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++)
        if (!strcmp(symbol, chosen[i].symbol))
            words[chosen[i].argument] = chosen[i].value;
}

static struct rows_seen *prepare(const char *symbol) {
    char script[256];
    snprintf(script, sizeof script, "%s:1:%d:1,%s:2:%d:9", symbol, ROWS_FIRST, symbol, ROWS_LATER);
    EXPECT(CALL(simcuda_set_failures, script) == 0);
    memset(pages, 0, sizeof pages);
    return arm();
}

static int call(const struct row *row) {
    any_call *function = (any_call *)dlsym(driver, row->symbol);
    EXPECT(function != NULL);
    struct rows_seen *seen = prepare(row->symbol);
    int result = function(words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7], words[8],
                          words[9], words[10]);
    CALL(simcuda_set_failures, "");
    if (seen->calls && !strcmp(row->how, "JUMP"))
        EXPECT(!memcmp(seen->words, words, 11 * sizeof *words));
    return result;
}

static void try_row(const struct row *row) {
    set_up();
    choose_arguments(row->symbol);
    int before = call(row);
    keep_quietly();
    int kept = call(row);
    keep();
    printf("%s %s %d %d %d\n", row->symbol, row->memory, before, kept, call(row));
    fflush(stdout);
}

static void try_all(void) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int status;
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            try_row(&rows[i]);
            _exit(0);
        }
        EXPECT(waitpid(child, &status, 0) == child);
        if (status)
            printf("%s %s ended with %#x\n", rows[i].symbol, rows[i].memory, (unsigned)status);
        fflush(stdout);
    }
}

/* ---- functions without a row */

static void check_wide(rows_wide *wide, int expected) {
    struct rows_seen *seen = arm();
    int result = wide(words[0], words[1], words[2], words[3], words[4], words[5], words[6], words[7], words[8],
                      words[9], words[10], words[11], words[12], words[13], words[14], words[15], 1.25, -3);
    EXPECT(result == expected && !memcmp(seen->words, words, sizeof words));
    EXPECT(seen->numbers[0] == 1.25 && seen->numbers[1] == -3);
}

/* ---- unwinding */

__attribute__((noinline, visibility("default"))) int calls_driver(rows_caller *calls_back, void (*function)(void *),
                                                                  void *argument);

static bool found;

static void is_called_back(void *caller) {
    void *frames[64];
    Dl_info info;
    int count = backtrace(frames, 64);
    for (int i = 0; i < count; i++)
        found |= dladdr(frames[i], &info) && info.dli_sname && !strcmp(info.dli_sname, caller);
}

int calls_driver(rows_caller *calls_back, void (*function)(void *), void *argument) {
    return calls_back(function, argument) + 1;
}

static int left;

static void leave_frame(int *unused) { left++; }
static void end_thread(void *unused) { pthread_exit(unused); }
static void *unwound(void *calls_back) {
    __attribute__((cleanup(leave_frame))) int frame = 0;
    return calls_driver((rows_caller *)calls_back, end_thread, NULL) + frame == 0 ? NULL : &left;
}

static void check_unwinding(rows_caller *calls_back) {
    pthread_t thread;
    void *result;
    found = false;
    EXPECT(calls_driver(calls_back, is_called_back, (void *)"calls_driver") == 1 && found);
    left = 0;
    EXPECT(pthread_create(&thread, NULL, unwound, (void *)calls_back) == 0);
    EXPECT(pthread_join(thread, &result) == 0 && !result && left == 1);
}

static void try_others(bool again) {
    set_up();
    rows_wide *wide = (rows_wide *)dlsym(driver, "cuHasNoRow");
    rows_caller *calls_back = (rows_caller *)dlsym(driver, "cuCallsBack");
    EXPECT(wide && calls_back);
    check_wide(wide, ROWS_FIRST);
    check_unwinding(calls_back);
    keep_quietly();
    check_wide(wide, again ? ROWS_LATER : ROWS_FIRST);
    check_unwinding(calls_back);
    keep();
    check_wide(wide, again ? ROWS_LATER : ROWS_FIRST);
    keep();
    check_unwinding(calls_back);
    printf("ok every_row\n");
}

int main(int count, char **arguments) {
    if (count > 1)
        try_others(!strcmp(arguments[1], "again"));
    else
        try_all();
    return 0;
}

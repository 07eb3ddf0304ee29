/* The allocator for frameworks on the simulated driver. With an argument, the text of the resource that serves. */

#include "tests/test.h"
#include "tests/said.h"
#include <pthread.h>

#include "shim/driver/driver.h"
#include "shim/gpumem_plug.h"
#include "simcuda.h"

#define MIB   ((ptrdiff_t)1 << 20)
#define CU(c) assert_int_equal((c), CUDA_SUCCESS)

static const char *text; /* NULL: what serves by default */
static CUcontext context;
static CUstream own, other;
static CUfunction fill, check;

static int open_device(void **state) {
    CUmodule module;
    CU(cuInit(0));
    CU(cuDevicePrimaryCtxRetain(&context, 0));
    CU(cuCtxSetCurrent(context));
    CU(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU(cuModuleLoadData(&module, "kernels of the simulated driver"));
    CU(cuModuleGetFunction(&fill, module, SIMCUDA_KERNEL_FILL));
    CU(cuModuleGetFunction(&check, module, SIMCUDA_KERNEL_CHECK));
    return 0;
}

static uint64_t live_count(void) {
    struct gpumem_resource_info info = {.struct_size = sizeof info};
    CU(gpumem_resource_get_info(gpumem_plug_resource(), &info));
    return info.live_count;
}

static void launch(CUfunction kernel, CUstream stream, void *memory, uint32_t pattern) {
    uint64_t bytes = MIB;
    void *arguments[] = {&memory, &bytes, &pattern};
    CU(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
}

TEST(chooses_once) {
    assert_null(gpumem_plug_resource());
    assert_int_equal(gpumem_plug_use("no-such-name"), GPUMEM_INVALID_VALUE);
    assert_int_equal(gpumem_plug_use("new-delete"), GPUMEM_INVALID_VALUE);
    assert_non_null(strstr(gpumem_last_error(), "device-accessible"));
    assert_null(gpumem_plug_resource());
    gpumem_plug_trim();
    gpumem_plug_free(NULL, 0, 0, own);
    if (text)
        CU(gpumem_plug_use(text));
    void *memory = gpumem_plug_allocate(MIB, 0, own);
    assert_non_null(memory);
    assert_string_equal(gpumem_resource_text(gpumem_plug_resource()), text ? text : "async");
    assert_int_equal(gpumem_plug_use("native"), GPUMEM_INVALID_VALUE);
    gpumem_plug_free(memory, MIB, 0, own);
    assert_int_equal(live_count(), 0);
}

TEST(allocates_aligned) {
    void *blocks[20];
    for (int i = 0; i < 20; i++) {
        blocks[i] = gpumem_plug_allocate(1 + i * 100, 0, own);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 256, 0);
    }
    assert_null(gpumem_plug_allocate(0, 0, own));
    assert_int_equal(live_count(), 20);
    for (int i = 0; i < 20; i++)
        gpumem_plug_free(blocks[i], 1 + i * 100, 0, own);
    assert_int_equal(live_count(), 0);
    gpumem_plug_trim();
}

/* Frameworks free from threads without a context, and while another device is current. */
static void *in_a_thread(void *result) {
    CUcontext current;
    void *memory = gpumem_plug_allocate(MIB, 1, NULL);
    int device = -1;
    cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)memory);
    gpumem_plug_free(memory, MIB, 1, NULL);
    *(int *)result = device == 1 && cuCtxGetCurrent(&current) == CUDA_SUCCESS && !current;
    return NULL;
}

TEST(enters_the_device) {
    pthread_t thread;
    CUcontext current;
    int good = 0;
    pthread_create(&thread, NULL, in_a_thread, &good);
    pthread_join(thread, NULL);
    assert_true(good);
    in_a_thread(&good); /* here the first device stays current */
    CU(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, context);
    assert_int_equal(live_count(), 0);
    assert_null(gpumem_plug_allocate(MIB, 7, NULL));
}

/* The program's own context of the device may end before the memory does. */
TEST(serves_from_the_primary_context) {
    CUcontext another, current;
    CU(cuCtxCreate_v2(&another, 0, 0));
    void *memory = gpumem_plug_allocate(MIB, 0, NULL);
    assert_non_null(memory);
    CU(cuCtxGetCurrent(&current));
    assert_ptr_equal(current, another);
    CU(cuCtxDestroy_v2(another));
    CU(cuCtxSetCurrent(context));
    gpumem_plug_free(memory, MIB, 0, NULL);
    assert_int_equal(live_count(), 0);
}

/* Lines that a call logs. */
static unsigned logged_by_free(void *memory) {
    char text[2000];
    unsigned lines = 0;
    struct said said = said_begin();
    gpumem_plug_free(memory, MIB, 0, own);
    said_end(said, text, sizeof text);
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    return lines;
}

TEST(logs_a_failed_free_once) {
    int local;
    assert_int_equal(logged_by_free(&local), 1);
}

TEST(reports_out_of_memory) {
    assert_null(gpumem_plug_allocate((ptrdiff_t)1 << 50, 0, own));
    assert_non_null(strstr(gpumem_last_error(), "1125899906842624"));
    assert_int_equal(live_count(), 0);
}

/* Frees a block that `other` still uses, and gives its memory to new work of the block's own stream at once. Returns
 * the words that the work of `other` found changed. */
static uint64_t reused(bool recorded) {
    void *memory = gpumem_plug_allocate(MIB, 0, own);
    assert_int_equal(simcuda_set_streams("manual"), 0);
    simcuda_reset_counters();
    launch(fill, other, memory, 0x11111111);
    launch(check, other, memory, 0x11111111);
    if (recorded) {
        gpumem_plug_record_stream(memory, other);
        gpumem_plug_record_stream(memory, own);
        gpumem_plug_record_stream(memory, other);
    }
    gpumem_plug_free(memory, MIB, 0, own);
    void *again = gpumem_plug_allocate(MIB, 0, own);
    assert_ptr_equal(again, memory); /* else nothing is tried */
    simcuda_step(other);             /* its fill, unless the free has waited for it */
    launch(fill, own, again, 0x22222222);
    while (simcuda_step(own) == 1) {
    }
    simcuda_run_all();
    assert_true(simcuda_check_runs() == 1 || !recorded);
    uint64_t wrong = simcuda_check_mismatches() + simcuda_violations();
    simcuda_set_streams("immediate");
    gpumem_plug_free(again, MIB, 0, own);
    return wrong;
}

TEST(frees_behind_recorded_streams) {
    assert_int_equal(reused(true), 0);
    assert_int_equal(live_count(), 0);
}

/* Where a stream cannot be waited for, the free waits for everything. */
TEST(frees_in_spite_of_failures) {
    static const char *const calls[] = {"cuEventCreate:1", "cuEventRecord:1", "cuStreamWaitEvent:1"};
    for (int i = 0; i < 3; i++) {
        void *memory = gpumem_plug_allocate(MIB, 0, own);
        launch(fill, other, memory, 0x33333333);
        gpumem_plug_record_stream(memory, other);
        assert_int_equal(simcuda_set_failures(calls[i]), 0);
        gpumem_plug_free(memory, MIB, 0, own);
        simcuda_set_failures(NULL);
        assert_int_equal(live_count(), 0);
    }
    assert_string_equal(simcuda_last_violation(), "");
}

static void *records(void *unused) {
    for (int i = 0; i < 200; i++) {
        void *memory = gpumem_plug_allocate(4096, 0, own);
        gpumem_plug_record_stream(memory, other);
        gpumem_plug_free(memory, 4096, 0, own);
    }
    return unused;
}

TEST(serves_threads) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, records, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(live_count(), 0);
}

/* Last, because the context is of no use afterwards. */
TEST(needs_recorded_streams) {
    if (text)
        skip(); /* a plain free waits for all streams */
    assert_int_not_equal(reused(false), 0);
}

int main(int argc, char **argv) {
    text = argc > 1 ? argv[1] : NULL;
    return run_all(open_device, NULL);
}

/* Tests of when images are searched for kernels that print: at the first request of a library that keeps its image,
 * else at once; never without need; and what becomes of libraries that are unloaded. */

#include "tests/test.h"

#include "shim/driver/free_sync.h"
#include "shim/hook/image.h"
#include "shim/hook/prints.h"

/* ---- what the module calls */

struct gm_driver gm_drv;
static bool observes = true;
static unsigned notes, searches;
static struct gm_capabilities asked;
static const char loud[] = "loud", quiet[] = "quiet";

bool gm_free_sync_observes(void) { return observes; }
void gm_free_sync_note(enum gm_sync_reason reason) {
    assert_int_equal(reason, GM_SYNC_PRINTF);
    notes++;
}
bool gm_image_prints(const void *image, const struct gm_capabilities *devices) {
    asked = *devices;
    searches++;
    return image == loud;
}
bool gm_image_file_prints(const char *file, const struct gm_capabilities *devices) {
    return gm_image_prints(strcmp(file, loud) == 0 ? loud : quiet, devices);
}

static int device_count = 2;
static CUresult count_devices(int *count) {
    *count = device_count;
    return device_count < 0 ? CUDA_ERROR_NOT_INITIALIZED : CUDA_SUCCESS;
}
static CUresult read_attribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9 + device : 3;
    return CUDA_SUCCESS;
}

static CUlibrary library(uintptr_t number) { return (CUlibrary)(number << 6); }

/* ---- the tests; the last one finds a kernel that prints, for which all others look in vain */

TEST(other_levels_search_nothing) {
    observes = false;
    gm_prints_image(loud);
    gm_prints_file(loud);
    gm_prints_library(library(1), loud);
    observes = true;
    gm_prints_request(library(1));
    assert_int_equal(searches, 0);
}

TEST(the_devices_are_named) {
    gm_prints_image(quiet);
    assert_int_equal(asked.count, 2);
    assert_int_equal(asked.of[0], 93);
    assert_int_equal(asked.of[1], 103);
    for (int i = 0; i < 2; i++) { /* not known, and too many */
        device_count = i ? 17 : -1;
        gm_prints_file(quiet);
        assert_int_equal(asked.count, 0);
    }
    device_count = 2;
}

TEST(only_a_kept_image_waits) {
    CUlibraryOption options[] = {CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE, CU_LIBRARY_BINARY_IS_PRESERVED};
    bool answer = false;
    void *values[] = {NULL, (void *)1};
    assert_true(gm_prints_later(options, values, 2));
    assert_false(gm_prints_later(options, values, 1));
    assert_false(gm_prints_later(options, NULL, 2));
    assert_false(gm_prints_later(NULL, values, 2));
    values[1] = NULL;
    assert_false(gm_prints_later(options, values, 2));
    values[1] = &answer;
    assert_false(gm_prints_later(options, values, 2));
}

TEST(a_library_is_searched_once) {
    enum { LIBRARIES = 5000 };
    searches = 0;
    for (uintptr_t i = 1; i <= LIBRARIES; i++)
        gm_prints_library(library(i), quiet);
    assert_int_equal(searches, 0);
    gm_prints_request(library(LIBRARIES + 1));
    assert_int_equal(searches, 0);
    for (uintptr_t i = 1; i <= LIBRARIES; i += 2) {
        gm_prints_request(library(i));
        gm_prints_request(library(i));
    }
    assert_int_equal(searches, LIBRARIES / 2);
    for (uintptr_t i = 1; i <= LIBRARIES; i++)
        assert_ptr_equal(gm_prints_forget(library(i)), i % 2 ? NULL : quiet);
    for (uintptr_t i = 1; i <= LIBRARIES; i++)
        gm_prints_request(library(i));
    assert_int_equal(searches, LIBRARIES / 2);
}

TEST(a_handle_may_come_again) {
    gm_prints_library(library(1), loud);
    gm_prints_library(library(1), quiet); /* the first one's end was not seen */
    assert_ptr_equal(gm_prints_forget(library(1)), quiet);
    gm_prints_library(library(1), NULL);
    assert_null(gm_prints_forget(library(1)));
}

TEST(what_prints_is_noted_once) {
    gm_prints_library(library(1), loud);
    gm_prints_library(library(2), loud);
    assert_int_equal(notes, 0);
    gm_prints_request(library(1));
    assert_int_equal(notes, 1);
    searches = 0;
    gm_prints_request(library(2));
    gm_prints_image(loud);
    gm_prints_file(loud);
    assert_int_equal(notes, 1);
    assert_int_equal(searches, 0);
}

int main(void) {
    gm_drv.device_get_count = count_devices;
    gm_drv.device_get_attribute = read_attribute;
    return run_all(NULL, NULL);
}

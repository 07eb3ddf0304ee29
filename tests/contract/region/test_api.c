/* The conventions of gpumem.h: its version, status values equal to the driver's, and structs with their own size,
 * older and newer than the library's. */
#include "bench.h"

#include <stdio.h>

#define DRIVER(status, result) _Static_assert((int)(status) == (int)(result), "the driver's number")
DRIVER(GPUMEM_OK, CUDA_SUCCESS);
DRIVER(GPUMEM_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
DRIVER(GPUMEM_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
DRIVER(GPUMEM_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
DRIVER(GPUMEM_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
DRIVER(GPUMEM_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
DRIVER(GPUMEM_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
DRIVER(GPUMEM_STREAM_CAPTURE, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
DRIVER(GPUMEM_UNKNOWN, CUDA_ERROR_UNKNOWN);

TEST_WITH(the_header_has_the_librarys_version, bench_open, bench_close) {
    char header[40];
    snprintf(header, sizeof header, "%d.%d.%d", GPUMEM_VERSION_MAJOR, GPUMEM_VERSION_MINOR, GPUMEM_VERSION_PATCH);
    assert_string_equal(gpumem_version(), header);
}

TEST_WITH(statuses_have_names, bench_open, bench_close) {
    assert_string_equal(gpumem_status_name(GPUMEM_OK), "GPUMEM_OK");
    assert_string_equal(gpumem_status_name(GPUMEM_STREAM_CAPTURE), "GPUMEM_STREAM_CAPTURE");
    assert_string_equal(gpumem_status_name((enum gpumem_status)CUDA_ERROR_ILLEGAL_ADDRESS),
                        "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_string_equal(gpumem_status_name((enum gpumem_status)12345), "unknown status");
}

TEST_WITH(a_miss_is_an_error_with_a_text, bench_open, bench_close) {
    struct gpumem_block block = {.struct_size = sizeof block, .size = 77};
    int own = 0;
    assert_int_equal(gpumem_block_of(&own, &block), GPUMEM_NOT_FOUND);
    assert_int_equal(block.size, 77);
    assert_non_null(strstr(gpumem_last_error(), "no live block"));
}

TEST_WITH(nothing_is_cached_without_the_preloaded_library, bench_open, bench_close) {
    size_t released = 5;
    CU(gpumem_trim(SIZE_MAX, &released));
    assert_int_equal(released, 0);
    CU(gpumem_trim(SIZE_MAX, NULL));
}

/* ---- structs of other versions; `tail` holds the fields of a later version */

struct newer_options {
    struct gpumem_region_options known;
    uint64_t tail[3];
};

static struct gpumem_view view_of(const struct gpumem_region *region) {
    struct gpumem_view view = {.struct_size = sizeof view};
    CU(gpumem_region_view(region, &view));
    return view;
}

static void create_and_destroy(const void *options, size_t capacity) {
    struct gpumem_region *region = NULL;
    CU(gpumem_region_create(options, &region));
    if (capacity)
        assert_int_equal(view_of(region).capacity, capacity);
    CU(gpumem_region_destroy(region));
}

/* Fields that an older struct does not have count as 0, whatever lies behind it in memory. */
TEST_WITH(older_options_are_read, bench_open, bench_close) {
    struct gpumem_region_options options = {.reserve = 4 * MIB, .peers = ~0ull, .flags = ~0ull};
    options.struct_size = offsetof(struct gpumem_region_options, peers);
    create_and_destroy(&options, 4 * MIB);
    options.struct_size = sizeof options.struct_size;
    create_and_destroy(&options, 0);
    create_and_destroy(NULL, 0);
}

TEST_WITH(newer_options_are_read_while_the_tail_is_zero, bench_open, bench_close) {
    struct newer_options options = {.known = {.struct_size = sizeof options, .reserve = 4 * MIB}};
    struct gpumem_region *region = NULL;
    char size[80];
    create_and_destroy(&options, 4 * MIB);
    options.tail[2] = 1;
    assert_int_equal(gpumem_region_create(&options.known, &region), GPUMEM_NOT_SUPPORTED);
    assert_null(region);
    snprintf(size, sizeof size, "gpumem_region_options has a field at byte %zu", sizeof options.known + 16);
    assert_non_null(strstr(gpumem_last_error(), size));
    assert_non_null(strstr(gpumem_last_error(), gpumem_version()));
}

TEST_WITH(unknown_flags_are_refused, bench_open, bench_close) {
    struct gpumem_region_options options = {.struct_size = sizeof options, .flags = 1ull << 40};
    struct gpumem_region *region = NULL;
    assert_int_equal(gpumem_region_create(&options, &region), GPUMEM_NOT_SUPPORTED);
    assert_null(region);
    assert_non_null(strstr(gpumem_last_error(), "0x10000000000"));
}

TEST_WITH(unset_struct_sizes_are_refused, bench_open, bench_close) {
    static const size_t unset[] = {0, 7, 4097, SIZE_MAX};
    struct gpumem_region *region = NULL, *made;
    create_and_destroy(NULL, 0);
    CU(gpumem_region_create(NULL, &made));
    for (unsigned i = 0; i < sizeof unset / sizeof *unset; i++) {
        struct gpumem_region_options options = {.struct_size = unset[i]};
        struct gpumem_view view = {.struct_size = unset[i], .handles = 77};
        assert_int_equal(gpumem_region_create(&options, &region), GPUMEM_INVALID_VALUE);
        assert_null(region);
        assert_non_null(strstr(gpumem_last_error(), "sizeof(struct gpumem_region_options)"));
        assert_int_equal(gpumem_region_view(made, &view), GPUMEM_INVALID_VALUE);
        assert_non_null(strstr(gpumem_last_error(), "sizeof(struct gpumem_view)"));
        assert_int_equal(view.handles, 77);
    }
    CU(gpumem_region_destroy(made));
}

/* In an older view only the fields that it has are written. In a newer view the other fields are zeroed. */
TEST_WITH(views_of_other_versions_are_written, bench_open, bench_close) {
    struct {
        struct gpumem_view known;
        uint64_t tail[2], not_its_own;
    } view;
    struct gpumem_region *region;
    CU(gpumem_region_create(NULL, &region));
    CU(gpumem_region_grow(region, 2 * MIB));
    memset(&view, 0xcd, sizeof view);
    view.known.struct_size = offsetof(struct gpumem_view, mapped);
    CU(gpumem_region_view(region, &view.known));
    assert_int_equal(view.known.struct_size, offsetof(struct gpumem_view, mapped));
    assert_int_equal(view.known.size, 2 * MIB);
    assert_int_equal(view.known.mapped, 0xcdcdcdcdcdcdcdcdull);

    memset(&view, 0xcd, sizeof view);
    view.known.struct_size = offsetof(__typeof__(view), not_its_own);
    CU(gpumem_region_view(region, &view.known));
    assert_int_equal(view.known.handles, 1);
    assert_int_equal(view.tail[0], 0);
    assert_int_equal(view.tail[1], 0);
    assert_int_equal(view.not_its_own, 0xcdcdcdcdcdcdcdcdull);

    memset(&view, 0xcd, sizeof view);
    view.known.struct_size = offsetof(struct gpumem_view, capacity);
    CU(gpumem_region_view_read_only(region, &view.known));
    assert_int_equal(view.known.mapped, 2 * MIB);
    assert_int_equal(view.known.capacity, 0xcdcdcdcdcdcdcdcdull);
    CU(gpumem_region_destroy(region));
}

/* A new field in padding would not change the size, so older and newer structs could not be told apart. */
TEST_WITH(structs_have_no_padding_at_their_end, bench_open, bench_close) {
#define END(type, last) (offsetof(struct type, last) + sizeof(((struct type *)NULL)->last))
    assert_int_equal(END(gpumem_block, reserved), sizeof(struct gpumem_block));
    assert_int_equal(END(gpumem_region_options, flags), sizeof(struct gpumem_region_options));
    assert_int_equal(END(gpumem_view, handles), sizeof(struct gpumem_view));
}

/* The call says which of its own arguments is NULL. */
#define REFUSED(call, words)                                         \
    do {                                                             \
        assert_int_equal((call), GPUMEM_INVALID_VALUE);              \
        if (!strstr(gpumem_last_error(), (words)))                   \
            fail_msg("\"%s\" in: %s", (words), gpumem_last_error()); \
    } while (0)

TEST_WITH(null_pointers_of_regions_are_refused, bench_open, bench_close) {
    struct gpumem_region_options options = {.struct_size = sizeof options, .flags = GPUMEM_REGION_EXPORTABLE};
    struct gpumem_view view = {.struct_size = sizeof view};
    struct gpumem_region *region;
    size_t size = 0;
    int descriptor = -1;
    CU(gpumem_region_create(&options, &region));
    CU(gpumem_region_grow(region, 1));
    REFUSED(gpumem_block_of(region, NULL), "gpumem_block_of: block is NULL");
    REFUSED(gpumem_region_create(&options, NULL), "gpumem_region_create: region is NULL");
    REFUSED(gpumem_region_grow(NULL, 1), "gpumem_region_grow: region is NULL");
    REFUSED(gpumem_region_shrink(NULL, 1), "gpumem_region_shrink: region is NULL");
    REFUSED(gpumem_region_view(NULL, &view), "gpumem_region_view: region is NULL");
    REFUSED(gpumem_region_view(region, NULL), "gpumem_view is NULL");
    REFUSED(gpumem_region_view_read_only(NULL, &view), "gpumem_region_view_read_only: region is NULL");
    REFUSED(gpumem_region_allow(NULL, 0), "gpumem_region_allow: region is NULL");
    REFUSED(gpumem_region_export(NULL, 0, &descriptor, &size), "gpumem_region_export: region is NULL");
    REFUSED(gpumem_region_export(region, 0, NULL, &size), "descriptor is NULL");
    REFUSED(gpumem_region_export(region, 0, &descriptor, NULL), "size is NULL");
    CU(gpumem_region_destroy(NULL));
    CU(gpumem_region_destroy(region));
    gpumem_mark(NULL);
}

TEST_WITH(null_pointers_of_vectors_are_refused, bench_open, bench_close) {
    struct gpumem_vector *vector;
    const int value = 7;
    CU(gpumem_vector_create(NULL, sizeof value, NULL, &vector));
    REFUSED(gpumem_vector_create(NULL, sizeof value, NULL, NULL), "gpumem_vector_create: vector is NULL");
    REFUSED(gpumem_vector_reserve(NULL, 1), "gpumem_vector_reserve: vector is NULL");
    REFUSED(gpumem_vector_resize(NULL, 1, &value), "gpumem_vector_resize: vector is NULL");
    REFUSED(gpumem_vector_append(NULL, 1), "gpumem_vector_append: vector is NULL");
    REFUSED(gpumem_vector_push_back(NULL, &value), "gpumem_vector_push_back: vector is NULL");
    REFUSED(gpumem_vector_push_back(vector, NULL), "gpumem_vector_push_back: value is NULL");
    REFUSED(gpumem_vector_insert(NULL, 0, 1, &value), "gpumem_vector_insert: vector is NULL");
    REFUSED(gpumem_vector_insert(vector, 0, 1, NULL), "gpumem_vector_insert: value is NULL");
    REFUSED(gpumem_vector_insert_from(NULL, 0, &value, 1), "gpumem_vector_insert_from: vector is NULL");
    REFUSED(gpumem_vector_insert_from(vector, 0, NULL, 1), "gpumem_vector_insert_from: source is NULL");
    REFUSED(gpumem_vector_fill(NULL, 0, 0, &value), "gpumem_vector_fill: vector is NULL");
    REFUSED(gpumem_vector_fill(vector, 0, 0, NULL), "gpumem_vector_fill: value is NULL");
    REFUSED(gpumem_vector_erase(NULL, 0, 0), "gpumem_vector_erase: vector is NULL");
    REFUSED(gpumem_vector_assign(NULL, 1, &value), "gpumem_vector_assign: vector is NULL");
    REFUSED(gpumem_vector_assign(vector, 1, NULL), "gpumem_vector_assign: value is NULL");
    REFUSED(gpumem_vector_assign_from(NULL, &value, 1), "gpumem_vector_assign_from: vector is NULL");
    REFUSED(gpumem_vector_assign_from(vector, NULL, 1), "gpumem_vector_assign_from: source is NULL");
    REFUSED(gpumem_vector_copy(NULL, vector), "gpumem_vector_copy: vector is NULL");
    REFUSED(gpumem_vector_copy(vector, NULL), "gpumem_vector_copy: other is NULL");
    REFUSED(gpumem_vector_shrink(NULL), "gpumem_vector_shrink: vector is NULL");
    assert_null(gpumem_vector_data(NULL));
    assert_null(gpumem_vector_region(NULL));
    assert_int_equal(gpumem_vector_count(NULL) + gpumem_vector_capacity(NULL), 0);
    gpumem_vector_set_stream(NULL, NULL);
    gpumem_vector_swap(vector, NULL);
    gpumem_vector_swap(NULL, vector);
    CU(gpumem_vector_insert_from(vector, 0, NULL, 0));
    CU(gpumem_vector_destroy(NULL));
    CU(gpumem_vector_destroy(vector));
}

/* Also while the region is empty, and in the options. */
TEST_WITH(devices_that_do_not_exist_are_refused, bench_open, bench_close) {
    struct gpumem_region_options options = {.struct_size = sizeof options, .peers = 1ull << 40};
    struct gpumem_region *region = NULL;
    REFUSED(gpumem_region_create(&options, &region), "no device 40");
    assert_null(region);
    CU(gpumem_region_create(NULL, &region));
    REFUSED(gpumem_region_allow(region, 7), "no device 7");
    REFUSED(gpumem_region_allow(region, -1), "no device -1");
    REFUSED(gpumem_region_allow(region, 64), "no device 64");
    CU(gpumem_region_grow(region, 1));
    CU(gpumem_region_destroy(region));
}

int main(void) { return run_all(NULL, NULL); }

/* Known libraries are recognised by the file's name, and an address finds the object that contains it. */

#include "tests/test.h"
#include <dlfcn.h>

#include "shim/base/libraries.h"

TEST(names_and_traits) {
    static const struct {
        const char *path;
        unsigned traits;
    } rows[] = {
        {"linux-vdso.so.1", GM_LIBRARY_KERNEL},
        {"/opt/gpumem/lib/libgpumem.so.0.1.0", GM_LIBRARY_OWN},
        {"/usr/lib/libgpumem-core.so.0", GM_LIBRARY_OWN},
        {"libcuda.so.1", GM_LIBRARY_DRIVER},
        {"/usr/lib/x86_64-linux-gnu/libcuda.so.580.65", GM_LIBRARY_DRIVER},
        {"/usr/local/cuda/lib64/libcudart.so.13", GM_LIBRARY_RUNTIME},
        {"/usr/lib/libibverbs.so.1", GM_LIBRARY_RDMA},
        {"/usr/lib/libgdrapi.so.2", GM_LIBRARY_RDMA},
        {"/usr/lib/libmpi.so.40", GM_LIBRARY_TRANSPORT | GM_LIBRARY_BUFFERS},
        {"/usr/lib/libnvshmem_host.so.3", GM_LIBRARY_TRANSPORT},
        {"/usr/lib/libfabric.so.1", GM_LIBRARY_TRANSPORT | GM_LIBRARY_BUFFERS},
        {"", 0},
        {"/opt/libcuda.so.1/app", 0}, /* a folder of that name */
        {"/usr/lib/libcudadevrt.so", 0},
        {"/usr/lib/mylibmpi.so", 0},
        {"/usr/lib/libmpicxx.so", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (gm_library_traits(rows[i].path) != rows[i].traits)
            fail_msg("%s has traits %x", rows[i].path, gm_library_traits(rows[i].path));
}

TEST(every_row_is_whole) {
    for (unsigned i = 0; i < GM_LIBRARIES; i++) {
        assert_non_null(gm_libraries[i].name);
        assert_int_equal(gm_library_traits(gm_libraries[i].name), gm_libraries[i].traits);
        assert_int_equal(gm_libraries[i].device != NULL, (gm_libraries[i].traits & GM_LIBRARY_RDMA) != 0);
    }
}

struct found {
    unsigned visits;
    uintptr_t base;
    bool with_this_program;
};

static void note(const struct dl_phdr_info *object, void *argument) {
    struct found *found = argument;
    found->visits++;
    found->base = object->dlpi_addr;
    found->with_this_program = gm_library_segment(object, (uintptr_t)note) != NULL;
}

TEST(an_address_finds_its_object) {
    struct found found = {0};
    Dl_info known;
    assert_true(gm_library_at((uintptr_t)note, note, &found));
    assert_int_equal(found.visits, 1);
    assert_true(found.with_this_program);
    void *function = dlsym(RTLD_DEFAULT, "qsort");
    assert_true(dladdr(function, &known));
    assert_true(gm_library_at((uintptr_t)function, note, &found));
    assert_int_equal(found.visits, 2);
    assert_int_equal(found.base, (uintptr_t)known.dli_fbase);
    assert_false(found.with_this_program);
    assert_false(gm_library_at((uintptr_t)&found, note, &found)); /* the stack */
    assert_int_equal(found.visits, 2);
}

TEST(loading_is_counted) {
    unsigned long long before = gm_libraries_loaded();
    if (!before)
        skip();
    void *library = dlopen("libresolv.so.2", RTLD_NOW);
    if (!library)
        skip();
    assert_true(gm_libraries_loaded() > before);
    before = gm_libraries_loaded();
    dlclose(library);
    assert_true(gm_libraries_loaded() >= before);
}

int main(void) { return run_all(NULL, NULL); }

/* Tests of the inspection of device code: images of every form, short ones, and those that end where readable memory
 * ends. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/hook/image.h"

enum { PAGE = 4096 };

/* `size` bytes that end where readable memory ends. */
static char *at_the_end(const void *bytes, size_t size) {
    char *pages = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + 2 * PAGE, PAGE, PROT_NONE), 0);
    return memcpy(pages + 2 * PAGE - size, bytes, size);
}

static void text_is_scanned_up_to_its_end(void **state) {
    static const char *const quiet[] = {"", ".", ".v", ".version 9.0\n.func vprint"};
    static const char prints[] = ".version 9.0\n.extern .func (.param .b32 r) vprintf\n";
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
        assert_false(gm_image_prints(at_the_end(quiet[i], strlen(quiet[i]) + 1)));
    assert_true(gm_image_prints(at_the_end(prints, sizeof prints)));
    assert_false(gm_image_prints(NULL));
}

static void a_cubin_ends_where_its_sections_do(void **state) {
    char bytes[PAGE] = {0};
    Elf64_Ehdr *elf = (Elf64_Ehdr *)bytes;
    memcpy(elf->e_ident, ELFMAG, SELFMAG);
    elf->e_shoff = PAGE - 2 * sizeof(Elf64_Shdr);
    elf->e_shnum = 2;
    elf->e_shentsize = sizeof(Elf64_Shdr);
    assert_false(gm_image_prints(at_the_end(bytes, sizeof bytes)));
    strcpy(bytes + 1000, "vprintf");
    assert_true(gm_image_prints(at_the_end(bytes, sizeof bytes)));
}

static void a_fat_binary_is_found_in_its_wrapper(void **state) {
    struct {
        uint32_t magic;
        uint16_t version, header_bytes;
        uint64_t bytes;
        char code[100];
    } fat = {0xba55ed50u, 1, 16, 100, {0}};
    struct {
        uint32_t magic, version;
        const void *data;
        void *file;
    } wrapper = {0x466243b1u, 1, NULL, NULL};
    assert_false(gm_image_prints(at_the_end(&wrapper, sizeof wrapper)));
    for (int prints = 0; prints < 2; prints++) {
        memcpy(fat.code + 90, prints ? "vprintf" : "vprintx", 8);
        char *there = at_the_end(&fat, offsetof(__typeof__(fat), code) + 100);
        wrapper.data = there;
        assert_int_equal(gm_image_prints(there), prints);
        assert_int_equal(gm_image_prints(&wrapper), prints);
    }
}

static void files_are_scanned(void **state) {
    char name[] = "/tmp/gpumem-image-XXXXXX";
    int file = mkstemp(name);
    assert_true(file >= 0);
    assert_false(gm_image_file_prints(name));
    assert_int_equal(write(file, "code vprintf", 12), 12);
    assert_true(gm_image_file_prints(name));
    close(file);
    unlink(name);
    assert_false(gm_image_file_prints(name));
    assert_false(gm_image_file_prints(NULL));
    assert_false(gm_image_file_prints("/"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_scanned_up_to_its_end),
        cmocka_unit_test(a_cubin_ends_where_its_sections_do),
        cmocka_unit_test(a_fat_binary_is_found_in_its_wrapper),
        cmocka_unit_test(files_are_scanned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tests of the inspection of device code: images of every form, short ones, and those that end where readable memory
 * ends. */
#include <elf.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/test.h"

#include "shim/hook/image.h"

enum { PAGE = 4096, ROOM = 1 << 22 };
static const struct gm_capabilities any;

static bool prints(const void *image) { return gm_image_prints(image, &any); }

/* `size` bytes that end where readable memory ends. */
static char *at_the_end(const void *bytes, size_t size) {
    static char *pages;
    if (!pages) {
        pages = mmap(NULL, ROOM + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(pages != MAP_FAILED);
        assert_int_equal(mprotect(pages + ROOM, PAGE, PROT_NONE), 0);
    }
    return memcpy(pages + ROOM - size, bytes, size);
}

TEST(text_is_searched_up_to_its_end) {
    static const char *const quiet[] = {
        "", ".", ".v", "text", ".version 9.0\n.func vprint", ".version 9.0 // \xc3\xa4\n"};
    static const char loud[] = ".version 9.0\n.extern .func (.param .b32 r) vprintf\n";
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++)
        assert_false(prints(at_the_end(quiet[i], strlen(quiet[i]) + 1)));
    assert_true(prints(at_the_end(loud, sizeof loud)));
    assert_false(prints(NULL));
    static char far[3 << 20];
    memset(far, ' ', sizeof far - 1);
    memcpy(far, ".version 9.0", 12);
    assert_false(prints(at_the_end(far, sizeof far)));
    memcpy(far + sizeof far - 8, "vprintf", 7);
    assert_true(prints(at_the_end(far, sizeof far)));
}

TEST(other_formats_count) {
    static const char *const formats[] = {"\x7f"
                                          "TileIR",
                                          "BC\xc0\xde"
                                          "5",
                                          "text\x01", "\xff\xfe"};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        assert_true(prints(at_the_end(formats[i], strlen(formats[i]) + 1)));
}

struct cubin {
    Elf64_Ehdr head;
    char names[100], code[100];
    Elf64_Shdr sections[3];
};
static void make_cubin(struct cubin *cubin) {
    *cubin = (struct cubin){
        .head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
                 .e_machine = EM_CUDA,
                 .e_shoff = offsetof(struct cubin, sections),
                 .e_shnum = 3,
                 .e_shentsize = sizeof(Elf64_Shdr)},
        .sections = {{0},
                     {.sh_type = SHT_PROGBITS, .sh_offset = offsetof(struct cubin, code), .sh_size = 100},
                     {.sh_type = SHT_STRTAB, .sh_offset = offsetof(struct cubin, names), .sh_size = 100}},
    };
}

TEST(the_names_of_a_cubin_are_searched) {
    struct cubin cubin;
    make_cubin(&cubin);
    assert_false(prints(at_the_end(&cubin, sizeof cubin)));
    memcpy(cubin.code, "vprintf", 8); /* no name */
    assert_false(prints(at_the_end(&cubin, sizeof cubin)));
    memcpy(cubin.names + 92, "vprintf", 8);
    assert_true(prints(at_the_end(&cubin, sizeof cubin)));
    make_cubin(&cubin);
    cubin.head.e_shnum = 0; /* the first section has the number */
    cubin.sections[0].sh_size = 3;
    assert_false(prints(at_the_end(&cubin, sizeof cubin)));
    memcpy(cubin.names, "vprintf", 8);
    assert_true(prints(at_the_end(&cubin, sizeof cubin)));
}

TEST(a_cubin_that_cannot_be_read_counts) {
    struct cubin cubin;
    make_cubin(&cubin);
    cubin.head.e_ident[EI_CLASS] = ELFCLASS32;
    assert_true(prints(at_the_end(&cubin, sizeof cubin)));
    make_cubin(&cubin);
    cubin.head.e_machine = EM_X86_64;
    assert_true(prints(at_the_end(&cubin, sizeof cubin)));
    make_cubin(&cubin);
    cubin.head.e_shentsize++;
    assert_true(prints(at_the_end(&cubin, sizeof cubin)));
    make_cubin(&cubin);
    cubin.head.e_shnum = 2; /* no names */
    assert_true(prints(at_the_end(&cubin, sizeof cubin)));
    make_cubin(&cubin);
    cubin.sections[2].sh_flags = SHF_COMPRESSED;
    assert_true(prints(at_the_end(&cubin, sizeof cubin)));
}

struct fat {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    uint16_t kind, entry_version;
    uint32_t entry_header;
    uint64_t entry_bytes, rest[6];
    char code[104];
};
static struct fat fat = {0xba55ed50u, 1, 16, 168, 1, 0x101, 64, 104, {0}, ".version 9.0 vprintf"};

TEST(a_fat_binary_is_found_in_its_wrapper) {
    struct {
        uint32_t magic, version;
        const void *data;
        void *more;
    } wrapper = {0x466243b1u, 1, NULL, "file"};
    static struct fat parts[2];
    void *linked[] = {&parts[0], &parts[1], NULL};
    assert_false(prints(at_the_end(&wrapper, sizeof wrapper)));
    for (int loud = 0; loud < 2; loud++) {
        fat.code[13] = loud ? 'v' : 'x';
        char *there = at_the_end(&fat, sizeof fat);
        wrapper.data = there;
        wrapper.version = 1;
        assert_int_equal(prints(there), loud);
        assert_int_equal(prints(&wrapper), loud);
        wrapper.version = 3;
        assert_true(prints(&wrapper));
        wrapper.version = 2; /* the parts that it was linked of */
        parts[0] = parts[1] = fat;
        parts[1].code[13] = 'v';
        wrapper.more = NULL;
        assert_int_equal(prints(&wrapper), loud);
        wrapper.more = linked;
        assert_true(prints(&wrapper));
        parts[1] = fat;
        assert_int_equal(prints(&wrapper), loud);
        wrapper.more = "file";
    }
    fat.code[13] = 'x';
    fat.code[0] = ' '; /* no PTX: perhaps encrypted */
    assert_true(prints(&fat));
    fat.code[0] = '.';
}

TEST(files_are_searched) {
    char name[] = "/tmp/gpumem-image-XXXXXX";
    struct cubin cubin;
    int file = mkstemp(name);
    assert_true(file >= 0);
    assert_false(gm_image_file_prints(name, &any));
    assert_int_equal(write(file, ".version vprintf", 16), 16);
    assert_true(gm_image_file_prints(name, &any));
    for (size_t size = 1; size <= sizeof cubin; size++) { /* cut off, but for the last */
        make_cubin(&cubin);
        assert_int_equal(ftruncate(file, 0), 0);
        assert_int_equal(pwrite(file, &cubin, size, 0), size);
        assert_int_equal(gm_image_file_prints(name, &any), size < sizeof cubin);
    }
    for (size_t size = 1; size <= sizeof fat; size++) {
        assert_int_equal(ftruncate(file, 0), 0);
        assert_int_equal(pwrite(file, &fat, size, 0), size);
        assert_int_equal(gm_image_file_prints(name, &any), size < sizeof fat && size != 1);
    }
    close(file);
    unlink(name);
    assert_false(gm_image_file_prints(name, &any));
    assert_false(gm_image_file_prints(NULL, &any));
    assert_false(gm_image_file_prints("/", &any));
    assert_true(gm_image_file_prints("/dev/null", &any)); /* no regular file */
}

int main(void) { return run_all(NULL, NULL); }

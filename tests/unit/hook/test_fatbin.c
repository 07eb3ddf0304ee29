/* Tests of the walk over fat binaries: which entries count for which devices, packed entries, unknown ones, and
 * containers that are cut off or damaged. */
#include <sys/mman.h>

#include "tests/test.h"

#include "shim/hook/fatbin.h"

enum { PAGE = 4096, PTX = 1, CUBIN = 2, LTO = 8, LZ4 = 0x2000, ZSTD = 0x8000, ENCRYPTED = 0x10000, PLAIN = 0x11 };

struct entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t packed_bytes, options;
    uint16_t minor, major;
    uint32_t arch, name, name_bytes;
    uint64_t flags, key, unpacked_bytes;
};

static uint8_t fat[PAGE];
static size_t size;

static void begin(void) {
    static const uint8_t header[16] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16};
    memcpy(fat, header, size = sizeof header);
}

static struct entry *add(unsigned kind, unsigned arch, const void *code, size_t bytes) {
    struct entry *entry = (struct entry *)(fat + size);
    *entry = (struct entry){.kind = (uint16_t)kind,
                            .version = 0x101,
                            .header_bytes = sizeof *entry + 8,
                            .bytes = (bytes + 7) / 8 * 8,
                            .arch = arch,
                            .flags = PLAIN};
    size += entry->header_bytes;
    memset(fat + size, 0, entry->bytes);
    if (bytes)
        memcpy(fat + size, code, bytes);
    size += entry->bytes;
    uint64_t rest = size - 16;
    memcpy(fat + 8, &rest, sizeof rest);
    return entry;
}

/* The container at the end of readable memory. */
static const void *at_the_end(size_t bytes) {
    static uint8_t *pages;
    if (!pages) {
        pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(pages != MAP_FAILED);
        assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    }
    return memcpy(pages + PAGE - bytes, fat, bytes);
}

static unsigned texts, cubins;
static bool finds_loud(const void *code, size_t bytes, bool is_text) {
    texts += is_text;
    cubins += !is_text;
    return memmem(code, bytes, "loud", 4) != NULL;
}
static bool has(const struct gm_capabilities *devices) {
    const struct gm_capabilities any = {0};
    texts = cubins = 0;
    return gm_fatbin_has(at_the_end(size), SIZE_MAX / 2, devices ? devices : &any, finds_loud);
}
static bool runs_on(unsigned kind, unsigned arch, unsigned first, unsigned second) {
    const struct gm_capabilities devices = {second ? 2 : 1, {(uint16_t)first, (uint16_t)second}};
    begin();
    add(kind, arch, "loud", 4);
    return has(&devices);
}

TEST(each_entry_is_looked_at) {
    begin();
    assert_false(has(NULL));
    add(PTX, 75, "quiet", 5);
    add(CUBIN, 90, "calm", 4);
    add(CUBIN, 120, "still", 5);
    assert_false(has(NULL));
    assert_int_equal(texts, 1);
    assert_int_equal(cubins, 2);
    add(CUBIN, 120, "not loud", 8);
    assert_true(has(NULL));
}

TEST(only_code_for_the_devices_counts) {
    assert_true(runs_on(CUBIN, 90, 90, 0));
    assert_true(runs_on(CUBIN, 80, 86, 0));
    assert_true(runs_on(CUBIN, 80, 90, 89));
    assert_false(runs_on(CUBIN, 86, 80, 0)); /* later */
    assert_false(runs_on(CUBIN, 80, 90, 0)); /* another major number */
    assert_false(runs_on(CUBIN, 100, 90, 0));
    assert_true(runs_on(CUBIN, 120, 100, 0)); /* may be finalised for it */
    assert_true(runs_on(CUBIN, 101, 110, 0));
    assert_true(runs_on(PTX, 50, 90, 0));
    assert_false(runs_on(PTX, 90, 86, 75));
    assert_true(runs_on(PTX, 120, 103, 0));
}

TEST(packed_entries_are_unpacked) {
    static const uint8_t lz4[] = {0x90, 'v', 'e', 'r', 'y', ' ', 'l', 'o', 'u', 'd'};
    static const uint8_t zstd[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 9,   0x49, 0,   0,
                                   'v',  'e',  'r',  'y',  ' ',  'l', 'o',  'u', 'd'};
    for (int loud = 0; loud < 2; loud++) {
        uint8_t code[32];
        for (int packing = 0; packing < 2; packing++) {
            size_t bytes = packing ? sizeof zstd : sizeof lz4;
            memcpy(code, packing ? zstd : lz4, bytes);
            code[bytes - 1] = loud ? 'd' : 't';
            begin();
            struct entry *entry = add(CUBIN, 90, code, bytes);
            entry->packed_bytes = (uint32_t)bytes;
            entry->unpacked_bytes = 9;
            entry->flags = PLAIN | (packing ? ZSTD : LZ4);
            assert_int_equal(has(NULL), loud);
            assert_int_equal(cubins, 1);
            /* What cannot be unpacked counts. */
            entry->unpacked_bytes = 8;
            assert_true(has(NULL));
            entry->unpacked_bytes = 0;
            assert_true(has(NULL));
            entry->unpacked_bytes = (uint64_t)1 << 40;
            assert_true(has(NULL));
            entry->unpacked_bytes = 9;
            entry->packed_bytes--;
            assert_true(has(NULL));
            entry->packed_bytes = 1000;
            assert_true(has(NULL));
            entry->packed_bytes = (uint32_t)bytes;
            entry->flags = PLAIN;
            assert_true(has(NULL));
            entry->flags = PLAIN | LZ4 | ZSTD;
            assert_true(has(NULL));
            assert_int_equal(cubins, 0);
        }
    }
}

TEST(unknown_entries_count) {
    const struct gm_capabilities devices = {1, {90}};
    begin();
    add(LTO, 90, "", 0); /* empty */
    assert_false(has(NULL));
    add(LTO, 75, "code", 4);
    assert_true(has(NULL));
    assert_true(has(&devices));
    begin();
    add(PTX, 90, "code", 4)->flags |= ENCRYPTED;
    assert_true(has(NULL));
    begin();
    add(0x40, 90, "tile", 4);
    assert_true(has(NULL));
}

TEST(damaged_containers_count) {
    const struct gm_capabilities any = {0};
    begin();
    add(PTX, 75, "quiet", 5);
    struct entry *entry = add(CUBIN, 75, "quiet", 5);
    size_t whole = size;
    assert_false(has(NULL));
    for (size_t cut = 0; cut < whole; cut++)
        assert_true(gm_fatbin_has(at_the_end(cut), cut, &any, finds_loud));
    entry->header_bytes = 0;
    assert_true(has(NULL));
    entry->header_bytes = UINT32_MAX;
    assert_true(has(NULL));
    entry->header_bytes = sizeof *entry + 8;
    entry->bytes = UINT64_MAX - 8;
    assert_true(has(NULL));
    entry->bytes = 16;
    assert_true(has(NULL));
    entry->bytes = 8;
    assert_false(has(NULL));
    fat[4] = 2; /* version */
    assert_true(has(NULL));
    fat[4] = 1;
    fat[6] = 8; /* size of the header */
    assert_true(has(NULL));
}

int main(void) { return run_all(NULL, NULL); }

/* Tests of the decoders of compressed code: blocks of LZ4 made here, frames that the zstd program made, and what
 * becomes of damaged ones. Argument: the folder of the frames. */
#include <stdio.h>
#include <sys/mman.h>

#include "tests/test.h"

#include "shim/hook/unpack.h"

enum { PAGE = 4096, MOST = 1 << 20 };
static const char *corpus;
typedef bool unpack(const void *in, size_t packed, void *out, size_t size);

/* `size` bytes of room that end where memory ends. */
static uint8_t *room_at_the_end(size_t size) {
    static uint8_t *pages[2];
    static unsigned turn;
    uint8_t **base = &pages[turn++ % 2];
    if (!*base) {
        *base = mmap(NULL, MOST + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(*base != MAP_FAILED);
        assert_int_equal(mprotect(*base + MOST, PAGE, PROT_NONE), 0);
    }
    return *base + MOST - size;
}

static bool gives(unpack *unpack, const void *in, size_t packed, const void *content, size_t size) {
    uint8_t *from = memcpy(room_at_the_end(packed), in, packed), *to = room_at_the_end(size);
    bool whole = unpack(from, packed, to, size);
    assert_true(!whole || !content || memcmp(to, content, size) == 0);
    return whole;
}

/* Wrong sizes, every beginning, and every byte changed: false or other content, and nothing outside is touched. */
static void damage(unpack *unpack, const uint8_t *in, size_t packed, size_t size) {
    static uint8_t changed[1 << 14];
    assert_true(packed <= sizeof changed);
    assert_false(gives(unpack, in, packed, NULL, size + 1));
    assert_false(gives(unpack, in, packed, NULL, size - 1));
    for (size_t cut = packed < 500 ? 0 : packed - 100; cut < packed; cut++)
        assert_false(gives(unpack, in, cut, NULL, size));
    for (size_t at = 0; at < packed; at += packed < 500 || at < 100 ? 1 : 211)
        for (unsigned mask = 1; mask < 256; mask = mask * 16 + 15) {
            memcpy(changed, in, packed);
            changed[at] ^= mask;
            gives(unpack, changed, packed, NULL, size);
        }
}

/* ---- LZ4 */

TEST(lz4_repeats_and_goes_on) {
    static const uint8_t block[] = {0x3f, 'a', 'b', 'c', 3,   0,   255, 1,             /* 3 literals, match of 275 */
                                    0x10, 'x', 1,   0,                                 /* overlaps itself */
                                    0xf0, 1,   'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', /* 16 literals, no match */
                                    'I',  'J', 'K', 'L', 'M', 'N', 'O', 'P'};
    char content[3 + 275 + 1 + 4 + 16 + 1];
    for (unsigned i = 0; i < 278; i++)
        content[i] = "abc"[i % 3];
    memcpy(content + 278, "xxxxxABCDEFGHIJKLMNOP", 22);
    assert_true(gives(gm_unpack_lz4, block, sizeof block, content, sizeof content - 1));
    damage(gm_unpack_lz4, block, sizeof block, sizeof content - 1);
}

TEST(lz4_refuses_what_lies_outside) {
    static const uint8_t before[] = {0x10, 'a', 2, 0, 0}, zero[] = {0x10, 'a', 0, 0, 0}, endless[] = {0xf0, 255, 255};
    assert_false(gives(gm_unpack_lz4, before, sizeof before, NULL, 5));
    assert_false(gives(gm_unpack_lz4, zero, sizeof zero, NULL, 5));
    assert_false(gives(gm_unpack_lz4, endless, sizeof endless, NULL, 600));
    assert_false(gives(gm_unpack_lz4, before, 0, NULL, 0));
    assert_true(gives(gm_unpack_lz4, "", 1, NULL, 0));
}

/* ---- zstd */

TEST(frames_of_zstd_are_read) {
    static const char content[] =
        "the driver provides vprintf; the driver provides vprintf again, and the cubin names it";
    static const char *const names[] = {"sentence.1.zst", "sentence.19.zst"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint8_t frame[1000];
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", corpus, names[i]);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        size_t packed = fread(frame, 1, sizeof frame, file);
        fclose(file);
        assert_true(gives(gm_unpack_zstd, frame, packed, content, sizeof content - 1));
        damage(gm_unpack_zstd, frame, packed, sizeof content - 1);
    }
}

TEST(frames_of_other_kinds_are_refused) {
    static const uint8_t raw[] = {0x28, 0xb5, 0x2f, 0xfd, 0x20, 3, 0x19, 0, 0, 'a', 'b', 'c'};
    uint8_t other[sizeof raw + 4];
    assert_true(gives(gm_unpack_zstd, raw, sizeof raw, "abc", 3));
    memcpy(other, raw, sizeof raw);
    assert_false(gives(gm_unpack_zstd, other, sizeof raw + 1, NULL, 3)); /* something follows */
    other[4] |= 4;                                                       /* a checksum follows */
    memcpy(other + sizeof raw, "\x99\x09\x77\xad", 4);
    assert_true(gives(gm_unpack_zstd, other, sizeof raw + 4, "abc", 3));
    other[sizeof raw] ^= 1; /* another one */
    assert_false(gives(gm_unpack_zstd, other, sizeof raw + 4, NULL, 3));
    other[4] = 0x28; /* a bit without a meaning */
    assert_false(gives(gm_unpack_zstd, other, sizeof raw, NULL, 3));
    other[4] = 0x21; /* a dictionary */
    assert_false(gives(gm_unpack_zstd, other, sizeof raw, NULL, 3));
    memcpy(other, raw, sizeof raw);
    other[0] = 0x50; /* a frame to skip */
    assert_false(gives(gm_unpack_zstd, other, sizeof raw, NULL, 3));
}

int main(int count, char **words) {
    if (count != 2)
        return 2;
    corpus = words[1];
    return run_all(NULL, NULL);
}

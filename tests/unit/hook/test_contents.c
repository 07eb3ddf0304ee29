/* The hash of host memory that a copy read (shim/hook/contents.c). */
#include "shim/hook/contents.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/test.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { WINDOW = 256 * 1024, PIECES = 64, PAGE = 4096 };

static unsigned char *bytes_of(size_t size) {
    unsigned char *bytes = malloc(size);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * 31 + (i >> 8));
    return bytes;
}

static struct gm_host_rows linear(const void *start, size_t size) {
    return (struct gm_host_rows){(uintptr_t)start, size, 1, 1, size, size};
}

static uint64_t hash_of(const struct gm_host_rows *rows) {
    uint64_t hash = 0;
    assert_true(gm_contents_hash(rows, &hash));
    return hash;
}

TEST(is_xxh3_of_the_bytes) {
    static const size_t sizes[] = {1, 17, 4096, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 4711};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *bytes = bytes_of(sizes[i] + 3);
        struct gm_host_rows rows = linear(bytes + 3, sizes[i]);
        assert_int_equal(hash_of(&rows), XXH3_64bits(bytes + 3, sizes[i]));
        bytes[2 + sizes[i]]++;
        assert_int_not_equal(hash_of(&rows), XXH3_64bits(bytes + 3, sizes[i] - 1));
        assert_int_equal(hash_of(&rows), XXH3_64bits(bytes + 3, sizes[i]));
        free(bytes);
    }
}

/* Only the bytes of the rows count, and rows without gaps are the same as one row. */
TEST(rows_count_without_their_gaps) {
    enum { WIDTH = 100, HEIGHT = PIECES + 3, DEPTH = 2, PITCH = 128, LAYER = PITCH * (HEIGHT + 2) };
    unsigned char *bytes = bytes_of(DEPTH * LAYER);
    struct gm_host_rows rows = {(uintptr_t)bytes, WIDTH, HEIGHT, DEPTH, PITCH, LAYER}, flat = rows;
    uint64_t hash = hash_of(&rows);
    bytes[WIDTH]++;
    bytes[HEIGHT * PITCH]++;
    assert_int_equal(hash_of(&rows), hash);
    bytes[LAYER + (HEIGHT - 1) * PITCH + WIDTH - 1]++;
    assert_int_not_equal(hash_of(&rows), hash);

    flat.pitch = WIDTH;
    flat.layer = WIDTH * HEIGHT;
    assert_int_equal(hash_of(&flat), XXH3_64bits(bytes, WIDTH * HEIGHT * DEPTH));
    flat.height = 1;
    flat.depth = 1;
    flat.pitch = flat.layer = 4711;
    assert_int_equal(hash_of(&flat), XXH3_64bits(bytes, WIDTH));
    free(bytes);
}

/* All bytes are the same, so only the shape differs. */
TEST(other_shapes_have_other_hashes) {
    unsigned char *bytes = calloc(1, 64 * 1024);
    struct gm_host_rows rows = {(uintptr_t)bytes, 16, 8, 2, 32, 1024};
    uint64_t hash = hash_of(&rows);
    rows.pitch = 64;
    assert_int_not_equal(hash_of(&rows), hash);
    rows.pitch = 32;
    rows.layer = 2048;
    assert_int_not_equal(hash_of(&rows), hash);
    free(bytes);
}

TEST(unreadable_memory_has_no_hash) {
    uint64_t hash;
    unsigned char *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(pages + 2 * PAGE, PAGE, PROT_NONE), 0);
    munmap(pages + 3 * PAGE, PAGE);
    struct gm_host_rows good = linear(pages, 2 * PAGE), cut = linear(pages, 2 * PAGE + 1),
                        none = linear(pages + 2 * PAGE, 8), gone = linear(pages + 3 * PAGE, 8), null = linear(NULL, 8),
                        row = {(uintptr_t)pages, 8, 3, 1, PAGE, 3 * PAGE};
    assert_true(gm_contents_hash(&good, &hash));
    assert_false(gm_contents_hash(&cut, &hash));
    assert_false(gm_contents_hash(&none, &hash));
    assert_false(gm_contents_hash(&gone, &hash));
    assert_false(gm_contents_hash(&null, &hash));
    assert_false(gm_contents_hash(&row, &hash));
    munmap(pages, 3 * PAGE);
}

/* The signal of the limit would end the process. */
TEST(a_limit_on_file_sizes_does_no_harm) {
    struct rlimit before, small = {PAGE, PAGE};
    uint64_t hash;
    unsigned char *bytes = bytes_of(WINDOW);
    struct gm_host_rows large = linear(bytes, WINDOW), fits = linear(bytes, PAGE);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool hashed = gm_contents_hash(&large, &hash), fitting = gm_contents_hash(&fits, &hash);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_false(hashed);
    assert_true(fitting);
    assert_int_equal(hash, XXH3_64bits(bytes, PAGE));
    free(bytes);
}

TEST(no_descriptor_stays_open) {
    int before = dup(0), after;
    uint64_t hash;
    close(before);
    struct gm_host_rows rows = linear("text", 4), null = linear(NULL, 4);
    for (int i = 0; i < 2000; i++) {
        assert_true(gm_contents_hash(&rows, &hash));
        assert_false(gm_contents_hash(&null, &hash));
    }
    after = dup(0);
    close(after);
    assert_int_equal(before, after);
}

int main(void) { return run_all(NULL, NULL); }

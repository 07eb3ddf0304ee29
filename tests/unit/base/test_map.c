/* What the map of the process says of an address. */
#include <sys/mman.h>

#include "tests/test.h"

#include "shim/base/map.h"

enum { PAGES = 3 * 65536 };

static uint64_t value_of(const void *pointer) { return (uint64_t)(uintptr_t)pointer; }

TEST(named) {
    struct gm_map_line line;
    int local;
    assert_true(gm_map_find(value_of(&local), &line));
    assert_true(line.readable && line.from <= value_of(&local) && value_of(&local) < line.to);
    assert_string_equal(line.name, "[stack]");
    assert_true(gm_map_find(value_of((void *)named), &line));
    assert_true(line.name[0] == '/'); /* cut to its first bytes */
}

TEST(protected_and_unmapped) {
    struct gm_map_line line;
    char *pages = mmap(NULL, PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + PAGES / 3, PAGES / 3, PROT_NONE), 0);
    assert_true(gm_map_find(value_of(pages), &line));
    assert_true(line.readable);
    assert_string_equal(line.name, "");
    assert_true(gm_map_find(value_of(pages + PAGES / 3), &line));
    assert_false(line.readable);
    munmap(pages, PAGES);
    assert_false(gm_map_find(value_of(pages + PAGES / 3), &line));
    assert_false(gm_map_find(0, &line));
}

/* The map is longer than what is read at once. */
TEST(behind_many_lines) {
    enum { COUNT = 400 };
    struct gm_map_line line;
    char *pages[COUNT];
    for (int i = 0; i < COUNT; i++)
        pages[i] = mmap(NULL, 65536, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < COUNT; i++) {
        assert_true(gm_map_find(value_of(pages[i]), &line));
        assert_int_equal(line.readable, i % 2);
    }
    for (int i = 0; i < COUNT; i++)
        munmap(pages[i], 65536);
}

int main(void) { return run_all(NULL, NULL); }

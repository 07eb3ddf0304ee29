/* Bounds of host memory, read from generated /proc and /sys trees. */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

#include "shim/base/hostmem.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

static char root[64];

static void put(const char *path, const char *text) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        assert_true(mkdir(whole, 0755) == 0 || errno == EEXIST);
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int open_tree(void **state) {
    strcpy(root, "/tmp/hostmem-XXXXXX");
    assert_non_null(mkdtemp(root));
    put("/proc/meminfo",
        "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\nSwapTotal:  0 kB\n");
    return 0;
}

static int remove_tree(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static struct gm_hostmem look(int node) {
    struct gm_hostmem memory;
    assert_true(gm_hostmem_read(root, node, &memory));
    return memory;
}

TEST_WITH(test_machine, open_tree, remove_tree) {
    struct gm_hostmem memory = look(-1);
    assert_int_equal(memory.available, 8 * GIB);
    assert_int_equal(memory.total, 16 * GIB);
    /* 5 % of 16 GiB is more than 512 MiB */
    assert_int_equal(gm_hostmem_takeable(&memory), 8 * GIB - 16 * GIB / 20);
    memory = (struct gm_hostmem){.available = 600 * MIB, .total = 4 * GIB};
    assert_int_equal(gm_hostmem_takeable(&memory), 88 * MIB);
    memory.available = 512 * MIB;
    assert_int_equal(gm_hostmem_takeable(&memory), 0);
}

TEST_WITH(test_nothing_to_read, open_tree, remove_tree) {
    struct gm_hostmem memory;
    assert_false(gm_hostmem_read("/nowhere-at-all", -1, &memory));
    put("/proc/meminfo", "");
    assert_false(gm_hostmem_read(root, -1, &memory));
    put("/proc/meminfo", "something else\n");
    assert_false(gm_hostmem_read(root, -1, &memory));
}

TEST_WITH(test_memory_node, open_tree, remove_tree) {
    put("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:  8388608 kB\nNode 1 MemFree:   1048576 kB\n"
                                                  "Node 1 Active(file): 999999 kB\nNode 1 Inactive(file): 524288 kB\n");
    assert_int_equal(look(1).available, 8 * GIB); /* the nodes add up to half of the machine, so they are ignored */
    put("/sys/devices/system/node/node0/meminfo", "Node 0 MemTotal:  8380000 kB\nNode 0 MemFree:   2097152 kB\n");
    assert_int_equal(look(0).available, 2 * GIB);
    assert_int_equal(look(1).available, GIB + 512 * MIB);
    assert_int_equal(look(2).available, 8 * GIB); /* no such node */
    uint64_t bounded = look(1).available;
    put("/sys/devices/system/node/online", "0\n"); /* node 1 is not part of the machine now */
    assert_int_equal(look(1).available, 8 * GIB);
    put("/sys/devices/system/node/online", "0-1,70\n");
    assert_int_equal(look(1).available, bounded);
    assert_int_equal(look(-1).available, 8 * GIB);
}

TEST_WITH(test_version_2_walks_up, open_tree, remove_tree) {
    put("/proc/self/cgroup", "0::/slurm/job/step\n");
    assert_int_equal(look(-1).available, 8 * GIB); /* no memory controller is mounted */
    put("/sys/fs/cgroup/slurm/job/step/memory.max", "max\n");
    put("/sys/fs/cgroup/slurm/job/step/memory.current", "1\n");
    assert_int_equal(look(-1).available, 8 * GIB);
    put("/sys/fs/cgroup/slurm/job/memory.max", "2147483648\n");
    put("/sys/fs/cgroup/slurm/job/memory.current", "1073741824\n");
    assert_int_equal(look(-1).available, GIB);
    assert_int_equal(look(-1).total, 2 * GIB);
    put("/sys/fs/cgroup/slurm/memory.max", "4294967296\n");
    put("/sys/fs/cgroup/slurm/memory.current", "3758096384\n"); /* includes other processes */
    assert_int_equal(look(-1).available, 512 * MIB);
    put("/sys/fs/cgroup/slurm/job/memory.current", "3221225472\n"); /* already above its limit */
    assert_int_equal(look(-1).available, 0);
}

TEST_WITH(test_cached_files_count_as_free, open_tree, remove_tree) {
    put("/proc/self/cgroup", "0::/job\n");
    put("/sys/fs/cgroup/job/memory.max", "2147483648");
    put("/sys/fs/cgroup/job/memory.current", "2147483648");
    put("/sys/fs/cgroup/job/memory.stat",
        "anon 1\nfile 9999999999\ninactive_anon 77\nactive_file 5\ninactive_file 1073741824\n");
    assert_int_equal(look(-1).available, GIB);
}

TEST_WITH(test_container_whose_group_is_the_root, open_tree, remove_tree) {
    put("/sys/fs/cgroup/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/memory.current", "268435456\n");
    put("/proc/self/cgroup", "0::/\n");
    assert_int_equal(look(-1).available, 768 * MIB);
    put("/proc/self/cgroup", "0::/../../elsewhere\n"); /* outside this name space */
    assert_int_equal(look(-1).available, 768 * MIB);
    put("/proc/self/cgroup", "0::/docker/0123456789abcdef\n"); /* the path as the host names it */
    assert_int_equal(look(-1).available, 768 * MIB);
}

TEST_WITH(test_version_1, open_tree, remove_tree) {
    put("/proc/self/cgroup", "12:pids:/a/b\n7:hugetlb,memory:/a/b\n6:memoryless:/c\n1:name=systemd:/x\n0::/a/b\n");
    put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "4096\n");
    assert_int_equal(look(-1).available, 8 * GIB);
    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "805306368\n");
    assert_int_equal(look(-1).available, 256 * MIB);
    put("/sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 268435456\n");
    assert_int_equal(look(-1).available, 512 * MIB);
    put("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n");
    put("/sys/fs/cgroup/memory/c/memory.usage_in_bytes", "1\n");
    assert_int_equal(look(-1).available, 512 * MIB); /* a group of another controller */
}

TEST_WITH(test_damaged_files_bound_nothing, open_tree, remove_tree) {
    put("/proc/self/cgroup", "0::/job\nnonsense\n::\n0:\n");
    put("/sys/fs/cgroup/job/memory.max", "a lot\n");
    put("/sys/fs/cgroup/job/memory.current", "5\n");
    assert_int_equal(look(-1).available, 8 * GIB);
    put("/sys/fs/cgroup/job/memory.max", "99999999999999999999999\n");
    assert_int_equal(look(-1).available, 8 * GIB);
    put("/sys/fs/cgroup/job/memory.max", "1024\n");
    put("/sys/fs/cgroup/job/memory.current", "\n");
    assert_int_equal(look(-1).available, 8 * GIB);
}

TEST(test_this_machine) {
    struct gm_hostmem memory;
    assert_true(gm_hostmem_read("", 0, &memory));
    assert_true(memory.total > 0 && memory.available > 0 &&
                memory.available < (uint64_t)sysconf(_SC_PHYS_PAGES) * 65536);
}

int main(void) { return run_all(NULL, NULL); }

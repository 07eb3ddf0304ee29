/* Every caller learns that memory of the process may be registered with a network card, whichever asked first. This
 * program maps a file whose path looks like that of a verbs device, and says that the device exists. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "shim/driver/transports.h"

enum { THREADS = 4, PAGE = 4096 };

int access(const char *path, int mode) { return mode == F_OK && !strcmp(path, "/dev/infiniband") ? 0 : -1; }

static void *map_device(void) {
    char folder[64] = "/tmp/gpumem-transports-XXXXXX", path[128];
    static const char *const parts[] = {"/dev", "/dev/infiniband"};
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s%s", folder, parts[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    snprintf(path, sizeof path, "%s/dev/infiniband/uverbs0", folder);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(file >= 0 && ftruncate(file, PAGE) == 0);
    void *mapped = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    assert_ptr_not_equal(mapped, MAP_FAILED);
    close(file);
    unlink(path);
    for (int i = 1; i >= 0; i--) {
        snprintf(path, sizeof path, "%s%s", folder, parts[i]);
        rmdir(path);
    }
    rmdir(folder);
    return mapped;
}

static pthread_barrier_t all_there;
static int found;

static void *look(void *unused) {
    pthread_barrier_wait(&all_there);
    __atomic_add_fetch(&found, gm_rdma_in_process(), __ATOMIC_RELAXED);
    return unused;
}

static void every_caller_learns_it(void **state) {
    pthread_t threads[THREADS];
    void *mapped = map_device();
    (void)state;
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(found, THREADS);
    assert_true(gm_rdma_in_process());
    munmap(mapped, PAGE);
    assert_true(gm_rdma_in_process()); /* the registration may stay */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_caller_learns_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every caller learns that memory of the process may be registered with a network card, whichever asked first. This
 * program maps files whose paths look like those of the library and of a verbs device, and says which device exists. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#include "shim/driver/transports.h"

enum { THREADS = 4, PAGE = 4096 };

/* What exists below /dev. */
static const char *existing;
int access(const char *path, int mode) { return existing && mode == F_OK && !strcmp(path, existing) ? 0 : -1; }

/* Maps a file of this path below a folder of its own. */
static void *map_file(const char *in, const char *name) {
    char folder[64] = "/tmp/gpumem-transports-XXXXXX", path[160], *at;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s%s/%s", folder, in, name);
    for (at = path + strlen(folder) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        assert_int_equal(mkdir(path, 0700), 0);
        *at = '/';
    }
    int file = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(file >= 0 && ftruncate(file, PAGE) == 0);
    void *mapped = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    assert_ptr_not_equal(mapped, MAP_FAILED);
    close(file);
    unlink(path);
    while ((at = strrchr(path, '/')) > path + strlen(folder) - 1) {
        *at = '\0';
        rmdir(path);
    }
    return mapped;
}

static pthread_barrier_t all_there;
static int found;

static void *look(void *unused) {
    pthread_barrier_wait(&all_there);
    __atomic_add_fetch(&found, gm_rdma_in_process(), __ATOMIC_RELAXED);
    return unused;
}

/* A machine may have the folder of the devices, and what manages connections, but no device that registers memory. */
TEST(a_library_without_a_device) {
    existing = "/dev/infiniband";
    void *library = map_file("/lib", "libibverbs.so.1");
    int status;
    pid_t child = fork(); /* the answer stays with the process */
    if (!child)
        _exit(gm_rdma_in_process());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    munmap(library, PAGE);
}

TEST(every_caller_learns_it) {
    pthread_t threads[THREADS];
    void *mapped = map_file("/dev/infiniband", "uverbs0");
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

int main(void) { return run_all(NULL, NULL); }

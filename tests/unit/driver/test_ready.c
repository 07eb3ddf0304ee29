/* Threads that find the driver at once: none stores into the table of functions while another one calls through it.
 * Runs in a fresh process, and under ThreadSanitizer, too (tests/sanitize). The driver is the simulated one. */
#include <pthread.h>

#include "tests/test.h"

#include "shim/driver/driver.h"

enum { THREADS = 8 };

static pthread_barrier_t all_there;

/* Both calls fail, since the driver is not initialised. A wait passes a wrapper, which has a pointer of its own. */
static void *call(void *unused) {
    CUcontext context = NULL;
    pthread_barrier_wait(&all_there);
    bool good = gm_driver_ready(true) && gm_driver_handle() && gm_drv.ctx_get_current(&context) != CUDA_SUCCESS &&
                gm_drv.ctx_synchronize() != CUDA_SUCCESS;
    return good ? &all_there : unused;
}

TEST(threads_find_the_driver_at_once) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, call, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        void *good = NULL;
        assert_int_equal(pthread_join(threads[i], &good), 0);
        assert_non_null(good);
    }
}

int main(void) { return run_all(NULL, NULL); }

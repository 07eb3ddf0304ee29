/* A thread frees memory after a kernel that ends only when another thread has continued. Argument:
 *
 *   device_flag  a kernel of the other thread sets the flag; it is submitted while the free waits
 *   host_flag    the other thread's host sets it after a kernel of its own, submitted meanwhile, is done
 *   submitted    everything was submitted before the free; the other thread's host answers without calling the driver
 *
 * Exit status 3: the kernel waited in vain. 77: that happens natively, as on a driver that lets no thread submit
 * meanwhile; then a library above the driver cannot do better. */
#include "ordering.h"

static const unsigned long long give_up_ns = 5000000000; /* a kernel that waits in vain ends after this time */

static unsigned *flag;      /* two words at their device address; the second is for `submitted` */
static unsigned *host_flag; /* their host address; NULL: device memory */
static int submitted;
static unsigned *in_vain;
static cudaStream_t two;
static void *seen_by_two;

extern "C" __global__ void wait_for(volatile unsigned *flag, unsigned value, unsigned long long ns, unsigned *in_vain) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    while (*flag != value) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (now - begin > ns) {
            *in_vain = 1;
            return;
        }
    }
}

extern "C" __global__ void set_flag(volatile unsigned *flag, unsigned value) {
    *flag = value;
    __threadfence_system();
}

#ifdef SIM_TWINS
#include <time.h>

/* Runs in the thread that waits for it. Other threads continue meanwhile. */
static void wait_on_host(const struct simcuda_launch *launch) {
    volatile unsigned *word = (volatile unsigned *)launch->touch(*(void **)launch->args[0], 4, 0);
    unsigned *vain = (unsigned *)launch->touch(*(void **)launch->args[3], 4, 1);
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (word && vain && *word != *(unsigned *)launch->args[1]) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((unsigned long long)(now.tv_sec - begin.tv_sec) * 1000000000 > *(unsigned long long *)launch->args[2]) {
            *vain = 1;
            return;
        }
        sched_yield();
    }
}

static void set_on_host(const struct simcuda_launch *launch) {
    unsigned *word = (unsigned *)launch->touch(*(void **)launch->args[0], 4, 1);
    if (word)
        __atomic_store_n(word, *(unsigned *)launch->args[1], __ATOMIC_RELEASE);
}

SIMCUDA_TWIN(wait_for, "p48p", wait_on_host);
SIMCUDA_TWIN(set_flag, "p4", set_on_host);
#endif

static void wait_in_kernel(cudaStream_t stream, const unsigned *word, unsigned value, unsigned long long ns) {
    wait_for<<<1, 1, 0, stream>>>((volatile unsigned *)word, value, ns, in_vain);
    MUST(cudaGetLastError());
}

static void launch_set(void) {
    set_flag<<<1, 1, 0, two>>>(flag, shared.salt);
    MUST(cudaGetLastError());
}

/* Answers without waiting for the first thread, which is inside its free. */
static void *answers(void *argument) {
    (void)argument;
    await_step(1);
    usleep(5000);
    if (submitted)
        __atomic_store_n(&host_flag[1], shared.salt, __ATOMIC_RELEASE);
    else if (host_flag)
        launch_make(two, seen_by_two, shared.salt);
    else
        launch_set();
    MUST(cudaStreamSynchronize(two));
    if (host_flag && !submitted)
        __atomic_store_n(host_flag, shared.salt, __ATOMIC_RELEASE);
    return NULL;
}

static int free_behind_waiting(void) {
    pthread_t other;
    unsigned vain;
    void *scratch = device_alloc(shared.scratch_size);
    EXPECT(pthread_create(&other, NULL, answers, NULL) == 0);
    if (submitted) {
        wait_in_kernel(two, flag + 1, shared.salt, give_up_ns);
        launch_set();
    }
    wait_in_kernel(shared.one, flag, shared.salt, give_up_ns);
    launch_make(shared.one, scratch, shared.salt);
    reach_step(1);
    device_free(scratch);
    EXPECT(pthread_join(other, NULL) == 0);
    MUST(cudaStreamSynchronize(shared.one));
    MUST(cudaMemcpy(&vain, in_vain, sizeof vain, cudaMemcpyDeviceToHost));
    if (vain) {
        fprintf(stderr, "the kernel waited in vain\n");
        exit(getenv("LD_PRELOAD") ? 3 : 77);
    }
    return 0;
}

/* Loading a kernel may wait for the device: each has run once. */
static void prepare(void) {
    two = new_stream();
    seen_by_two = device_alloc(BYTES);
    in_vain = (unsigned *)device_alloc(4);
    MUST(cudaMemset(in_vain, 0, 4));
    if (host_flag)
        memset(host_flag, 0, 8);
    else
        MUST(cudaMemset(flag, 0, 8));
    MUST(cudaDeviceSynchronize());
    wait_in_kernel(shared.one, flag, 0, 0);
    set_flag<<<1, 1, 0, two>>>(in_vain, 0);
    launch_make(two, seen_by_two, 0);
    MUST(cudaDeviceSynchronize());
}

static void device_flag(void) {
    flag = (unsigned *)device_alloc(8);
    prepare();
}

static void pinned_flag(void) {
    MUST(cudaHostAlloc((void **)&host_flag, 8, cudaHostAllocMapped));
    MUST(cudaHostGetDevicePointer((void **)&flag, host_flag, 0));
    prepare();
}

static void all_submitted(void) {
    submitted = 1;
    pinned_flag();
}

ORDERING_ROW(device_flag, device_flag, free_behind_waiting);
ORDERING_ROW(host_flag, pinned_flag, free_behind_waiting);
ORDERING_ROW(submitted, all_submitted, free_behind_waiting);

int main(int count, char **argument) { return run_rounds("ordering_answer", count > 1 ? argument[1] : NULL); }

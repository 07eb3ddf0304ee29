/* A thread blocks in cuMemFree natively, behind a kernel that ends when a stream of another thread writes a value: that
 * call goes through meanwhile (relies.h). Argument: the case, which says what is known of such calls before the free.
 */
#include "relies.h"

#include <stddef.h>

typedef CUresult write_function(CUstream, CUdeviceptr, cuuint32_t, unsigned);

static write_function *write_value;
static CUstream busy, writing;
static CUdeviceptr memory; /* a gate in device memory, which the kernel reaches under the same address */
static int freed;

static void set_up_streams(void) {
    busy = new_stream();
    writing = new_stream();
    memory = allocate(BYTES);
    start_device();
}

/* The program is linked with the function. Without that it looks it up, as a plugin does. */
static void found_by_symbol(void) {
    set_up_streams();
#ifdef LINKED
    write_value = cuStreamWriteValue32_v2;
#else
    write_value = (write_function *)dlsym(driver, "cuStreamWriteValue32_v2");
#endif
}

static void found_by_resolver(void) {
    set_up_streams();
    MUST(CALL(cuGetProcAddress_v2, "cuStreamWriteValue32", (void **)&write_value, 12000, 0, NULL));
}

/* A runtime looks up this variant as well, so a look-up of it says nothing of what the program does. */
static void called_before(void) {
    set_up_streams();
    MUST(CALL(cuGetProcAddress_v2, "cuStreamWriteValue32", (void **)&write_value, 8000, 0, NULL));
    MUST(write_value(writing, memory, 0, 0));
    MUST(CALL(cuCtxSynchronize));
}

static void *free_behind_kernel(void *scratch) {
    MUST(CALL(cuCtxSetCurrent, context));
    release(*(CUdeviceptr *)scratch);
    set(&freed);
    return NULL;
}

static void write_beside_free(unsigned salt) {
    struct gate *gate = (struct gate *)(uintptr_t)memory;
    CUdeviceptr scratch = allocate(SCRATCH);
    MUST(CALL(cuMemsetD8_v2, memory, 0, sizeof *gate));
    MUST(CALL(cuCtxSynchronize));
    launch_hold(busy, gate);
    await(&gate->begun);
    pthread_t freeing = start_thread(free_behind_kernel, &scratch);
    usleep(10000 * salt); /* the free has begun */
    soon();
    MUST(write_value(writing, memory + offsetof(struct gate, open), 1, 0));
    MUST(CALL(cuStreamSynchronize, writing));
    at_last();
    EXPECT(pthread_join(freeing, NULL) == 0);
    note_wrong(!__atomic_load_n(&freed, __ATOMIC_ACQUIRE));
    MUST(CALL(cuCtxSynchronize));
}

RELIES_ROW(linked_or_looked_up, found_by_symbol, write_beside_free, 2);
RELIES_ROW(resolved, found_by_resolver, write_beside_free, 2);
RELIES_ROW(called, called_before, write_beside_free, 2);

int main(int count, char **words) { return RUN_CASE("relies_writes"); }

/* Work on one stream that follows work on another only because a cudaFree lies between them. Order on the device is
 * enough for each case. Argument: the case. Compiled a second time for per-thread default streams. */
#include "ordering.h"

enum { READERS = 3, ITEMS = 6 };

static cudaStream_t two;

static void make_second(void) {
    two = new_stream();
    launch_read(two, shared.table, 0); /* it has been used before */
    MUST(cudaStreamSynchronize(two));
}

/* ---- a table that the first thread that needs it computes, under a lock */

enum streams { OWN, PER_THREAD, DEFAULT, LATE };
static struct {
    pthread_mutex_t lock;
    int ready;
    enum streams streams;
} lazy = {PTHREAD_MUTEX_INITIALIZER, 0, OWN};

static cudaStream_t stream_of_thread(void) {
    if (lazy.streams == DEFAULT)
        return 0;
    return lazy.streams == PER_THREAD ? cudaStreamPerThread : new_stream();
}

static void *needs_table(void *argument) {
    cudaStream_t stream = NULL;
    (void)argument;
    if (lazy.streams != LATE)
        stream = stream_of_thread();
    pthread_mutex_lock(&lazy.lock);
    if (lazy.streams == LATE)
        stream = stream_of_thread();
    int computed = !lazy.ready;
    if (computed)
        compute(stream, shared.table);
    lazy.ready = 1;
    pthread_mutex_unlock(&lazy.lock);
    launch_read(stream, shared.table, shared.salt);
    if (!computed) /* the computing thread leaves the work running */
        MUST(cudaStreamSynchronize(stream));
    return NULL;
}

static int lazy_table(void) {
    pthread_t threads[READERS + 1];
    lazy.ready = 0;
    for (int i = 0; i <= READERS; i++)
        EXPECT(pthread_create(&threads[i], NULL, needs_table, NULL) == 0);
    for (int i = 0; i <= READERS; i++)
        EXPECT(pthread_join(threads[i], NULL) == 0);
    return 0;
}

static void per_thread_handles(void) { lazy.streams = PER_THREAD; }
static void default_streams(void) { lazy.streams = DEFAULT; }
static void late_streams(void) { lazy.streams = LATE; }

ORDERING_ROW(lazy_table, NULL, lazy_table);
ORDERING_ROW(lazy_table_per_thread, per_thread_handles, lazy_table);
ORDERING_ROW(lazy_table_default, default_streams, lazy_table);
ORDERING_ROW(lazy_table_late, late_streams, lazy_table);

/* ---- two stages, each with its own thread and stream */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void *item;
} queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};

static void *exchange_item(void *item) {
    pthread_mutex_lock(&queue.lock);
    while ((queue.item == NULL) != (item != NULL))
        pthread_cond_wait(&queue.changed, &queue.lock);
    void *found = queue.item;
    queue.item = item;
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
    return found;
}

static void *consume(void *argument) {
    (void)argument;
    for (int i = 0; i < ITEMS; i++) {
        void *item = exchange_item(NULL);
        read_now(two, item, shared.salt);
        device_free(item);
    }
    return NULL;
}

ORDERING(pipeline, make_second) {
    pthread_t consumer;
    EXPECT(pthread_create(&consumer, NULL, consume, NULL) == 0);
    for (int i = 0; i < ITEMS; i++) {
        void *item = device_alloc(BYTES);
        compute(shared.one, item);
        exchange_item(item);
    }
    EXPECT(pthread_join(consumer, NULL) == 0);
    return 0;
}

/* ---- which thread frees, and which memory */

static int one_thread(void) {
    compute(shared.one, shared.table);
    read_now(two, shared.table, shared.salt);
    return 0;
}

/* The reader frees its own unused memory: natively that waits for the writer. */
static void *frees_and_reads(void *argument) {
    void *own = device_alloc(shared.scratch_size);
    (void)argument;
    reach_step(1);
    await_step(2);
    device_free(own);
    read_now(two, shared.table, shared.salt);
    return NULL;
}

ORDERING(reader_frees, make_second) {
    pthread_t reader;
    EXPECT(pthread_create(&reader, NULL, frees_and_reads, NULL) == 0);
    await_step(1);
    void *scratch = start(shared.one, shared.table);
    reach_step(2);
    EXPECT(pthread_join(reader, NULL) == 0);
    device_free(scratch);
    return 0;
}

static void *frees(void *scratch) {
    device_free(scratch);
    return NULL;
}

ORDERING(third_frees, make_second) {
    pthread_t third;
    void *scratch = start(shared.one, shared.table);
    EXPECT(pthread_create(&third, NULL, frees, scratch) == 0);
    EXPECT(pthread_join(third, NULL) == 0);
    read_now(two, shared.table, shared.salt);
    return 0;
}

ORDERING(by_pitched, make_second) {
    void *pitched;
    size_t pitch;
    MUST(cudaMallocPitch(&pitched, &pitch, 1024, shared.scratch_size / 1024));
    void *scratch = start(shared.one, shared.table);
    MUST(cudaFree(pitched));
    read_now(two, shared.table, shared.salt);
    device_free(scratch);
    return 0;
}

ORDERING(by_managed, make_second) {
    void *managed;
    MUST(cudaMallocManaged(&managed, BYTES, cudaMemAttachGlobal));
    void *scratch = start(shared.one, shared.table);
    MUST(cudaFree(managed));
    read_now(two, shared.table, shared.salt);
    device_free(scratch);
    return 0;
}

ORDERING(by_pinned, make_second) {
    void *pinned;
    MUST(cudaMallocHost(&pinned, BYTES));
    void *scratch = start(shared.one, shared.table);
    MUST(cudaFreeHost(pinned));
    read_now(two, shared.table, shared.salt);
    device_free(scratch);
    return 0;
}

ORDERING(by_array, make_second) {
    cudaChannelFormatDesc format = {32, 0, 0, 0, cudaChannelFormatKindUnsigned};
    cudaArray_t array;
    MUST(cudaMallocArray(&array, &format, 256, 64, 0));
    void *scratch = start(shared.one, shared.table);
    MUST(cudaFreeArray(array));
    read_now(two, shared.table, shared.salt);
    device_free(scratch);
    return 0;
}

static void needs_two_devices(void) {
    int count;
    MUST(cudaGetDeviceCount(&count));
    if (count < 2) {
        fprintf(stderr, "one device\n");
        exit(77);
    }
    MUST(cudaSetDevice(1));
    MUST(cudaFree(NULL));
    MUST(cudaSetDevice(0));
    make_second();
}

/* With another device current: the context of the block counts. */
ORDERING(by_other_device, needs_two_devices) {
    void *scratch = start(shared.one, shared.table);
    MUST(cudaSetDevice(1));
    device_free(scratch);
    MUST(cudaSetDevice(0));
    read_now(two, shared.table, shared.salt);
    return 0;
}

/* ---- what follows the free */

/* Before the free there was only one stream. */
ORDERING(late_stream, NULL) {
    compute(shared.one, shared.table);
    cudaStream_t late = new_stream();
    read_now(late, shared.table, shared.salt);
    MUST(cudaStreamDestroy(late));
    return 0;
}

static unsigned copied[WORDS];

/* The legacy default stream is not ordered with a non-blocking stream. */
ORDERING(copy_down, NULL) {
    compute(shared.one, shared.table);
    MUST(cudaMemcpy(copied, shared.table, BYTES, cudaMemcpyDeviceToHost));
    return !holds(copied, shared.salt);
}

ORDERING(copy_down_few, NULL) {
    unsigned last;
    compute(shared.one, shared.table);
    MUST(cudaMemcpy(&last, shared.table + WORDS - 1, 4, cudaMemcpyDeviceToHost));
    return last != shared.salt * 2654435761u + WORDS - 1;
}

/* The table is read and then overwritten by others. */
static void *start_reading(void) {
    void *scratch = device_alloc(shared.scratch_size);
    launch_make(shared.one, shared.table, shared.salt);
    MUST(cudaStreamSynchronize(shared.one));
    launch_linger(shared.one);
    MUST(cudaMemcpyAsync(scratch, shared.table, BYTES, cudaMemcpyDeviceToDevice, shared.one));
    launch_read(shared.one, scratch, shared.salt);
    return scratch;
}

ORDERING(overwrite, make_second) {
    device_free(start_reading());
    launch_make(two, shared.table, shared.salt + 100);
    MUST(cudaStreamSynchronize(two));
    return 0;
}

ORDERING(copy_up, NULL) {
    device_free(start_reading());
    memset(copied, 0x55, sizeof copied);
    MUST(cudaMemcpy(shared.table, copied, BYTES, cudaMemcpyHostToDevice));
    return 0;
}

ORDERING(copy_up_few, NULL) {
    unsigned first = 0x55555555;
    device_free(start_reading());
    MUST(cudaMemcpy(shared.table, &first, 4, cudaMemcpyHostToDevice));
    return 0;
}

ORDERING(fill, NULL) {
    device_free(start_reading());
    MUST(cudaMemset(shared.table, 0x55, BYTES));
    MUST(cudaStreamSynchronize(0));
    return 0;
}

/* Stream-ordered memory that is used on one stream and freed on another. */
ORDERING(free_async, make_second) {
    void *pooled, *again;
    MUST(cudaMallocAsync(&pooled, BYTES, shared.one));
    launch_make(shared.one, pooled, shared.salt);
    MUST(cudaStreamSynchronize(shared.one));
    void *scratch = device_alloc(shared.scratch_size);
    launch_linger(shared.one);
    launch_read(shared.one, pooled, shared.salt);
    device_free(scratch);
    MUST(cudaFreeAsync(pooled, two));
    MUST(cudaMallocAsync(&again, BYTES, two));
    launch_make(two, again, shared.salt + 100);
    MUST(cudaStreamSynchronize(two));
    MUST(cudaFreeAsync(again, two));
    return 0;
}

ORDERING(graph, make_second) {
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    MUST(cudaStreamBeginCapture(two, cudaStreamCaptureModeThreadLocal));
    launch_read(two, shared.table, shared.salt);
    MUST(cudaStreamEndCapture(two, &graph));
    MUST(cudaGraphInstantiateWithFlags(&ready, graph, 0));
    compute(shared.one, shared.table);
    MUST(cudaGraphLaunch(ready, two));
    MUST(cudaStreamSynchronize(two));
    MUST(cudaGraphExecDestroy(ready));
    MUST(cudaGraphDestroy(graph));
    return 0;
}

/* A capture of a third stream is open meanwhile. */
ORDERING(capture, make_second) {
    static cudaStream_t third;
    cudaGraph_t graph = NULL;
    if (!third)
        third = new_stream();
    void *scratch = start(shared.one, shared.table);
    MUST(cudaStreamBeginCapture(third, cudaStreamCaptureModeRelaxed));
    device_free(scratch);
    launch_read(two, shared.table, shared.salt);
    if (cudaStreamEndCapture(third, &graph) == cudaSuccess)
        MUST(cudaGraphDestroy(graph));
    cudaGetLastError(); /* whether the capture survives does not matter here */
    MUST(cudaStreamSynchronize(two));
    return 0;
}

static void make_green(void) {
    CUdevResource whole, part, rest;
    CUdevResourceDesc resources;
    CUgreenCtx green;
    unsigned parts = 1;
    CUstream stream;
    MUST(DRIVER(cuDeviceGetDevResource)(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
    MUST(DRIVER(cuDevSmResourceSplitByCount)(&part, &parts, &whole, &rest, 0, 8));
    MUST(DRIVER(cuDevResourceGenerateDesc)(&resources, &part, 1));
    MUST(DRIVER(cuGreenCtxCreate)(&green, resources, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    MUST(DRIVER(cuGreenCtxStreamCreate)(&stream, green, CU_STREAM_NON_BLOCKING, 0));
    two = (cudaStream_t)stream;
}

ORDERING_ROW(one_thread, make_second, one_thread);
ORDERING_ROW(green, make_green, one_thread);

int main(int count, char **argument) { return run_rounds("ordering_device", count > 1 ? argument[1] : NULL); }

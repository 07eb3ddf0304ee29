/* Actions of the host, another context, another device or another process after a cudaFree that are correct natively
 * because the free has waited. Order on the device is not enough for these cases. Queries and mappings are cases of
 * relies_host.c. Argument: the case. */
#include <sys/mman.h>
#include <sys/wait.h>

#include "ordering.h"

static unsigned *seen; /* what the host reads or writes */
static void *plain;    /* address of `seen` when it is not memory of the driver */

static void make_pinned(void) { MUST(cudaHostAlloc((void **)&seen, BYTES, cudaHostAllocMapped)); }

static void make_registered(void) {
    EXPECT(posix_memalign(&plain, 4096, BYTES) == 0);
    memset(plain, 0, BYTES);
    MUST(cudaHostRegister(plain, BYTES, cudaHostRegisterMapped));
    seen = (unsigned *)plain;
}

static void make_managed(void) { MUST(cudaMallocManaged((void **)&seen, BYTES, cudaMemAttachGlobal)); }

static unsigned *as_device_sees(void) {
    unsigned *device;
    MUST(cudaHostGetDevicePointer((void **)&device, seen, 0));
    return device;
}

/* Scratch memory, and work after a kernel that runs long. */
static void *begin_work(void) {
    void *scratch = device_alloc(shared.scratch_size);
    launch_linger(shared.one);
    launch_make(shared.one, scratch, shared.salt);
    return scratch;
}

/* ---- the host reads what the device wrote */

static int copied(void) {
    memset(seen, 0, BYTES);
    void *scratch = begin_work();
    MUST(cudaMemcpyAsync(seen, scratch, BYTES, cudaMemcpyDeviceToHost, shared.one));
    device_free(scratch);
    return !holds(seen, shared.salt);
}

ORDERING_ROW(pinned, make_pinned, copied);
ORDERING_ROW(registered, make_registered, copied);

ORDERING(pinned_default, make_pinned) {
    memset(seen, 0, BYTES);
    void *scratch = begin_work();
    MUST(cudaMemcpyAsync(seen, scratch, BYTES, cudaMemcpyDefault, shared.one));
    device_free(scratch);
    return !holds(seen, shared.salt);
}

ORDERING(pinned_rows, make_pinned) {
    memset(seen, 0, BYTES);
    void *scratch = begin_work();
    MUST(cudaMemcpy2DAsync(seen, 256, scratch, 256, 256, BYTES / 256, cudaMemcpyDeviceToHost, shared.one));
    device_free(scratch);
    return !holds(seen, shared.salt);
}

static int written_by_kernel(void) {
    memset(seen, 0, BYTES);
    unsigned *device = as_device_sees();
    void *scratch = begin_work();
    launch_make(shared.one, device, shared.salt);
    device_free(scratch);
    return !holds(seen, shared.salt);
}

ORDERING_ROW(mapped, make_pinned, written_by_kernel);
ORDERING_ROW(registered_mapped, make_registered, written_by_kernel);

/* Unregistering may wait by itself; a native program cannot tell. */
ORDERING(unregistered, NULL) {
    make_registered();
    memset(seen, 0, BYTES);
    void *scratch = begin_work();
    MUST(cudaMemcpyAsync(seen, scratch, BYTES, cudaMemcpyDeviceToHost, shared.one));
    device_free(scratch);
    MUST(cudaHostUnregister(plain));
    int wrong = !holds(seen, shared.salt);
    MUST(cudaStreamSynchronize(shared.one));
    free(plain);
    return wrong;
}

static int managed(void) {
    void *scratch = begin_work();
    launch_make(shared.one, seen, shared.salt);
    device_free(scratch);
    return !holds(seen, shared.salt);
}

/* Pageable memory that kernels access directly. */
static void make_reachable(void) {
    int reachable = 0;
    MUST(cudaDeviceGetAttribute(&reachable, cudaDevAttrPageableMemoryAccess, 0));
    if (!reachable) {
        fprintf(stderr, "kernels do not reach pageable memory\n");
        exit(77);
    }
    EXPECT(posix_memalign(&plain, 4096, BYTES) == 0);
    seen = (unsigned *)plain;
}

ORDERING_ROW(managed, make_managed, managed);
ORDERING_ROW(pageable, make_reachable, managed);

/* ---- files and processes */

ORDERING(file_written, make_pinned) {
    static unsigned read_back[WORDS];
    FILE *file = tmpfile();
    EXPECT(file != NULL);
    int early = copied();
    EXPECT(fwrite(seen, 1, BYTES, file) == (size_t)BYTES);
    rewind(file);
    EXPECT(fread(read_back, 1, BYTES, file) == (size_t)BYTES);
    fclose(file);
    return early | !holds(read_back, shared.salt);
}

static int file;

static void make_file(void) {
    file = memfd_create("table", MFD_CLOEXEC);
    EXPECT(file >= 0 && ftruncate(file, BYTES) == 0);
    plain = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    EXPECT(plain != MAP_FAILED);
    MUST(cudaHostRegister(plain, BYTES, cudaHostRegisterMapped));
    seen = (unsigned *)plain;
}

ORDERING(file_mapped, make_file) {
    static unsigned read_back[WORDS];
    copied();
    EXPECT(pread(file, read_back, BYTES, 0) == BYTES);
    return !holds(read_back, shared.salt);
}

/* A process that ends right after the free leaves its results in memory that other processes see. */
static int process_ends(void) {
    unsigned *left = (unsigned *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int wrong = 0, status = -1;
    EXPECT(left != MAP_FAILED);
    for (unsigned round = 0; round < ROUNDS; round++) {
        memset(left, 0, BYTES);
        pid_t child = fork();
        EXPECT(child >= 0);
        if (child == 0) {
            set_up();
            begin_round(round);
            MUST(cudaHostRegister(left, BYTES, cudaHostRegisterMapped));
            void *scratch = begin_work();
            MUST(cudaMemcpyAsync(left, scratch, BYTES, cudaMemcpyDeviceToHost, shared.one));
            device_free(scratch);
            _exit(0);
        }
        EXPECT(waitpid(child, &status, 0) == child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            exit(77);
        EXPECT(status == 0);
        wrong += !holds(left, round + 1);
    }
    printf("%s ordering_host process_ends: %d of %d rounds wrong\n", wrong ? "not ok" : "ok", wrong, (int)ROUNDS);
    return wrong ? 9 : 0;
}

/* Another process reads this one's memory on a signal. */
static int to_reader[2], from_reader[2];

static int import_table(void) {
    static unsigned read_back[WORDS];
    cudaIpcMemHandle_t handle;
    void *table = NULL;
    unsigned salt;
    EXPECT(read(STDIN_FILENO, &handle, sizeof handle) == (ssize_t)sizeof handle);
    MUST(cudaIpcOpenMemHandle(&table, handle, cudaIpcMemLazyEnablePeerAccess));
    while (read(STDIN_FILENO, &salt, sizeof salt) == (ssize_t)sizeof salt) {
        MUST(cudaMemcpy(read_back, table, BYTES, cudaMemcpyDeviceToHost));
        char wrong = (char)!holds(read_back, salt);
        EXPECT(write(STDOUT_FILENO, &wrong, 1) == 1);
    }
    return 0;
}

static void export_table(void) {
    cudaIpcMemHandle_t handle;
    MUST(cudaIpcGetMemHandle(&handle, shared.table));
    EXPECT(pipe(to_reader) == 0 && pipe(from_reader) == 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        dup2(to_reader[0], STDIN_FILENO);
        dup2(from_reader[1], STDOUT_FILENO);
        close(to_reader[1]);
        execl("/proc/self/exe", "ordering_host", "import", (char *)NULL);
        _exit(1);
    }
    close(to_reader[0]);
    close(from_reader[1]);
    EXPECT(write(to_reader[1], &handle, sizeof handle) == (ssize_t)sizeof handle);
}

ORDERING(exported, export_table) {
    char wrong = 1;
    compute(shared.one, shared.table);
    EXPECT(write(to_reader[1], &shared.salt, sizeof shared.salt) == (ssize_t)sizeof shared.salt);
    EXPECT(read(from_reader[0], &wrong, 1) == 1);
    return wrong;
}

/* ---- the host writes what the device still reads */

static void set_source(unsigned salt) {
    for (int i = 0; i < WORDS; i++)
        __atomic_store_n(&seen[i], salt * 2654435761u + (unsigned)i, __ATOMIC_RELAXED);
}

static int source_overwritten(void) {
    set_source(shared.salt);
    void *scratch = begin_work();
    MUST(cudaMemcpyAsync(shared.table, seen, BYTES, cudaMemcpyHostToDevice, shared.one));
    device_free(scratch);
    set_source(shared.salt + 100);
    launch_read(shared.one, shared.table, shared.salt);
    return 0;
}

ORDERING_ROW(source_overwritten, make_pinned, source_overwritten);
ORDERING_ROW(source_registered, make_registered, source_overwritten);

ORDERING(source_mapped, make_pinned) {
    set_source(shared.salt);
    unsigned *device = as_device_sees();
    void *scratch = begin_work();
    launch_read(shared.one, device, shared.salt);
    device_free(scratch);
    set_source(shared.salt + 100);
    return 0;
}

/* Freeing an array or pinned memory may wait by itself; a native program cannot tell. */
static cudaArray_t new_array(unsigned salt) {
    static unsigned words[WORDS];
    cudaChannelFormatDesc format = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
    cudaArray_t array;
    for (int i = 0; i < WORDS; i++)
        words[i] = salt * 2654435761u + (unsigned)i;
    MUST(cudaMallocArray(&array, &format, 1024, BYTES / 1024, 0));
    MUST(cudaMemcpy2DToArray(array, 0, 0, words, 1024, 1024, BYTES / 1024, cudaMemcpyHostToDevice));
    return array;
}

ORDERING(array_freed, NULL) {
    cudaArray_t array = new_array(shared.salt), next;
    cudaMemcpy3DParms down = {};
    down.srcArray = array;
    down.dstPtr = make_cudaPitchedPtr(shared.table, 1024, 1024, BYTES / 1024);
    down.extent = make_cudaExtent(1024, BYTES / 1024, 1);
    down.kind = cudaMemcpyDeviceToDevice;
    void *scratch = begin_work();
    MUST(cudaMemcpy3DAsync(&down, shared.one));
    device_free(scratch);
    MUST(cudaFreeArray(array));
    next = new_array(shared.salt + 100);
    launch_read(shared.one, shared.table, shared.salt);
    MUST(cudaStreamSynchronize(shared.one));
    MUST(cudaFreeArray(next));
    return 0;
}

ORDERING(pinned_freed, NULL) {
    unsigned *next;
    make_pinned();
    set_source(shared.salt);
    void *scratch = begin_work();
    MUST(cudaMemcpyAsync(shared.table, seen, BYTES, cudaMemcpyHostToDevice, shared.one));
    device_free(scratch);
    MUST(cudaFreeHost(seen));
    MUST(cudaMallocHost((void **)&next, BYTES));
    memset(next, 0x55, BYTES);
    launch_read(shared.one, shared.table, shared.salt);
    MUST(cudaStreamSynchronize(shared.one));
    MUST(cudaFreeHost(next));
    return 0;
}

/* ---- functions of the host in a stream */

static unsigned called_with, argument;

static void note_call(void *data) { __atomic_store_n(&called_with, *(unsigned *)data, __ATOMIC_RELEASE); }
static void note_callback(cudaStream_t stream, cudaError_t status, void *data) {
    (void)stream, (void)status;
    note_call(data);
}

static int after_call(void *scratch) {
    device_free(scratch);
    return __atomic_load_n(&called_with, __ATOMIC_ACQUIRE) != shared.salt;
}

ORDERING(host_function, NULL) {
    argument = shared.salt;
    void *scratch = begin_work();
    MUST(cudaLaunchHostFunc(shared.one, note_call, &argument));
    return after_call(scratch);
}

ORDERING(callback, NULL) {
    argument = shared.salt;
    void *scratch = begin_work();
    MUST(cudaStreamAddCallback(shared.one, note_callback, &argument, 0));
    return after_call(scratch);
}

/* The program may reuse its argument after the call. */
ORDERING(host_argument, NULL) {
    unsigned *given = (unsigned *)malloc(sizeof *given);
    *given = shared.salt;
    void *scratch = begin_work();
    MUST(cudaLaunchHostFunc(shared.one, note_call, given));
    device_free(scratch);
    *given = 0;
    MUST(cudaStreamSynchronize(shared.one));
    free(given);
    return called_with != shared.salt;
}

ORDERING(graph_copies, make_pinned) {
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    memset(seen, 0, BYTES);
    argument = shared.salt;
    MUST(cudaStreamBeginCapture(shared.one, cudaStreamCaptureModeThreadLocal));
    launch_make(shared.one, shared.table, shared.salt);
    MUST(cudaMemcpyAsync(seen, shared.table, BYTES, cudaMemcpyDeviceToHost, shared.one));
    MUST(cudaLaunchHostFunc(shared.one, note_call, &argument));
    MUST(cudaStreamEndCapture(shared.one, &graph));
    MUST(cudaGraphInstantiateWithFlags(&ready, graph, 0));
    void *scratch = begin_work();
    MUST(cudaGraphLaunch(ready, shared.one));
    int wrong = after_call(scratch) | !holds(seen, shared.salt);
    MUST(cudaStreamSynchronize(shared.one));
    MUST(cudaGraphExecDestroy(ready));
    MUST(cudaGraphDestroy(graph));
    return wrong;
}

/* ---- other contexts */

static CUcontext own, other;
static CUstream others;
static CUdeviceptr far;

static void make_context(void) {
    MUST(DRIVER(cuCtxGetCurrent)(&own));
    MUST(((CUresult(*)(CUcontext *, unsigned, CUdevice))driver_function("cuCtxCreate_v2"))(&other, 0, 0));
    MUST(DRIVER(cuStreamCreate)(&others, CU_STREAM_NON_BLOCKING));
    MUST(((CUresult(*)(CUdeviceptr *, size_t))driver_function("cuMemAlloc_v2"))(&far, BYTES));
    MUST(DRIVER(cuCtxSetCurrent)(own));
}

static int read_far(void) {
    static unsigned read_back[WORDS];
    MUST(DRIVER(cuCtxSetCurrent)(other));
    MUST(((CUresult(*)(void *, CUdeviceptr, size_t))driver_function("cuMemcpyDtoH_v2"))(read_back, far, BYTES));
    MUST(DRIVER(cuCtxSetCurrent)(own));
    return !holds(read_back, shared.salt);
}

/* The other context copies what this one has computed. */
ORDERING(other_context, make_context) {
    compute(shared.one, shared.table);
    MUST(DRIVER(cuCtxSetCurrent)(other));
    MUST(DRIVER(cuMemcpyPeerAsync)(far, other, (CUdeviceptr)(uintptr_t)shared.table, own, BYTES, others));
    MUST(DRIVER(cuStreamSynchronize)(others));
    MUST(DRIVER(cuCtxSetCurrent)(own));
    return read_far();
}

static cudaStream_t peers;
static unsigned *peers_wrong;

static void make_peer(void) {
    int count, reaches = 0;
    MUST(cudaGetDeviceCount(&count));
    if (count > 1)
        MUST(cudaDeviceCanAccessPeer(&reaches, 1, 0));
    if (!reaches) {
        fprintf(stderr, "no device that reaches the other\n");
        exit(77);
    }
    MUST(cudaSetDevice(1));
    MUST(cudaDeviceEnablePeerAccess(0, 0));
    peers = new_stream();
    peers_wrong = (unsigned *)device_alloc(4);
    MUST(cudaMemset(peers_wrong, 0, 4));
    MUST(cudaSetDevice(0));
}

/* A kernel of the other device reads what this one has computed. */
ORDERING(peer, make_peer) {
    unsigned wrong;
    compute(shared.one, shared.table);
    MUST(cudaSetDevice(1));
    read_table<<<1, 256, 0, peers>>>(shared.table, shared.salt, peers_wrong);
    MUST(cudaGetLastError());
    MUST(cudaMemcpyAsync(&wrong, peers_wrong, 4, cudaMemcpyDeviceToHost, peers));
    MUST(cudaMemsetAsync(peers_wrong, 0, 4, peers));
    MUST(cudaStreamSynchronize(peers));
    MUST(cudaSetDevice(0));
    return wrong != 0;
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "import") == 0)
        return import_table();
    if (count > 1 && strcmp(words[1], "process_ends") == 0)
        return process_ends();
    return run_rounds("ordering_host", count > 1 ? words[1] : NULL);
}
